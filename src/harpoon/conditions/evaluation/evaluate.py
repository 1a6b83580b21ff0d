"""Exact evaluation of a bound condition in NumPy.

Integers stay integers, so that large ones are not rounded. Where a result could exceed int64, they become Python
integers, so that the outcome for a row does not depend on the other rows. Everything else is float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions.binding import bound
from harpoon.conditions.binding.bound import BoundPredicate, NumericTerm
from harpoon.conditions.language.expressions import COMPARISONS
from harpoon.data import ColumnArray, Columns, Floats, Mask
from harpoon.data.date_parts import MAX_TICKS, date_part, to_local

NumericValues = Any  # an array, (n,), or a Python number that is the same in every row

MAX_INT64 = 2**63 - 1
MAX_FLOAT_INTEGER = 10**308  # larger Python integers do not convert to float64
MAX_EXPONENT = 700.0  # exp of 710 overflows in double precision
OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "negative": np.negative,
    "abs": np.abs,
    "log": np.log10,
    "ln": np.log,
    "exp": lambda x: np.exp(np.minimum(x, MAX_EXPONENT)),  # a large result instead of an infinite one
}
# Bounds of |result| from bounds of |operands|. An operation that is not here gives float64.
MAGNITUDE_BOUNDS: dict[str, Callable[[list[int]], int]] = {
    **dict.fromkeys(("+", "-"), sum),
    "*": math.prod,
    **dict.fromkeys(("negative", "abs", "least", "greatest"), max),
}


def evaluate(predicate: BoundPredicate, rows: Columns, *, partial: bool = False) -> Mask:
    """Return which rows satisfy a condition, (n,).

    Of `partial` rows, cells that are missing and not null may be filled: they neither are null nor have a value.

    >>> from harpoon.conditions.binding.bound import ColumnRef, Compare, NumberLiteral
    >>> from harpoon.data import ColumnArray
    >>> ages = ColumnArray("integer", np.array([31, 60, 0]), np.array([False, False, True]))
    >>> evaluate(Compare(">=", ColumnRef("age"), NumberLiteral(50)), {"age": ages}).tolist()
    [False, True, False]
    """
    n_rows = len(next(iter(rows.values()), ()))
    return np.array(np.broadcast_to(_evaluate_predicate(predicate, rows, partial=partial), n_rows), dtype=np.bool_)


def _evaluate_predicate(predicate: BoundPredicate, rows: Columns, *, partial: bool) -> Any:  # noqa: ANN401, PLR0911
    match predicate:
        case bound.Constant(truth):
            return truth
        case bound.AllOf(parts):
            return reduce(np.logical_and, (_evaluate_predicate(part, rows, partial=partial) for part in parts))
        case bound.AnyOf(parts):
            return reduce(np.logical_or, (_evaluate_predicate(part, rows, partial=partial) for part in parts))
        case bound.IsMissing(column, missing):
            return rows[column].is_null if partial and missing else rows[column].missing == missing
        case bound.IsIn(column, allowed, n_categories, accepts):
            cells = rows[column]
            unseen = (code for code, category in enumerate(cells.unseen, n_categories) if accepts(category))
            return np.isin(cells.values, [*allowed, *unseen]) & ~cells.missing
        case bound.SameCategory(left, right, partners, same):
            partner = np.array(_partners(rows[left], rows[right]) or partners, dtype=np.int64)[rows[left].values]
            return ((partner == rows[right].values) == same) & ~rows[left].missing & ~rows[right].missing
        case bound.Compare(operator, first, second):
            (a, a_missing), (b, b_missing) = (_evaluate_term(term, rows, partial=partial) for term in (first, second))
            if not (_is_integer(a) and _is_integer(b)):
                a, b = _to_float(a), _to_float(b)
            return COMPARISONS[operator](a, b) & ~np.logical_or(a_missing, b_missing)


def evaluate_term(term: NumericTerm, rows: Columns, *, partial: bool) -> Floats:
    """Return the values of a term as floats, (n,); NaN where it is missing or not finite.

    Of `partial` rows, missing cells may be filled, so that the least of them and others is missing, too.
    """
    values, missing = _evaluate_term(term, rows, partial=partial)
    n_rows = len(next(iter(rows.values()), ()))
    return np.where(missing, np.nan, np.broadcast_to(_to_float(values), n_rows))


def _partners(left: ColumnArray, right: ColumnArray) -> list[int]:
    """Return `SameCategory.partners` of columns with unknown categories; nothing if there are none."""
    if not left.unseen and not right.unseen:
        return []
    code_of = {category: code for code, category in enumerate(right.categories + right.unseen)}
    return [code_of.get(category, -1) for category in left.categories + left.unseen]


def _evaluate_term(term: NumericTerm, rows: Columns, *, partial: bool) -> tuple[NumericValues, Any]:
    """Return the values of a term, and where they are missing or not finite.

    `partial`: missing cells are unknown, so that the least of them and others is not known either.
    """
    match term:
        case bound.NumberLiteral(value):
            return value, False
        case bound.ColumnRef(column):
            return rows[column].values, rows[column].missing
        case bound.Operation(operator, operands):
            operand_values, missing = zip(
                *(_evaluate_term(operand, rows, partial=partial) for operand in operands), strict=True
            )
            values = _promote(operator, operand_values)
            if operator in ("least", "greatest"):
                best, none = _extreme(operator, values, missing)
                return best, reduce(np.logical_or, missing) if partial else none
            with np.errstate(all="ignore"):
                result = OPERATIONS[operator](*values)
            not_finite = False if _is_integer(result) else ~np.isfinite(result)
            return result, reduce(np.logical_or, [*missing, not_finite])
        case bound.DatePart(part, operand, tick, zone):
            times, missing = _evaluate_term(operand, rows, partial=partial)
            return date_part(part, to_local(_to_ticks(times), tick, zone), tick), missing


def _extreme(operator: str, values: Sequence[Any], missing: Sequence[Any]) -> tuple[NumericValues, Any]:
    """Return the least or greatest of the values that are not missing."""
    better = COMPARISONS["<" if operator == "least" else ">"]
    best, none = values[0], missing[0]
    for value, is_missing in zip(values[1:], missing[1:], strict=True):
        best = np.where(none | (~np.asarray(is_missing) & better(value, best)), value, best)
        none = np.logical_and(none, is_missing)
    return best, none


def _promote(operator: str, values: Sequence[NumericValues]) -> list[Any]:
    """Convert operands to integers wide enough for the result, or to float64."""
    if operator not in MAGNITUDE_BOUNDS or not all(map(_is_integer, values)):
        return [_to_float(value) for value in values]
    bounds = [_max_abs(value) for value in values]
    dtype: Any = np.int64 if max(MAGNITUDE_BOUNDS[operator](bounds), *bounds) <= MAX_INT64 else object
    return [np.asarray(value, dtype=dtype) for value in values]


def _to_ticks(times: NumericValues) -> NDArray[np.int64]:
    """Return times as integers; those that are not finite or too large are clipped."""
    floats = np.nan_to_num(_to_float(times))
    if not _is_integer(times) or np.abs(floats).max(initial=0.0) > MAX_TICKS:
        return np.asarray(np.floor(np.clip(floats, -MAX_TICKS, MAX_TICKS)), dtype=np.int64)
    return np.asarray(times, dtype=np.int64)


def _is_integer(values: NumericValues) -> bool:
    return isinstance(values, int) or (isinstance(values, np.ndarray | np.generic) and values.dtype.kind in "iO")


def _max_abs(values: NumericValues) -> int:
    return max(abs(int(np.min(values))), abs(int(np.max(values)))) if np.size(values) else 0


def _to_float(values: NumericValues) -> Any:  # noqa: ANN401
    if np.asarray(values).dtype == object:
        values = np.clip(values, -MAX_FLOAT_INTEGER, MAX_FLOAT_INTEGER)
    return np.asarray(values, dtype=np.float64)
