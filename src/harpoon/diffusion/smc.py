"""Selecting rows on their way, so that pulling them does not bend their law.

Guidance moves every row towards a condition, also where few rows would have gone by themselves: rows pile up at the
bound. Sequential Monte Carlo takes that back. Rows go in groups; each carries the weight by which the guided step
made it too likely or not likely enough, and now and then a group is drawn anew from itself by these weights (twisted
diffusion sampling: the guided step is the proposal, and the penalty of the dirty estimate says what a row promises).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from harpoon._utils.rng import Stream, generator
from harpoon.diffusion.schedules import NoiseLevel

MIN_EFFECTIVE_FRACTION = 0.5  # the share of a group that must count before it is drawn anew


@dataclass
class SMCResampler:
    """The weights of rows in groups of the same size. Steps must have noise (the posterior deviation)."""

    n_particles: int
    seed: int
    key: int = 0  # the draw number or stream key of the rows, on which the random numbers depend
    first_group: int = 0  # the number of the first group, likewise
    log_weights: Tensor | None = field(default=None, init=False)
    log_potential: Tensor | None = field(default=None, init=False)
    steps: int = field(default=0, init=False)

    def starting_at(self, row: int) -> SMCResampler:
        """The same for rows from this one on."""
        return SMCResampler(self.n_particles, self.seed, self.key, row // self.n_particles)

    def resample(self, penalties: Tensor, level: NoiseLevel, *, last: bool) -> Tensor:
        """Which rows go on, a row of the same group in the place of each; after the last step no weight is left.

        What a row promises is a normal law's: the chance that a penalty of so many deviations will come to nothing,
        with the noise that is still to be removed.
        """
        promise = -penalties.double() / (2 * level.noise**2)
        weights = (
            promise
            if self.log_weights is None or self.log_potential is None
            else self.log_weights + promise - self.log_potential
        )
        survivors = torch.arange(len(weights), device=weights.device)
        for number, start in enumerate(range(0, len(weights), self.n_particles)):
            part = slice(start, start + self.n_particles)
            share = weights[part].softmax(dim=0)
            if last or float(share.square().sum()) * len(share) * MIN_EFFECTIVE_FRACTION > 1:
                survivors[part] = start + self._systematic(share, number)
                weights[part] = weights[part].logsumexp(dim=0) - np.log(len(share))
        self.log_weights, self.log_potential = weights, promise[survivors]
        self.steps += 1
        return survivors

    def reweight(self, z: Tensor, pull: Tensor, deviation: float) -> None:
        """Weigh what the pull has done: the row was drawn from a law moved by it, of the step's deviation."""
        if self.log_weights is None or not deviation:
            return
        moved = (pull / deviation).double()
        self.log_weights = self.log_weights + ((z * moved).sum(dim=1) - moved.square().sum(dim=1) / 2)

    def _systematic(self, share: Tensor, number: int) -> Tensor:
        """Systematic resampling: one random number per group and step."""
        words = self.first_group + number, self.key ^ Stream.GUIDED, self.steps
        offset = float(generator(self.seed, Stream.RESAMPLING, *words).random())
        at = (torch.arange(len(share), device=share.device, dtype=share.dtype) + offset) / len(share)
        return torch.searchsorted(share.cumsum(dim=0), at).clamp(max=len(share) - 1)
