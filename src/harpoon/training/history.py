"""The course of a training."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """One evaluation of a training.

    Attributes:
        number: Epochs so far.
        loss: Mean training loss since the previous evaluation.
        validation_loss: Loss of the averaged weights on validation rows; None without any.
        seconds: Elapsed time.
    """

    number: int
    loss: float
    validation_loss: float | None
    seconds: float


@dataclass
class History:
    """All evaluations of a training, and the limit that stopped it."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped_by: str = ""

    @property
    def seconds(self) -> float:
        """The duration of the training."""
        return self.epochs[-1].seconds if self.epochs else 0.0
