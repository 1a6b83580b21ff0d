"""DiffPuter (Zhang et al., 2025): expectation-maximisation with a diffusion model, trained on incomplete rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Self

import pandas as pd
import torch
from torch import Tensor

from harpoon import Schema
from harpoon.config import TrainingConfig
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.solvers import Solver
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.exceptions import InvalidOption
from harpoon.training.trainer import train
from harpoon_bench.baselines.edm import MAX_CHURN, EdmDenoiser, KarrasSchedule, ancestral, heun
from harpoon_bench.baselines.neural import NeuralMethod, ScaledCodec, mean_and_std
from harpoon_bench.baselines.repaint import repaint, times_with_jumps

SOLVER_NAMES = ("sde", "heun")
FIRST_TRAINING_FRACTION = 0.5  # of the budget; later trainings start from the weights of the first


@dataclass(frozen=True)
class Options:
    """DiffPuter's options with the values of its authors.

    Attributes:
        iterations: Iterations of expectation-maximisation.
        draws: Samples of each row whose mean is its expectation.
        sampling_steps: Steps of the reverse process.
        solver: "sde", as in the authors' paper, or "heun", as in their code: nearly without noise, with two evaluations
            per step.
        passes: How often each step is repeated, as in RePaint: once in the authors' paper, 20 times in their code.
        hidden_fraction: The fraction of training cells that are hidden, completely at random, before training, as in
            the authors' experiments. With 0, complete rows need one maximisation only.
        hidden: The width of the denoiser.
        epochs: The most epochs of each training.
        patience: Epochs without improvement after which a training ends.
        batch_size: Rows per training step.
        learning_rate: The learning rate of Adam, lowered when the loss stalls.
        data_std: The standard deviation of the scaled rows (EDM's σ_data).
        log_noise_mean: The mean of ln σ in training (EDM's P_mean).
        log_noise_std: The standard deviation of ln σ in training (EDM's P_std).
        min_noise: The smallest σ of the reverse process.
        max_noise: The largest σ of the reverse process.
        rho: The exponent of the noise schedule; larger values place more steps at low noise.
        churn: The total noise that Heun's solver renews (EDM's S_churn).
        encoding: The encoding of categories, "onehot" or "integer".
        sampling_batch_size: The most rows that are sampled together.
    """

    iterations: int = 5
    draws: int = 20
    sampling_steps: int = 50
    solver: str = "sde"
    passes: int = 1
    hidden_fraction: float = 0.3
    hidden: int = 1024
    epochs: int = 10_000
    patience: int = 500
    batch_size: int = 4096
    learning_rate: float = 1e-4
    data_std: float = 0.5
    log_noise_mean: float = -1.2
    log_noise_std: float = 1.2
    min_noise: float = 0.002
    max_noise: float = 80.0
    rho: float = 7.0
    churn: float = 1.0
    encoding: str = "onehot"
    sampling_batch_size: int = 4096


class BudgetSpent(Exception):
    """The training budget is spent."""


@dataclass(frozen=True)
class BudgetClock:
    """The fraction of a budget that is spent; 0 without a budget."""

    seconds: float = math.inf
    clock: Callable[[], float] = monotonic
    began: float = 0.0

    def fraction(self) -> float:
        """Return the fraction of the budget that is spent."""
        return (self.clock() - self.began) / self.seconds

    def check(self) -> None:
        """Raise BudgetSpent if the budget is spent."""
        if self.fraction() >= 1:
            raise BudgetSpent


class DiffPuter(NeuralMethod):
    """DiffPuter with one denoiser, which each maximisation trains further.

    The budget covers trainings and expectations. If it ends during an expectation, the denoiser stays unchanged.
    """

    name, title = "diffputer", "DiffPuter"
    defaults = asdict(Options())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Alternate maximisation and expectation, starting with the mean in missing cells."""
        options, generator = Options(**self.options), self.generator()
        scale = partial(scale_to_std, data_std=options.data_std)
        self.codec = ScaledCodec.fit(train, schema, encoding=options.encoding, scale=scale)
        rows = self.hide_training_cells(self.codec.encode(train), options.hidden_fraction, generator)
        self.denoiser = make_denoiser(rows.x.shape[1], options)
        self.denoiser.initialize(rows, generator)
        budget = BudgetClock(self.budget or math.inf, self.clock, self.clock())
        self.maximise(rows.x, FIRST_TRAINING_FRACTION, 0)
        rounds = 0 if rows.observed.all() else options.iterations - 1
        with suppress(BudgetSpent):
            for iteration in range(1, rounds + 1):
                fraction = (1 - FIRST_TRAINING_FRACTION) / rounds / 2
                complete = self.expect(rows, iteration, budget, until=budget.fraction() + fraction)
                self.maximise(complete, min(fraction, 1 - budget.fraction()), iteration)
        return self

    def maximise(self, x: Tensor, budget_fraction: float, iteration: int) -> None:
        """Take the M-step: train on complete rows, (n, d), for at most a fraction of the budget."""
        options = Options(**self.options)
        config = TrainingConfig(
            batch_size=options.batch_size,
            optimizer="adam",
            learning_rate=options.learning_rate,
            learning_rate_schedule="plateau",
            weight_decay=0.0,
            ema_decay=0.0,
            max_grad_norm=0.0,
            max_epochs=options.epochs,
            max_time=None if self.budget is None else self.budget * budget_fraction,
            patience=options.patience,
            restore_best=True,
            cooldown_fraction=0.0,
            validation_fraction=0.0,
            eval_every=1,
        )
        train(self.denoiser, EncodedRows(x, torch.ones_like(x, dtype=torch.bool)), config, self.seed + iteration)

    def expect(self, rows: EncodedRows, iteration: int, budget: BudgetClock, *, until: float) -> Tensor:
        """Take the E-step: return the mean of several samples, fewer if a fraction of the budget is spent before."""
        options, samples = Options(**self.options), []
        for draw in range(options.draws):
            samples.append(self.sample_rows(rows, iteration * options.draws + draw, budget))
            if budget.fraction() >= until:
                break
        return torch.stack(samples).mean(dim=0)

    def sample_rows(self, rows: EncodedRows, draw: int, budget: BudgetClock) -> Tensor:
        """Run the reverse process once."""
        options, schedule = Options(**self.options), self.denoiser.schedule
        return repaint(
            self.denoiser,
            rows,
            times=times_with_jumps(schedule.times(options.sampling_steps), 1, options.passes),
            initial_noise=max_noise,
            solver=Solver(ancestral, stochastic=True) if options.solver == "sde" else heun(schedule.churn),
            seed=self.seed,
            draw=draw,
            batch_size=options.sampling_batch_size,
            on_step=budget.check,
        )

    def complete(self, rows: EncodedRows) -> Tensor:
        """Take the E-step for new rows, without a budget."""
        return self.expect(rows, 0, BudgetClock(), until=math.inf)


def scale_to_std(rows: EncodedRows, *, data_std: float) -> tuple[Tensor, Tensor]:
    """Return the shift and the scale that give each dimension mean 0 and this standard deviation."""
    mean, std = mean_and_std(rows)
    return mean, std / data_std


def make_denoiser(width: int, options: Options) -> EdmDenoiser:
    """Return a denoiser with uninitialised weights."""
    if options.solver not in SOLVER_NAMES:
        raise InvalidOption.one_of("The solver of DiffPuter", options.solver, SOLVER_NAMES)
    churn = min(options.churn / options.sampling_steps, MAX_CHURN) if options.solver == "heun" else 0.0
    schedule = KarrasSchedule(options.min_noise, options.max_noise, options.rho, churn)
    with torch.device("meta"):
        empty = EdmDenoiser(
            width,
            options.hidden,
            schedule,
            data_std=options.data_std,
            log_noise_mean=options.log_noise_mean,
            log_noise_std=options.log_noise_std,
        )
    return empty.to_empty(device="cpu")


def max_noise(denoiser: Denoiser, noise: Tensor) -> Tensor:
    """Return x_T: noise at the largest σ, without signal."""
    return denoiser.schedule.times(1)[0] * noise
