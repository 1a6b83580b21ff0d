"""Layers that the networks share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, groupby

import torch
from torch import Tensor, nn
from torch.nn import functional

ONEDNN_LIMIT, BFLOAT16_INSTRUCTIONS = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
MIN_CATEGORY_FRACTION = 1e-4  # keeps the log of the fraction of a category that never occurs finite
OUTPUT_INIT_SCALE = 0.1  # of the weights of output layers: initial predictions are close to the marginals


class Linear(nn.Linear):
    """A linear layer with bfloat16 products in training.

    Products are half of the time of a training step, and the noise of a step exceeds their rounding error. Weights and
    all other operations stay in float32, and a trained network uses float32 throughout.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Map (n, in_features) to (n, out_features)."""
        return linear(input, self.weight, self.bias, reduced_precision=self.training)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, reduced_precision: bool) -> Tensor:
    """Return x Wᵀ + b, as a bfloat16 product if `reduced_precision` and if the processor is fast at it."""
    if not reduced_precision or not has_fast_bfloat16(x.device.type):
        return functional.linear(x, weight, bias)
    reduced_bias = None if bias is None else bias.bfloat16()
    return functional.linear(x.bfloat16(), weight.bfloat16(), reduced_bias).to(x.dtype)


@cache
def has_fast_bfloat16(device: str) -> bool:
    """Return whether bfloat16 products are faster than float32 products, and safe.

    Some virtual machines advertise AMX tiles and kill a process that uses them. torch uses them wherever they are
    advertised, unless oneDNN is limited to the instructions before them (ONEDNN_MAX_CPU_ISA).
    """
    find_capabilities = getattr(torch.cpu, "get_capabilities", dict)  # torch 2.5 has no such function
    capabilities: dict[str, bool] = find_capabilities() if device == "cpu" else {}
    tiles = capabilities.get("amx_tile", False) and os.environ.get(ONEDNN_LIMIT, "") != BFLOAT16_INSTRUCTIONS
    return bool(capabilities.get("avx512_bf16", False)) and not tiles


class SegmentSoftmax:
    """Softmax over consecutive segments of the last dimension, one segment per categorical part.

    Segments of similar width are padded to a common width and computed together: a table has many categorical columns,
    most of them narrow, and one call per column would cost more than the arithmetic.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = list(widths)
        stops = list(accumulate(self.widths))
        padding = sum(self.widths)  # the index of the row of -inf that `log_softmax` appends
        segments = sorted(zip(self.widths, stops, strict=True))
        self.groups: list[tuple[int, Tensor]] = []
        for _, similar in groupby(segments, key=lambda segment: segment[0].bit_length()):
            group = list(similar)
            widest, _ = group[-1]
            index = [[*range(stop - width, stop), *[padding] * (widest - width)] for width, stop in group]
            self.groups.append((widest, torch.tensor(index, device="cpu").flatten()))
        padded = torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *(index for _, index in self.groups)])
        self.inverse = padded.argsort(stable=True)[:padding]  # padding comes last

    def log_softmax(self, logits: Tensor) -> Tensor:
        """Return log probabilities, (n, sum(widths)), normalised within each segment."""
        if not self.widths:
            return logits
        rows, device = len(logits), logits.device
        # Transposed, a segment is contiguous in memory, which is several times as fast.
        by_category = functional.pad(logits.T, (0, 0, 0, 1), value=-torch.inf)
        padded = [
            by_category.index_select(0, index.to(device)).view(len(index) // widest, widest, rows).log_softmax(dim=1)
            for widest, index in self.groups
        ]
        return torch.cat([group.flatten(0, 1) for group in padded]).index_select(0, self.inverse.to(device)).T


class ColumnIndex:
    """Positions of some dimensions of a row.

    The index tensor is made once instead of at every call. It is not a buffer, because networks are built on the meta
    device, where buffers have no values.
    """

    def __init__(self, positions: Iterable[int]) -> None:
        self.positions = list(positions)
        self.index = torch.tensor(self.positions, dtype=torch.long, device="cpu")

    def __len__(self) -> int:
        return len(self.positions)

    def select(self, x: Tensor) -> Tensor:
        """Return the dimensions at these positions: (n, d) to (n, len(self))."""
        return x.index_select(1, self.index.to(x.device))

    def replace(self, x: Tensor, values: Tensor) -> Tensor:
        """Return x, (n, d), with values, (n, len(self)), at these positions."""
        return x.index_copy(1, self.index.to(x.device), values)

    def locate(self, selected: ColumnIndex) -> ColumnIndex:
        """Return the places of the selected positions among these."""
        place_of = {position: place for place, position in enumerate(self.positions)}
        return ColumnIndex([place_of[position] for position in selected.positions])
