"""The progress bar of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harpoon.config import TrainingConfig
from harpoon.training.history import Epoch


@contextmanager
def training_bar(config: TrainingConfig, reasons: list[str], *, show: bool) -> Iterator[Callable[[Epoch], None]]:
    """Show losses and remaining time on the standard error; yield the callback of each evaluation.

    `reasons` is read at the end: what stopped the training.
    """
    if not show:
        yield lambda _epoch: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Training", total=1.0, state="")

        def on_epoch(epoch: Epoch) -> None:
            validation = "" if epoch.validation_loss is None else f", validation {epoch.validation_loss:.4f}"
            state = f"epoch {epoch.number}, loss {epoch.loss:.4f}{validation}"
            progress.update(task, completed=config.fraction_done(epoch.number, epoch.seconds), state=state)

        yield on_epoch
        progress.update(task, completed=1.0, description=f"Trained ({', '.join(reasons)})" if reasons else "Trained")
