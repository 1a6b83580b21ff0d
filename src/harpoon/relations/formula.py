"""Relations in the units of the table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harpoon.data import MAX_EXACT_INTEGER, NO_INDEX, Columns, Mask, n_rows, scatter, take
from harpoon.data.date_parts import DAY, TIME_UNITS
from harpoon.encoding import RowCodec

LENGTHS = {7 * DAY: "weeks", **{size: f"{unit}s" for unit, size in TIME_UNITS.items()}}  # by their nanoseconds
MAX_SUM_ERROR, MAX_SINGLE_ERROR = 1e-12, 3e-6  # relative rounding errors in double and in single precision
HALF_STEP = 0.501  # steps: by at most so much rounding to the resolution of a column changes a value


class Formula(NamedTuple):
    """A relation in the table's units: a linear combination and a constant, or a product of powers and a factor.

    Columns are given by their positions in `RowCodec.quantities`.
    """

    target: int  # the column whose value it gives
    sources: tuple[int, ...]  # the columns that it is computed from
    weights: tuple[float, ...]  # the coefficient (sum) or the power (product) of each source
    factor: float | None  # of a product; None: a sum
    constant: float = 0.0  # added to a sum
    counted: str = ""  # the unit of time that a number counts, such as "days"
    tick: int = 0  # nanoseconds of one unit of the result, if it is a time
    is_rounded: bool = False  # whether a sum is rounded to the resolution of its target

    @property
    def columns(self) -> tuple[int, ...]:
        """The target and the sources."""
        return (self.target, *self.sources)

    @property
    def is_exact(self) -> bool:
        """Whether it can be computed in double precision: factors of products are fitted in single precision."""
        return self.factor is None or self.factor == 1

    @property
    def priority(self) -> int:
        """When a number follows from its formula, the lowest first: 0 sums, 1 products, 2 products with a quotient.

        Products use what sums give; a quotient has to be rounded most, and nothing should follow from that.
        """
        return 0 if self.factor is None else 1 + (min(self.weights) < 0)

    def evaluate(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Compute the formula from the values of all quantities."""
        if self.factor is None:
            return self._evaluate_sum([values[source] for source in self.sources])
        terms = [(values[source], weight) for source, weight in zip(self.sources, self.weights, strict=True)]
        with np.errstate(all="ignore"):  # a source may have been rounded to zero: the caller checks for finite values
            powers = [np.power(value.astype(np.float64), float(power)) for value, power in terms]
            product: NDArray[Any] = self.factor * np.prod(powers, axis=0)
            return product

    def applies(self, values: Sequence[NDArray[Any]]) -> Mask:
        """Return in which rows the formula may be used, (n,): a product needs positive values."""
        if self.factor is None:
            return np.ones(len(values[self.sources[0]]), dtype=np.bool_)
        return np.asarray(np.all([values[source] > 0 for source in self.sources], axis=0), dtype=np.bool_)

    def rounding_effect(self, values: Sequence[NDArray[Any]], steps: Sequence[float], own_step: float) -> NDArray[Any]:
        """Return by how much the result changes at most if each source changes by half a step, to first order, (n,).

        Sources of a sum are multiples of its own step as a rule. Only those with a larger step count.
        """
        if self.factor is None:
            coarse = [
                abs(weight) * step / 2 for weight, step in zip(self.weights, steps, strict=True) if step > own_step
            ]
            return np.full(len(values[self.sources[0]]), sum(coarse))
        with np.errstate(all="ignore"):
            relative = [
                abs(power) * step / (2 * np.abs(values[source].astype(np.float64)))
                for source, power, step in zip(self.sources, self.weights, steps, strict=True)
            ]
            effect = np.abs(self.evaluate(values)) * np.sum(relative, axis=0)
        finite: NDArray[Any] = np.where(np.isfinite(effect), effect, 0.0)
        return finite

    def _evaluate_sum(self, terms: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Add the sources. Integers stay integers, and equal coefficients come last: differences of times are exact."""
        common = abs(self.weights[0])
        common = common if all(abs(weight) == common for weight in self.weights) else 1.0
        with np.errstate(all="ignore"):
            total: NDArray[Any] = sum(
                (_as_integer(weight / common) * term for term, weight in zip(terms, self.weights, strict=True)),
                start=np.zeros((), dtype=np.int64),
            )
            total = total if common == 1 else total * _as_integer(common)
            return total + _as_integer(self.constant) if self.constant else total

    def describe(self, names: Sequence[str]) -> str:
        """Return the formula as a user would write it.

        >>> Formula(2, (0, 1), (-1.0, 1.0), None).describe(["shipping", "total"])
        'total - shipping'
        >>> Formula(1, (0,), (1.8,), None, 32.0).describe(["celsius"])
        '1.8 * celsius + 32'
        """
        terms = [
            (quote_column(names[source]), weight) for source, weight in zip(self.sources, self.weights, strict=True)
        ]
        if self.factor is None:
            terms.sort(key=lambda term: -math.copysign(1, term[1]))  # positive ones first
            parts = [(weight, self._describe_term(name, abs(weight))) for name, weight in terms]
            parts += [(self.constant, self._describe_constant())] if self.constant else []
            text = "".join(f" {'+' if sign > 0 else '-'} {part}" for sign, part in parts)
            text = text.removeprefix(" + ") if text.startswith(" + ") else f"-{text.removeprefix(' - ')}"
            return f"{text} in {self.counted}" if self.counted else text
        powers = [name if power == 1 else f"{name}^{power:g}" for name, power in terms]
        return " * ".join(powers if self.factor == 1 else [f"{self.factor:.6g}", *powers])

    def _describe_term(self, name: str, coefficient: float) -> str:
        return name if coefficient == 1 or self.counted else f"{coefficient:.6g} * {name}"

    def _describe_constant(self) -> str:
        """Return the absolute value of the constant; that of times in the largest unit that divides it."""
        size = abs(self.constant)
        if not self.tick:
            return f"{size:.10g}"
        length, name = next((unit for unit in LENGTHS.items() if (size * self.tick) % unit[0] == 0), (1, "ns"))
        return f"{size * self.tick / length:.10g} {name}"


def apply_formulas(
    rows: Columns, codec: RowCodec, relation_of: NDArray[np.int64], formulas: Mapping[int, Formula]
) -> tuple[Columns, Mask]:
    """Replace each value that is a copy by the value of its formula, rounded to what its column can hold.

    Args:
        rows: Rows with other values in the cells that are copies.
        codec: The codec of the rows.
        relation_of: The index of the relation that each cell is a copy of, or `NO_INDEX`, (n, n_columns).
        formulas: The formula of each relation, by its index.

    Returns:
        The rows, and in which of them a value was outside of the range of its column and had to be clipped, (n,).
    """
    names, pending = codec.quantity_names, relation_of != NO_INDEX
    waits = np.zeros((len(pending), len(names)), dtype=np.bool_)  # of all quantities; those with few values are ready
    rows = codec.add_elapsed_times(rows)
    values, clipped = [rows[name].values for name in names], np.zeros(len(pending), dtype=np.bool_)
    while pending.any():  # the sources of a copy may be copies, which come first
        for column in np.flatnonzero(pending.any(axis=0)).tolist():
            for relation in np.unique(relation_of[pending[:, column], column]).tolist():
                formula = formulas[relation]
                is_copy = pending[:, column] & (relation_of[:, column] == relation)
                waits[:, : pending.shape[1]] = pending
                ready = is_copy & ~waits[:, formula.sources].any(axis=1)
                computed = formula.evaluate(values)
                valid = ready & np.isfinite(computed)
                rounded = codec.numeric[column].to_column_units(np.where(valid, computed, 0))
                clipped |= valid & ~is_close(computed, rounded, values, formula, codec.units[column].step)
                values[column] = np.where(valid, rounded, values[column])
                pending[:, column] &= ~ready
    new = {name: replace(rows[name], values=value) for name, value in zip(names, values, strict=True)}
    return rows | new, clipped


def solve(rows: Columns, codec: RowCodec, formulas: Iterable[Formula]) -> Columns:
    """Fill unknown cells that follow from the other cells of their row.

    A value that its column cannot hold stays unknown.
    """
    names, formulas, progress = codec.quantity_names, list(formulas), True
    columns, rows = list(rows), codec.add_elapsed_times(rows)
    while progress:  # a cell that is filled may determine others
        progress = False
        for formula in formulas:
            target, sources = formula.target, [rows[names[source]] for source in formula.sources]
            cells = rows[names[target]]
            wanted = cells.unknown & ~np.any([source.missing for source in sources], axis=0)
            if not wanted.any():
                continue
            values = [rows[name].values for name in names]
            computed = formula.evaluate(values)
            wanted &= np.isfinite(computed) & formula.applies(values)
            rounded = codec.quantities[target].to_column_units(np.where(wanted, computed, 0))
            wanted &= is_close(computed, rounded, values, formula, codec.units[target].step)
            wanted &= codec.quantities[target].can_hold(rounded)
            if wanted.any():
                filled = np.where(wanted, rounded, cells.values)
                rows[names[target]], progress = replace(cells, values=filled, missing=cells.missing & ~wanted), True
    return {name: rows[name] for name in columns}


def close_sums(rows: Columns, given: Columns, codec: RowCodec, formulas: Iterable[Formula]) -> Columns:
    """Change sampled cells of rows that contradict a sum so that it holds, where their ranges allow it.

    What a sum lacks is added to its first sampled part, as far as the range of that goes, then to the next one. Cells
    that are not unknown in `given` stay.
    """
    quantities, formulas = codec.quantities, list(formulas)
    names, changed = codec.quantity_names, codec.add_elapsed_times(rows)
    for formula in formulas:
        if formula.factor is not None or not codec.hidden_quantities.isdisjoint(formula.columns):
            continue
        wrong = violates(changed, codec, [formula])
        for index, weight in zip((*formula.sources, formula.target), (*formula.weights, -1.0), strict=True):
            values, cells = [changed[name].values for name in names], changed[names[index]]
            excess = formula.evaluate(values) - values[formula.target]
            movable = wrong & given[names[index]].unknown & np.isfinite(excess)
            moved = quantities[index].to_column_units(np.where(movable, values[index] - excess / weight, 0))
            movable &= quantities[index].can_hold(moved)
            changed[names[index]] = replace(cells, values=np.where(movable, moved, cells.values))
    changed = {name: changed[name] for name in rows}
    fixed = np.flatnonzero(~violates(changed, codec, formulas))
    return scatter(dict(rows), take(changed, fixed), fixed)


def violates(rows: Columns, codec: RowCodec, formulas: Iterable[Formula]) -> Mask:
    """Return in which rows a value differs from its formula, (n,). Rows with a missing value of it do not count."""
    rows = codec.add_elapsed_times(rows)
    quantities = [rows[name] for name in codec.quantity_names]
    values = [cells.values for cells in quantities]
    violated = np.zeros(n_rows(rows), dtype=np.bool_)
    for formula in formulas:
        known = ~np.any([quantities[index].missing for index in formula.columns], axis=0)
        computed, actual = formula.evaluate(values), values[formula.target]
        close = is_close(computed, actual, values, formula, codec.units[formula.target].step)
        violated |= known & np.isfinite(computed) & formula.applies(values) & ~close
    return violated


def is_close(
    computed: NDArray[Any], actual: NDArray[Any], values: Sequence[NDArray[Any]], formula: Formula, step: float
) -> Mask:
    """Return where a computed value equals an actual one at the resolution `step` of its column, up to rounding."""
    with np.errstate(all="ignore"):
        size = np.abs(actual.astype(np.float64))
        if formula.factor is None:
            terms = zip(formula.sources, formula.weights, strict=True)
            size = size + sum(np.abs(weight * values[source].astype(np.float64)) for source, weight in terms)
        rounding = (MAX_SUM_ERROR if step and formula.is_exact else MAX_SINGLE_ERROR) * size
        if computed.dtype.kind == actual.dtype.kind == "i":  # a sum of integers, which has no rounding errors
            rounding = np.zeros_like(rounding)
        close: Mask = np.abs(computed - actual) <= HALF_STEP * step + rounding
    return close


def _as_integer(number: float) -> float | int:
    """Return an integer where a number is one, so that integers stay exact."""
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT_INTEGER else number


def quote_column(name: str) -> str:
    """Return a name as it is, or in quotes where it could be taken for something else."""
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
