"""The layout of an encoded row: which dimensions belong to which kind of part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from harpoon.encoding import ColumnSlice, PartType
from harpoon.networks.layers import ColumnIndex


class PartTensors(NamedTuple):
    """The dimensions of rows by type of part, (n, dimensions of that type) each."""

    continuous: Tensor  # normal scores and other noised values
    categories: Tensor  # one-hot categories of all categorical parts, spikes included
    standardised: Tensor  # standardised values, which are not noised


class EncodedLayout:
    """Positions in an encoded row of d dimensions, whose parts are at the given slices."""

    def __init__(self, slices: Sequence[ColumnSlice]) -> None:
        self.width = slices[-1].stop  # d
        categorical = [part for part in slices if part.is_categorical]
        continuous, categories, standardised = (
            _dimensions([part for part in slices if part.type is kind])
            for kind in (PartType.CONTINUOUS, PartType.CATEGORICAL, PartType.REGRESSION)
        )
        self.continuous = ColumnIndex(continuous)
        self.categories = ColumnIndex(categories)
        self.standardised = ColumnIndex(standardised)
        by_type = [*continuous, *categories, *standardised]
        self.by_type = ColumnIndex(by_type)
        self.by_position = ColumnIndex(sorted(range(self.width), key=by_type.__getitem__))  # the inverse of `by_type`

        self.category_widths = [part.stop - part.start for part in categorical]  # of each categorical part
        parts = [number for number, width in enumerate(self.category_widths) for _ in range(width)]
        self.part_of_category = ColumnIndex(parts)  # the categorical part of each of `categories`
        first_of: dict[int, int] = {}
        for number, part in enumerate(categorical):
            first_of.setdefault(part.column, number)
        is_first = [number in first_of.values() for number in parts]
        self.is_first_part = torch.tensor(is_first, dtype=torch.bool, device="cpu")  # of its column, (categories,)
        groups = [part for part, following in pairwise(categorical) if part.column == following.column]
        self.group_categories = ColumnIndex(_dimensions(groups))  # hierarchical categories: their members follow

        column_of = [part.column for part in slices for _ in range(part.start, part.stop)]
        self.column_of = ColumnIndex(column_of)  # the column of each dimension, (d,)
        last_of = {column: dim for dim, column in enumerate(column_of)}
        self.last_of = ColumnIndex([*last_of.values()])  # the last dimension of each column
        self.n_columns = len(last_of)

        # A normal score with a standardised value beside it is not an input of the network.
        has_standardised = {column_of[dim] for dim in standardised}
        redundant = {dim for dim in continuous if column_of[dim] in has_standardised}
        self.inputs = ColumnIndex([dim for dim in range(self.width) if dim not in redundant])
        self.input_categories = self.inputs.locate(self.categories)
        self.numeric_inputs = ColumnIndex(sorted({*continuous, *standardised} - redundant))

    def split(self, x: Tensor) -> PartTensors:
        """Split rows, (n, d), by type of part."""
        sizes = [len(self.continuous), len(self.categories), len(self.standardised)]
        return PartTensors(*self.by_type.select(x).split_with_sizes(sizes, dim=1))

    def join(self, parts: PartTensors) -> Tensor:
        """Return rows, (n, d), from their dimensions by type."""
        return self.by_position.select(torch.cat(parts, dim=1))


def _dimensions(parts: Sequence[ColumnSlice]) -> list[int]:
    return [dim for part in parts for dim in range(part.start, part.stop)]
