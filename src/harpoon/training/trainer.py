"""Training: one loop for every denoiser. What is minimised belongs to the denoiser."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import cast

import torch
from torch import Tensor

from harpoon.config import TrainingConfig
from harpoon.diffusion.denoiser import Denoiser
from harpoon.encoding.batch import EncodedRows
from harpoon.exceptions import TrainingFailed
from harpoon.training.checkpoints import Checkpoint, TrainingState, with_prefix
from harpoon.training.distributed import SingleProcess
from harpoon.training.ema import build_average
from harpoon.training.history import Epoch, History
from harpoon.training.optimizers import OPTIMIZERS

MIN_ROWS_TO_VALIDATE = 20
MAX_VALIDATION_ROWS = 2048
PLATEAU_FACTOR, PLATEAU_EPOCHS = 0.9, 50
WARM_UP_FRACTION = 0.02
# What a training counts, besides its tensors.
PROGRESS_FIELDS = ("passes", "steps", "best", "last", "waited", "best_at", "cooled_from", "cooled_at", "share")
STALLED_FRACTION, STALLED_EVALUATIONS = (
    0.3,
    8,
)  # no better for such a share of the steps so far, and so many looks: all is learnt that can be
RESTORE_MARGIN = 0.02  # by a smaller share than that, on few rows, the last weights are as good as the best ones


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
    """Train a denoiser in place until time, epochs or improvement run out, or Ctrl-C is pressed.

    With a checkpoint it goes on from the state that was kept, and keeps its own every minute and at the end. In a team
    the rows are one process's part; gradients, losses and what the clock says are the mean of all, so that all have the
    same weights and stop at the same step.
    """
    with torch.enable_grad():  # even if the caller has switched gradients off
        return _Training(denoiser, data, config, seed, processes or SingleProcess()).go(
            on_epoch, checkpoint or Checkpoint()
        )


class _Training:
    """One training: its optimiser, its averaged weights, its random numbers and its clock."""

    def __init__(
        self, denoiser: Denoiser, data: EncodedRows, plan: TrainingConfig, seed: int, team: SingleProcess
    ) -> None:
        self.denoiser, self.plan, self.seed, self.team = denoiser, plan, seed, team
        self.device = data.x.device
        fewest = -team.all_reduce_max(-len(data.x))
        if team.world_size > 1 and fewest < MIN_ROWS_TO_VALIDATE:
            raise TrainingFailed(
                f"Each process of a team needs at least {MIN_ROWS_TO_VALIDATE} rows to train on, and one of the "
                f"{team.world_size} has {fewest}. Use fewer of them."
            )
        self.generator = torch.Generator(self.device).manual_seed(seed + team.rank)
        self.train_data, self.held_out = _split(data, plan.validation_fraction, self.generator)
        self.batch_size = -(
            -(plan.batch_size or len(data.x)) // team.world_size
        )  # of a batch, each process has its share
        self.batches = team.all_reduce_max(-(-len(self.train_data.x) // self.batch_size))
        self.denoiser.train()
        self.average = build_average(denoiser, plan.ema_decay)
        self.averaged = cast(Denoiser, self.average.module)
        self.history = History()
        self.passes, self.steps = 0, 0
        self.best, self.last, self.waited, self.best_at = math.inf, math.inf, 0, 0
        self.share = 0.0  # of the training that is done; as it was when the training was cut short, if it was
        self.cooled_from, self.cooled_at = 0, 0  # the steps between which it then comes to rest
        self.best_weights: dict[str, Tensor] = {}
        self.began, self.seconds = time.monotonic(), 0.0

    def go(self, on_epoch: Callable[[Epoch], None], checkpoint: Checkpoint) -> History:
        try:  # the optimiser is made in here: torch takes seconds to import it, and Ctrl-C may come any time
            make, plan = OPTIMIZERS[self.plan.optimizer], self.plan
            self.optimiser = make(self.denoiser, plan.learning_rate, plan.weight_decay)
            self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                self.optimiser, factor=PLATEAU_FACTOR, patience=PLATEAU_EPOCHS
            )
            if checkpoint.state is not None:
                self._go_on_from(checkpoint.state)
            while not self.history.stopped_by:
                epoch = self._epoch()
                self.history.epochs.append(epoch)
                on_epoch(epoch)
                checkpoint.save(self._state, asdict(epoch), now=bool(self.history.stopped_by))
        except KeyboardInterrupt:
            self.history.stopped_by = "Ctrl-C"
        self.denoiser.load_state_dict(self.averaged.state_dict())
        if self.best_weights and self.last - self.best > RESTORE_MARGIN * abs(self.best):
            self.denoiser.load_state_dict(self.best_weights)
        self.denoiser.eval()
        return self.history

    def _epoch(self) -> Epoch:
        """Pass over the rows until there is something to report."""
        total, rows, before = 0.0, 0.0, self.steps
        while not self.history.stopped_by and self.steps - before < self.plan.eval_every:
            for batch in self._batches():
                loss, count = self._step(batch)
                total, rows = total + loss, rows + count
                if self._limit() == "time":
                    break
            self.passes += 1
            self.history.stopped_by = self._limit()
        if not math.isfinite(total):
            raise TrainingFailed(
                f"The training loss became {total} in epoch {self.passes}. Try a smaller learning_rate than "
                f"{self.plan.learning_rate:g}, and look for extreme values in the table."
            )
        if self.plan.learning_rate_schedule == "plateau":
            self.plateau.step(total / rows)
        self._meet()
        epoch = Epoch(self.passes, total / rows, self._held_out_loss(), self.seconds)
        self._judge(epoch.loss if epoch.validation_loss is None else epoch.validation_loss)
        if self._has_learnt_all() and not self.cooled_at:
            self._cool_down()
        return epoch

    def _step(self, batch: EncodedRows) -> tuple[float, float]:
        """Take a step; the loss summed over the rows of the batch, and their number."""
        if self.plan.learning_rate_schedule == "cosine":
            factor = _cosine(self._share_done())
            for group in self.optimiser.param_groups:
                group["lr"] = self.plan.learning_rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.denoiser.loss(batch.dequantize(self.generator), self.generator)
        loss.backward()  # type: ignore[no-untyped-call]
        agreed = self._together(loss.item() * len(batch.x), len(batch.x))
        if self.plan.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.denoiser.parameters(), self.plan.max_grad_norm, foreach=True)
        self.optimiser.step()
        self.steps += 1
        self.average.update_parameters(self.denoiser)
        return agreed

    def _share_done(self) -> float:
        """How much of the training is behind us: by its limits, or faster once it is cut short."""
        planned = self.plan.fraction_done(self.steps / self.batches, self.seconds)
        if not self.cooled_at:
            self.share = planned
            return planned
        cooled = (self.steps - self.cooled_from) / (self.cooled_at - self.cooled_from)
        return min(max(planned, self.share + (1 - self.share) * cooled), 1.0)

    def _together(self, loss: float, rows: float) -> tuple[float, float]:
        """Agree with the others on gradients, on loss and rows, which are given back, and on the time."""
        self.seconds = time.monotonic() - self.began
        if self.team.world_size > 1:
            weights = list(self.denoiser.parameters())
            gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
            said = torch.tensor([loss, rows, self.seconds], device=self.device)
            said, *means = self._shared([said, *gradients])
            loss, rows, self.seconds = said.tolist()
            for weight, mean in zip(weights, means, strict=True):  # also one that this worker's rows did not need
                weight.grad = mean
        return loss, rows

    def _shared(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The means of tensors over all processes, in one message."""
        means = self.team.all_reduce_mean(torch.cat([tensor.flatten() for tensor in tensors]))
        parts = means.split_with_sizes([tensor.numel() for tensor in tensors])
        return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]

    @torch.no_grad()
    def _meet(self) -> None:
        """Give all processes the same weights again, which processors that round otherwise lead apart."""
        if self.team.world_size > 1:
            theirs = [*self.denoiser.parameters(), *self.averaged.parameters()]
            for weight, mean in zip(theirs, self._shared(theirs), strict=True):
                weight.copy_(mean)

    def _batches(self) -> Iterator[EncodedRows]:
        """One pass over the rows; who has fewer than others begins anew."""
        left = self.batches
        while left > 0:
            order = torch.randperm(len(self.train_data.x), generator=self.generator, device=self.device)
            batches = torch.split(order, self.batch_size)[:left]
            left -= len(batches)
            for rows in batches:
                yield self.train_data[rows]

    @torch.no_grad()
    def _held_out_loss(self) -> float | None:
        """The loss on rows not trained on, always with the same noise, so that epochs compare."""
        if self.held_out is None:
            return None
        generator = torch.Generator(self.device).manual_seed(self.seed)
        return self.team.all_reduce_mean(self.averaged.loss(self.held_out.dequantize(generator), generator)).item()

    def _judge(self, score: float) -> None:
        """Keep the best weights for later, and stop when nothing has improved for long."""
        self.last, better = score, score < self.best
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_at = score, self.steps
            if self.plan.restore_best or self.plan.cooldown_fraction or self.plan.patience is not None:
                state = self.averaged.state_dict()
                self.best_weights = {name: value.detach().clone() for name, value in state.items()}
        self.history.stopped_by = self.history.stopped_by or self._limit()

    def _has_learnt_all(self) -> bool:
        """Whether nothing has improved for long, and the rate is one that can be brought down."""
        can = self.plan.cooldown_fraction and self.plan.learning_rate_schedule == "cosine" and self.best_weights
        return (
            bool(can)
            and self.steps - self.best_at > STALLED_FRACTION * self.steps
            and self.waited >= STALLED_EVALUATIONS
        )

    def _cool_down(self) -> None:
        """Go back to the best weights, and only bring them to rest."""
        self.cooled_from, self.cooled_at = (
            self.steps,
            self.steps + math.ceil(self.plan.cooldown_fraction * self.best_at),
        )
        self.denoiser.load_state_dict(self.best_weights)
        self.averaged.load_state_dict(self.best_weights)

    def _limit(self) -> str:
        """What ends the training now, if anything does."""
        if self.plan.max_time is not None and self.seconds >= self.plan.max_time:
            return "time"
        if self.plan.max_epochs is not None and self.passes >= self.plan.max_epochs:
            return "epochs"
        cooled = self.cooled_at and self.steps >= self.cooled_at
        tired = self.plan.patience is not None and self.waited >= self.plan.patience
        return "no improvement" if cooled or tired else ""

    def _state(self) -> TrainingState:
        """All that another process needs to go on as this one would."""
        moments = {
            f"{place}.{name}": value
            for place, each in self.optimiser.state_dict()["state"].items()
            for name, value in each.items()
        }
        tensors = {
            **with_prefix("weights", self.denoiser.state_dict()),
            **with_prefix("best", self.best_weights),
            **with_prefix("average", self.average.state_dict()),
            **with_prefix("moments", moments),
            "generator": self.generator.get_state(),
        }
        numbers = {name: getattr(self, name) for name in PROGRESS_FIELDS}
        rates = [group["lr"] for group in self.optimiser.param_groups]
        plateau = self.plateau.state_dict()
        return TrainingState(tensors, {**numbers, "rates": rates, "plateau": plateau, "history": asdict(self.history)})

    def _go_on_from(self, state: TrainingState) -> None:
        """Become the training that was kept; its time counts too."""
        for name in PROGRESS_FIELDS:
            setattr(self, name, state.numbers[name])
        self.history = History([Epoch(**epoch) for epoch in state.numbers["history"]["epochs"]])
        self.seconds = self.history.seconds
        self.began -= self.seconds
        self.denoiser.load_state_dict(state.group("weights"))
        self.best_weights = state.group("best")
        self.average.load_state_dict(state.group("average"))
        if self.team.rank:  # only the first keeps its random numbers
            self.generator.manual_seed(self.seed + self.team.rank + self.team.world_size * self.steps)
        else:
            self.generator.set_state(state.tensors["generator"])
        self.plateau.load_state_dict(state.numbers["plateau"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in state.group("moments").items():
            number, _, name = key.partition(".")
            moments.setdefault(int(number), {})[name] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        for group, rate in zip(self.optimiser.param_groups, state.numbers["rates"], strict=True):
            group["lr"] = rate
        self.history.stopped_by = self._limit()


def _cosine(share: float) -> float:
    """The learning rate over a training: a short rise, then half a cosine down to nothing."""
    return min(1.0, share / WARM_UP_FRACTION + WARM_UP_FRACTION) * (0.5 + 0.5 * math.cos(math.pi * share))


def _split(data: EncodedRows, share: float, generator: torch.Generator) -> tuple[EncodedRows, EncodedRows | None]:
    """Rows to train on, and rows held out to see whether training still helps."""
    n = len(data.x)
    count = min(round(share * n), MAX_VALIDATION_ROWS)
    if count == 0 or n < MIN_ROWS_TO_VALIDATE:
        return data, None
    order = torch.randperm(n, generator=generator, device=data.x.device)
    held = order[:count].repeat(math.ceil(MAX_VALIDATION_ROWS / count))  # few rows are judged under many noises
    return data[order[count:]], data[held]
