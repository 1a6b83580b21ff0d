"""Gradient-guided sampling (Algorithm 1), corrected by twisted SMC (Wu et al., 2023).

Guidance moves rows towards a condition and biases their distribution: rows pile up at the bounds. Where rows are
exchangeable, importance weights and resampling correct that bias (`harpoon.diffusion.smc`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter

import numpy as np
import torch

from harpoon._utils.rng import Stream
from harpoon.conditions import BoundPredicate, ConditionPenalty
from harpoon.data import Columns, Index, Mask, n_rows
from harpoon.diffusion import SMCResampler, sum_penalties
from harpoon.encoding import Penalty
from harpoon.exceptions import SamplingFailed
from harpoon.inference.diagnostics.sampling_info import ProbabilityEstimate, SamplingInfo
from harpoon.inference.sampling.row_sampler import Complete, RowSampler

MIN_GUIDED_STEPS = 50
N_PARTICLES = 128
TYPICAL_ROWS = 256  # encoded rows from which the scale of each term of a condition is estimated


@dataclass
class ConditionSearch:
    """What `ConditionalSampler` (new rows) and `ConditionalCompletion` (given rows) share: guidance and diagnostics."""

    sampler: RowSampler
    predicate: BoundPredicate
    given: Columns  # partial rows: one row, the given cells of all new rows; or the rows to complete
    loss: Penalty | None = None  # a penalty besides the condition
    sampled: int = field(default=0, init=False)  # rows so far
    rounds: int = field(default=0, init=False)  # of sampling so far
    guided_rows: int = field(default=0, init=False)  # of first rounds
    guided_violations: int = field(default=0, init=False)  # how many of them violate the condition

    def __post_init__(self) -> None:
        self._started, self._evaluations = perf_counter(), self.sampler.evaluations

    @property
    def can_condition(self) -> bool:
        """Whether rows have a conditional distribution: without a loss, for a network conditioned on observed cells."""
        return self.loss is None and self.sampler.model.denoiser.is_conditional

    @property
    def estimate(self) -> ProbabilityEstimate | None:
        """The model's probability of the condition; None if it was not estimated."""
        return None

    @property
    def effective_size(self) -> float | None:
        """How many independent rows the returned ones are worth; None if that is not known."""
        return None

    def guide_rounds(self, predicate: BoundPredicate, attempt: Callable[[Complete], Mask | None], count: int) -> None:
        """Call `attempt` with a function that samples guided rows; the guidance scale doubles from round to round.

        It returns which of the rows it sampled satisfy the condition, or None if there are already enough.
        """
        config = self.sampler.config
        if self.sampler.model.denoiser.is_conditional:  # such a network is sampled in few steps or none
            config = replace(config, sampling_steps=max(config.sampling_steps, MIN_GUIDED_STEPS), solver="ddpm")
        sampler = replace(self.sampler, config=config)
        sample = partial(self.sample_guided, sampler, predicate, corrects_bias=self.can_condition)
        for number in range(count):
            try:
                satisfied = attempt(partial(sample, scale_factor=2.0**number))
            except SamplingFailed:
                if number == 0:
                    raise
                break  # the scale is too large for this model
            if satisfied is None:
                break
            if number == 0:
                self.count_guided(satisfied)
        self.sampler.evaluations += sampler.evaluations

    def sample_guided(
        self,
        sampler: RowSampler,
        predicate: BoundPredicate,
        given: Columns,
        index: Index,
        *,
        draw: int = Stream.GUIDED,
        scale_factor: float = 1.0,
        corrects_bias: bool = False,
    ) -> Columns:
        """Sample the missing cells of given rows, guided by a condition and the loss.

        `corrects_bias`: use importance weights, if the rows of each group of particles have the same given cells.
        """
        corrects_bias = corrects_bias and _are_exchangeable(given)
        return sampler.sample(
            given,
            index,
            draw=draw,
            penalty=guiding_penalty(sampler, predicate, self.loss),
            guidance_scale=scale_factor * sampler.config.guidance_scale,
            resampler=SMCResampler(N_PARTICLES, sampler.seed, draw) if corrects_bias else None,
        )

    def count_guided(self, satisfied: Mask) -> None:
        """Add guided rows to the diagnostics."""
        self.guided_rows += len(satisfied)
        self.guided_violations += int((~satisfied).sum())

    def info(self, strategy: str, satisfied: Mask) -> SamplingInfo:
        """Return the diagnostics, given which of the returned rows satisfy the condition."""
        return SamplingInfo(
            strategy=strategy,
            rows=len(satisfied),
            sampled=self.sampled,
            guided_violations=self.guided_violations / self.guided_rows if self.guided_rows else None,
            violations=1 - float(satisfied.mean()) if len(satisfied) else 0.0,
            rounds=self.rounds,
            evaluations=self.sampler.evaluations - self._evaluations,
            seconds=perf_counter() - self._started,
            probability=None if self.estimate is None else self.estimate.probability,
            probability_rows=None if self.estimate is None else float(self.estimate.rows),
            effective_size=self.effective_size,
        )


def guiding_penalty(sampler: RowSampler, predicate: BoundPredicate, loss: Penalty | None = None) -> Penalty:
    """Return the penalty that guides rows: that of the condition, plus the loss."""
    condition = ConditionPenalty(sampler.codec, sampler.config, _typical_rows(sampler)).penalty(predicate)
    return sum_penalties([condition] if loss is None else [condition, loss])


def _typical_rows(sampler: RowSampler) -> torch.Tensor:
    """Return normal rows, (TYPICAL_ROWS, d), with exactly the moments of each dimension of the training rows.

    So the scale of a bound on one column is the standard deviation of that column, as in the paper's code.
    """
    mean, variance = (
        moment.double().cpu() for moment in (sampler.model.denoiser.mean, sampler.model.denoiser.variance)
    )
    z = torch.randn(TYPICAL_ROWS, len(mean), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return mean + (z - z.mean(dim=0)) / z.std(dim=0, correction=0) * variance.sqrt()


def _are_exchangeable(rows: Columns) -> bool:
    """Return whether the rows of each group of particles have the same observed cells."""
    first = np.arange(n_rows(rows)) // N_PARTICLES * N_PARTICLES
    same = ((cells.unknown == cells.unknown[first]) & (cells.values == cells.values[first]) for cells in rows.values())
    return all(bool(here.all()) for here in same)
