"""Objectives of the user's own: any differentiable function of the rows as a penalty."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harpoon.encoding.batch import Penalty
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.row_view import RowView
from harpoon.exceptions import InvalidOption

LossFunction = Callable[[RowView], Tensor]


def row_penalty(objective: LossFunction, codec: RowCodec) -> Penalty:
    """A function that gives one penalty per row."""
    _check_callable(objective, "loss")

    def penalty(x0_hat: Tensor) -> Tensor:
        return _checked(objective(RowView(codec, x0_hat)), "loss", (len(x0_hat),), "one number per row")

    return penalty


def batch_penalty(objective: LossFunction, codec: RowCodec) -> Penalty:
    """A function that gives one penalty for all rows together: each row has the same share in it.

    The gradient of one number for n rows is n times smaller in each; it is made good here, so that one strength suits
    both forms.
    """
    _check_callable(objective, "loss_batch")

    def penalty(x0_hat: Tensor) -> Tensor:
        return _checked(objective(RowView(codec, x0_hat)), "loss_batch", (), "a single number").expand(len(x0_hat))

    return penalty


def _check_callable(objective: object, name: str) -> None:
    if not callable(objective):
        raise InvalidOption(f"{name} must be a function of the rows, got {type(objective).__name__}.")


def _checked(value: object, name: str, shape: tuple[int, ...], words: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise InvalidOption(f"{name} must return a tensor of torch, got {type(value).__name__}. Use torch functions.")
    if tuple(value.shape) != shape:
        raise InvalidOption(f"{name} must return {words}, got a tensor of shape {tuple(value.shape)}.")
    if not bool(torch.isfinite(value.detach()).all()):
        raise InvalidOption(f"{name} must return finite numbers, got {value.detach()[~value.isfinite()][:1].tolist()}.")
    return value
