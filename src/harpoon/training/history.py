"""Training: one loop for every denoiser. What is minimised belongs to the denoiser."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """The state of the training after some passes over the rows."""

    number: int
    loss: float
    validation_loss: float | None
    seconds: float


@dataclass
class History:
    """What happened: the state after each pass (or after several short ones), and what ended the training."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped_by: str = ""

    @property
    def seconds(self) -> float:
        """How long the training took."""
        return self.epochs[-1].seconds if self.epochs else 0.0
