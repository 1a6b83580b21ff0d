"""Products of matrices, with fewer digits while a network learns, where the processor is made for that.

They are half of the time of a training step. A step is noisy anyway, so that its products can do with the eight bits of
a bfloat16: weights, and all that is not a product, keep theirs. A trained network always uses all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, groupby

import torch
from torch import Tensor, nn
from torch.nn import functional

ONEDNN_LIMIT, BFLOAT16_INSTRUCTIONS = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"


class Linear(nn.Linear):
    """A linear layer whose product is coarse while it learns."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """(n, inputs) to (n, outputs)."""
        return linear(input, self.weight, self.bias, reduced_precision=self.training)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, reduced_precision: bool) -> Tensor:
    """The product x Wᵀ + b, where `coarse` and the processor allow it with a product of fewer digits."""
    if not reduced_precision or not has_fast_bfloat16(x.device.type):
        return functional.linear(x, weight, bias)
    coarse_bias = None if bias is None else bias.bfloat16()
    return functional.linear(x.bfloat16(), weight.bfloat16(), coarse_bias).to(x.dtype)


@cache
def has_fast_bfloat16(device: str) -> bool:
    """Return whether bfloat16 products are faster than those of single precision, and safe.

    Some virtual machines advertise AMX tiles and end a process that uses them. torch uses them wherever they are
    advertised, unless oneDNN is limited to the instructions before them (ONEDNN_MAX_CPU_ISA).
    """
    capabilities = torch.cpu.get_capabilities() if device == "cpu" else {}
    tiles = capabilities.get("amx_tile", False) and os.environ.get(ONEDNN_LIMIT, "") != BFLOAT16_INSTRUCTIONS
    return bool(capabilities.get("avx512_bf16", False)) and not tiles


class SegmentSoftmax:
    """Categories whose labels stand one after the other, (n, labels).

    Those of about the same width are done together, filled up to the widest of them: a table has many categories, most
    of them small, and each would cost as much as all.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = list(widths)
        ends = list(accumulate(self.widths))
        nothing = sum(self.widths)  # the place of a label that nothing is
        members = sorted(zip(self.widths, ends, strict=True))
        self.groups: list[tuple[int, Tensor]] = []
        for _, alike in groupby(members, key=lambda member: member[0].bit_length()):
            group = list(alike)
            widest, _ = group[-1]
            places = [[*range(end - width, end), *[nothing] * (widest - width)] for width, end in group]
            self.groups.append((widest, torch.tensor(places, device="cpu").flatten()))
        filled = torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *(places for _, places in self.groups)])
        self.back = filled.argsort(stable=True)[:nothing]  # what is nothing comes last

    def log_softmax(self, logits: Tensor) -> Tensor:
        """The logarithms of probabilities of labels, (n, labels), which add up to 1 for each category."""
        if not self.widths:
            return logits
        rows, device = len(logits), logits.device
        # Label by label a category is one piece, which is several times as fast.
        by_label = functional.pad(logits.T, (0, 0, 0, 1), value=-torch.inf)
        filled = [
            by_label.index_select(0, index.to(device)).view(len(index) // widest, widest, rows).log_softmax(dim=1)
            for widest, index in self.groups
        ]
        return torch.cat([group.flatten(0, 1) for group in filled]).index_select(0, self.back.to(device)).T


class ColumnIndex:
    """Some numbers of each row, to be taken out of it.

    An index that is made once: a list would be made into one at every call. It is no buffer, because a network without
    weights has none.
    """

    def __init__(self, places: Sequence[int]) -> None:
        self.positions = list(places)
        self.index = torch.tensor(self.positions, dtype=torch.long, device="cpu")

    def __len__(self) -> int:
        return len(self.positions)

    def select(self, x: Tensor) -> Tensor:
        """The numbers at these places, (n, places)."""
        return x.index_select(1, self.index.to(x.device))


MIN_CATEGORY_FRACTION = 1e-4  # of a label, so that the log of a label never seen is a number
MAX_PERIOD = 10_000


OUTPUT_INIT_SCALE = 0.1  # of a last layer: what is read off the table comes first


def sinusoidal_embedding(t: Tensor, channels: int) -> Tensor:
    """Sines and cosines of t at geometrically spaced frequencies, (n, channels)."""
    half = channels // 2
    frequencies = torch.exp(-math.log(MAX_PERIOD) / half * torch.arange(half, device=t.device))
    angles = t.unsqueeze(1).float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


N_FREQUENCIES, MAX_FREQUENCY = 16, 8.0


def fourier_features(t: Tensor) -> Tensor:
    """Sines and cosines of the time at geometric frequencies."""
    steps = torch.arange(N_FREQUENCIES, device=t.device, dtype=t.dtype) / (N_FREQUENCIES - 1)
    angles = (math.pi / 2) * t.unsqueeze(1) * MAX_FREQUENCY**steps
    return torch.cat([angles.sin(), angles.cos()], dim=1)
