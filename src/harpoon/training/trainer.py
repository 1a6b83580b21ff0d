"""The training loop of every denoiser: epochs, validation, early stopping and cool-down. The denoiser has the loss."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import cast

import torch
from torch import Tensor

from harpoon._utils import cards
from harpoon.config import LARGE_LEARNING_RATE, TrainingConfig
from harpoon.diffusion import Denoiser
from harpoon.encoding import EncodedRows
from harpoon.exceptions import ShortTrainingWarning, TrainingFailed, warn
from harpoon.training.calibration import Calibration, measure_calibration
from harpoon.training.checkpoints import Checkpoint, TrainingState, with_prefix
from harpoon.training.distributed import SingleProcess
from harpoon.training.ema import build_average
from harpoon.training.optimizers import OPTIMIZERS

MIN_ROWS_TO_VALIDATE = 20
MAX_VALIDATION_ROWS = 2048
PLATEAU_FACTOR, PLATEAU_EPOCHS = 0.9, 50
WARM_UP_FRACTION = 0.02
STALLED_FRACTION, STALLED_EVALUATIONS = 0.3, 8  # of the steps so far, and evaluations, without improvement
MIN_EPOCHS = 20  # a model with fewer is still learning fast
RESTORE_MARGIN = 0.02  # relative loss, within the noise of the validation loss


@dataclass(frozen=True)
class Epoch:
    """One evaluation of a training."""

    number: int  # epochs so far
    loss: float  # mean training loss since the previous evaluation
    validation_loss: float | None  # of the averaged weights on validation rows; None without any
    seconds: float  # elapsed time

    def __str__(self) -> str:
        validation = "" if self.validation_loss is None else f", validation {self.validation_loss:.4f}"
        return f"epoch {self.number}, loss {self.loss:.4f}{validation}"


@dataclass
class History(cards.Displayed):
    """All evaluations of a training, the limit that stopped it, and how well the model predicts held-out cells."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped_by: str = ""
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def seconds(self) -> float:
        """The duration of the training."""
        return self.epochs[-1].seconds if self.epochs else 0.0

    def __str__(self) -> str:
        last = f"{self.epochs[-1]}, {self.seconds:.1f} s" if self.epochs else "no evaluation"
        return f"{last}, stopped by {self.stopped_by}" if self.stopped_by else last

    def _card(self) -> cards.Html:
        rows = [
            (epoch.number, f"{epoch.loss:.4f}", _number_or_none(epoch.validation_loss), f"{epoch.seconds:.1f}")
            for epoch in self.epochs[::-1]
        ]
        head = ["epoch", "loss", "validation loss", "seconds"]
        losses = cards.folded("evaluations, the last one first", cards.table(head, rows, figures=head))
        return cards.card("Training", cards.paragraph(self), cards.paragraph(self.calibration), losses)

    def warn_if_short(self) -> None:
        """Warn if the time limit stopped the training after so few epochs that it is far from convergence."""
        n_epochs = self.epochs[-1].number if self.epochs else 0
        if self.stopped_by == "time" and n_epochs < MIN_EPOCHS:
            message = (
                f"The time limit stopped the training after epoch {n_epochs}, while the model was still improving. A "
                "longer max_time gives a better model."
            )
            warn(ShortTrainingWarning(message, code="short_training", epochs=n_epochs))


def _number_or_none(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def train(
    denoiser: Denoiser,
    data: EncodedRows,
    config: TrainingConfig,
    seed: int,
    on_epoch: Callable[[Epoch], None] = lambda _epoch: None,
    *,
    checkpoint: Checkpoint | None = None,
    processes: SingleProcess | None = None,
) -> History:
    """Train a denoiser in place until a limit is reached, the loss stops improving, or Ctrl-C is pressed.

    `data` has the rows of this process, `on_epoch` is called after each evaluation, and the state of `checkpoint` is
    resumed. With several processes, gradients, losses and elapsed time are averaged over them at each step. So all
    have the same weights and stop at the same step.
    """
    with torch.enable_grad():  # even if the caller has disabled gradients
        training = _Training(denoiser, data, config, seed, processes or SingleProcess())
        return training.run(on_epoch, checkpoint or Checkpoint())


@dataclass
class _Counters:
    """The numbers of a training that a checkpoint stores as they are."""

    n_epochs: int = 0
    n_steps: int = 0
    best_loss: float = math.inf
    last_loss: float = math.inf
    evaluations_since_best: int = 0
    best_step: int = 0
    cooldown_start: int = 0
    cooldown_end: int = 0  # a step; 0: no cool-down yet
    fraction_before_cooldown: float = 0.0


class _Training(_Counters):
    """One training: optimizer, averaged weights, random numbers and clock."""

    def __init__(
        self, denoiser: Denoiser, data: EncodedRows, config: TrainingConfig, seed: int, processes: SingleProcess
    ) -> None:
        super().__init__()
        self.denoiser, self.config, self.seed, self.processes = denoiser.train(), config, seed, processes
        self.device = data.x.device
        self._check_rows(len(data.x))
        self.generator = torch.Generator(self.device).manual_seed(seed + processes.rank)
        self.train_data, self.held_out = _split(data, config.validation_fraction, self.generator)
        self.validation_data = None if self.held_out is None else _repeat(self.held_out)
        self.batch_size = math.ceil((config.batch_size or len(data.x)) / processes.world_size)
        self.learning_rate = config.learning_rate or LARGE_LEARNING_RATE
        self.n_batches = processes.all_reduce_max(math.ceil(len(self.train_data.x) / self.batch_size))
        self.average = build_average(denoiser, config.ema_decay)
        self.averaged = cast("Denoiser", self.average.module)
        self.history = History()
        self.best_weights: dict[str, Tensor] = {}
        self.start_time, self.seconds = time.monotonic(), 0.0

    def _check_rows(self, n_rows: int) -> None:
        fewest = -self.processes.all_reduce_max(-n_rows)
        if self.processes.world_size > 1 and fewest < MIN_ROWS_TO_VALIDATE:
            raise TrainingFailed(
                f"Each process must have at least {MIN_ROWS_TO_VALIDATE} rows to train on, and one of the "
                f"{self.processes.world_size} has {fewest}. Use fewer processes."
            )

    def run(self, on_epoch: Callable[[Epoch], None], checkpoint: Checkpoint) -> History:
        """Train until a limit is reached; then leave the averaged weights in the denoiser, or better, the best."""
        try:  # includes the optimizer: its first import takes seconds, and Ctrl-C may come at any time
            self._build_optimizer()
            if checkpoint.state is not None:
                self._load_state(checkpoint.state)
            while not self.history.stopped_by:
                epoch = self._epoch()
                self.history.epochs.append(epoch)
                on_epoch(epoch)
                checkpoint.save(self._state, asdict(epoch), now=bool(self.history.stopped_by))
        except KeyboardInterrupt:
            self.history.stopped_by = "Ctrl-C"
        self.denoiser.load_state_dict(self.averaged.state_dict())
        if self.best_weights and self.last_loss - self.best_loss > RESTORE_MARGIN * abs(self.best_loss):
            self.denoiser.load_state_dict(self.best_weights)
        self.denoiser.eval()
        self.history.calibration = measure_calibration(self.denoiser, self.held_out, self.seed, self.processes)
        return self.history

    def _build_optimizer(self) -> None:
        build = OPTIMIZERS[self.config.optimizer]
        self.optimizer = build(self.denoiser, self.learning_rate, self.config.weight_decay)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, factor=PLATEAU_FACTOR, patience=PLATEAU_EPOCHS
        )

    def _epoch(self) -> Epoch:
        """Train for at least `eval_every` steps and one epoch, then evaluate."""
        loss = self._train_epochs()
        if self.config.learning_rate_schedule == "plateau":
            self.plateau.step(loss)
        self._synchronize_weights()
        epoch = Epoch(self.n_epochs, loss, self._validation_loss(), self.seconds)
        self._update_best(epoch.loss if epoch.validation_loss is None else epoch.validation_loss)
        if self._has_stalled() and not self.cooldown_end:
            self._start_cooldown()
        return epoch

    def _train_epochs(self) -> float:
        """Train for at least `eval_every` steps and return the mean loss."""
        total, n_rows, first_step = 0.0, 0.0, self.n_steps
        while not self.history.stopped_by and self.n_steps - first_step < self.config.eval_every:
            for batch in self._batches():
                batch_total, batch_rows = self._step(batch)
                total, n_rows = total + batch_total, n_rows + batch_rows
                if self._limit() == "time":
                    break
            self.n_epochs += 1
            self.history.stopped_by = self._limit()
        if not math.isfinite(total):
            raise TrainingFailed(
                f"The training loss became {total} in epoch {self.n_epochs}. Try a smaller learning_rate than "
                f"{self.learning_rate:g}, and look for extreme values in the table."
            )
        return total / n_rows

    def _step(self, batch: EncodedRows) -> tuple[float, float]:
        """Take one optimizer step; return the loss summed over the rows of the batch, and their number."""
        if self.config.learning_rate_schedule == "cosine":
            rate = self.learning_rate * cosine_factor(self._fraction_done())
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.denoiser.loss(batch.dequantize(self.generator), self.generator)
        loss.backward()  # type: ignore[no-untyped-call]
        self.seconds = time.monotonic() - self.start_time
        total, n_rows = self._synchronize_gradients(loss.item() * len(batch.x), len(batch.x))
        if self.config.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.denoiser.parameters(), self.config.max_grad_norm, foreach=True)
        self.optimizer.step()
        self.n_steps += 1
        self.average.update_parameters(self.denoiser)
        return total, n_rows

    def _fraction_done(self) -> float:
        """Return the fraction of the training that is done: by its limits, or by the cool-down if that is faster."""
        planned = self.config.fraction_done(self.n_steps / self.n_batches, self.seconds)
        if not self.cooldown_end:
            self.fraction_before_cooldown = planned
            return planned
        cooled = (self.n_steps - self.cooldown_start) / (self.cooldown_end - self.cooldown_start)
        return min(max(planned, self.fraction_before_cooldown + (1 - self.fraction_before_cooldown) * cooled), 1.0)

    def _synchronize_gradients(self, loss: float, n_rows: float) -> tuple[float, float]:
        """Average gradients, loss, number of rows and elapsed time over all processes."""
        if self.processes.world_size > 1:
            weights = list(self.denoiser.parameters())
            gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
            scalars = torch.tensor([loss, n_rows, self.seconds], device=self.device)
            scalars, *gradients = self._all_reduce_mean([scalars, *gradients])
            loss, n_rows, self.seconds = scalars.tolist()
            for weight, gradient in zip(weights, gradients, strict=True):  # also weights unused by the rows of this one
                weight.grad = gradient
        return loss, n_rows

    def _all_reduce_mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the means of tensors over all processes, in one message."""
        means = self.processes.all_reduce_mean(torch.cat([tensor.flatten() for tensor in tensors]))
        parts = means.split_with_sizes([tensor.numel() for tensor in tensors])
        return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]

    @torch.no_grad()
    def _synchronize_weights(self) -> None:
        """Give all processes the same weights again: different processors may round differently."""
        if self.processes.world_size > 1:
            weights = [*self.denoiser.parameters(), *self.averaged.parameters()]
            for weight, mean in zip(weights, self._all_reduce_mean(weights), strict=True):
                weight.copy_(mean)

    def _batches(self) -> Iterator[EncodedRows]:
        """Yield the batches of one epoch; a process with fewer rows than others starts over to have as many."""
        remaining = self.n_batches
        while remaining > 0:
            order = torch.randperm(len(self.train_data.x), generator=self.generator, device=self.device)
            batches = torch.split(order, self.batch_size)[:remaining]
            remaining -= len(batches)
            for rows in batches:
                yield self.train_data[rows]

    @torch.no_grad()
    def _validation_loss(self) -> float | None:
        """Return the loss of the averaged weights on validation rows, with the same noise each time."""
        if self.validation_data is None:
            return None
        generator = torch.Generator(self.device).manual_seed(self.seed)
        loss = self.averaged.loss(self.validation_data.dequantize(generator), generator)
        return self.processes.all_reduce_mean(loss).item()

    def _update_best(self, loss: float) -> None:
        """Store the averaged weights if their loss is the best so far, and check the limits."""
        self.last_loss, improved = loss, loss < self.best_loss
        self.evaluations_since_best = 0 if improved else self.evaluations_since_best + 1
        if improved:
            self.best_loss, self.best_step = loss, self.n_steps
            if self.config.restore_best or self.config.cooldown_fraction or self.config.patience is not None:
                state = self.averaged.state_dict()
                self.best_weights = {name: value.detach().clone() for name, value in state.items()}
        self.history.stopped_by = self.history.stopped_by or self._limit()

    def _has_stalled(self) -> bool:
        """Return whether a cool-down is configured and the loss has not improved for long."""
        if not self.config.cooldown_fraction or self.config.learning_rate_schedule != "cosine" or not self.best_weights:
            return False
        stalled = self.n_steps - self.best_step > STALLED_FRACTION * self.n_steps
        return stalled and self.evaluations_since_best >= STALLED_EVALUATIONS

    def _start_cooldown(self) -> None:
        """Return to the best weights, from which the learning rate decays to 0."""
        self.cooldown_start = self.n_steps
        self.cooldown_end = self.n_steps + math.ceil(self.config.cooldown_fraction * self.best_step)
        self.denoiser.load_state_dict(self.best_weights)
        self.averaged.load_state_dict(self.best_weights)

    def _limit(self) -> str:
        """Return the limit that is reached, or an empty string."""
        if self.config.max_time is not None and self.seconds >= self.config.max_time:
            return "time"
        if self.config.max_epochs is not None and self.n_epochs >= self.config.max_epochs:
            return "epochs"
        cooled_down = self.cooldown_end and self.n_steps >= self.cooldown_end
        out_of_patience = self.config.patience is not None and self.evaluations_since_best >= self.config.patience
        return "no improvement" if cooled_down or out_of_patience else ""

    def _state(self) -> TrainingState:
        """Return the state from which another process can resume."""
        moments = {
            f"{index}.{name}": value
            for index, state in self.optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }
        tensors = {
            **with_prefix("weights", self.denoiser.state_dict()),
            **with_prefix("best", self.best_weights),
            **with_prefix("average", self.average.state_dict()),
            **with_prefix("moments", moments),
            "generator": self.generator.get_state(),
        }
        numbers = {
            **asdict(self),
            "learning_rates": [group["lr"] for group in self.optimizer.param_groups],
            "plateau": self.plateau.state_dict(),
            "history": asdict(self.history),
        }
        return TrainingState(tensors, numbers)

    def _load_state(self, state: TrainingState) -> None:
        """Resume from a stored state; its elapsed time counts too."""
        for counter in fields(self):
            setattr(self, counter.name, state.numbers[counter.name])
        self.history = History([Epoch(**epoch) for epoch in state.numbers["history"]["epochs"]])
        self.seconds = self.history.seconds
        self.start_time -= self.seconds
        self.denoiser.load_state_dict(state.group("weights"))
        self.best_weights = state.group("best")
        self.average.load_state_dict(state.group("average"))
        if self.processes.rank:  # only the first process stores its random state
            self.generator.manual_seed(self.seed + self.processes.rank + self.processes.world_size * self.n_steps)
        else:
            self.generator.set_state(state.tensors["generator"])
        self._load_optimizer(state)
        self.history.stopped_by = self._limit()

    def _load_optimizer(self, state: TrainingState) -> None:
        self.plateau.load_state_dict(state.numbers["plateau"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in state.group("moments").items():
            index, _, name = key.partition(".")
            moments.setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        for group, rate in zip(self.optimizer.param_groups, state.numbers["learning_rates"], strict=True):
            group["lr"] = rate


def cosine_factor(fraction: float) -> float:
    """Return the factor of the learning rate after a fraction of the training: a short warm-up, then half a cosine."""
    return min(1.0, fraction / WARM_UP_FRACTION + WARM_UP_FRACTION) * (0.5 + 0.5 * math.cos(math.pi * fraction))


def _split(data: EncodedRows, fraction: float, generator: torch.Generator) -> tuple[EncodedRows, EncodedRows | None]:
    """Split rows into training rows and validation rows."""
    n = len(data.x)
    count = min(round(fraction * n), MAX_VALIDATION_ROWS)
    if count == 0 or n < MIN_ROWS_TO_VALIDATE:
        return data, None
    order = torch.randperm(n, generator=generator, device=data.x.device)
    return data[order[count:]], data[order[:count]]


def _repeat(rows: EncodedRows) -> EncodedRows:
    """Repeat validation rows, so that few are evaluated under many noises."""
    n = len(rows.x)
    return rows[torch.arange(n, device=rows.x.device).repeat(math.ceil(MAX_VALIDATION_ROWS / n))]
