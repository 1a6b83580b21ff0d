"""Steps of the weights: Adam's for the paper, and for the anchored network Muon's for the matrices inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from harpoon.diffusion.denoiser import Denoiser
from harpoon.networks.layers import has_fast_bfloat16

MOMENTS = 0.9, 0.95  # of Muon's Adam: a training of minutes has no time for a memory of a thousand steps
MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS, COEFFICIENTS = (
    5,
    (3.4445, -4.7750, 2.0315),
)  # of the polynomial that brings all singular values near 1
ADAM_UPDATE_RMS = 0.2  # the usual size of Adam's steps beside the learning rate
SMALLEST = 1e-7
INNER = "inner"  # marks the group of weights that Muon takes


class Muon(torch.optim.AdamW):
    """AdamW, but the matrices inside a network take steps whose singular values are all about the same.

    The gradient of such a matrix is nearly of low rank: a few directions, those of outliers, drown the others. Made
    orthogonal, a step moves along all of them (Jordan et al., 2024); scaled to the size of Adam's (Liu et al., 2025),
    it shares their learning rate. `torch.optim.Muon` is the same step, but its products are always coarse, and most
    processors are slow at these.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step."""
        for group in self.param_groups:
            for weight in group["params"] if group.get(INNER) else ():
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])
                    weight.grad = None  # which AdamW passes over
        super().step(closure)

    def _update(self, weight: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        """Nesterov's momentum, made orthogonal."""
        state = self.state[weight]
        if not state:
            state["momentum"], state["step"] = torch.zeros_like(gradient), torch.zeros(())  # AdamW reads steps
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        direction = newton_schulz(gradient.lerp(state["momentum"], MOMENTUM))
        weight.mul_(1 - rate * decay)
        weight.add_(direction, alpha=-rate * ADAM_UPDATE_RMS * max(weight.shape) ** 0.5)


def newton_schulz(matrix: Tensor) -> Tensor:
    """A matrix of the same singular vectors whose singular values are near 1, by Newton and Schulz."""
    a, b, c = COEFFICIENTS
    wide = matrix.T if len(matrix) > matrix.shape[1] else matrix
    x = wide.to(torch.bfloat16) if has_fast_bfloat16(matrix.device.type) else wide
    x = x / x.norm().clamp(min=SMALLEST)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if wide is not matrix else x).to(matrix.dtype)


def adam(network: Denoiser, rate: float, decay: float) -> torch.optim.Optimizer:
    """Adam; with weight decay AdamW."""
    return torch.optim.AdamW(_groups(network.parameters(), decay), lr=rate, fused=True)


def muon(network: Denoiser, rate: float, decay: float) -> torch.optim.Optimizer:
    """Muon for the inner matrices of a network, AdamW for all other weights."""
    inner = network.muon_parameters()
    inside = {id(weight) for weight in inner}
    others = _groups((weight for weight in network.parameters() if id(weight) not in inside), decay)
    return Muon([*others, {"params": inner, "weight_decay": decay, INNER: True}], lr=rate, betas=MOMENTS, fused=True)


def _groups(weights: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Matrices, which decay, and the others, which do not."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for weight in weights:
        (matrices if weight.ndim > 1 else others).append(weight)
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


OPTIMIZERS = {"adam": adam, "muon": muon}
