"""The reverse process (Algorithm 1): one loop from noise to encoded rows, for imputation and sampling alike."""

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
from harpoon.encoding.encoded_rows import EncodedRows

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
    """Run Algorithm 1 and return encoded rows x_0, (n, d).

    Comments name the lines of Algorithm 1. Lines 3 and 4 are arguments: the noise, and the noise estimate inside the
    denoiser.

    Args:
        denoiser: Gives x̂_0, and the schedule it was trained on.
        noise: Standard normal, (len(times), n, d): for x_T, then for each step; (1, n, d) for deterministic solvers.
        times: The times to visit, from the largest to 0.
        initial_noise: Computes x_T from `noise[0]`.
        solver: One step without guidance.
        given: Observed cells, for denoisers that are conditioned on them.
        guidance: Gradient guidance. Without it nothing is differentiated.
        resampler: Resamples the rows by importance weights at each guided step.
        on_step: Called after each step, for progress.
    """
    schedule, estimate = denoiser.schedule, denoiser.condition_on(given)
    n_steps = len(times) - 1
    x_t, previous = initial_noise(denoiser, noise[0]), None  # line 1
    for i, (t, t_next) in enumerate(pairwise(times)):  # line 2
        now, after = schedule.level(t), schedule.level(t_next)
        z = noise[min(i + 1, len(noise) - 1)]  # line 3
        if guidance is None:
            x0_hat, update = estimate(x_t, t), None  # line 5
        else:
            x0_hat, g = tangential_gradient(estimate, x_t, t, guidance.penalty)  # lines 5 and 6
            update = guidance.step(g, i / n_steps, now, after)
            if resampler is not None:
                ancestors = resampler.resample(guidance.penalty(x0_hat), now, last=not after.noise)
                x_t, x0_hat, update = x_t[ancestors], x0_hat[ancestors], update[ancestors]
                previous = None if previous is None else (previous[0][ancestors], previous[1])
        x_t = solver.step(StepInputs(x_t, x0_hat, now, after, z, previous, estimate, (t, t_next)))  # lines 7, 8
        previous = x0_hat, now
        if update is not None:
            x_t = x_t - update  # line 9
            if resampler is not None:
                resampler.reweight(z, update, math.sqrt(posterior_variance(now, after)))
        on_step()
    return x_t


def standard_noise(denoiser: Denoiser, z: Tensor) -> Tensor:  # noqa: ARG001
    """Return x_T ~ N(0, I) (Algorithm 1, line 1)."""
    return z


def matched_noise(denoiser: Denoiser, z: Tensor) -> Tensor:
    """Return x_T with the mean and variance at the end of the forward process: in the paper ᾱ_T is 0.13, not 0."""
    level = denoiser.schedule.level(denoiser.schedule.times(1)[0])
    std = (level.signal**2 * denoiser.variance + level.noise**2).sqrt()
    return level.signal * denoiser.mean + std * z


INITIAL_NOISE: dict[str, InitialNoise] = {"standard": standard_noise, "matched": matched_noise}
