"""The progress bar of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harpoon.config import TrainingConfig
from harpoon.training.history import Epoch


@contextmanager
def training_bar(plan: TrainingConfig, reasons: list[str], *, show: bool) -> Iterator[Callable[[Epoch], None]]:
    """A bar that follows the epochs of a training: loss, held-out loss and time left, and at the end what ended it."""
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
            held_out = "" if epoch.validation_loss is None else f", held-out {epoch.validation_loss:.4f}"
            state = f"epoch {epoch.number}, loss {epoch.loss:.4f}{held_out}"
            progress.update(task, completed=plan.fraction_done(epoch.number, epoch.seconds), state=state)

        yield on_epoch
        progress.update(task, completed=1.0, description=f"Trained ({', '.join(reasons)})" if reasons else "Trained")
