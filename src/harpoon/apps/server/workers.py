"""Jobs in threads: a limited number at a time, a limited queue, and cancellation between two sampling steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import TypeVar

from harpoon._utils.progress import ProgressStep
from harpoon.apps.server.errors import ApiError, busy, client_gone, shutting_down, timed_out
from harpoon.apps.server.limits import Limits

T = TypeVar("T")
OnProgress = Callable[[int, int | None], None]
PROGRESS_SECONDS = 0.1  # between two progress reports


class JobControl:
    """Reports the progress of a job, and ends it if its time is up or nobody waits for it.

    `on_progress` is called with the rows that are done and their total, or None where the total is unknown.
    """

    def __init__(self, seconds: float, on_progress: OnProgress = lambda _done, _of: None) -> None:
        self.seconds, self.on_progress = seconds, on_progress
        self.passes: int | None = None  # how often the same rows are sampled; unknown under a condition
        self._deadline, self._cancelled = monotonic() + seconds, Event()
        self._last_report, self._finished_rows = 0.0, 0
        self._reason = client_gone

    def cancel(self, reason: Callable[[], ApiError] = client_gone) -> None:
        """End the job at its next step."""
        if not self._cancelled.is_set():
            self._reason = reason
            self._cancelled.set()

    def check(self) -> None:
        """Raise ApiError if the job is cancelled or its time is up."""
        if self._cancelled.is_set():
            raise self._reason()
        if monotonic() > self._deadline:
            raise timed_out(self.seconds)

    def on_step(self, step: ProgressStep) -> None:
        """Check and report; the model calls this after each sampling step."""
        self.check()
        done = self._finished_rows + step.rows * step.done // step.total
        if step.done == step.total:
            self._finished_rows = done
        if monotonic() - self._last_report >= PROGRESS_SECONDS:
            self._last_report = monotonic()
            self.on_progress(done, None if self.passes is None else self.passes * step.rows)


class Workers:
    """A pool of threads. A job that has begun occupies its thread until it ends, even if nobody waits for it."""

    def __init__(self, limits: Limits) -> None:
        self._max_jobs = limits.workers + limits.queue
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="harpoon-worker")
        self._controls: set[JobControl] = set()

    @property
    def jobs(self) -> int:
        """The number of jobs that run or wait."""
        return len(self._controls)

    def submit(self, job: Callable[[JobControl], T], control: JobControl) -> asyncio.Future[T]:
        """Run a job as soon as a thread is free."""
        if self.jobs >= self._max_jobs:
            raise busy("Too many requests are waiting for an answer.")

        def run() -> T:
            control.check()
            return job(control)

        self._controls.add(control)
        future = self._pool.submit(run)
        future.add_done_callback(lambda _: self._controls.discard(control))
        return asyncio.wrap_future(future)

    def cancel_all(self) -> None:
        """End all jobs at their next step."""
        for control in tuple(self._controls):
            control.cancel(shutting_down)

    def close(self) -> None:
        """End all jobs and all threads."""
        self.cancel_all()
        self._pool.shutdown(wait=True, cancel_futures=True)
