"""Products of matrices, with fewer digits while a network learns, where the processor is made for that.

They are half of the time of a training step. A step is noisy anyway, so that its products can do with the eight bits of
a bfloat16: weights, and all that is not a product, keep theirs. A trained network always uses all of them.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

INSTRUCTIONS = ("avx512_bf16", "amx_bf16")  # without them, fewer digits are slower


class Linear(nn.Linear):
    """A linear layer whose product is coarse while it learns."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """(n, inputs) to (n, outputs)."""
        return linear(input, self.weight, self.bias, coarse=self.training)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, coarse: bool) -> Tensor:
    """The product x Wᵀ + b, where `coarse` and the processor allow it with a product of fewer digits."""
    if not coarse or not coarse_is_fast(x.device.type):
        return functional.linear(x, weight, bias)
    coarse_bias = None if bias is None else bias.bfloat16()
    return functional.linear(x.bfloat16(), weight.bfloat16(), coarse_bias).to(x.dtype)


@cache
def coarse_is_fast(device: str) -> bool:
    """Whether products of fewer digits are faster there."""
    capabilities = torch.cpu.get_capabilities() if device == "cpu" else {}
    return any(capabilities.get(name, False) for name in INSTRUCTIONS)
