"""Whether numbers within bounds can satisfy linear comparisons and sums: a linear program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harpoon.conditions.binding import bound
from harpoon.conditions.binding.bound import NumericTerm
from harpoon.conditions.logic.invariants import SumInvariant
from harpoon.data import MAX_EXACT_INTEGER

Bounds = tuple[float, float]
MIN_SLACK = 1e-9  # of a strict comparison, relative to the range of its terms
MIN_COEFFICIENT = 1e-8  # of a variable, relative to others: the solver takes those below 1e-9 as zero
INFEASIBLE = 2  # status of SciPy


class LinearTerm(NamedTuple):
    """A constant and a coefficient for each column."""

    coefficients: dict[str, float]
    constant: float

    def scale(self, factor: float) -> LinearTerm:
        """Return the term times a number."""
        return LinearTerm({name: factor * c for name, c in self.coefficients.items()}, factor * self.constant)

    def add(self, other: LinearTerm) -> LinearTerm:
        """Return the sum of two terms."""
        names = {**self.coefficients, **other.coefficients}
        total = {name: self.coefficients.get(name, 0.0) + other.coefficients.get(name, 0.0) for name in names}
        return LinearTerm(total, self.constant + other.constant)


class Inequality(NamedTuple):
    """A linear term that is at most 0; below 0 if it is strict."""

    term: LinearTerm
    is_strict: bool = False


def linear_term(term: NumericTerm) -> LinearTerm | None:
    """Return a numeric term as a linear one; None if it is not linear."""
    match term:
        case bound.NumberLiteral(value):
            return LinearTerm({}, float(value)) if abs(value) < MAX_EXACT_INTEGER else None
        case bound.ColumnRef(column):
            return LinearTerm({column: 1.0}, 0.0)
        case bound.Operation(operator, operands):
            parts = [linear_term(operand) for operand in operands]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            return _combine(operator, known)
    return None


def _combine(operator: str, parts: Sequence[LinearTerm]) -> LinearTerm | None:  # noqa: PLR0911
    match operator, parts:
        case "negative", (one,):
            return one.scale(-1.0)
        case "+", (one, other):
            return one.add(other)
        case "-", (one, other):
            return one.add(other.scale(-1.0))
        case "*", (one, other) if not other.coefficients:
            return one.scale(other.constant)
        case "*", (one, other) if not one.coefficients:
            return other.scale(one.constant)
        case "/", (one, other) if not other.coefficients and other.constant:
            return one.scale(1 / other.constant)
    return None


def inequalities(comparison: bound.Compare) -> Iterator[Inequality]:
    """Yield a comparison as inequalities; none if it is not linear, or `!=`."""
    left, right = linear_term(comparison.left), linear_term(comparison.right)
    if left is None or right is None or comparison.operator == "!=":
        return
    difference = left.add(right.scale(-1.0))
    for operators, one in ((("<", "<=", "="), difference), ((">", ">=", "="), difference.scale(-1.0))):
        if comparison.operator in operators:
            is_strict = comparison.operator in ("<", ">")
            step = comparison.step if is_strict and comparison.step else 0.0
            yield Inequality(LinearTerm(one.coefficients, one.constant + step), is_strict and not step)


def of_sum(invariant: SumInvariant) -> list[Inequality]:
    """Return a sum invariant as inequalities."""
    rest = LinearTerm({name: -c for name, c in invariant.coefficients.items()}, -invariant.constant)
    difference = LinearTerm({invariant.target: 1.0}, 0.0).add(rest)
    return [
        Inequality(LinearTerm(one.coefficients, one.constant - invariant.tolerance))
        for one in (difference, difference.scale(-1.0))
    ]


def is_infeasible(constraints: Iterable[Inequality], bounds: Mapping[str, Bounds]) -> bool:
    """Return whether no numbers within bounds satisfy all inequalities.

    A strict one must leave a slack of `MIN_SLACK`, which rounding errors do not reach.

    >>> difference = LinearTerm({"x": 1.0, "y": -1.0}, 0.0)
    >>> is_infeasible([Inequality(difference)], {"x": (2.0, 3.0), "y": (0.0, 1.0)})
    True
    >>> both = [Inequality(difference, is_strict=True), Inequality(difference.scale(-1.0), is_strict=True)]
    >>> is_infeasible(both, {"x": (0.0, 1.0), "y": (0.0, 1.0)}), is_infeasible(both[:1], {"x": (0.0, 1.0)})
    (True, False)
    >>> is_infeasible([Inequality(LinearTerm({"x": -1.0, "y": 1.0}, 1e12))], {})
    False
    """
    from scipy.optimize import linprog

    constraints = list(constraints)
    names = sorted(set().union(*(each.term.coefficients for each in constraints)))
    limits = {name: bounds.get(name, (-math.inf, math.inf)) for name in names}
    if not constraints or any(MAX_EXACT_INTEGER <= abs(end) < math.inf for ends in limits.values() for end in ends):
        return False
    # A coefficient far below the constant beside it would count as zero.
    largest = max([1.0, *(abs(each.term.constant) for each in constraints if math.isfinite(each.term.constant))])
    units = {name: _unit(*limits[name], largest) for name in names}
    # The last variable is the slack that all strict comparisons have; the others are in units of their range.
    rows, ends = [], []
    for term, is_strict in constraints:
        row = np.array([term.coefficients.get(name, 0.0) * units[name][1] for name in names])
        end = -term.constant - sum(c * units[name][0] for name, c in term.coefficients.items())
        size = max(float(np.abs(row).max(initial=0.0)), abs(end)) or 1.0
        if not math.isfinite(size):
            return False
        if (np.abs(row[row != 0]) < MIN_COEFFICIENT * size).any():
            continue  # it would be another constraint; without it, more numbers are allowed
        rows.append(np.append(row / size, float(is_strict)))
        ends.append(end / size)
    if not rows:
        return False
    box = [tuple((end - units[name][0]) / units[name][1] for end in limits[name]) for name in names]
    goal = np.append(np.zeros(len(names)), -1.0)
    found = linprog(goal, A_ub=np.array(rows), b_ub=np.array(ends), bounds=[*box, (0.0, 1.0)], method="highs")
    has_strict = any(each.is_strict for each in constraints)
    return bool(found.status == INFEASIBLE or (found.status == 0 and has_strict and -found.fun <= MIN_SLACK))


def _unit(low: float, high: float, largest: float) -> tuple[float, float]:
    """Return the origin and the size of the unit in which a variable is of order 1; `largest`: of the constants."""
    if math.isinf(low) or math.isinf(high):
        return 0.0, max([largest, *(abs(end) for end in (low, high) if math.isfinite(end))])
    return low, (high - low) or 1.0
