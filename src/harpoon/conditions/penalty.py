"""Differentiable penalty of a condition on the dirty estimate x̂_0 (appendix of the paper, eq. 9 and 10).

Equation 9, L_soft, is the penalty of the leaves:

    inequality   λ_g · ReLU(violation)^p, with p = 2 as published
    category     λ_h · the distance of the encoded column from the nearest allowed category (`CATEGORY_PENALTIES`)

"and" is the sum of its parts (eq. 9), "or" the product (eq. 10, L_disj). Both sides of an inequality are in the units
of the table. Their difference is divided by its standard deviation over reference rows, so that one guidance scale
suits every column.

The penalty of a row is zero exactly when `evaluate` holds for the row, up to a tolerance of `TOLERANCE` standard
deviations: an inequality that is violated by less has no penalty, and a strict one must hold by at least as much. For
columns with a resolution (integers, cents, days) the tolerance is at most a quarter of a step. The equivalence is then
exact, as long as floats can distinguish the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from harpoon.conditions.bound import (
    AllOf,
    AnyOf,
    BoundPredicate,
    ColumnRef,
    Compare,
    Constant,
    IsIn,
    IsMissing,
    NumberLiteral,
    NumericTerm,
    Operation,
    SameCategory,
)
from harpoon.config import GuidanceConfig
from harpoon.encoding.batch import Penalty
from harpoon.encoding.categorical import MIN_TOTAL
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.row_view import RowView

TOLERANCE = 1e-9  # of a violation, in standard deviations; of a distance to a category
MAX_EXPONENT = 700.0
ROUNDING_ERROR = 2.0**-48  # relative error of a number that was scaled and scaled back


@dataclass(frozen=True)
class ConditionPenalty:
    """Penalty of conditions on encoded rows.

    Attributes:
        codec: The codec of the rows.
        config: Weights, powers and the loss of categories.
        reference: Encoded rows, (m, d), that give the scale of each inequality.

    >>> import pyarrow as pa
    >>> from harpoon.conditions.bound import ColumnRef, Compare, NumberLiteral
    >>> from harpoon.data import dataframe
    >>> from harpoon.data.reader import read_columns
    >>> from harpoon.data.schema import Schema
    >>> from harpoon.data.statistics import count_columns
    >>> table = dataframe.read(pa.table({"x": [0.0, 2.0]}))
    >>> schema = Schema.infer(table, kinds={"x": "number"})
    >>> codec = RowCodec.fit(schema, count_columns(table), encoding="onehot", scaling="standard")
    >>> x = torch.from_numpy(codec.encode(read_columns(table, schema)))
    >>> penalty = ConditionPenalty(codec, GuidanceConfig(), x).penalty(Compare(">=", ColumnRef("x"), NumberLiteral(1)))
    >>> [round(value, 6) for value in penalty(x).tolist()]  # the standard deviation of x is 1
    [1.0, 0.0]
    """

    codec: RowCodec
    config: GuidanceConfig
    reference: Tensor

    def penalty(self, bound: BoundPredicate) -> Penalty:
        """Return a function of encoded rows, (n, d), that gives the penalty of each row, (n,)."""
        compiled = self._compile(bound)
        return lambda x0_hat: compiled(RowView(self.codec, x0_hat))

    def _compile(self, bound: BoundPredicate) -> Callable[[RowView], Tensor]:
        match bound:
            case AllOf(parts) | AnyOf(parts):
                compiled = [self._compile(part) for part in parts]
                combine = torch.add if isinstance(bound, AllOf) else torch.mul
                return lambda rows: reduce(combine, (part(rows) for part in compiled))
            case Compare():
                return self._inequality(bound)
            case IsIn(column, allowed):
                return lambda rows: self._is_in(rows, column, allowed)
            case SameCategory():
                return lambda rows: self._same_category(rows, bound)
            case Constant(truth=holds) | IsMissing(missing=holds):
                holds = holds if isinstance(bound, Constant) else not holds  # sampled cells are never missing
                return lambda rows: rows.x.new_full((len(rows.x),), 0.0 if holds else 1.0)

    def _inequality(self, bound: Compare) -> Callable[[RowView], Tensor]:
        scale, rounding = self._scale(bound)
        tolerance = min(max(TOLERANCE * scale, rounding), (bound.step or math.inf) / 4)
        margin = bound.step - tolerance if bound.step else tolerance  # by which a strict inequality must hold
        violation = VIOLATIONS[bound.operator]

        def penalty(rows: RowView) -> Tensor:
            left, left_undefined = evaluate_term(bound.left, rows)
            right, right_undefined = evaluate_term(bound.right, rows)
            distance = violation(left - right, tolerance, margin).clamp(min=0) / scale
            undefined = left_undefined | right_undefined  # then no comparison holds
            return self.config.inequality_weight * torch.where(undefined, 1.0, distance**self.config.inequality_power)

        return penalty

    def _scale(self, bound: Compare) -> tuple[float, float]:
        """Return the standard deviation of left - right over the reference rows, and its rounding error."""
        rows = RowView(self.codec, self.reference)
        (left, left_undefined), (right, right_undefined) = (
            evaluate_term(side, rows) for side in (bound.left, bound.right)
        )
        defined = ~(left_undefined | right_undefined)
        if not bool(defined.any()):
            return 1.0, 0.0
        std = float((left - right)[defined].std(correction=0))
        largest = float(torch.maximum(left.abs(), right.abs())[defined].max())
        usable = math.isfinite(std) and std > 0
        return (std if usable else 1.0), ROUNDING_ERROR * largest

    def _is_in(self, rows: RowView, column: str, allowed: tuple[int, ...]) -> Tensor:
        if not allowed:
            return rows.x.new_full((len(rows.x),), self.config.category_weight)
        category_penalty = CATEGORY_PENALTIES[self.config.category_loss]
        return self.config.category_weight * category_penalty(rows, column, list(allowed), self.config)

    def _same_category(self, rows: RowView, bound: SameCategory) -> Tensor:
        """Return the negative log-probability that independent categories of both columns agree, or differ."""
        left, right = (rows.soft(name) for name in (bound.left, bound.right))
        p_same = left.new_zeros(len(left))
        for code, partner in enumerate(bound.partners):
            if partner >= 0:
                p_same = p_same + left[:, code] * right[:, partner]
        return self.config.category_weight * _negative_log(p_same if bound.same else 1 - p_same)


def distance_to_category(rows: RowView, column: str, allowed: list[int], config: GuidanceConfig) -> Tensor:
    """Return Σ_j |x_j - v_j|^p to the nearest allowed one-hot vector v, (n,); p = 1 as published."""
    x, power = rows.category_coordinates(column), config.category_power
    from_zero = x.abs() ** power
    distances = from_zero.sum(dim=1, keepdim=True) - from_zero + (x - 1).abs() ** power  # to each one-hot vector
    return (distances[:, allowed].amin(dim=1) - TOLERANCE).clamp(min=0)


def cross_entropy(rows: RowView, column: str, allowed: list[int], config: GuidanceConfig) -> Tensor:
    """Return -log P(category is allowed), (n,), or the distance if the encoding has no probabilities."""
    if not rows.has_probabilities(column):
        return distance_to_category(rows, column, allowed, config)
    return _negative_log(rows.soft(column)[:, allowed].sum(dim=1))


def _negative_log(p: Tensor) -> Tensor:
    """Return -log p, and 0 where p differs from 1 by rounding only."""
    return (-p.clamp(min=MIN_TOTAL).log() - TOLERANCE).clamp(min=0)


def evaluate_term(term: NumericTerm, rows: RowView) -> tuple[Tensor, Tensor]:
    """Return the value of a term in each row, (n,), and where it is undefined, (n,)."""
    match term:
        case ColumnRef(column):
            return _defined(rows.soft(column))
        case NumberLiteral(value):
            return _defined(torch.full((len(rows.x),), float(value), dtype=torch.float64, device=rows.x.device))
        case Operation(operator, operands):
            values, undefined = zip(*(evaluate_term(operand, rows) for operand in operands), strict=True)
            if operator in EXTREMES:
                return _extreme(operator, torch.stack(values), torch.stack(undefined))
            result, not_finite = OPERATIONS[operator](*values)
            return result, reduce(torch.logical_or, undefined) | not_finite


def _defined(values: Tensor) -> tuple[Tensor, Tensor]:
    return values, torch.zeros_like(values, dtype=torch.bool)


def _extreme(operator: str, values: Tensor, undefined: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least or greatest of the values that are defined."""
    neutral = math.inf if operator == "least" else -math.inf
    all_undefined = undefined.all(dim=0)
    result = EXTREMES[operator](torch.where(undefined, neutral, values), dim=0)
    return torch.where(all_undefined, 0.0, result), all_undefined


def _quotient(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    undefined = right == 0
    value = left / torch.where(undefined, 1.0, right)
    return value, undefined | ~value.isfinite()


def _log(x: Tensor) -> tuple[Tensor, Tensor]:
    undefined = x <= 0
    return torch.where(undefined, 1.0, x).log(), undefined


def _log10(x: Tensor) -> tuple[Tensor, Tensor]:
    undefined = x <= 0
    return torch.where(undefined, 1.0, x).log10(), undefined


def _exp(x: Tensor) -> tuple[Tensor, Tensor]:
    return _defined(x.clamp(max=MAX_EXPONENT).exp())


OPERATIONS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "+": lambda left, right: _defined(left + right),
    "-": lambda left, right: _defined(left - right),
    "*": lambda left, right: _defined(left * right),
    "/": _quotient,
    "negative": lambda x: _defined(-x),
    "abs": lambda x: _defined(x.abs()),
    "log": _log10,
    "ln": _log,
    "exp": _exp,
}
EXTREMES: dict[str, Callable[..., Tensor]] = {"least": torch.amin, "greatest": torch.amax}
# By how much left - right violates an inequality, given the tolerance and the margin of a strict inequality.
VIOLATIONS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    ">=": lambda d, tolerance, _: -d - tolerance,
    "<=": lambda d, tolerance, _: d - tolerance,
    ">": lambda d, _, margin: margin - d,
    "<": lambda d, _, margin: margin + d,
    "=": lambda d, tolerance, _: d.abs() - tolerance,
    "!=": lambda d, _, margin: margin - d.abs(),
}
CATEGORY_PENALTIES: dict[str, Callable[[RowView, str, list[int], GuidanceConfig], Tensor]] = {
    "l1": distance_to_category,
    "ce": cross_entropy,
}
