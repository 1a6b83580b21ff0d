"""Penalties on the dirty estimate: how far encoded rows are from what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harpoon.encoding.base import ColumnSlice
from harpoon.encoding.batch import EncodedRows, Penalty


def reconstruction_penalty(loss: str, given: EncodedRows, slices: Sequence[ColumnSlice]) -> Penalty:
    """The imputation loss (eq. 4): the distance of x̂_0 from the known cells, summed over them.

    `loss` is "mae", "mse", "mae+ce" or "mse+ce"; the cross-entropy reads the numbers of a one-hot column as
    logits.
    """
    distance, cross_entropy = RECONSTRUCTION_LOSSES[loss]
    categories = [block for block in slices if block.is_categorical] if cross_entropy else []

    def penalty(x0_hat: Tensor) -> Tensor:
        total = torch.where(given.observed, distance(x0_hat - given.x), 0.0).sum(dim=1)
        for block in categories:
            part = slice(block.start, block.stop)
            log_p = x0_hat[:, part].log_softmax(dim=1)
            total = total - (given.x[:, part] * log_p * given.observed[:, part]).sum(dim=1)
        return total

    return penalty


def sum_penalties(penalties: Sequence[Penalty]) -> Penalty:
    """All of the penalties together (eq. 5)."""
    return lambda x0_hat: torch.stack([penalty(x0_hat) for penalty in penalties]).sum(dim=0)


RECONSTRUCTION_LOSSES = {
    "mae": (torch.abs, False),
    "mse": (torch.square, False),
    "mae+ce": (torch.abs, True),
    "mse+ce": (torch.square, True),
}
