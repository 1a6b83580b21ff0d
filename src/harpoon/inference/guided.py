"""Rows pulled towards a condition: Algorithm 1, with the weights that take back how the pull bends the law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from harpoon.conditions.bound import BoundPredicate
from harpoon.conditions.penalty import ConditionPenalty
from harpoon.data.column_array import Columns, Index
from harpoon.diffusion.penalties import sum_penalties
from harpoon.diffusion.smc import SMCResampler
from harpoon.encoding.batch import Penalty
from harpoon.inference.row_sampler import RowSampler

MIN_GUIDED_STEPS, N_PARTICLES = 50, 128
TYPICAL_ROWS = 256  # rows that show the scale of numbers
PULLED = 2**32  # the number of a draw that is guided


@dataclass(frozen=True)
class GuidedSampler:
    """Pulls rows towards a condition and away from a loss."""

    sampler: RowSampler
    predicate: BoundPredicate
    loss: Penalty | None = None
    corrected: bool = False

    @classmethod
    def from_sampler(cls, drawer: RowSampler, bound: BoundPredicate, loss: Penalty | None) -> GuidedSampler:
        """With the steps that guidance needs; its law is corrected where a condition alone pulls rows that may mix."""
        if not drawer.denoiser.is_conditional:
            return cls(replace(drawer), bound, loss)
        steps = max(drawer.config.sampling_steps, MIN_GUIDED_STEPS)
        settings = replace(drawer.config, sampling_steps=steps, solver="ddpm")
        return cls(replace(drawer, config=settings), bound, loss, corrected=loss is None)

    def sample(self, given: Columns, index: Index, *, draw: int = PULLED, scale_factor: float = 1.0) -> Columns:
        """Rows of which something is known, numbered by `index`."""
        penalties = [ConditionPenalty(self.sampler.codec, self.sampler.config, self._typical()).penalty(self.predicate)]
        if self.loss is not None:
            penalties.append(self.loss)
        return self.sampler.sample(
            given,
            index,
            draw=draw,
            penalty=sum_penalties(penalties),
            guidance_scale=scale_factor * self.sampler.config.guidance_scale,
            resampler=SMCResampler(N_PARTICLES, self.sampler.seed) if self.corrected and _alike(given) else None,
        )

    def _typical(self) -> torch.Tensor:
        """Encoded rows that show how large numbers are."""
        mean, variance = (
            moment.double().cpu() for moment in (self.sampler.denoiser.mean, self.sampler.denoiser.variance)
        )
        z = torch.randn(TYPICAL_ROWS, len(mean), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return mean + z * variance.sqrt()


def _alike(rows: Columns) -> bool:
    """Whether the rows of each group know the same, and may take each other's place."""
    first = np.arange(len(next(iter(rows.values())))) // N_PARTICLES * N_PARTICLES
    same = ((cells.missing == cells.missing[first]) & (cells.values == cells.values[first]) for cells in rows.values())
    return all(bool(here.all()) for here in same)
