"""Work in threads: a few jobs at once, a few more that wait, and all of them can be stopped between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import TypeVar

from harpoon.progress import Step
from harpoon.serve.faults import GONE, Fault, busy, took_too_long
from harpoon.serve.limits import Limits

T = TypeVar("T")
EVERY = 0.1  # seconds between two words on progress


class Watch:
    """Looks on while a job is done: ends it when nobody waits for it any more, and says how far it is.

    Attributes:
        drawings: How many drawings the job consists of, where that is known: under a condition nobody knows.
        tell: Is called with the rows that are done and their number in all, or None.
    """

    def __init__(self, seconds: float, tell: Callable[[int, int | None], None] = lambda _done, _of: None) -> None:
        self.seconds, self.tell = seconds, tell
        self.drawings: int | None = None
        self._deadline, self._stopped, self._told = monotonic() + seconds, Event(), 0.0
        self._finished = 0

    def stop(self) -> None:
        """End the job at its next step."""
        self._stopped.set()

    def check(self) -> None:
        """Raise if the job should end."""
        if self._stopped.is_set():
            raise Fault(GONE, "Gone", "The client went away.")
        if monotonic() > self._deadline:
            raise took_too_long(self.seconds)

    def step(self, step: Step) -> None:
        """Called by the model after each step."""
        self.check()
        done = self._finished + step.rows * step.done // step.of
        if step.done == step.of:
            self._finished = done
        if monotonic() - self._told >= EVERY:
            self._told = monotonic()
            self.tell(done, None if self.drawings is None else self.drawings * step.rows)


class Workers:
    """The threads. A job that has begun keeps its place until it has ended, whoever still waits for it."""

    def __init__(self, limits: Limits) -> None:
        self._places = limits.at_once + limits.waiting
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="harpoon-worker")
        self._watches: set[Watch] = set()

    @property
    def jobs(self) -> int:
        """How many jobs are under way or waiting."""
        return len(self._watches)

    def start(self, job: Callable[[Watch], T], watch: Watch) -> asyncio.Future[T]:
        """Begin a job as soon as there is a thread for it."""
        if self.jobs >= self._places:
            raise busy()

        def run() -> T:
            watch.check()
            return job(watch)

        future = asyncio.get_running_loop().run_in_executor(self._pool, run)
        self._watches.add(watch)
        future.add_done_callback(lambda _: self._watches.discard(watch))
        return future

    def close(self) -> None:
        """End all jobs and all threads."""
        for watch in self._watches:
            watch.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
