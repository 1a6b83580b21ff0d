"""Gradient-guided sampling (Algorithm 1), corrected by twisted SMC (Wu et al., 2023).

Guidance moves rows towards a condition and biases their distribution: rows pile up at the bounds. Where rows are
exchangeable, importance weights and resampling correct that bias (`harpoon.diffusion.smc`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import torch

from harpoon._utils.rng import Stream
from harpoon.conditions.bound import BoundPredicate
from harpoon.conditions.penalty import ConditionPenalty
from harpoon.data.column_array import Columns, Index, n_rows
from harpoon.diffusion.reconstruction import sum_penalties
from harpoon.diffusion.smc import SMCResampler
from harpoon.encoding.batch import Penalty
from harpoon.inference.row_sampler import RowSampler

MIN_GUIDED_STEPS = 50
N_PARTICLES = 128
TYPICAL_ROWS = 256  # encoded rows from which the scale of each term of a condition is estimated


class SampleRows(Protocol):
    """Sample the missing cells of given rows; the rows are numbered by `index`, the noise by `index` and `draw`."""

    def __call__(self, given: Columns, index: Index, *, draw: int) -> Columns:
        """Return the given rows without missing cells."""


@dataclass(frozen=True)
class GuidedSampler:
    """Samples rows guided towards a condition, a loss or both.

    Attributes:
        sampler: Samples the rows.
        predicate: The condition.
        loss: A penalty besides the condition.
        corrects_bias: Whether importance weights correct the bias of guidance.
    """

    sampler: RowSampler
    predicate: BoundPredicate
    loss: Penalty | None = None
    corrects_bias: bool = False

    @classmethod
    def from_sampler(cls, sampler: RowSampler, predicate: BoundPredicate, loss: Penalty | None) -> GuidedSampler:
        """Return a sampler with enough stochastic steps for guidance.

        The bias is corrected where only a condition guides: a loss has no distribution to be right about.
        """
        if not sampler.denoiser.is_conditional:
            return cls(replace(sampler), predicate, loss)
        steps = max(sampler.config.sampling_steps, MIN_GUIDED_STEPS)
        config = replace(sampler.config, sampling_steps=steps, solver="ddpm")
        return cls(replace(sampler, config=config), predicate, loss, corrects_bias=loss is None)

    def rounds(self, count: int) -> Iterator[SampleRows]:
        """Yield a sampling function for each round; the guidance scale doubles from round to round."""
        for attempt in range(count):
            yield partial(self.sample, scale_factor=2.0**attempt)

    def sample(self, given: Columns, index: Index, *, draw: int = Stream.GUIDED, scale_factor: float = 1.0) -> Columns:
        """Sample the missing cells of given rows with guidance."""
        config = self.sampler.config
        penalties = [ConditionPenalty(self.sampler.codec, config, self._typical_rows()).penalty(self.predicate)]
        if self.loss is not None:
            penalties.append(self.loss)
        corrects = self.corrects_bias and _are_exchangeable(given)
        return self.sampler.sample(
            given,
            index,
            draw=draw,
            penalty=sum_penalties(penalties),
            guidance_scale=scale_factor * config.guidance_scale,
            resampler=SMCResampler(N_PARTICLES, self.sampler.seed, draw) if corrects else None,
        )

    def _typical_rows(self) -> torch.Tensor:
        """Return normal rows, (TYPICAL_ROWS, d), with the moments of the encoded training rows."""
        mean, variance = (
            moment.double().cpu() for moment in (self.sampler.denoiser.mean, self.sampler.denoiser.variance)
        )
        z = torch.randn(TYPICAL_ROWS, len(mean), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return mean + z * variance.sqrt()


def _are_exchangeable(rows: Columns) -> bool:
    """Return whether the rows of each group of particles have the same observed cells."""
    first = np.arange(n_rows(rows)) // N_PARTICLES * N_PARTICLES
    same = ((cells.missing == cells.missing[first]) & (cells.values == cells.values[first]) for cells in rows.values())
    return all(bool(here.all()) for here in same)
