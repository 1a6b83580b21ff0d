"""Training: one loop for every denoiser. What is minimised belongs to the denoiser."""

from __future__ import annotations

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import Denoiser


class _Average:
    """A moving average of the weights, which `with` puts in their place for a while and `use` for good."""

    def __init__(self, denoiser: Denoiser, decay: float) -> None:
        self.decay = decay
        self.weights: list[Tensor] = [*denoiser.parameters()] if decay else []
        self.means = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the weights, faster at first."""
        share = 1 - min(self.decay, step / (step + 10))
        if self.means:
            torch._foreach_lerp_(self.means, self.weights, share)

    @torch.no_grad()
    def restart(self) -> None:
        """Begin anew at the weights."""
        _put(self.weights, into=self.means)

    @torch.no_grad()
    def __enter__(self) -> None:
        self.kept = [weight.detach().clone() for weight in self.weights]
        self.use()

    @torch.no_grad()
    def __exit__(self, *_: object) -> None:
        _put(self.kept, into=self.weights)

    @torch.no_grad()
    def use(self) -> None:
        """Put the averages in the place of the weights."""
        _put(self.means, into=self.weights)


def _put(values: list[Tensor], into: list[Tensor]) -> None:
    """Write values into tensors that others hold."""
    for value, tensor in zip(values, into, strict=True):
        tensor.copy_(value)
