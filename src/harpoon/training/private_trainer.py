"""Private training: a fixed number of noisy steps, each on a random sample of the rows (Abadi et al., 2016).

Each row takes part in a step with the same probability, independently of the others. Its gradient is clipped to a norm.
The sum over the sample gets Gaussian noise, and nothing else of the rows is used: no loss is recorded, no row is held
out, and neither the clock nor a loss ends the training. The optimizer, averages and learning rates only see noisy sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.config import SMALL_LEARNING_RATE, TrainingConfig
from harpoon.encoding import EncodedRows
from harpoon.networks.anchored_denoiser import AnchoredDenoiser
from harpoon.networks.per_example_gradients import Gradients, RowGradients
from harpoon.privacy.differential.budget import BudgetSplit
from harpoon.privacy.differential.noise_sources import Noise
from harpoon.training.ema import build_average
from harpoon.training.optimizers import OPTIMIZERS
from harpoon.training.trainer import History, cosine_factor

MAX_ROWS_AT_ONCE = 4096  # rows whose gradients are computed together
STOPPED_BY = "steps"


@dataclass(frozen=True)
class NoisySteps:
    """What protects the rows at each step: the split, and the source of noise that also chooses the rows.

    `rows` is about how many rows there are; the number itself is private.
    """

    split: BudgetSplit
    noise: Noise
    rows: int

    @property
    def expected_rows(self) -> float:
        """About how many rows take part in a step."""
        return self.split.privacy.sample_rate * self.rows


def train_privately(
    denoiser: AnchoredDenoiser,
    rows: EncodedRows,
    config: TrainingConfig,
    steps: NoisySteps,
    *,
    seed: int,
    on_step: Callable[[int], None] = lambda _step: None,
) -> History:
    """Train a denoiser in place with the noise of a split, and leave its averaged weights in it.

    Args:
        denoiser: The network, initialized without a look at the rows.
        rows: The rows to train on.
        config: Optimizer and learning rate.
        steps: The number of steps, their rows and their noise.
        seed: For the noise of the diffusion, which protects nothing.
        on_step: Called after each step with the number of steps.
    """
    with torch.enable_grad():
        training = _PrivateTraining(denoiser, rows, config, steps, seed)
        return training.run(on_step)


class _PrivateTraining:
    def __init__(
        self,
        denoiser: AnchoredDenoiser,
        rows: EncodedRows,
        config: TrainingConfig,
        steps: NoisySteps,
        seed: int,
    ) -> None:
        self.denoiser, self.rows, self.config, self.steps = denoiser.train(), rows, config, steps
        self.split, self.noise = steps.split, steps.noise
        self.generator = torch.Generator(rows.x.device).manual_seed(seed)
        self.learning_rate = config.learning_rate or SMALL_LEARNING_RATE
        self.optimizer = OPTIMIZERS[config.optimizer](denoiser, self.learning_rate, config.weight_decay)
        self.average = build_average(denoiser, config.ema_decay)
        self.row_gradients = RowGradients(denoiser)

    def run(self, on_step: Callable[[int], None]) -> History:
        """Take all steps. Ctrl-C ends the training early, which spends less."""
        stopped_by = STOPPED_BY
        try:
            for step in range(self.split.privacy.steps):
                self._step(step / self.split.privacy.steps)
                on_step(step + 1)
        except KeyboardInterrupt:
            stopped_by = "Ctrl-C"
        self.denoiser.load_state_dict(self.average.module.state_dict())
        self.denoiser.eval()
        return History(stopped_by=stopped_by)

    def _step(self, fraction_done: float) -> None:
        if self.config.learning_rate_schedule == "cosine":
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate * cosine_factor(fraction_done)
        chosen = self.noise.sample_rows(len(self.rows.x), self.split.privacy.sample_rate)
        total = self._sum_gradients(self.rows[chosen.to(self.rows.x.device)])
        std = self.split.gradients.noise_multiplier * self.split.privacy.clipping_norm
        for weight in self.denoiser.parameters():  # also those that no row of the sample uses
            noisy = self.noise.normal(weight.shape).mul_(std)
            if weight in total:
                noisy += total[weight].cpu()
            weight.grad = (noisy / self.steps.expected_rows).to(weight)
        self.optimizer.step()
        self.average.update_parameters(self.denoiser)

    def _sum_gradients(self, batch: EncodedRows) -> Gradients:
        """Return the sum of the clipped gradients of some rows; one row more changes it by at most the norm."""
        total: Gradients = {}
        for start in range(0, len(batch.x), MAX_ROWS_AT_ONCE):
            rows = batch[slice(start, start + MAX_ROWS_AT_ONCE)].dequantize(self.generator)

            def loss(rows: EncodedRows = rows) -> Tensor:
                return self.denoiser.sum_independent_losses(rows, self.generator)

            gradients, _ = self.row_gradients.sum_clipped(loss, self.split.privacy.clipping_norm)
            for weight, gradient in gradients.items():
                total[weight] = total[weight] + gradient if weight in total else gradient
        return total
