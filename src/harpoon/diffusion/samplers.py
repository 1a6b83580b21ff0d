"""The reverse process: one loop from noise to rows.

Imputation and sampling are this loop; what differs between them enters as arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.guidance import Guidance, tangential_gradient
from harpoon.diffusion.schedules import posterior_variance
from harpoon.diffusion.smc import SMCResampler
from harpoon.diffusion.solvers import Solver, StepInputs
from harpoon.encoding.batch import EncodedRows

InitialNoise = Callable[[Denoiser, Tensor], Tensor]


@torch.no_grad()
def reverse_process(
    denoiser: Denoiser,
    noise: Tensor,
    *,
    times: Sequence[float],
    initial_noise: InitialNoise,
    solver: Solver,
    given: EncodedRows | None = None,
    guidance: Guidance | None = None,
    resampler: SMCResampler | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Tensor:
    """Run Algorithm 1: from noise to encoded rows, (n, d).

    Args:
        denoiser: Gives x̂_0, and the schedule it was trained on.
        noise: Standard normal, (len(times), n, d): for x_T, then for each step; (1, n, d) for deterministic solvers.
        times: The times to visit, from the noisiest to 0.
        initial_noise: Makes x_T from the first noise.
        solver: One step of unconditional denoising.
        given: Observed cells, for denoisers that are conditioned on them.
        guidance: Gradient guidance; without it nothing is differentiated.
        selection: Resampling of the rows by importance weights, at each guided step.
        on_step: Called after each step, for progress.
    """
    schedule, estimate = denoiser.schedule, denoiser.condition_on(given)
    x, previous = initial_noise(denoiser, noise[0]), None
    for done, (t, t_next) in enumerate(pairwise(times)):
        now, after = schedule.level(t), schedule.level(t_next)
        if guidance is None:
            x0_hat, pull = estimate(x, t), None
        else:
            x0_hat, g = tangential_gradient(estimate, x, t, guidance.penalty)
            pull = guidance.step(g, done / (len(times) - 1), now, after)
        if resampler is not None and guidance is not None and pull is not None:
            survivors = resampler.resample(guidance.penalty(x0_hat), now, last=not after.noise)
            x, x0_hat, pull = x[survivors], x0_hat[survivors], pull[survivors]
            previous = None if previous is None else (previous[0][survivors], previous[1])
        z = noise[min(done + 1, len(noise) - 1)]
        x, previous = solver.step(StepInputs(x, x0_hat, now, after, z, previous, estimate)), (x0_hat, now)
        if pull is not None:
            x = x - pull  # line 9
            if resampler is not None:
                resampler.reweight(z, pull, math.sqrt(posterior_variance(now, after)))
        on_step()
    return x


def standard_noise(denoiser: Denoiser, z: Tensor) -> Tensor:  # noqa: ARG001
    """Return x_T ~ N(0, I) (Algorithm 1, line 1)."""
    return z


def matched_noise(denoiser: Denoiser, z: Tensor) -> Tensor:
    """Return x_T with the mean and variance at the end of the forward process: in the paper ᾱ_T is 0.13, not 0."""
    level = denoiser.schedule.level(denoiser.schedule.times(1)[0])
    deviation = (level.signal**2 * denoiser.variance + level.noise**2).sqrt()
    return level.signal * denoiser.mean + deviation * z


INITIAL_NOISE: dict[str, InitialNoise] = {"standard": standard_noise, "matched": matched_noise}
