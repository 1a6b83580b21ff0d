"""Codecs of categorical columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data import Column, ColumnArray, ColumnCounts, Floats, Kind, Mask, Storage
from harpoon.encoding.codec import ColumnCodec, Part, PartType
from harpoon.exceptions import CategoriesGroupedWarning

MAX_ONE_HOT_CATEGORIES = 256  # columns with more are encoded hierarchically
N_FREQUENT_CATEGORIES = 64  # categories that are encoded one by one in a hierarchical column
MIN_PROBABILITY = 1e-100  # a product of two is still a normal float
MIN_TOTAL = 1e-12  # total probability below which probabilities are not normalised


@dataclass(frozen=True)
class CategoricalCodec(ColumnCodec):
    """Base of the codecs of categorical and boolean columns."""

    column: Column

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind is discrete."""
        return kind.discrete

    @property
    def categories(self) -> tuple[Any, ...]:
        """The categories of the column."""
        return self.column.categories or ()

    @property
    def label_values(self) -> dict[str, NDArray[Any] | None]:
        """The codes of the categories."""
        return {self.column.name: np.arange(len(self.categories), dtype=np.float64)}

    def to_cells(self, codes: NDArray[np.int64]) -> ColumnArray:
        """Return the cells of some codes, indices of categories, (n,)."""
        missing, column = np.zeros(len(codes), dtype=np.bool_), self.column
        storage: Storage = "boolean" if column.kind is Kind.BOOLEAN else "category"
        return ColumnArray(storage, codes, missing, self.categories, column.ordered)


class OneHotCodec(CategoricalCodec):
    """A one-hot vector: one feature per category."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """One part, as wide as there are categories."""
        return (Part(len(self.categories), PartType.CATEGORICAL),)

    def encode(self, cells: ColumnArray) -> Floats:
        """Return one-hot vectors, (n, categories)."""
        return one_hot(cells.values, cells.missing, len(self.categories))

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """Return the category with the largest feature."""
        return self.to_cells(x.argmax(axis=1))

    def expectation(self, x: Floats) -> Floats:
        """Return the features, which are probabilities."""
        return x

    def soft_probabilities(self, x: Tensor) -> Tensor:
        """Return the normalised features."""
        return normalize(x)

    def category_coordinates(self, x: Tensor, name: str) -> Tensor:  # noqa: ARG002
        """Return the features as they are, so that the distance does not vanish between corners."""
        return x


@dataclass(frozen=True)
class HierarchicalCodec(CategoricalCodec):
    """Two one-hot vectors for a column with many categories.

    The first has the frequent categories and groups of rare ones. The second has the member of the group; its first
    feature is "no member", for frequent categories. The width is about twice the square root of the number of
    categories, and every category can be observed, sampled and imputed. Groups are runs of neighbouring categories,
    because codes of postal areas, products and diseases that begin alike are often similar.
    """

    frequent: tuple[int, ...]  # the codes of the frequent categories, ascending

    def __post_init__(self) -> None:
        codes, count = self.frequent, len(self.categories)
        are_codes = all(type(code) is int and 0 <= code < count for code in codes)
        if not are_codes or sorted(set(codes)) != list(codes) or not 0 < len(codes) < count:
            raise ValueError(f"column {self.column.name!r} needs frequent categories: some of its own, in order")

    @classmethod
    def fit(cls, column: Column, counts: ColumnCounts) -> HierarchicalCodec:
        """Find the frequent categories."""
        by_code = np.zeros(len(column.categories or ()))
        by_code[counts.values.values] = counts.mass
        return cls(column, tuple(sorted(np.argsort(-by_code, kind="stable")[:N_FREQUENT_CATEGORIES].tolist())))

    @property
    def fit_warning(self) -> CategoriesGroupedWarning:
        """The user should know that rare categories share a group."""
        return CategoriesGroupedWarning(
            f"Column {self.column.name!r} has {len(self.categories):,} categories: the {len(self.frequent)} most "
            f"frequent are learnt one by one, the others in {self.n_groups} groups."
        )

    @cached_property
    def rare(self) -> NDArray[np.int64]:
        """The codes of the other categories, ascending."""
        return np.setdiff1d(np.arange(len(self.categories)), self.frequent)

    @property
    def group_size(self) -> int:
        """The number of categories in a group; the last may have fewer."""
        return math.isqrt(len(self.rare) - 1) + 1

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return -(-len(self.rare) // self.group_size)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Frequent categories and groups, then "no member" and the members."""
        n_first, n_second = len(self.frequent) + self.n_groups, 1 + self.group_size
        return Part(n_first, PartType.CATEGORICAL), Part(n_second, PartType.CATEGORICAL)

    @cached_property
    def _features(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The feature of each category in the first vector, and in the second."""
        first = np.zeros(len(self.categories), dtype=np.int64)
        member = first.copy()
        first[list(self.frequent)] = np.arange(len(self.frequent))
        position = np.arange(len(self.rare))
        first[self.rare] = len(self.frequent) + position // self.group_size
        member[self.rare] = 1 + position % self.group_size
        return first, member

    @property
    def label_features(self) -> list[NDArray[np.int64]]:
        """The two features of each category, (categories, 2)."""
        first, member = self._features
        return [np.stack([first, self.parts[0].width + member], axis=1)]

    def encode(self, cells: ColumnArray) -> Floats:
        """Return both one-hot vectors, concatenated."""
        pairs = zip(self._features, self.parts, strict=True)
        return np.hstack([one_hot(index[cells.values], cells.missing, part.width) for index, part in pairs])

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """Return the most probable category: a frequent one, or the best member of a group."""
        scores, members = self._split(x)
        best = np.repeat(members.argmax(axis=1, keepdims=True), self.n_groups, axis=1)
        last_group_size = len(self.rare) - (self.n_groups - 1) * self.group_size
        best[:, -1] = members[:, :last_group_size].argmax(axis=1)
        scores[:, len(self.frequent) :] *= np.take_along_axis(members, best, axis=1)
        chosen = scores.argmax(axis=1)
        group = np.maximum(chosen - len(self.frequent), 0)
        rare_index = group * self.group_size + best[np.arange(len(x)), group]
        frequent = np.array(self.frequent)[np.minimum(chosen, len(self.frequent) - 1)]
        return self.to_cells(np.where(chosen < len(self.frequent), frequent, self.rare[rare_index]))

    def expectation(self, x: Floats) -> Floats:
        """Return probabilities: of a rare category, that of its group times that of the member."""
        first, members = self._split(x)
        p = np.empty((len(x), len(self.categories)))
        p[:, list(self.frequent)] = first[:, : len(self.frequent)]
        products = first[:, len(self.frequent) :, None] * members[:, None, :]
        p[:, self.rare] = products.reshape(len(x), -1)[:, : len(self.rare)]
        total: Floats = p.sum(axis=1, keepdims=True)
        return p / total

    def soft_probabilities(self, x: Tensor) -> Tensor:
        """Return `expectation`, differentiably."""
        first, second = (normalize(part) for part in torch.tensor_split(x, (self.parts[0].width,), dim=1))
        members = normalize(second[:, 1:])
        p = x.new_zeros(len(x), len(self.categories))
        p[:, list(self.frequent)] = first[:, : len(self.frequent)]
        products = (first[:, len(self.frequent) :, None] * members[:, None, :]).flatten(1)
        p[:, self.rare.tolist()] = products[:, : len(self.rare)]
        return normalize(p)

    def _split(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the first vector and the probabilities of members, given that there is one."""
        first, members = np.split(x, [self.parts[0].width], axis=1)
        first, members = np.maximum(first, MIN_PROBABILITY), np.maximum(members[:, 1:], MIN_PROBABILITY)
        return first, members / members.sum(axis=1, keepdims=True)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {**super().to_json(), "frequent": list(self.frequent)}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        return cls(columns[0], tuple(data["frequent"]))


def one_hot(index: NDArray[Any], missing: Mask, width: int) -> Floats:
    """Return one-hot vectors, (n, width), that are all zeros where a cell is missing."""
    x = np.zeros((len(index), width))
    observed = np.flatnonzero(~missing)
    x[observed, index[observed]] = 1.0
    return x


def normalize(x: Tensor) -> Tensor:
    """Return features as probabilities, (n, k): negative ones are 0, and the sum of a row is 1."""
    x = x.clamp(min=0)
    return x / x.sum(dim=1, keepdim=True).clamp(min=MIN_TOTAL)
