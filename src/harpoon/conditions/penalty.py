"""The penalty of a condition: how far the dirty estimate is from meeting it (eq. 5 and 6 of the paper's appendix).

One reading of a bound condition; `exact` is the other. A bound is the power of a ReLU (squared, as published), a label
the L1 distance from the nearest allowed corner or the cross-entropy; "and" is a sum and "or" a product. Sides of an
inequality are worked out in the table's units, and their difference is then counted in deviations, so that one strength
of guidance suits every column.

The penalty of a row is zero exactly when the row meets the condition, but for a margin of `MARGIN` deviations: so much
below a bound counts as on it, and so much above it a strict one is met. On a grid (integers, cents, days) the margin is
at most a quarter of a step, and there is no exception, as long as floats can tell the steps apart.
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

MARGIN = 1e-9
MAX_EXPONENT = 700.0
ROUNDED = 2.0**-48  # of a number, after scaling it and back


@dataclass(frozen=True)
class ConditionPenalty:
    """The penalty of a condition on encoded rows of a codec; `typical` are some rows, for the scale of differences."""

    codec: RowCodec
    config: GuidanceConfig
    typical: Tensor

    def penalty(self, bound: BoundPredicate) -> Penalty:
        """One number per row: zero where the condition is met."""
        measured = self._compiled(bound)
        return lambda x0_hat: measured(RowView(self.codec, x0_hat))

    def _compiled(self, bound: BoundPredicate) -> Callable[[RowView], Tensor]:
        match bound:
            case AllOf(parts) | AnyOf(parts):
                each = [self._compiled(part) for part in parts]
                join = torch.add if isinstance(bound, AllOf) else torch.mul
                return lambda row: reduce(join, (part(row) for part in each))
            case Compare():
                return self._inequality(bound)
            case IsIn(column, allowed):
                return lambda row: self._member(row, column, allowed)
            case SameCategory():
                return lambda row: self._alike(row, bound)
            case Constant(truth=met) | IsMissing(missing=met):
                met = met if isinstance(bound, Constant) else not met  # drawn cells are never missing
                return lambda row: row.x.new_full((len(row.x),), 0.0 if met else 1.0)

    def _inequality(self, bound: Compare) -> Callable[[RowView], Tensor]:
        scale, rounding = self._scale(bound)
        slack = min(max(MARGIN * scale, rounding), (bound.step or math.inf) / 4)
        beyond = bound.step - slack if bound.step else slack  # how far a strict bound is from being met
        shortfall = SHORTFALLS[bound.operator]

        def penalty(row: RowView) -> Tensor:
            left, no_left = evaluate_term(bound.left, row)
            right, no_right = evaluate_term(bound.right, row)
            missed = shortfall(left - right, slack, beyond).clamp(min=0) / scale
            none = no_left | no_right  # a value that is not finite meets nothing
            return self.config.inequality_weight * torch.where(none, 1.0, missed**self.config.inequality_power)

        return penalty

    def _scale(self, bound: Compare) -> tuple[float, float]:
        """The deviation of the difference of both sides over typical rows, and what floats lose of it."""
        row = RowView(self.codec, self.typical)
        (left, no_left), (right, no_right) = (evaluate_term(side, row) for side in (bound.left, bound.right))
        there = ~(no_left | no_right)
        if not bool(there.any()):
            return 1.0, 0.0
        deviation = float((left - right)[there].std(correction=0))
        largest = float(torch.maximum(left.abs(), right.abs())[there].max())
        usable = math.isfinite(deviation) and deviation > 0
        return (deviation if usable else 1.0), ROUNDED * largest

    def _member(self, row: RowView, column: str, allowed: tuple[int, ...]) -> Tensor:
        if not allowed:
            return row.x.new_full((len(row.x),), self.config.category_weight)
        if self.config.category_loss == "ce" and row.has_probabilities(column):
            return self.config.category_weight * _negative_log(row.soft(column)[:, list(allowed)].sum(dim=1))
        x = row.category_coordinates(column)
        power = self.config.category_power
        off = x.abs() ** power
        from_corner = off.sum(dim=1, keepdim=True) - off + (x - 1).abs() ** power
        missed = (from_corner[:, list(allowed)].amin(dim=1) - MARGIN).clamp(min=0)
        return self.config.category_weight * missed

    def _alike(self, row: RowView, bound: SameCategory) -> Tensor:
        left, right = (row.soft(name) for name in (bound.left, bound.right))
        pairs = [(here, there) for here, there in enumerate(bound.partners) if there >= 0]
        same = left.new_zeros(len(left))
        for here, there in pairs:
            same = same + left[:, here] * right[:, there]
        return self.config.category_weight * _negative_log(same if bound.same else 1 - same)


def _negative_log(p: Tensor) -> Tensor:
    """The cross-entropy of what has probability p: none where rounding alone keeps p from being one."""
    return (-p.clamp(min=MIN_TOTAL).log() - MARGIN).clamp(min=0)


def evaluate_term(term: NumericTerm, row: RowView) -> tuple[Tensor, Tensor]:
    """The value of a term in each row, and where it has none."""
    match term:
        case ColumnRef(column):
            return _with_value(row.soft(column))
        case NumberLiteral(value):
            return _with_value(torch.full((len(row.x),), float(value), dtype=torch.float64, device=row.x.device))
        case Operation(operator, operands):
            values, none = zip(*(evaluate_term(operand, row) for operand in operands), strict=True)
            if operator in EXTREMES:
                return _extreme(operator, torch.stack(values), torch.stack(none))
            found, undefined = OPERATIONS[operator](*values)
            return found, reduce(torch.logical_or, none) | undefined


def _with_value(values: Tensor) -> tuple[Tensor, Tensor]:
    return values, torch.zeros_like(values, dtype=torch.bool)


def _extreme(operator: str, values: Tensor, none: Tensor) -> tuple[Tensor, Tensor]:
    """The least or the greatest of the values that there are."""
    worst = math.inf if operator == "least" else -math.inf
    nothing = none.all(dim=0)
    found = EXTREMES[operator](torch.where(none, worst, values), dim=0)
    return torch.where(nothing, 0.0, found), nothing


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
    return _with_value(x.clamp(max=MAX_EXPONENT).exp())


OPERATIONS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "+": lambda left, right: _with_value(left + right),
    "-": lambda left, right: _with_value(left - right),
    "*": lambda left, right: _with_value(left * right),
    "/": _quotient,
    "negative": lambda x: _with_value(-x),
    "abs": lambda x: _with_value(x.abs()),
    "log": _log10,
    "ln": _log,
    "exp": _exp,
}
EXTREMES: dict[str, Callable[..., Tensor]] = {"least": torch.amin, "greatest": torch.amax}
SHORTFALLS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    ">=": lambda d, slack, _: -d - slack,
    "<=": lambda d, slack, _: d - slack,
    ">": lambda d, _, beyond: beyond - d,
    "<": lambda d, _, beyond: beyond + d,
    "=": lambda d, slack, _: d.abs() - slack,
    "!=": lambda d, _, beyond: beyond - d.abs(),
}
