"""Importance weights and systematic resampling of guided rows: twisted SMC (Wu et al., 2023).

Guidance biases the distribution: it moves every row towards the condition, so rows concentrate at its boundary. Twisted
sequential Monte Carlo corrects the bias. The guided step is the proposal, exp(-L(x̂_0) / 2s_t²) is the twisting
potential, and the rows of a group are its particles. Each particle has an importance weight, and a group is resampled
when its effective sample size becomes small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harpoon._utils.rng import Stream, generator
from harpoon.diffusion.schedules import NoiseLevel

MIN_EFFECTIVE_FRACTION = 0.5  # effective sample size, as a fraction of a group, below which it is resampled


@dataclass
class SMCResampler:
    """Importance weights of rows in groups of `n_particles`, for solvers with the noise of DDPM."""

    n_particles: int  # rows per group
    seed: int  # of the call
    key: int = 0  # the draw number or stream key of the rows, on which the random numbers depend
    first_group: int = 0  # its number, likewise
    log_weights: Tensor | None = field(default=None, init=False)  # (n,); None before the first step
    log_potential: Tensor | None = field(default=None, init=False)  # of the previous step, (n,)
    steps: int = field(default=0, init=False)  # so far

    def starting_at(self, row: int) -> SMCResampler:
        """Return a resampler without weights for a batch whose first row has this number."""
        return SMCResampler(self.n_particles, self.seed, self.key, row // self.n_particles)

    def resample(self, penalties: Tensor, level: NoiseLevel, *, last: bool) -> Tensor:
        """Update the weights by the penalties L(x̂_0), (n,); return the ancestor of each row, (n,), a row of its group.

        At the last step each group is resampled, so that all weights are equal.
        """
        log_potential = -penalties.double() / (2 * level.noise**2)
        if self.log_weights is None or self.log_potential is None:
            log_weights = log_potential.clone()
        else:
            log_weights = self.log_weights + log_potential - self.log_potential
        ancestors = torch.arange(len(log_weights), device=log_weights.device)
        for group, start in enumerate(range(0, len(log_weights), self.n_particles)):
            rows = slice(start, start + self.n_particles)
            p = log_weights[rows].softmax(dim=0)
            if last or float(p.square().sum()) * len(p) * MIN_EFFECTIVE_FRACTION > 1:
                ancestors[rows] = start + self._systematic(p, group)
                log_weights[rows] = log_weights[rows].logsumexp(dim=0) - math.log(len(p))
        self.log_weights, self.log_potential = log_weights, log_potential[ancestors]
        self.steps += 1
        return ancestors

    def reweight(self, z: Tensor, update: Tensor, std: float) -> None:
        """Multiply the weights by the density ratio of the step without guidance and the guided step.

        `z` is the standard normal noise of the step, (n, d), `update` the guidance that was subtracted, (n, d), and
        `std` the standard deviation of the noise.
        """
        if self.log_weights is None or not std:
            return
        shift = (update / std).double()
        self.log_weights = self.log_weights + ((z * shift).sum(dim=1) - shift.square().sum(dim=1) / 2)

    def _systematic(self, p: Tensor, group: int) -> Tensor:
        """Resample systematically by probabilities p, (n_particles,): one uniform number per group and step."""
        words = self.first_group + group, self.key ^ Stream.GUIDED, self.steps
        offset = float(generator(self.seed, Stream.RESAMPLING, *words).random())
        points = (torch.arange(len(p), device=p.device, dtype=p.dtype) + offset) / len(p)
        return torch.searchsorted(p.cumsum(dim=0), points).clamp(max=len(p) - 1)
