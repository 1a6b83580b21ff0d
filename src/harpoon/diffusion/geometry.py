"""The geometry of section 3 of the paper: what dirty estimates and guidance gradients do near the data manifold.

Theorem 3.1: as ᾱ_t → 1 the dirty estimate becomes the orthogonal projection onto the manifold.
Theorem 3.2: the gradient of any loss of the dirty estimate then lies in the manifold's tangent space.

On a `Sphere` both can be checked against closed forms. On a trained model, `gradient_angles` measures how close
the gradients are to being orthogonal to the denoising direction (the paper's gradient-angle figure).
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
from harpoon.diffusion.penalties import RECONSTRUCTION_LOSSES, reconstruction_penalty
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows, Penalty
from harpoon.exceptions import InvalidOption, InvalidTable

SMALL = 1e-3
CIRCLE, SPHERE = 2, 3


@dataclass(frozen=True)
class Angles:
    """Angles in degrees between gradients and the denoising direction, per step from the noisiest to the cleanest."""

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
    """The paper's gradient-angle figure for a trained model, as numbers.

    Rows of the table are noised to each step; the gradient of the imputation loss against the clean rows is compared
    with the direction x_t - sqrt(ᾱ_t) x̂_0 in which the denoiser moves them. Incomplete rows are left out, and so are
    numbers that are not noised, because they are no part of x_t.

    Args:
        denoiser: A trained denoiser.
        data: Encoded rows (`Harpoon.encode`).
        blocks: Where the parts of the columns are in an encoded row (`RowCodec.slices`).
        losses: Of "mae", "mse", "mae+ce" and "mse+ce".
        rows: How many rows to use at the most.
        steps: How many evenly spaced times to visit.
        times: The times to visit instead.
        random_state: The seed of the noise.
    """
    unknown = [loss for loss in losses if loss not in RECONSTRUCTION_LOSSES]
    if unknown:
        raise InvalidOption.one_of("A loss", unknown[0], RECONSTRUCTION_LOSSES)
    clean = data.complete()[:rows]
    if not len(clean.x):
        raise InvalidTable("Gradient angles need complete rows, and the table has none.")
    noised = [i for block in slices if block.type is not PartType.REGRESSION for i in range(block.start, block.stop)]
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
    stacked = {loss: torch.stack(found).cpu().double() for loss, found in angles.items()}
    return {
        loss: Angles(loss, visited, found.nanmean(dim=1).numpy(), np.nanstd(found.numpy(), axis=1))
        for loss, found in stacked.items()
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
    """Per row, the angle in degrees between ∇_{x_t} L(x̂_0) and x_t - sqrt(ᾱ_t) x̂_0; NaN where either is zero.

    Both are taken over the numbers that are `noised`, all of them by default.
    """
    x0_hat, gradient = tangential_gradient(estimate, x_t, t, penalty)
    gradient, direction = gradient[:, noised], (x_t - level.signal * x0_hat)[:, noised]
    cosine = (gradient * direction).sum(dim=1) / (gradient.norm(dim=1) * direction.norm(dim=1))
    return torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))


@dataclass(frozen=True)
class Sphere:
    """Rows spread evenly over the unit circle (dimension 2) or the unit sphere (dimension 3).

    With x_t = a x_0 + s ε, the rows x_0 given x_t follow a von Mises-Fisher law around x_t / |x_t| with
    concentration κ = a |x_t| / s², whose mean is known in closed form: it is what a perfect denoiser estimates.
    """

    dimension: int

    def __post_init__(self) -> None:
        if self.dimension not in (CIRCLE, SPHERE):
            raise InvalidOption(f"dimension must be 2 (circle) or 3 (sphere), got {self.dimension!r}.")

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """N rows on the manifold."""
        return self.project(torch.randn(n, self.dimension, generator=generator, dtype=torch.float64))

    def project(self, x: Tensor) -> Tensor:
        """π(x), the nearest point of the manifold."""
        length: Tensor = x.norm(dim=1, keepdim=True)
        return x / length

    def tangential(self, point: Tensor, vector: Tensor) -> Tensor:
        """The part of a vector that lies in the tangent space at a point of the manifold."""
        return vector - (vector * point).sum(dim=1, keepdim=True) * point

    def posterior_mean(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """E[x_0 | x_t]: the dirty estimate of a perfectly trained denoiser (proof of Theorem 3.1)."""
        kappa: Tensor = level.signal * x_t.norm(dim=1, keepdim=True) / level.noise**2
        length = self._mean_length(kappa)
        return length * self.project(x_t)

    def _mean_length(self, kappa: Tensor) -> Tensor:
        """The length of the mean of a von Mises-Fisher law: a ratio of Bessel functions."""
        if self.dimension == CIRCLE:
            ratio: Tensor = torch.special.i1e(kappa) / torch.special.i0e(kappa)
            return ratio
        safe = kappa.clamp(min=SMALL)
        return torch.where(kappa < SMALL, kappa / 3, 1 / torch.tanh(safe) - 1 / safe)
