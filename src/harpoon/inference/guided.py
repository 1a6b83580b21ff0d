"""Rows pulled towards a condition: Algorithm 1, with the weights that take back how the pull bends the law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from harpoon.conditions.bound import BoundPredicate
from harpoon.conditions.penalty import ConditionPenalty
from harpoon.data.column_array import Index, Columns
from harpoon.diffusion.penalties import sum_penalties
from harpoon.diffusion.smc import SMCResampler
from harpoon.encoding.batch import Penalty
from harpoon.inference.row_sampler import Drawer

STEPS, GROUP = 50, 128
TYPICAL = 256  # rows that show the scale of numbers
PULLED = 2**32  # the number of a draw that is guided


@dataclass(frozen=True)
class Puller:
    """Pulls rows towards a condition and away from a loss."""

    drawer: Drawer
    bound: BoundPredicate
    loss: Penalty | None = None
    corrected: bool = False

    @classmethod
    def of(cls, drawer: Drawer, bound: BoundPredicate, loss: Penalty | None) -> Puller:
        """With the steps that guidance needs; its law is corrected where a condition alone pulls rows that may mix."""
        if not drawer.denoiser.is_conditional:
            return cls(replace(drawer), bound, loss)
        steps = max(drawer.settings.sampling_steps, STEPS)
        settings = replace(drawer.settings, sampling_steps=steps, solver="ddpm")
        return cls(replace(drawer, settings=settings), bound, loss, corrected=loss is None)

    def pulled(self, known: Columns, index: Index, *, draw: int = PULLED, harder: float = 1.0) -> Columns:
        """Rows of which something is known, numbered by `index`."""
        penalties = [ConditionPenalty(self.drawer.codec, self.drawer.settings, self._typical()).penalty(self.bound)]
        if self.loss is not None:
            penalties.append(self.loss)
        return self.drawer.draw(
            known,
            index,
            draw=draw,
            penalty=sum_penalties(penalties),
            strength=harder * self.drawer.settings.guidance_scale,
            selection=SMCResampler(GROUP, self.drawer.seed) if self.corrected and _alike(known) else None,
        )

    def _typical(self) -> torch.Tensor:
        """Encoded rows that show how large numbers are."""
        mean, variance = (
            moment.double().cpu() for moment in (self.drawer.denoiser.mean, self.drawer.denoiser.variance)
        )
        z = torch.randn(TYPICAL, len(mean), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return mean + z * variance.sqrt()


def _alike(rows: Columns) -> bool:
    """Whether the rows of each group know the same, and may take each other's place."""
    first = np.arange(len(next(iter(rows.values())))) // GROUP * GROUP
    same = ((cells.missing == cells.missing[first]) & (cells.values == cells.values[first]) for cells in rows.values())
    return all(bool(here.all()) for here in same)
