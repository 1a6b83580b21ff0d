"""The layout of an encoded row: which dimensions belong to which kind of part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.networks.layers import ColumnIndex


class PartTensors(NamedTuple):
    """The dimensions of rows by type of part, (n, dimensions of that type) each.

    Attributes:
        continuous: Normal scores and other noised values.
        categories: One-hot categories of all categorical parts, spikes included.
        standardised: Standardised values, which are not noised.
    """

    continuous: Tensor
    categories: Tensor
    standardised: Tensor


@dataclass(frozen=True)
class EncodedLayout:
    """Positions in an encoded row of d dimensions.

    Attributes:
        width: d.
        continuous: Dimensions of continuous parts.
        categories: Dimensions of categorical parts.
        standardised: Dimensions of standardised values.
        by_type: All dimensions: continuous, then categories, then standardised.
        by_position: The inverse of `by_type`.
        category_widths: Number of categories of each categorical part.
        part_of_category: Number of the categorical part of each of `categories`.
        column_of: Number of the column of each dimension, (d,).
        first_of: First dimension of each column.
        last_of: Last dimension of each column.
        group_categories: Dimensions of the group level of hierarchical categories, which another part follows.
        inputs: Dimensions that are inputs of the network. A normal score with a standardised value beside it is not.
        input_categories: Positions of `categories` within `inputs`.
        numeric_inputs: Inputs that are not categories.
    """

    width: int
    continuous: ColumnIndex
    categories: ColumnIndex
    standardised: ColumnIndex
    by_type: ColumnIndex
    by_position: ColumnIndex
    category_widths: list[int]
    part_of_category: ColumnIndex
    column_of: ColumnIndex
    first_of: ColumnIndex
    last_of: ColumnIndex
    group_categories: ColumnIndex
    inputs: ColumnIndex
    input_categories: ColumnIndex
    numeric_inputs: ColumnIndex

    @classmethod
    def from_slices(cls, slices: Sequence[ColumnSlice]) -> EncodedLayout:
        """Return the layout of rows whose parts are at these positions."""
        width = slices[-1].stop
        categorical = [part for part in slices if part.is_categorical]
        groups = [part for part, following in pairwise(categorical) if part.column == following.column]
        continuous, standardised = (
            _dimensions([part for part in slices if part.type is kind])
            for kind in (PartType.CONTINUOUS, PartType.REGRESSION)
        )
        categories = _dimensions(categorical)
        column_of = [part.column for part in slices for _ in range(part.start, part.stop)]
        first_of = [column_of.index(column) for column in range(slices[-1].column + 1)]
        has_standardised = {column_of[dim] for dim in standardised}
        redundant = {dim for dim in continuous if column_of[dim] in has_standardised}
        inputs = [dim for dim in range(width) if dim not in redundant]
        by_type = [*continuous, *categories, *standardised]
        widths = [part.stop - part.start for part in categorical]
        return cls(
            width=width,
            continuous=ColumnIndex(continuous),
            categories=ColumnIndex(categories),
            standardised=ColumnIndex(standardised),
            by_type=ColumnIndex(by_type),
            by_position=ColumnIndex(sorted(range(width), key=by_type.__getitem__)),
            category_widths=widths,
            part_of_category=ColumnIndex([part for part, width in enumerate(widths) for _ in range(width)]),
            column_of=ColumnIndex(column_of),
            first_of=ColumnIndex(first_of),
            last_of=ColumnIndex([*(first - 1 for first in first_of[1:]), width - 1]),
            group_categories=ColumnIndex(_dimensions(groups)),
            inputs=ColumnIndex(inputs),
            input_categories=ColumnIndex(np.searchsorted(inputs, categories).tolist()),
            numeric_inputs=ColumnIndex(sorted({*continuous, *standardised} - redundant)),
        )

    def split(self, x: Tensor) -> PartTensors:
        """Split rows, (n, d), by type of part."""
        sizes = [len(self.continuous), len(self.categories), len(self.standardised)]
        return PartTensors(*self.by_type.select(x).split_with_sizes(sizes, dim=1))

    def join(self, parts: PartTensors) -> Tensor:
        """Return rows, (n, d), from their dimensions by type."""
        return self.by_position.select(torch.cat(parts, dim=1))


def _dimensions(parts: Sequence[ColumnSlice]) -> list[int]:
    return [dim for part in parts for dim in range(part.start, part.stop)]
