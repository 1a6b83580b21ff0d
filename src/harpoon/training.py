"""Training: one loop for every denoiser. What is minimised belongs to the denoiser."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harpoon.errors import TrainingFailed
from harpoon.network import Denoiser, Given

MIN_ROWS_TO_HOLD_OUT = 20
PLATEAU_FACTOR, PLATEAU_EPOCHS = 0.9, 50


@dataclass(frozen=True)
class Plan:
    """How to train, and when to stop."""

    batch_size: int
    learning_rate: float
    learning_rate_schedule: str
    max_epochs: int | None
    max_time: float | None
    patience: int | None
    held_out: float


@dataclass(frozen=True)
class Epoch:
    """One pass over the training rows."""

    number: int
    loss: float
    held_out_loss: float | None
    seconds: float


@dataclass
class History:
    """What happened: every epoch, and what ended the training."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped_by: str = ""

    @property
    def seconds(self) -> float:
        """How long the training took."""
        return self.epochs[-1].seconds if self.epochs else 0.0


def train(
    denoiser: Denoiser,
    data: Given,
    plan: Plan,
    seed: int,
    on_epoch: Callable[[Epoch], None] = lambda _epoch: None,
) -> History:
    """Train a denoiser in place until time, epochs or improvement run out, or Ctrl-C is pressed."""
    return _Run(denoiser, data, plan, seed).go(on_epoch)


class _Run:
    """One training: its optimiser, its random numbers and its clock."""

    def __init__(self, denoiser: Denoiser, data: Given, plan: Plan, seed: int) -> None:
        self.denoiser, self.plan, self.seed = denoiser, plan, seed
        self.device = data.x.device
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.train_data, self.held_out = _split(data, plan.held_out, self.generator)
        self.optimiser = torch.optim.Adam(denoiser.parameters(), lr=plan.learning_rate, fused=True)
        self.history = History()
        self.began = time.monotonic()

    def go(self, on_epoch: Callable[[Epoch], None]) -> History:
        best, best_state, waited = math.inf, None, 0
        scheduler = _scheduler(self.optimiser, self.plan)
        self.denoiser.train()
        try:
            while not self.history.stopped_by:
                epoch = self._epoch(len(self.history.epochs) + 1)
                self.history.epochs.append(epoch)
                scheduler(epoch.loss)
                on_epoch(epoch)
                if self.plan.patience is not None:
                    score = epoch.loss if epoch.held_out_loss is None else epoch.held_out_loss
                    waited = waited + 1 if score >= best else 0
                    if score < best:
                        best, best_state = score, _copy(self.denoiser)
                    if waited >= self.plan.patience:
                        self.history.stopped_by = "no improvement"
                if self.plan.max_epochs is not None and epoch.number >= self.plan.max_epochs:
                    self.history.stopped_by = self.history.stopped_by or "epochs"
        except KeyboardInterrupt:
            self.history.stopped_by = "interrupted"
        if best_state is not None:
            self.denoiser.load_state_dict(best_state)
        self.denoiser.eval()
        return self.history

    def _epoch(self, number: int) -> Epoch:
        total, rows = 0.0, 0
        for batch in self._batches():
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.denoiser.loss(batch, self.generator)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            total, rows = total + loss.item() * len(batch.x), rows + len(batch.x)
            if self._out_of_time():
                self.history.stopped_by = "time"
                break
        if not math.isfinite(total):
            raise TrainingFailed(
                f"The training loss became {total} in epoch {number}. Try a smaller learning_rate than "
                f"{self.plan.learning_rate:g}, and look for extreme values in the table."
            )
        return Epoch(number, total / rows, self._held_out_loss(), time.monotonic() - self.began)

    def _batches(self) -> Iterator[Given]:
        order = torch.randperm(len(self.train_data.x), generator=self.generator, device=self.device)
        for rows in torch.split(order, self.plan.batch_size):
            yield self.train_data[rows]

    @torch.no_grad()
    def _held_out_loss(self) -> float | None:
        """The loss on rows not trained on, always with the same noise, so that epochs compare."""
        if self.held_out is None:
            return None
        generator = torch.Generator(self.device).manual_seed(self.seed)
        return self.denoiser.loss(self.held_out, generator).item()

    def _out_of_time(self) -> bool:
        return self.plan.max_time is not None and time.monotonic() - self.began >= self.plan.max_time


def _split(data: Given, share: float, generator: torch.Generator) -> tuple[Given, Given | None]:
    """Rows to train on, and rows held out to see whether training still helps."""
    n = len(data.x)
    count = min(round(share * n), 2048)
    if count == 0 or n < MIN_ROWS_TO_HOLD_OUT:
        return data, None
    order = torch.randperm(n, generator=generator, device=data.x.device)
    return data[order[count:]], data[order[:count]]


def _scheduler(optimiser: torch.optim.Optimizer, plan: Plan) -> Callable[[float], None]:
    """What to do with the learning rate after an epoch, given its loss."""
    if plan.learning_rate_schedule == "constant":
        return lambda _loss: None
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=PLATEAU_FACTOR, patience=PLATEAU_EPOCHS)
    return plateau.step


def _copy(module: Denoiser) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
