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

A loss of the user is a penalty too: any differentiable function of the rows (`row_penalty`, `batch_penalty`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from harpoon.conditions.binding import bound
from harpoon.conditions.binding.bound import BoundPredicate, NumericTerm
from harpoon.conditions.evaluation.evaluate import MAX_EXPONENT
from harpoon.config import GuidanceConfig
from harpoon.data.date_parts import MAX_TICKS, date_part, to_local
from harpoon.encoding import Penalty, RowCodec, RowView
from harpoon.encoding.categorical import MIN_TOTAL
from harpoon.exceptions import InvalidOption

LossFunction = Callable[[RowView], Tensor]
Compiled = Callable[[RowView], Tensor]  # rows to the penalty of each, (n,)

TOLERANCE = 1e-9  # of a violation, in standard deviations; of a distance to a category
ROUNDING_ERROR = 2.0**-48  # relative error of a number that was scaled and scaled back


@dataclass(frozen=True)
class ConditionPenalty:
    """Penalty of conditions on encoded rows."""

    codec: RowCodec  # of the rows
    config: GuidanceConfig  # weights, powers and the loss of categories
    reference: Tensor  # encoded rows, (m, d), that give the scale of each inequality

    def penalty(self, predicate: BoundPredicate) -> Penalty:
        """Return a function of encoded rows, (n, d), that gives the penalty of each row, (n,)."""
        compiled = self._compile(predicate)
        return lambda x0_hat: compiled(RowView(self.codec, x0_hat))

    def _compile(self, predicate: BoundPredicate) -> Compiled:
        match predicate:
            case bound.AllOf(parts) | bound.AnyOf(parts):
                compiled = [self._compile(part) for part in parts]
                combine = torch.add if isinstance(predicate, bound.AllOf) else torch.mul
                return lambda rows: reduce(combine, (part(rows) for part in compiled))
            case bound.Constant(holds):
                return lambda rows: rows.x.new_full((len(rows.x),), 0.0 if holds else 1.0)
            case bound.IsMissing(column, missing):
                return lambda rows: self._is_missing(rows, column, missing=missing)
            case bound.Compare():
                return self._require_values(predicate, self._inequality(predicate))
            case bound.IsIn(column, allowed):
                return self._require_values(predicate, lambda rows: self._is_in(rows, column, allowed))
            case bound.SameCategory():
                return self._require_values(predicate, lambda rows: self._same_category(rows, predicate))

    def _require_values(self, leaf: BoundPredicate, penalty: Compiled) -> Compiled:
        """Add to the penalty of a leaf that its nullable columns have values: a null cell satisfies no comparison."""
        nullable = sorted(bound.columns_of(leaf) & self.codec.nullable)
        if not nullable:
            return penalty
        return lambda rows: sum((self._is_missing(rows, name, missing=False) for name in nullable), penalty(rows))

    def _is_missing(self, rows: RowView, column: str, *, missing: bool) -> Tensor:
        p = rows.null_probability(column)
        if p is None:  # a column without missing cells
            return rows.x.new_full((len(rows.x),), 1.0 if missing else 0.0)
        return self.config.category_weight * _negative_log((p if missing else 1 - p).double())

    def _inequality(self, comparison: bound.Compare) -> Compiled:
        scale, rounding = self._scale(comparison)
        step, violation = comparison.step, VIOLATIONS[comparison.operator]
        tolerance = min(max(TOLERANCE * scale, rounding), (step or math.inf) / 4)
        margin = step - tolerance if step else tolerance  # by which a strict inequality must hold

        def penalty(rows: RowView) -> Tensor:
            left, right, undefined = _evaluate_sides(comparison, rows)
            distance = violation(left - right, tolerance, margin).clamp(min=0) / scale
            # No comparison holds where a side is undefined.
            return self.config.inequality_weight * torch.where(undefined, 1.0, distance**self.config.inequality_power)

        return penalty

    def _scale(self, comparison: bound.Compare) -> tuple[float, float]:
        """Return the standard deviation of left - right over the reference rows, and its rounding error."""
        left, right, undefined = _evaluate_sides(comparison, RowView(self.codec, self.reference))
        if bool(undefined.all()):
            return 1.0, 0.0
        std = float((left - right)[~undefined].std(correction=0))
        largest = float(torch.maximum(left.abs(), right.abs())[~undefined].max())
        return (std if math.isfinite(std) and std > 0 else 1.0), ROUNDING_ERROR * largest

    def _is_in(self, rows: RowView, column: str, allowed: tuple[int, ...]) -> Tensor:
        if not allowed:
            return rows.x.new_full((len(rows.x),), self.config.category_weight)
        category_penalty = CATEGORY_PENALTIES[self.config.category_loss]
        return self.config.category_weight * category_penalty(rows, column, list(allowed), self.config)

    def _same_category(self, rows: RowView, predicate: bound.SameCategory) -> Tensor:
        """Return the negative log-probability that independent categories of both columns agree, or differ."""
        left, right = (rows.soft(name) for name in (predicate.left, predicate.right))
        p_same = left.new_zeros(len(left))
        for code, partner in enumerate(predicate.partners):
            if partner >= 0:
                p_same = p_same + left[:, code] * right[:, partner]
        return self.config.category_weight * _negative_log(p_same if predicate.same else 1 - p_same)


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


def _evaluate_sides(comparison: bound.Compare, rows: RowView) -> tuple[Tensor, Tensor, Tensor]:
    """Return the left and the right side in each row, and where either is undefined, (n,) each."""
    left, left_undefined = _evaluate_term(comparison.left, rows)
    right, right_undefined = _evaluate_term(comparison.right, rows)
    return left, right, left_undefined | right_undefined


def _evaluate_term(term: NumericTerm, rows: RowView) -> tuple[Tensor, Tensor]:
    """Return the value of a term in each row, (n,), and where it is undefined, (n,)."""
    match term:
        case bound.ColumnRef(column):
            values = rows.soft(column)
            return values, torch.zeros_like(values, dtype=torch.bool)
        case bound.NumberLiteral(value):
            values = torch.full((len(rows.x),), float(value), dtype=torch.float64, device=rows.x.device)
            return values, torch.zeros_like(values, dtype=torch.bool)
        case bound.Operation(operator, operands):
            pairs = [_evaluate_term(operand, rows) for operand in operands]
            return (_extreme if operator in EXTREMES else _operation)(operator, *zip(*pairs, strict=True))
        case bound.DatePart():
            return _date_part(term, *_evaluate_term(term.operand, rows))


def _date_part(term: bound.DatePart, times: Tensor, undefined: Tensor) -> tuple[Tensor, Tensor]:
    """Return the part of times at the resolution of the column. Its gradient is 0."""
    steps = (times.detach().clamp(-MAX_TICKS, MAX_TICKS) / term.step).round().cpu().numpy().astype(np.int64)
    part = date_part(term.part, to_local(steps * term.step, term.tick, term.zone), term.tick)
    return torch.from_numpy(part).to(times) + 0 * times, undefined


def _operation(operator: str, values: tuple[Tensor, ...], undefined: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    if operator in OUTSIDE_DOMAIN:
        outside = OUTSIDE_DOMAIN[operator](values[-1])
        values, undefined = (*values[:-1], torch.where(outside, 1.0, values[-1])), (*undefined, outside)
    result = OPERATIONS[operator](*values)
    return result, reduce(torch.logical_or, (*undefined, ~result.isfinite()))


def _extreme(operator: str, values: tuple[Tensor, ...], undefined: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Return the least or greatest of the values that are defined."""
    neutral = math.inf if operator == "least" else -math.inf
    result = EXTREMES[operator](torch.where(torch.stack(undefined), neutral, torch.stack(values)), dim=0)
    all_undefined = reduce(torch.logical_and, undefined)
    return torch.where(all_undefined, 0.0, result), all_undefined


def row_penalty(loss: LossFunction, codec: RowCodec) -> Penalty:
    """Return the penalty of a loss of the user that gives one value per row, (n,)."""
    return _loss_penalty(loss, codec, "loss", "one number per row", lambda x0_hat: x0_hat.shape[:1])


def batch_penalty(loss: LossFunction, codec: RowCodec) -> Penalty:
    """Return the penalty of a loss of the user that gives a single value for all rows.

    Each of the n rows gets the whole value. Its gradient is then as large as that of a loss per row, so that the same
    `guidance_scale` suits both.
    """
    return _loss_penalty(loss, codec, "loss_batch", "a single number", lambda _: ())


def _loss_penalty(
    loss: LossFunction, codec: RowCodec, name: str, expected: str, shape_of: Callable[[Tensor], tuple[int, ...]]
) -> Penalty:
    if not callable(loss):
        raise InvalidOption(f"{name} must be a function of the rows, got {type(loss).__name__}.")

    def penalty(x0_hat: Tensor) -> Tensor:
        value: object = loss(RowView(codec, x0_hat))
        if not isinstance(value, Tensor):
            got = type(value).__name__
            raise InvalidOption(f"{name} must return a torch tensor, got {got}. Use torch functions in it.")
        if value.shape != shape_of(x0_hat):
            raise InvalidOption(f"{name} must return {expected}, got a tensor of shape {tuple(value.shape)}.")
        not_finite = value.detach()[~value.isfinite()]
        if len(not_finite):
            raise InvalidOption(f"{name} must return finite numbers, got {not_finite[:1].tolist()}.")
        if x0_hat.requires_grad and value.grad_fn is None:
            raise InvalidOption(
                f"{name} must depend on the row in a differentiable way, got a tensor without a gradient. Compute it "
                "from values of the row by torch functions; comparisons, detach() and constants have no gradient."
            )
        return value.expand(len(x0_hat))

    return penalty


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "+": torch.add,
    "-": torch.sub,
    "*": torch.mul,
    "/": torch.div,
    "negative": torch.neg,
    "abs": torch.abs,
    "log": torch.log10,
    "ln": torch.log,
    "exp": lambda x: x.clamp(max=MAX_EXPONENT).exp(),
}
# Where the last operand is outside the domain of an operation. There it is replaced by 1, so that gradients are finite.
OUTSIDE_DOMAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "/": lambda x: x == 0,
    "log": lambda x: x <= 0,
    "ln": lambda x: x <= 0,
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
