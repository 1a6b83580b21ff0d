"""DiffPuter: a diffusion model trained on rows with holes by expectation and maximisation (Zhang et al. 2025)."""

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
from harpoon.diffusion.denoiser import Denoiser
from harpoon.encoding.batch import EncodedRows
from harpoon.exceptions import InvalidOption
from harpoon.training.trainer import Plan, train
from harpoon_bench.baselines.edm import MOST_CHURN, EdmDenoiser, KarrasSchedule, ancestral, heun
from harpoon_bench.baselines.neural import Encoder, NeuralMethod, moments
from harpoon_bench.baselines.repaint import repainted, visited

SOLVERS = ("sde", "heun")
FIRST_SHARE = 0.5  # of a budget, for the first training: the later ones go on from there


@dataclass(frozen=True)
class Settings:
    """DiffPuter's settings, with the values of its authors.

    Attributes:
        iterations: Of expectation and maximisation.
        draws: Of each row, whose mean is what is expected of it.
        steps: Of the reverse process.
        solver: Of the reverse process: "sde", as in the authors' paper, or "heun", as in their code, which is nearly
            without noise and takes two evaluations per step.
        passes: How often each step is passed, as in RePaint: once in the authors' paper, 20 times in their code.
        hidden_share: The share of training cells that are hidden completely at random before training, as in the
            authors' experiments; 0 leaves a complete table nothing to expect, and one maximisation is all.
        hidden: The width of the denoiser.
        epochs: Of each training, at the most.
        patience: Epochs without improvement after which a training ends.
        batch_size: Rows per training step.
        learning_rate: Of Adam, lowered when the loss stalls.
        deviation: Of the scaled rows (EDM's σ_data).
        log_mean: Of the noise in training.
        log_deviation: Of the noise in training.
        lowest_noise: Of the reverse process.
        highest_noise: Of the reverse process.
        rho: How much denser its steps are where there is little noise.
        churn: How often over a reverse process by Heun's steps the noise is renewed.
        encoding: Of categories: "onehot" or "integer".
        rows_at_once: Rows that go through the reverse process together, at the most.
    """

    iterations: int = 5
    draws: int = 20
    steps: int = 50
    solver: str = "sde"
    passes: int = 1
    hidden_share: float = 0.3
    hidden: int = 1024
    epochs: int = 10_000
    patience: int = 500
    batch_size: int = 4096
    learning_rate: float = 1e-4
    deviation: float = 0.5
    log_mean: float = -1.2
    log_deviation: float = 1.2
    lowest_noise: float = 0.002
    highest_noise: float = 80.0
    rho: float = 7.0
    churn: float = 1.0
    encoding: str = "onehot"
    rows_at_once: int = 4096


class OutOfTime(Exception):
    """The budget is spent."""


@dataclass(frozen=True)
class Spending:
    """How much of a budget is gone; without one, nothing ever is."""

    seconds: float = math.inf
    clock: Callable[[], float] = monotonic
    began: float = 0.0

    def share(self) -> float:
        """The share of the budget that is gone."""
        return (self.clock() - self.began) / self.seconds

    def check(self) -> None:
        """Stop where the budget does."""
        if self.share() >= 1:
            raise OutOfTime


class DiffPuter(NeuralMethod):
    """DiffPuter, with one denoiser that is trained on and on while the rows that it is trained on get better.

    A budget is for trainings and expectations together. If it ends within an expectation, the denoiser stays as it is.
    """

    name, title = "diffputer", "DiffPuter"
    defaults = asdict(Settings())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Maximise and expect in turn, beginning with the mean in every hole."""
        settings, generator = Settings(**self.options), self.generator()
        scale = partial(scaled, deviation=settings.deviation)
        self.encoder = Encoder.fit(train, schema, encoding=settings.encoding, scale=scale)
        rows = self.with_holes(self.encoder.rows(train), settings.hidden_share, generator)
        self.denoiser = denoiser_of(rows.x.shape[1], settings)
        self.denoiser.initialize(rows, generator)
        spending = Spending(self.budget or math.inf, self.clock, self.clock())
        self.maximise(rows.x, FIRST_SHARE, 0)
        rounds = 0 if rows.observed.all() else settings.iterations - 1
        with suppress(OutOfTime):
            for number in range(1, rounds + 1):
                share = (1 - FIRST_SHARE) / rounds / 2
                complete = self.expected(rows, number, spending, until=spending.share() + share)
                self.maximise(complete, min(share, 1 - spending.share()), number)
        return self

    def maximise(self, x: Tensor, share: float, number: int) -> None:
        """The M-step: train on complete rows, for a share of the budget at the most."""
        settings = Settings(**self.options)
        plan = Plan(
            batch_size=settings.batch_size,
            optimizer="adam",
            learning_rate=settings.learning_rate,
            learning_rate_schedule="plateau",
            weight_decay=0.0,
            ema_decay=0.0,
            max_grad_norm=0.0,
            max_epochs=settings.epochs,
            max_time=None if self.budget is None else self.budget * share,
            patience=settings.patience,
            restore_best=True,
            cooldown_fraction=0.0,
            validation_fraction=0.0,
            eval_every=1,
        )
        train(self.denoiser, EncodedRows(x, torch.ones_like(x, dtype=torch.bool)), plan, self.seed + number)

    def expected(self, rows: EncodedRows, number: int, spending: Spending, *, until: float) -> Tensor:
        """The E-step: the mean of several draws, or of as many as there are until a share of the budget is gone."""
        settings, draws = Settings(**self.options), []
        for draw in range(settings.draws):
            draws.append(self.drawn(rows, number * settings.draws + draw, spending))
            if spending.share() >= until:
                break
        return torch.stack(draws).mean(dim=0)

    def drawn(self, rows: EncodedRows, draw: int, spending: Spending) -> Tensor:
        """One draw of the reverse process."""
        settings, schedule = Settings(**self.options), self.denoiser.schedule
        return repainted(
            self.denoiser,
            rows,
            times=visited(schedule.times(settings.steps), 1, settings.passes),
            initial_noise=noisiest,
            step=ancestral if settings.solver == "sde" else heun(self.denoiser.estimate, schedule.churn),
            seed=self.seed,
            draw=draw,
            rows_at_once=settings.rows_at_once,
            on_step=spending.check,
        )

    def completed(self, rows: EncodedRows) -> Tensor:
        """The E-step for rows that were not trained on, which takes the time it takes."""
        return self.expected(rows, 0, Spending(), until=math.inf)


def scaled(rows: EncodedRows, *, deviation: float) -> tuple[Tensor, Tensor]:
    """What gives every place zero mean and that deviation."""
    mean, spread = moments(rows)
    return mean, spread / deviation


def denoiser_of(width: int, settings: Settings) -> EdmDenoiser:
    """A denoiser without weights."""
    if settings.solver not in SOLVERS:
        raise InvalidOption.one_of("The solver of DiffPuter", settings.solver, SOLVERS)
    churn = min(settings.churn / settings.steps, MOST_CHURN) if settings.solver == "heun" else 0.0
    schedule = KarrasSchedule(settings.lowest_noise, settings.highest_noise, settings.rho, churn)
    noise = {"log_mean": settings.log_mean, "log_deviation": settings.log_deviation}
    with torch.device("meta"):
        empty = EdmDenoiser(width, settings.hidden, schedule, deviation=settings.deviation, **noise)
    return empty.to_empty(device="cpu")


def noisiest(denoiser: Denoiser, z: Tensor) -> Tensor:
    """Nothing but noise, as much of it as the reverse process begins with."""
    return denoiser.schedule.times(1)[0] * z
