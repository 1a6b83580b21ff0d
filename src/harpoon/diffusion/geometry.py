"""Geometry of estimates and guidance gradients near the data manifold (section 3.2).

Theorem 3.1: as ᾱ_t → 1 the estimate x̂_0 becomes the orthogonal projection of x_t onto the manifold.
Theorem 3.2: the gradient of any loss of x̂_0 then lies in the tangent space of the manifold.

On a `Sphere` both are checked against closed forms. For a trained denoiser, `gradient_angles` measures the angle
between the gradients and the denoising direction: 90 degrees in the limit (the gradient-angle figure of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.guidance import tangential_gradient
from harpoon.diffusion.reconstruction_penalty import RECONSTRUCTION_LOSSES, reconstruction_penalty
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.encoding import ColumnSlice, EncodedRows, PartType, Penalty
from harpoon.exceptions import InvalidOption, InvalidTable

MIN_KAPPA = 1e-3
CIRCLE, SPHERE = 2, 3


@dataclass(frozen=True)
class Angles:
    """Angles in degrees between gradients and the denoising direction, per time.

    Attributes:
        loss: The name of the loss.
        times: The times, from the largest to the smallest.
        mean: Mean over rows, (len(times),).
        std: Standard deviation over rows, (len(times),).
    """

    loss: str
    times: tuple[float, ...]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def gradient_angles(
    denoiser: Denoiser,
    data: EncodedRows,
    slices: Sequence[ColumnSlice],
    *,
    losses: Sequence[str] = tuple(RECONSTRUCTION_LOSSES),
    rows: int = 100,
    steps: int = 200,
    times: Sequence[float] | None = None,
    random_state: int = 0,
) -> dict[str, Angles]:
    """Measure the angles between guidance gradients and the denoising direction of a trained denoiser.

    Complete rows are noised to each time. The gradient of the imputation loss against the clean rows is compared with
    the denoising direction x_t - sqrt(ᾱ_t) x̂_0, over the dimensions that are noised.

    Args:
        denoiser: A trained denoiser.
        data: Encoded rows (`Harpoon.encode`).
        slices: The positions of the columns in an encoded row (`RowCodec.slices`).
        losses: Names in `RECONSTRUCTION_LOSSES`.
        rows: The largest number of rows to use.
        steps: The number of evenly spaced times.
        times: The times, instead of evenly spaced ones.
        random_state: The seed of the noise.
    """
    unknown = [loss for loss in losses if loss not in RECONSTRUCTION_LOSSES]
    if unknown:
        raise InvalidOption.one_of("A loss", unknown[0], RECONSTRUCTION_LOSSES)
    clean = data.complete()[:rows]
    if not len(clean.x):
        raise InvalidTable("gradient_angles needs complete rows, and the table has none.")
    noised = [dim for part in slices if part.type is not PartType.REGRESSION for dim in range(part.start, part.stop)]
    schedule = denoiser.schedule
    visited = tuple(schedule.times(steps)[:-1] if times is None else times)
    generator = torch.Generator().manual_seed(random_state)
    angles: dict[str, list[Tensor]] = {loss: [] for loss in losses}
    for t in visited:
        epsilon = torch.randn(clean.x.shape, generator=generator).to(clean.x.device)
        level = schedule.level(t)
        x_t = level.signal * clean.x + level.noise * epsilon
        for loss in losses:
            penalty = reconstruction_penalty(loss, clean, slices)
            angles[loss].append(gradient_angle(denoiser, x_t, t, penalty, level, noised=noised))
    stacked = {loss: torch.stack(per_time).cpu().double() for loss, per_time in angles.items()}
    return {
        loss: Angles(loss, visited, degrees.nanmean(dim=1).numpy(), np.nanstd(degrees.numpy(), axis=1))
        for loss, degrees in stacked.items()
    }


def gradient_angle(
    estimate: DenoiserFn,
    x_t: Tensor,
    t: float,
    penalty: Penalty,
    level: NoiseLevel,
    *,
    noised: Sequence[int] | slice = slice(None),
) -> Tensor:
    """Return the angle in degrees between ∇_{x_t} L(x̂_0) and x_t - sqrt(ᾱ_t) x̂_0, (n,); NaN where either is 0.

    `noised` selects the dimensions to compare, all of them by default.
    """
    x0_hat, gradient = tangential_gradient(estimate, x_t, t, penalty)
    gradient, direction = gradient[:, noised], (x_t - level.signal * x0_hat)[:, noised]
    cosine = (gradient * direction).sum(dim=1) / (gradient.norm(dim=1) * direction.norm(dim=1))
    return torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))


@dataclass(frozen=True)
class Sphere:
    """The uniform distribution on the unit circle (dimension 2) or the unit sphere (dimension 3).

    With x_t = a x_0 + s ε, the posterior of x_0 given x_t is a von Mises-Fisher distribution around x_t / |x_t| with
    concentration κ = a |x_t| / s². Its mean, the estimate of a perfect denoiser, has a closed form.
    """

    dimension: int

    def __post_init__(self) -> None:
        if self.dimension not in (CIRCLE, SPHERE):
            raise InvalidOption(f"dimension must be 2 (circle) or 3 (sphere), got {self.dimension!r}.")

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Sample n points of the manifold, (n, dimension)."""
        return self.project(torch.randn(n, self.dimension, generator=generator, dtype=torch.float64))

    def project(self, x: Tensor) -> Tensor:
        """Return π(x), the nearest point of the manifold."""
        norm: Tensor = x.norm(dim=1, keepdim=True)
        return x / norm

    def tangential(self, point: Tensor, vector: Tensor) -> Tensor:
        """Project vectors onto the tangent space at points of the manifold."""
        return vector - (vector * point).sum(dim=1, keepdim=True) * point

    def posterior_mean(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """Return E[x_0 | x_t], the estimate of a perfect denoiser (proof of Theorem 3.1)."""
        kappa: Tensor = level.signal * x_t.norm(dim=1, keepdim=True) / level.noise**2
        return self._mean_length(kappa) * self.project(x_t)

    def _mean_length(self, kappa: Tensor) -> Tensor:
        """Return the norm of the mean of a von Mises-Fisher distribution, a ratio of Bessel functions."""
        if self.dimension == CIRCLE:
            ratio: Tensor = torch.special.i1e(kappa) / torch.special.i0e(kappa)
            return ratio
        safe = kappa.clamp(min=MIN_KAPPA)
        return torch.where(kappa < MIN_KAPPA, kappa / 3, 1 / torch.tanh(safe) - 1 / safe)
