"""Gradients of single rows: their norms, and the sum of those that are clipped to a norm.

The gradient of a linear layer for one row is the outer product of the gradient of its output and its input. So the norm
of the gradient of a row, and the weighted sum over rows, follow from these two, and no gradient of a single row is ever
stored (Goodfellow, 2015; Bu et al., 2023). It needs a loss that is a sum over rows, none of which depends on another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.networks.backbone import Contrast

ROUNDING = 1e-5  # relative: clipped norms stay below the limit although their squares are rounded
Gradients = dict[nn.Parameter, Tensor]


class RowGradients:
    """Computes clipped gradients of a network whose parameters belong to linear layers, layer norms and contrasts."""

    def __init__(self, network: nn.Module) -> None:
        self.layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear | nn.LayerNorm | Contrast)]
        covered = {id(weight) for layer in self.layers for weight in layer.parameters(recurse=False)}
        others = [name for name, weight in network.named_parameters() if id(weight) not in covered]
        if others:
            raise TypeError(f"gradients of single rows are not known for {', '.join(others)}")

    def sum_clipped(self, loss: Callable[[], Tensor], max_norm: float) -> tuple[Gradients, Tensor]:
        """Return the sum of the gradients of the rows, each scaled down to a norm, and the norms before that, (n,).

        `loss` returns the sum of the losses of the rows. A layer may see only the first of them. A row whose gradient
        is not finite counts as 0. A weight that the loss does not use has no gradient.
        """
        total, inputs, outputs = self._record(loss)
        layers = list(outputs)
        found = torch.autograd.grad(total, [outputs[layer] for layer in layers], allow_unused=True)
        by_layer = {layer: g for layer, g in zip(layers, found, strict=True) if g is not None}
        n_rows = max((len(g) for g in by_layer.values()), default=0)
        squares = torch.zeros(n_rows, dtype=torch.float64, device=total.device)
        with torch.no_grad():
            for layer, g in by_layer.items():
                squares[: len(g)] += _squared_norms(layer, inputs[layer], g)
            norms = squares.sqrt()
            scale = (max_norm / norms.clamp(min=max_norm) * (1 - ROUNDING)).float()
            is_finite = norms.isfinite()
            gradients: Gradients = {}
            for layer, found_g in by_layer.items():
                kept = is_finite[: len(found_g), None]
                x, g = (torch.where(kept, part, 0.0) for part in (inputs[layer], found_g))
                gradients |= _weighted_sums(layer, x, g * torch.where(is_finite, scale, 0.0)[: len(g), None])
        return gradients, norms

    def _record(self, loss: Callable[[], Tensor]) -> tuple[Tensor, dict[nn.Module, Tensor], dict[nn.Module, Tensor]]:
        """Return the loss, and the input and the output of each layer that it uses."""
        inputs: dict[nn.Module, Tensor] = {}
        outputs: dict[nn.Module, Tensor] = {}

        def on_forward(layer: nn.Module, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if layer in outputs:
                raise TypeError(f"gradients of single rows need layers that are used once, and {layer} is used twice")
            if output.requires_grad:
                inputs[layer], outputs[layer] = args[0].detach(), output

        with ExitStack() as hooks:
            for layer in self.layers:
                hooks.callback(layer.register_forward_hook(partial(on_forward, layer)).remove)
            total = loss()
        return total, inputs, outputs


def _squared_norms(layer: nn.Module, x: Tensor, g: Tensor) -> Tensor:
    """Return the squared norm of the gradient of each row in the weights of a layer, (n,), in double precision."""
    x, g = x.double(), g.double()
    if isinstance(layer, nn.LayerNorm):
        return (g * _normalized(layer, x)).square().sum(dim=1) + g.square().sum(dim=1)
    has_bias = getattr(layer, "bias", None) is not None
    return g.square().sum(dim=1) * (x.square().sum(dim=1) + has_bias)


def _weighted_sums(layer: Any, x: Tensor, g: Tensor) -> Gradients:  # noqa: ANN401
    """Return the gradients of the weights of a layer, from its inputs and the weighted gradients of its outputs."""
    if isinstance(layer, nn.LayerNorm):
        return {layer.weight: (g * _normalized(layer, x)).sum(dim=0), layer.bias: g.sum(dim=0)}
    bias = getattr(layer, "bias", None)
    return {layer.weight: g.T @ x} | ({} if bias is None else {bias: g.sum(dim=0)})


def _normalized(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    return functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
