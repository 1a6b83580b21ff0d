"""Work in threads: a few jobs at once, a few more that wait, and all of them can be ended between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import TypeVar

from harpoon._utils.progress import ProgressStep
from harpoon.apps.server.errors import ApiError, busy, ending, gone, took_too_long
from harpoon.apps.server.limits import Limits

T = TypeVar("T")
EVERY = 0.1  # seconds between two words on progress


class JobControl:
    """Looks on while a job is done: says how far it is, and ends it when nobody waits for it any more.

    Attributes:
        seconds: How long the job may take, from now.
        tell: Is called with how many rows are done, and of how many, where that is known.
        drawings: Of how many drawings the job consists, all of the same rows; under a condition nobody knows.
    """

    def __init__(self, seconds: float, tell: Callable[[int, int | None], None] = lambda _done, _of: None) -> None:
        self.seconds, self.tell = seconds, tell
        self.drawings: int | None = None
        self._deadline, self._ended = monotonic() + seconds, Event()
        self._told, self._finished = 0.0, 0
        self._why = gone

    def end(self, why: Callable[[], ApiError] = gone) -> None:
        """Let the job end at its next step."""
        if not self._ended.is_set():
            self._why = why
            self._ended.set()

    def check(self) -> None:
        """Raise if the job should end."""
        if self._ended.is_set():
            raise self._why()
        if monotonic() > self._deadline:
            raise took_too_long(self.seconds)

    def step(self, step: ProgressStep) -> None:
        """Called by the model after each step."""
        self.check()
        done = self._finished + step.rows * step.done // step.total
        if step.done == step.total:
            self._finished = done
        if monotonic() - self._told >= EVERY:
            self._told = monotonic()
            self.tell(done, None if self.drawings is None else self.drawings * step.rows)


class Workers:
    """The threads. A job that has begun keeps its place until it has ended, whether or not somebody waits for it."""

    def __init__(self, limits: Limits) -> None:
        self._places = limits.at_once + limits.waiting
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="harpoon-worker")
        self._watches: set[JobControl] = set()

    @property
    def jobs(self) -> int:
        """How many jobs are under way or waiting."""
        return len(self._watches)

    def start(self, job: Callable[[JobControl], T], watch: JobControl) -> asyncio.Future[T]:
        """Begin a job as soon as there is a thread for it."""
        if self.jobs >= self._places:
            raise busy("Too many requests are waiting for an answer already.")

        def run() -> T:
            watch.check()
            return job(watch)

        self._watches.add(watch)
        future = self._pool.submit(run)
        future.add_done_callback(lambda _: self._watches.discard(watch))
        return asyncio.wrap_future(future)

    def end(self) -> None:
        """Let all jobs end at their next step."""
        for watch in tuple(self._watches):
            watch.end(ending)

    def close(self) -> None:
        """End all jobs and all threads."""
        self.end()
        self._pool.shutdown(wait=True, cancel_futures=True)
