"""Relations in the units of the table, as text and as code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_percent
from harpoon.data import NO_INDEX, Columns
from harpoon.encoding import RowCodec


class Formula(NamedTuple):
    """A relation in the table's units: a sum with the signs of its sources, or a product of powers and a factor."""

    sources: tuple[int, ...]  # positions among the numeric columns with normal scores
    weights: tuple[float, ...]  # the sign (sum) or the power (product) of each source
    factor: float | None  # of a product; None: a sum

    def evaluate(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Compute the formula from the values of all numeric columns with normal scores."""
        terms = [(values[source], weight) for source, weight in zip(self.sources, self.weights, strict=True)]
        if self.factor is None:
            return sum((int(sign) * value for value, sign in terms), start=np.zeros((), dtype=np.int64))
        with np.errstate(all="ignore"):  # a source may have been rounded to zero: the caller checks for finite values
            powers = [np.power(value.astype(np.float64), float(power)) for value, power in terms]
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


def describe(target: str, formula: Formula, names: Sequence[str], fraction: float) -> str:
    """Return one line for a relation, with the fraction of the rows in which it holds."""
    return f"{_quote(target)} = {formula.describe(names)} ({format_percent(fraction)})"


def describe_dependency(source: str, target: str) -> str:
    """Return one line for a column whose labels determine those of another; exceptions are not allowed.

    >>> describe_dependency("education", "education-num")
    '"education-num" is determined by education (100 %)'
    """
    return f"{_quote(target)} is determined by {_quote(source)} ({format_percent(1.0)})"


def apply_formulas(
    rows: Columns, codec: RowCodec, relation_of: NDArray[np.int64], formulas: Mapping[int, Formula]
) -> Columns:
    """Replace each value that is a copy by the value of its formula, rounded to what its column can hold.

    Args:
        rows: Rows with other values in the cells that are copies.
        codec: The codec of the rows.
        relation_of: The index of the relation that each cell is a copy of, or `NO_INDEX`, (n, n_columns).
        formulas: The formula of each relation, by its index.
    """
    names, pending = [each.column.name for each in codec.numeric], relation_of != NO_INDEX
    values = [rows[name].values for name in names]
    while pending.any():  # the sources of a copy may be copies, which come first
        for column in np.flatnonzero(pending.any(axis=0)).tolist():
            for relation in np.unique(relation_of[pending[:, column], column]).tolist():
                formula = formulas[relation]
                is_copy = pending[:, column] & (relation_of[:, column] == relation)
                ready = is_copy & ~pending[:, formula.sources].any(axis=1)
                computed = formula.evaluate(values)
                valid = ready & np.isfinite(computed)
                rounded = codec.numeric[column].to_column_units(np.where(valid, computed, 0))
                values[column] = np.where(valid, rounded, values[column])
                pending[:, column] &= ~ready
    return rows | {name: replace(rows[name], values=value) for name, value in zip(names, values, strict=True)}


def _quote(name: str) -> str:
    """Return a name as it is, or in quotes where it could be taken for something else."""
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
