"""Embeddings of the time of the diffusion process, that is of the noise level."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MAX_PERIOD = 10_000
N_FREQUENCIES, MAX_FREQUENCY = 16, 8.0


def sinusoidal_embedding(t: Tensor, channels: int) -> Tensor:
    """Embed times, (n,), as sines and cosines of geometric frequencies, (n, channels) (Ho et al., 2020)."""
    half = channels // 2
    frequencies = torch.exp(-math.log(MAX_PERIOD) / half * torch.arange(half, device=t.device))
    angles = t.unsqueeze(1).float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def truncated_embedding(t: Tensor, channels: int) -> Tensor:
    """Embed steps 1 to T, (n,), as the published code of the paper does, (n, channels).

    It casts the frequencies to the integer type of the steps, which it counts from 0. Each frequency below 1 becomes 0,
    so that only one sine and one cosine vary: sin(t - 1) and cos(t - 1). Their values jump from step to step, and the
    network hardly sees the noise level.
    """
    half = channels // 2
    angles = torch.zeros(len(t), half, device=t.device)
    angles[:, 0] = t - 1
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def fourier_features(t: Tensor) -> Tensor:
    """Embed times in [0, 1], (n,), as sines and cosines of geometric frequencies, (n, 2 * N_FREQUENCIES)."""
    steps = torch.arange(N_FREQUENCIES, device=t.device, dtype=t.dtype) / (N_FREQUENCIES - 1)
    angles = (math.pi / 2) * t.unsqueeze(1) * MAX_FREQUENCY**steps
    return torch.cat([angles.sin(), angles.cos()], dim=1)


TIME_EMBEDDINGS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sinusoidal": sinusoidal_embedding,
    "truncated": truncated_embedding,
}
