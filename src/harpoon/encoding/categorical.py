"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Storage
from harpoon.data.statistics import ColumnCounts, Floats
from harpoon.encoding.base import CONTINUOUS_PART, Part, PartType
from harpoon.encoding.scalers import SCALERS, QuantileScaler, StandardScaler

MAX_ONE_HOT_CATEGORIES, N_FREQUENT_CATEGORIES = 256, 64


MIN_PROBABILITY = 1e-100  # the lowest probability: a product of two is still a number


@dataclass(frozen=True)
class OneHotCodec:
    """A categorical column as one number per label, 1 for the cell's label and 0 for the others."""

    column: Column

    @property
    def parts(self) -> tuple[Part, ...]:
        """As many numbers as labels."""
        return (Part(len(categories_of(self.column)), PartType.CATEGORICAL),)

    def encode(self, cells: ColumnArray) -> Floats:
        """Corners of the simplex."""
        return one_hot(cells.values, cells.missing, len(categories_of(self.column)))

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """The label with the largest number."""
        return category_array(self.column, x.argmax(axis=1))

    def expectation(self, x: Floats) -> Floats:
        """The probabilities as they are."""
        return x


@dataclass(frozen=True)
class HierarchicalCodec:
    """A categorical column with very many labels: the frequent ones as they are, the others as members of groups.

    A label is a corner of one simplex, frequent labels and groups, and a rare one a corner of a second too, its place
    in its group. That takes about twice the square root of the number of labels instead of the number itself, and every
    label can still be told apart, known, drawn and filled in. Groups are runs of neighbouring labels, because the codes
    of postal areas, products and diseases that begin alike are often alike.
    """

    column: Column
    frequent: tuple[int, ...]

    def __post_init__(self) -> None:
        places, labels = self.frequent, len(categories_of(self.column))
        if not places or not all(type(place) is int and 0 <= place < labels for place in places):
            raise ValueError(f"column {self.column.name!r} has frequent labels that it does not have, or none")
        if sorted(set(places)) != list(places) or len(places) == labels:
            raise ValueError(f"column {self.column.name!r} needs its frequent labels in order, and rare ones beside")

    @classmethod
    def fit(cls, column: Column, tally: ColumnCounts) -> HierarchicalCodec:
        """Find the frequent labels."""
        counts = np.zeros(len(categories_of(column)), dtype=np.int64)
        counts[tally.values.values] = tally.counts
        return cls(column, tuple(sorted(np.argsort(-counts, kind="stable")[:N_FREQUENT_CATEGORIES].tolist())))

    @cached_property
    def rare(self) -> NDArray[np.int64]:
        """The places of the other labels, in their order."""
        return np.setdiff1d(np.arange(len(categories_of(self.column))), self.frequent)

    @property
    def group_size(self) -> int:
        """How many labels a group has; the last may have fewer."""
        return max(1, math.isqrt(max(len(self.rare) - 1, 0)) + 1)

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return -(-len(self.rare) // self.group_size)

    @property
    def last_group_size(self) -> int:
        """How many labels the last group has."""
        return len(self.rare) - (self.n_groups - 1) * self.group_size

    @property
    def parts(self) -> tuple[Part, ...]:
        """Frequent labels and groups, then no member or one of them."""
        return Part(len(self.frequent) + self.n_groups, PartType.CATEGORICAL), Part(
            1 + self.group_size, PartType.CATEGORICAL
        )

    def encode(self, cells: ColumnArray) -> Floats:
        """A corner of each simplex."""
        first = np.zeros(len(categories_of(self.column)), dtype=np.int64)
        member = first.copy()
        first[list(self.frequent)] = np.arange(len(self.frequent))
        places = np.arange(len(self.rare))
        first[self.rare], member[self.rare] = (
            len(self.frequent) + places // self.group_size,
            1 + places % self.group_size,
        )
        which, corners = cells.values, (part.width for part in self.parts)
        pairs = zip((first[which], member[which]), corners, strict=True)
        return np.hstack([one_hot(corner, cells.missing, width) for corner, width in pairs])

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """The most probable label: a frequent one, or the best member of a group."""
        scores, members = self._split(x)
        best = np.repeat(members.argmax(axis=1, keepdims=True), self.n_groups, axis=1)
        best[:, -1] = members[:, : self.last_group_size].argmax(axis=1)
        scores[:, len(self.frequent) :] *= np.take_along_axis(members, best, axis=1)
        chosen = scores.argmax(axis=1)
        group = np.maximum(chosen - len(self.frequent), 0)
        inside = group * self.group_size + best[np.arange(len(x)), group]
        alone = np.array(self.frequent)[np.minimum(chosen, len(self.frequent) - 1)]
        return category_array(self.column, np.where(chosen < len(self.frequent), alone, self.rare[inside]))

    def expectation(self, x: Floats) -> Floats:
        """The probability of each label: of a rare one, that of its group times its share in it."""
        first, members = self._split(x)
        p = np.empty((len(x), len(categories_of(self.column))))
        p[:, list(self.frequent)] = first[:, : len(self.frequent)]
        pairs = first[:, len(self.frequent) :, None] * members[:, None, :]
        p[:, self.rare] = pairs.reshape(len(x), -1)[:, : len(self.rare)]
        total: Floats = p.sum(axis=1, keepdims=True)
        return p / total

    def _split(self, x: Floats) -> tuple[Floats, Floats]:
        """Frequent labels and groups, and the share of each member among the members."""
        first, members = np.split(x, [self.parts[0].width], axis=1)
        first, members = np.maximum(first, MIN_PROBABILITY), np.maximum(members[:, 1:], MIN_PROBABILITY)
        return first, members / members.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class OrdinalCodec:
    """A categorical column as the scaled position of its label (the paper's encoding ablation)."""

    column: Column
    scaler: StandardScaler | QuantileScaler
    parts: ClassVar[tuple[Part, ...]] = CONTINUOUS_PART

    @classmethod
    def fit(cls, column: Column, tally: ColumnCounts, scaling: str) -> OrdinalCodec:
        """Learn the scale from the observed positions."""
        return cls(column, SCALERS[scaling].fit(tally.weighted(tally.values.values.astype(np.float64))))

    def encode(self, cells: ColumnArray) -> Floats:
        """Scaled positions."""
        x = self.scaler.transform(cells.values.astype(np.float64))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """The label at the nearest position."""
        codes = np.clip(np.rint(self.scaler.inverse(x[:, 0])), 0, len(categories_of(self.column)) - 1)
        return category_array(self.column, codes.astype(np.int64))

    def expectation(self, x: Floats) -> Floats:
        """All on the label at the nearest position: this encoding knows no probabilities."""
        return one_hot(self.decode(x).values, np.zeros(len(x), dtype=np.bool_), len(categories_of(self.column)))


def one_hot(which: NDArray[Any], missing: NDArray[np.bool_], corners: int) -> Floats:
    """Corners of a simplex: 1 in the place of each row, and nothing where it is missing."""
    x = np.zeros((len(which), corners))
    seen = np.flatnonzero(~missing)
    x[seen, which[seen]] = 1.0
    return x


def categories_of(column: Column) -> tuple[Any, ...]:
    return column.categories or ()


def category_array(column: Column, codes: NDArray[np.int64]) -> ColumnArray:
    storage: Storage = "boolean" if column.kind is Kind.BOOLEAN else "category"
    return ColumnArray(storage, codes, np.zeros(len(codes), dtype=np.bool_), categories_of(column), column.ordered)
