"""Optimizers: Adam for the network of the paper, Muon for the inner matrices of the anchored one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from harpoon.diffusion import Denoiser
from harpoon.networks.layers import has_fast_bfloat16

ADAM_BETAS = 0.9, 0.95  # beside Muon: a training of minutes is too short for a memory of a thousand steps
MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # a, b, c of x -> a x + b x³ + c x⁵ on singular values
ADAM_UPDATE_RMS = 0.2  # usual root mean square of Adam's updates, per learning rate
MIN_NORM = 1e-7
USES_MUON = "uses_muon"  # key of the parameter group that Muon updates


class Muon(torch.optim.AdamW):
    """Muon for inner weight matrices (Jordan et al., 2024), AdamW for all other weights.

    The gradient of an inner matrix is nearly of low rank. Muon orthogonalises it, so that the update moves along all
    directions. Scaled to the root mean square of Adam's updates (Liu et al., 2025), both share a learning rate.
    `torch.optim.Muon` has the same update, but always in bfloat16, at which most processors are slow.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step."""
        for group in self.param_groups:
            for weight in group["params"] if group.get(USES_MUON) else ():
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])
                    weight.grad = None  # AdamW skips weights without a gradient
        super().step(closure)

    def _update(self, weight: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        """Update a matrix by its orthogonalised Nesterov momentum."""
        state = self.state[weight]
        if not state:
            state["momentum"], state["step"] = torch.zeros_like(gradient), torch.zeros(())  # AdamW reads `step`
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        direction = newton_schulz(gradient.lerp(state["momentum"], MOMENTUM))
        weight.mul_(1 - rate * decay)
        weight.add_(direction, alpha=-rate * ADAM_UPDATE_RMS * max(weight.shape) ** 0.5)


def newton_schulz(matrix: Tensor) -> Tensor:
    """Return a matrix with the same singular vectors and singular values near 1, by Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    wide = matrix.T if len(matrix) > matrix.shape[1] else matrix
    x = wide.to(torch.bfloat16) if has_fast_bfloat16(matrix.device.type) else wide
    x = x / x.norm().clamp(min=MIN_NORM)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if wide is not matrix else x).to(matrix.dtype)


def adam(network: Denoiser, rate: float, decay: float) -> torch.optim.Optimizer:
    """Return Adam, or AdamW with weight decay."""
    return torch.optim.AdamW(_groups(network.parameters(), decay), lr=rate, fused=True)


def muon(network: Denoiser, rate: float, decay: float) -> torch.optim.Optimizer:
    """Return Muon for `network.muon_parameters()`, with AdamW for all other weights."""
    inner = network.muon_parameters()
    inner_ids = {id(weight) for weight in inner}
    others = _groups((weight for weight in network.parameters() if id(weight) not in inner_ids), decay)
    groups = [*others, {"params": inner, "weight_decay": decay, USES_MUON: True}]
    return Muon(groups, lr=rate, betas=ADAM_BETAS, fused=True)


def _groups(weights: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Return two parameter groups: matrices with weight decay, and vectors without."""
    weights = list(weights)
    matrices, vectors = ([w for w in weights if (w.ndim > 1) == is_matrix] for is_matrix in (True, False))
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


OPTIMIZERS: dict[str, Callable[[Denoiser, float, float], torch.optim.Optimizer]] = {"adam": adam, "muon": muon}
