"""Exponential moving average of the weights."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from harpoon.diffusion import Denoiser

EMA_WARM_UP_STEPS = 10


def build_average(denoiser: Denoiser, decay: float) -> AveragedModel:
    """Return a copy of a denoiser whose weights follow those of the denoiser at each `update_parameters`.

    At step k the decay is min(decay, k / (k + 10)), so that the initial weights are forgotten early. With a decay of 0
    the copy always has the weights of the denoiser.
    """
    averaged = AveragedModel(denoiser, multi_avg_fn=partial(_update_average, decay))
    averaged.update_parameters(denoiser)  # the first update is a plain copy
    return averaged


@torch.no_grad()
def _update_average(decay: float, averaged: list[Tensor], current: list[Tensor], step: Tensor | int) -> None:
    k = int(step)
    torch._foreach_lerp_(averaged, current, 1 - min(decay, k / (k + EMA_WARM_UP_STEPS)))
