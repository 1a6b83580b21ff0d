"""Invariants: what holds in every sampled row, beside the values that each column can have.

    label invariant  which labels of two columns occur together: a city lies in one country
    sum invariant    a number that is a sum of others: total = price + postage
    product invariant  a number that is a product of others: amount = price * quantity

They come from the training table (`harpoon.relations`). A condition that contradicts them has no solution.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Mask


@dataclass(frozen=True, eq=False)
class LabelAxis:
    """The labels of a column.

    Attributes:
        column: The name of the column.
        values: The value of each label in stored units (the code of a category), (labels,); NaN: any other value. None:
            there are two labels, a value and a missing cell.
    """

    column: str
    values: NDArray[Any] | None

    @property
    def is_indicator(self) -> bool:
        """Whether its labels say whether the cell is missing."""
        return self.values is None


@dataclass(frozen=True, eq=False)
class LabelInvariant:
    """Which labels of two columns occur together.

    Attributes:
        left: The labels of one column.
        right: Those of the other.
        possible: Which of them occur together, (left labels, right labels).
        text: The invariant in words.
    """

    left: LabelAxis
    right: LabelAxis
    possible: Mask
    text: str

    @property
    def columns(self) -> set[str]:
        """The columns."""
        return {self.left.column, self.right.column}

    @property
    def directions(self) -> tuple[tuple[LabelAxis, LabelAxis, Mask], ...]:
        """Its two ways: the labels of one column, those of the other, and which occur together, (labels, others)."""
        return (self.left, self.right, self.possible), (self.right, self.left, self.possible.T)


@dataclass(frozen=True, eq=False)
class SumInvariant:
    """A number that is a sum of others: target = constant + Σ coefficient * source, up to a tolerance."""

    target: str
    coefficients: Mapping[str, float]
    constant: float
    tolerance: float
    text: str

    @property
    def columns(self) -> set[str]:
        """The columns."""
        return {self.target, *self.coefficients}


@dataclass(frozen=True, eq=False)
class ProductInvariant:
    """A number that is a product of others: target = factor * Π source, up to a tolerance."""

    target: str
    sources: tuple[str, ...]
    factor: float
    tolerance: float
    text: str

    @property
    def columns(self) -> set[str]:
        """The columns."""
        return {self.target, *self.sources}

    def evaluate(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Compute the product from the values of its sources, (n,) each."""
        found: NDArray[np.float64] = self.factor * np.prod([values[name] for name in self.sources], axis=0)
        return found


Invariant = LabelInvariant | SumInvariant | ProductInvariant


@dataclass(frozen=True)
class Invariants:
    """All invariants of a table."""

    pairs: tuple[LabelInvariant, ...] = ()
    sums: tuple[SumInvariant, ...] = ()
    products: tuple[ProductInvariant, ...] = ()

    @property
    def all(self) -> tuple[Invariant, ...]:
        """The invariants of all kinds."""
        return (*self.pairs, *self.sums, *self.products)

    def select(self, keep: Callable[[Invariant], bool]) -> Invariants:
        """Return some of the invariants."""
        pairs, sums, products = filter(keep, self.pairs), filter(keep, self.sums), filter(keep, self.products)
        return Invariants(tuple(pairs), tuple(sums), tuple(products))

    def implied_observed(self, observed: Collection[str]) -> set[str]:
        """Return the columns that have a value wherever some columns have one, with these."""
        found = set(observed)
        both = [pair for pair in self.pairs if pair.left.is_indicator and pair.right.is_indicator]
        implications = [
            *((pair.left.column, pair.right.column) for pair in both if not pair.possible[0, 1]),
            *((pair.right.column, pair.left.column) for pair in both if not pair.possible[1, 0]),
        ]
        while True:
            new = {implied for column, implied in implications if column in found} - found
            if not new:
                return found
            found |= new

    def without(self, columns: Collection[str]) -> Invariants:
        """Return the invariants that use none of some columns."""
        return self.select(lambda invariant: not invariant.columns & set(columns)) if columns else self


@dataclass(frozen=True)
class LabelDomain:
    """The labels that a column may have, (labels,), and whether its cell may be missing instead."""

    allowed: Mask
    may_be_null: bool = False


@dataclass
class LabelDomains:
    """The labels that columns may have in a row, restricted by label invariants (arc consistency; Mackworth, 1977)."""

    pairs: tuple[LabelInvariant, ...]
    domain_of: Callable[[LabelAxis], LabelDomain]
    _found: dict[tuple[str, bool], LabelDomain] = field(default_factory=dict, init=False)

    @cached_property
    def is_empty(self) -> bool:
        """Whether some column has no label left, and cannot be missing."""
        has_changed = True
        while has_changed:
            has_changed = False
            for invariant in self.pairs:
                for axis, other, possible in invariant.directions:
                    here, there = self._domain(axis), self._domain(other)
                    if there.may_be_null:  # a missing cell restricts nothing
                        continue
                    allowed = here.allowed & possible[:, there.allowed].any(axis=1)
                    if not allowed.any() and not here.may_be_null:
                        return True
                    if not np.array_equal(allowed, here.allowed):
                        self._found[axis.column, axis.is_indicator] = replace(here, allowed=allowed)
                        has_changed = True
        return False

    def _domain(self, axis: LabelAxis) -> LabelDomain:
        key = axis.column, axis.is_indicator
        if key not in self._found:
            self._found[key] = self.domain_of(axis)
        found, indicator = self._found[key], self._found.get((axis.column, True))
        if found.may_be_null and indicator is not None and not indicator.allowed[1]:
            return replace(found, may_be_null=False)
        return found
