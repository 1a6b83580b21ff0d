"""Progress bars on the standard error, and progress callbacks."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from itertools import count
from threading import Lock
from typing import Any, TypeVar, cast

from harpoon.exceptions import InvalidOption


@dataclass(frozen=True)
class ProgressStep:
    """A step of sampling. Under a condition there may be several rounds of sampling."""

    done: int  # steps so far
    total: int  # steps in all
    rows: int  # rows that are sampled


ModelType = TypeVar("ModelType")
Progress = bool | Callable[[ProgressStep], None]


def with_progress(model: ModelType, progress: Progress) -> ModelType:
    """Return a copy of a model with other progress; that of the model itself stays, and so do its diagnostics."""
    model = copy.copy(model)
    vars(model)["progress"] = progress
    return model


def check_progress(progress: Progress) -> Progress:
    """Return True, False or a callback, or raise InvalidOption."""
    if isinstance(progress, bool) or callable(progress):
        return progress
    raise InvalidOption(f"progress must be True, False or a function of a ProgressStep, got {progress!r}.")


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
def show_bar(words: str, total: float | None, text: str, *, show: bool) -> Iterator[Callable[..., None]]:
    """Show a bar on the standard error, or a counter if there is no total; yield the function that updates it.

    The text next to it may show `task.fields[state]`.
    """
    if not show:
        yield lambda **_changes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = ("{task.description}", BarColumn(), text, TimeRemainingColumn())
    counter = (SpinnerColumn(), "{task.description}", text, TimeElapsedColumn())
    with Progress(*(counter if total is None else bar), console=Console(stderr=True)) as progress:
        try:
            yield partial(progress.update, progress.add_task(words, total=total, state=""))
        finally:
            progress.refresh()  # in a notebook, rich leaves out what changed since the last tenth of a second


@dataclass
class SharedBar:
    """The progress bar of a call that samples several times: each time its total grows."""

    stack: ExitStack  # closes the bar
    total: int = 0
    update: Callable[..., None] | None = None

    def add(self, steps: int) -> Callable[[], None]:
        """Add steps to the bar, which is shown from then on; return a function to call after each of them."""
        if self.update is None:
            percent = "[progress.percentage]{task.percentage:>3.0f}%"
            self.update = self.stack.enter_context(show_bar("Sampling", 0, percent, show=True))
        self.total += steps
        self.update(total=self.total)
        return partial(self.update, advance=1)


Method = TypeVar("Method", bound=Callable[..., Any])
_shared: ContextVar[SharedBar | None] = ContextVar("shared", default=None)


@contextmanager
def one_bar(progress: Progress) -> Iterator[None]:
    """Show one progress bar, however often rows are sampled inside."""
    if progress is not True or _shared.get() is not None:
        yield
        return
    with ExitStack() as stack:
        token = _shared.set(SharedBar(stack))
        try:
            yield
        finally:
            _shared.reset(token)


def with_one_bar(method: Method) -> Method:
    """Return a method of an object with `progress` that shows one progress bar."""

    @wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        with one_bar(self.progress):
            return method(self, *arguments, **options)

    return cast("Method", call)


@contextmanager
def sampling_bar(steps: int, rows: int, progress: Progress) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step of sampling: it advances the bar of the call, or calls the callback."""
    shared = _shared.get()
    if progress is True and shared is not None:
        yield shared.add(steps)
    else:
        yield step_callback(steps, rows, progress)


@contextmanager
def rows_bar(words: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a bar by rows; there is none unless the standard error is a terminal."""
    text = "{task.completed:,} of {task.total:,} rows"
    with show_bar(words, total, text, show=show and sys.stderr.isatty()) as update:
        yield lambda rows: update(advance=rows)


@contextmanager
def row_counter(words: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows a count of rows whose total is unknown, if the standard error is a terminal."""
    with show_bar(words, None, "{task.completed:,} rows", show=show and sys.stderr.isatty()) as update:
        yield lambda rows: update(completed=rows)
