"""Progress bars on the standard error, and progress callbacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock


@dataclass(frozen=True)
class ProgressStep:
    """A step of sampling.

    Attributes:
        done: Steps done so far.
        total: Steps in all.
        rows: Rows that are sampled. Under a condition there may be several rounds of sampling.
    """

    done: int
    total: int
    rows: int


Progress = bool | Callable[[ProgressStep], None]


@contextmanager
def sampling_bar(steps: int, rows: int, progress: Progress) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step of sampling: it advances a bar, or calls the callback."""
    if progress is not True:
        yield step_callback(steps, rows, progress)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task("Sampling", total=steps)
        yield lambda: bar.advance(task)


def step_callback(steps: int, rows: int, progress: Progress) -> Callable[[], None]:
    """Return a function to call after each step of work that is too short for a bar.

    >>> on_step = step_callback(2, 500, print)
    >>> on_step()
    ProgressStep(done=1, total=2, rows=500)
    """
    if not callable(progress):
        return lambda: None
    done, lock = count(1), Lock()

    def on_step() -> None:
        with lock:  # several threads sample batches
            progress(ProgressStep(next(done), steps, rows))

    return on_step


@contextmanager
def rows_bar(words: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a bar by rows; there is none unless the standard error is a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counted = TextColumn("{task.completed:,} of {task.total:,} rows")
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(words, total=total)
        yield lambda rows: progress.advance(task, rows)


@contextmanager
def row_counter(words: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows a count of rows whose total is unknown, if the standard error is a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,} rows"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(words, total=None)
        yield lambda rows: progress.update(task, completed=rows)
