"""Losses of the user: any differentiable function of the rows as a penalty."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harpoon.encoding.batch import Penalty
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.row_view import RowView
from harpoon.exceptions import InvalidOption

LossFunction = Callable[[RowView], Tensor]


def row_penalty(loss: LossFunction, codec: RowCodec) -> Penalty:
    """Return the penalty of a loss that gives one value per row, (n,)."""
    _check_callable(loss, "loss")

    def penalty(x0_hat: Tensor) -> Tensor:
        return _check_result(loss(RowView(codec, x0_hat)), "loss", (len(x0_hat),), "one number per row")

    return penalty


def batch_penalty(loss: LossFunction, codec: RowCodec) -> Penalty:
    """Return the penalty of a loss that gives a single value for all rows.

    Each of the n rows gets the whole value. Its gradient is then as large as that of a loss per row, so that the same
    `guidance_scale` suits both.
    """
    _check_callable(loss, "loss_batch")

    def penalty(x0_hat: Tensor) -> Tensor:
        return _check_result(loss(RowView(codec, x0_hat)), "loss_batch", (), "a single number").expand(len(x0_hat))

    return penalty


def _check_callable(loss: object, name: str) -> None:
    if not callable(loss):
        raise InvalidOption(f"{name} must be a function of the rows, got {type(loss).__name__}.")


def _check_result(value: object, name: str, shape: tuple[int, ...], expected: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise InvalidOption(
            f"{name} must return a torch tensor, got {type(value).__name__}. Use torch functions in it."
        )
    if tuple(value.shape) != shape:
        raise InvalidOption(f"{name} must return {expected}, got a tensor of shape {tuple(value.shape)}.")
    if not bool(torch.isfinite(value.detach()).all()):
        raise InvalidOption(f"{name} must return finite numbers, got {value.detach()[~value.isfinite()][:1].tolist()}.")
    return value
