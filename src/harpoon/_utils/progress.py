"""Progress: bars on the standard error, which leave what a script writes alone, or a function that is told of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock


@dataclass(frozen=True)
class ProgressStep:
    """A step of a drawing.

    Attributes:
        done: How many steps of it are done.
        of: How many it has.
        rows: How many rows it draws. Under a condition there may be several drawings, one after the other.
    """

    done: int
    total: int
    rows: int


Progress = bool | Callable[[ProgressStep], None]


@contextmanager
def sampling_bar(steps: int, rows: int, progress: Progress) -> Iterator[Callable[[], None]]:
    """What to call after each step of the reverse process: a bar, or the function that is told instead."""
    if progress is not True:
        yield step_callback(steps, rows, progress)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task("Drawing", total=steps)
        yield lambda: bar.advance(task)


def step_callback(steps: int, rows: int, progress: Progress) -> Callable[[], None]:
    """What to call after each step of work that is too short for a bar.

    >>> on_step = teller(2, 500, print)
    >>> on_step()
    Step(done=1, of=2, rows=500)
    """
    if not callable(progress):
        return lambda: None
    done, turn = count(1), Lock()

    def tell() -> None:
        with turn:  # batches are drawn abreast
            progress(ProgressStep(next(done), steps, rows))

    return tell


@contextmanager
def rows_bar(words: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar that follows rows as they are done, for whoever looks on."""
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
    """A line that counts rows of which nobody knows how many there will be, for whoever looks on."""
    if not show or not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,} rows"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(words, total=None)
        yield lambda rows: progress.update(task, completed=rows)
