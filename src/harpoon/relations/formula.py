"""Relations in the units of the table, as text and as code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_percent
from harpoon.data.column_array import NO_INDEX, Columns
from harpoon.encoding.row_codec import RowCodec


class Formula(NamedTuple):
    """A relation in the units of the table: a sum with the signs of its sources, or a product of powers and a factor.

    Attributes:
        sources: The positions of its sources among the numeric columns with normal scores.
        weights: The sign (sum) or the power (product) of each source.
        factor: The factor of a product; None: a sum.
    """

    sources: tuple[int, ...]
    weights: tuple[float, ...]
    factor: float | None

    def evaluate(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Compute the formula from the values of all numeric columns with normal scores."""
        if self.factor is None:
            return sum((sign * value for sign, value in self._terms(values, int)), start=np.zeros((), dtype=np.int64))
        with np.errstate(all="ignore"):  # a source may have been rounded to zero: the caller checks for finite values
            powers = [np.power(value.astype(np.float64), power) for power, value in self._terms(values, float)]
            product: NDArray[Any] = self.factor * np.prod(powers, axis=0)
            return product

    def describe(self, names: Sequence[str]) -> str:
        """Return the formula as a user would write it.

        >>> Formula((0, 1), (-1.0, 1.0), None).describe(["shipping", "total"])
        'total - shipping'
        """
        terms = [(_quote(names[source]), weight) for source, weight in zip(self.sources, self.weights, strict=True)]
        if self.factor is None:
            terms.sort(key=lambda term: -term[1])  # positive ones first
            return "".join(f" {'+' if sign > 0 else '-'} {name}" for name, sign in terms).removeprefix(" + ")
        powers = [name if power == 1 else f"{name}^{power:g}" for name, power in terms]
        return " * ".join(powers if self.factor == 1 else [f"{self.factor:.6g}", *powers])

    def _terms(self, values: Sequence[NDArray[Any]], kind: type) -> Iterator[tuple[Any, NDArray[Any]]]:
        return ((kind(weight), values[source]) for source, weight in zip(self.sources, self.weights, strict=True))


def describe(target: str, formula: Formula, names: Sequence[str], fraction: float) -> str:
    """Return one line for a relation, with the fraction of the rows in which it holds."""
    return f"{_quote(target)} = {formula.describe(names)} ({format_percent(fraction)})"


def apply_formulas(
    rows: Columns, codec: RowCodec, form_of: NDArray[np.int64], formulas: Mapping[int, Formula]
) -> Columns:
    """Replace each number that is a copy by the value of its formula, in the units and resolution of its column.

    Args:
        rows: Rows with other numbers in the place of copies.
        codec: The codec of the rows.
        form_of: Index of the relation that each number is a copy of, or `NOWHERE`, (n, ranks).
        formulas: The formula of each relation.
    """
    values, open_ = [rows[number.column.name].values for number in codec.numeric], form_of != NO_INDEX
    while open_.any():  # copies of copies come after them
        for place in np.flatnonzero(open_.any(axis=0)).tolist():
            for form in np.unique(form_of[open_[:, place], place]).tolist():
                formula = formulas[form]
                ready = open_[:, place] & (form_of[:, place] == form) & ~open_[:, formula.sources].any(axis=1)
                computed = formula.evaluate(values)
                valid = ready & np.isfinite(computed)
                carried = codec.numeric[place].to_column_units(np.where(valid, computed, 0))
                values[place] = np.where(valid, carried, values[place])
                open_[:, place] &= ~ready
    names = [number.column.name for number in codec.numeric]
    return rows | {name: rows[name].with_values(value) for name, value in zip(names, values, strict=True)}


def _quote(name: str) -> str:
    """Return a name as it is, or in quotes where it could be taken for something else."""
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
