"""Penalties: functions of the estimate x̂_0, (n, d), that return one loss per row, (n,)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harpoon.encoding import ColumnSlice, EncodedRows, Penalty


def reconstruction_penalty(loss: str, given: EncodedRows, slices: Sequence[ColumnSlice]) -> Penalty:
    """Return the imputation loss: the distance of x̂_0 from the observed cells, (n, d) (L_imp, appendix D).

    With "+ce" a one-hot column also adds a cross-entropy whose logits are its estimated dimensions.
    """
    distance, cross_entropy = RECONSTRUCTION_LOSSES[loss]
    categorical = [part for part in slices if part.is_categorical] if cross_entropy else []

    def penalty(x0_hat: Tensor) -> Tensor:
        total = torch.where(given.observed, distance(x0_hat - given.x), 0.0).sum(dim=1)
        for part in categorical:
            dims = slice(part.start, part.stop)
            log_p = x0_hat[:, dims].log_softmax(dim=1)
            total = total - (given.x[:, dims] * log_p * given.observed[:, dims]).sum(dim=1)
        return total

    return penalty


def sum_penalties(penalties: Sequence[Penalty]) -> Penalty:
    """Return the sum of penalties."""
    return lambda x0_hat: torch.stack([penalty(x0_hat) for penalty in penalties]).sum(dim=0)


# Name: distance per dimension, and whether categories add a cross-entropy.
RECONSTRUCTION_LOSSES = {
    "mae": (torch.abs, False),
    "mse": (torch.square, False),
    "mae+ce": (torch.abs, True),
    "mse+ce": (torch.square, True),
}
