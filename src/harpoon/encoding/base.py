"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.statistics import Floats


class PartType(StrEnum):
    """What the numbers of a part are: a point on the line, one of a simplex (a category), or a mean.

    A mean is not noised: the network says what it expects there, in the units that errors are measured in, and reads it
    where it is known.
    """

    CONTINUOUS = "line"
    CATEGORICAL = "simplex"
    REGRESSION = "mean"


@dataclass(frozen=True)
class Part:
    """Some numbers of an encoded cell."""

    width: int
    type: PartType


CONTINUOUS_PART = (Part(1, PartType.CONTINUOUS),)


class ColumnCodec(Protocol):
    """Encodes the cells of one column into a few numbers per row."""

    @property
    def column(self) -> Column:
        """The column it encodes."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What a cell's numbers are."""

    def encode(self, cells: ColumnArray) -> Floats:
        """Cells to (rows, width); a missing cell is all zeros."""

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """(rows, width) to cells, none missing. `expected`: x is a mean over rows, not a row."""

    def expectation(self, x: Floats) -> Floats:
        """What a mean over rows says: a number in the table's units, or the probability of each label."""


@dataclass(frozen=True)
class ColumnSlice:
    """Where a part of a column stands in the encoded row."""

    name: str
    column: int
    start: int
    stop: int
    type: PartType

    @property
    def is_categorical(self) -> bool:
        """Whether its numbers are those of a category."""
        return self.type is PartType.CATEGORICAL
