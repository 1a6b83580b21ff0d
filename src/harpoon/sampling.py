"""The reverse process: one loop from noise to rows.

Imputing and sampling are this loop; what differs between them enters as arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.guidance import Guidance, tangential_gradient
from harpoon.network import Denoiser, Given
from harpoon.schedule import Level, posterior_variance
from harpoon.selection import Selection

Step = Callable[[Tensor, Tensor, Level, Level, Tensor], Tensor]
Start = Callable[[Denoiser, Tensor], Tensor]


@torch.no_grad()
def reverse(
    denoiser: Denoiser,
    noise: Tensor,
    *,
    times: Sequence[float],
    start: Start,
    step: Step,
    order: int = 1,
    given: Given | None = None,
    guidance: Guidance | None = None,
    selection: Selection | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Tensor:
    """Algorithm 1: from noise to encoded rows.

    Args:
        denoiser: Gives the dirty estimate, and the schedule it was trained on.
        noise: Standard normal, (times, n, d): for the start, then for each step; or (1, n, d) for a step without.
        times: The times to visit, from the noisiest to 0.
        start: Makes x_T from the first noise.
        step: One step of unconditional denoising.
        order: 1 follows the estimate of each step; 2 also looks where it is going.
        given: Known cells, for denoisers that look at them.
        guidance: What pulls the rows; without it nothing is differentiated.
        selection: Which rows go on, each time that they have been pulled.
        on_step: Called after each step, for progress.
    """
    schedule, estimate = denoiser.schedule, denoiser.knowing(given)
    x, earlier = start(denoiser, noise[0]), None
    for done, (t, t_next) in enumerate(pairwise(times)):
        now, after = schedule.level(t), schedule.level(t_next)
        if guidance is None:
            x0_hat, pull = estimate(x, t), None
        else:
            x0_hat, g = tangential_gradient(estimate, x, t, guidance.penalty)
            pull = guidance.pull(g, done / (len(times) - 1), now, after)
        if selection is not None and guidance is not None and pull is not None:
            survivors = selection.chosen(guidance.penalty(x0_hat), now, last=not after.s)
            x, x0_hat, pull = x[survivors], x0_hat[survivors], pull[survivors]
            earlier = None if earlier is None else (earlier[0][survivors], earlier[1])
        ahead = x0_hat if order == 1 or earlier is None else looked_ahead(x0_hat, *earlier, now, after)
        x, earlier = step(x, ahead, now, after, noise[min(done + 1, len(noise) - 1)]), (x0_hat, now)
        if pull is not None:
            x = x - pull  # line 9
            if selection is not None:
                selection.account(noise[done + 1], pull, math.sqrt(posterior_variance(now, after)))
        on_step()
    return x


def standard_start(denoiser: Denoiser, z: Tensor) -> Tensor:  # noqa: ARG001
    """x_T ~ N(0, I) (Algorithm 1, line 1)."""
    return z


def matched_start(denoiser: Denoiser, z: Tensor) -> Tensor:
    """x_T with the mean and variance that the forward process ends with: in the paper ᾱ_T is 0.13, not 0."""
    level = denoiser.schedule.level(denoiser.schedule.times(1)[0])
    deviation = (level.a**2 * denoiser.variance + level.s**2).sqrt()
    return level.a * denoiser.mean + deviation * z


def denoised(x_t: Tensor, x0_hat: Tensor, now: Level, after: Level) -> Tensor:
    """The mean of the next row (Algorithm 1, line 8): (x_t - (1 - α_t) / sqrt(1 - ᾱ_t) ε_θ) / sqrt(α_t).

    Written as a mean of x̂_0 and x_t, which is the same and does not divide by an α_t near 0.
    """
    alpha = (now.a / after.a) ** 2
    return after.a * (1 - alpha) / now.s**2 * x0_hat + math.sqrt(alpha) * after.s**2 / now.s**2 * x_t


def variance_step(x_t: Tensor, x0_hat: Tensor, now: Level, after: Level, z: Tensor) -> Tensor:
    """One step with the noise scaled by the posterior variance, as printed in Algorithm 1."""
    return denoised(x_t, x0_hat, now, after) + posterior_variance(now, after) * z


def deviation_step(x_t: Tensor, x0_hat: Tensor, now: Level, after: Level, z: Tensor) -> Tensor:
    """One step with the noise scaled by the posterior deviation, as DDPM derives it."""
    return denoised(x_t, x0_hat, now, after) + math.sqrt(posterior_variance(now, after)) * z


def ddim_step(x_t: Tensor, x0_hat: Tensor, now: Level, after: Level, z: Tensor) -> Tensor:  # noqa: ARG001
    """One step without noise: the estimated clean row, noised again as much as the next time asks (DDIM)."""
    return after.a * x0_hat + after.s / now.s * (x_t - now.a * x0_hat)


def looked_ahead(x0_hat: Tensor, before: Tensor, then: Level, now: Level, after: Level) -> Tensor:
    """x̂_0 as it will be half-way to the next time, along the line from the step before.

    With it a step without noise is of second order (DPM-Solver++ 2M): the line is over the log of signal to noise. The
    last step has nowhere to look, because there the signal is all there is.
    """
    if not after.s:
        return x0_hat
    went, goes = now.log_ratio - then.log_ratio, after.log_ratio - now.log_ratio
    return x0_hat + goes / (2 * went) * (x0_hat - before)


def row_noise(seed: int, rows: NDArray[np.int64], steps: int, width: int, *, draw: int = 0) -> Tensor:
    """Standard normal noise, (steps, rows, width), that depends on the seed, the row's number and the draw's alone.

    Philox counts: the seed is its key, row and draw stand in its counter, so a row has the same noise in any
    batch, on any machine.
    """
    noise = np.empty((steps, len(rows), width), dtype=np.float32)
    philox = np.random.Philox(key=seed)
    normal, start = np.random.Generator(philox).standard_normal, philox.state
    for place, row in enumerate(rows.tolist()):
        start["state"]["counter"][:] = 0, 0, row, draw
        philox.state = start  # three times as fast as a new one for each row
        noise[:, place] = normal((steps, width), dtype=np.float32)
    return torch.from_numpy(noise)


STARTS: dict[str, Start] = {"standard": standard_start, "matched": matched_start}
STEPS: dict[str, Step] = {"variance": variance_step, "deviation": deviation_step, "none": ddim_step}
