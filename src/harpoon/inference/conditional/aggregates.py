"""Aggregates of a table: mean, share, standard deviation and correlation, in the language of conditions.

An aggregate is a function of a few sums over rows, such as the number of observed cells, their sum and that of squares.
Rows in which an argument is missing, or a condition is unknown, are ignored, as SQL ignores them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from harpoon._formatting import format_list, shorten
from harpoon.conditions import BoundPredicate, bind, evaluate, negate, to_predicate
from harpoon.conditions.binding.bound import Constant, NumberLiteral, NumericTerm, all_of
from harpoon.conditions.binding.case_when import branches, find_case, substitute
from harpoon.conditions.binding.term_types import bind_number
from harpoon.conditions.evaluation.evaluate import evaluate_term
from harpoon.conditions.language.expressions import Term
from harpoon.conditions.language.parser import parse_terms
from harpoon.data import Columns, Floats, Schema
from harpoon.exceptions import InvalidCondition, InvalidOption

NUMBERS = (int, float, np.integer, np.floating)
CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", flags=re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """A function of sums over rows.

    Attributes:
        example: How it is written.
        arguments: The number of its arguments.
        of_condition: Whether its argument is a condition.
        has_location: Whether it moves with its argument: the mean does, the standard deviation does not.
        has_scale: Whether it is in the units of its argument.
        lowest: The lowest value that a table can have.
        highest: The highest.
        moments: What is summed, from arguments (arguments, n) to (n, k); the first is 1 where all are observed.
        value: The aggregate from sums, (..., k) to (...).
        residual: A number per row, (n,), whose sum over the rows is zero if the aggregate has a value, to first order
            around given sums: from arguments, sums (k,) and the value.
    """

    example: str
    arguments: int = 1
    of_condition: bool = False
    has_location: bool = False
    has_scale: bool = True
    lowest: float = -np.inf
    highest: float = np.inf
    moments: Callable[[Floats], Floats]
    value: Callable[[Floats], Floats]
    residual: Callable[[Floats, Floats, float], Floats]


def _zero_missing(values: Any) -> Floats:  # noqa: ANN401
    """Return values with 0 where they are missing."""
    return np.asarray(np.nan_to_num(values), dtype=np.float64)


def _powers(arguments: Floats, degree: int) -> Floats:
    x = arguments[0]
    return _zero_missing(np.stack([~np.isnan(x), *(x**power for power in range(1, degree + 1))], axis=1))


def _pair_moments(arguments: Floats) -> Floats:
    x, y = np.where(np.isnan(arguments).any(axis=0), np.nan, arguments)
    return _zero_missing(np.stack([~np.isnan(x), x, y, x**2, y**2, x * y], axis=1))


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(denominator > 0, numerator / denominator, np.nan))


def _mean(sums: Floats) -> Floats:
    return _divide(sums[..., 1], sums[..., 0])


def _std(sums: Floats) -> Floats:
    """Return the standard deviation of a sample, with n - 1."""
    squares = sums[..., 2] - sums[..., 1] * _zero_missing(_mean(sums))
    return np.sqrt(_divide(np.maximum(squares, 0.0), sums[..., 0] - 1))


def _corr(sums: Floats) -> Floats:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.maximum(n * xx - x * x, 0.0) * np.maximum(n * yy - y * y, 0.0)
    return np.clip(_divide(n * xy - x * y, np.sqrt(spread)), -1.0, 1.0)


def _mean_residual(arguments: Floats, _sums: Floats, value: float) -> Floats:
    return _zero_missing(arguments[0] - value)


def _std_residual(arguments: Floats, sums: Floats, value: float) -> Floats:
    n = sums[0]
    return _zero_missing((arguments[0] - sums[1] / n) ** 2 - value**2 * (n - 1) / n)


def _corr_residual(arguments: Floats, sums: Floats, value: float) -> Floats:
    """Return the influence of each row on the correlation, as if the current one were `value`."""
    n, x, y, xx, yy, _ = sums
    scales = (np.sqrt(max(square / n - (total / n) ** 2, 1e-12)) for total, square in ((x, xx), (y, yy)))
    a, b = ((cells - total / n) / s for cells, total, s in zip(arguments, (x, y), scales, strict=True))
    return _zero_missing(a * b - value / 2 * (a**2 + b**2))


MEAN = Aggregate(
    example="mean(income)", has_location=True, moments=lambda x: _powers(x, 1), value=_mean, residual=_mean_residual
)
AGGREGATES = {
    "mean": MEAN,
    "share": replace(MEAN, example="share(sex = 'F')", of_condition=True, lowest=0.0, highest=1.0),
    "std": Aggregate(
        example="std(income)", lowest=0.0, moments=lambda x: _powers(x, 2), value=_std, residual=_std_residual
    ),
    "corr": Aggregate(
        example="corr(age, income)",
        arguments=2,
        has_scale=False,
        lowest=-1.0,
        highest=1.0,
        moments=_pair_moments,
        value=_corr,
        residual=_corr_residual,
    ),
}
SUPPORTED = f"A target is one of {', '.join(aggregate.example for aggregate in AGGREGATES.values())}."


@dataclass(frozen=True)
class Argument:
    """A number per row: that of the first of the predicates that holds; missing where none does.

    `resolution` is a number of which all values are multiples, or 0.
    """

    pieces: tuple[tuple[BoundPredicate, NumericTerm], ...]
    resolution: float

    def evaluate(self, rows: Columns) -> Floats:
        """Return the value of each row, (n,), NaN where it is missing."""
        conditions = [evaluate(condition, rows) for condition, _ in self.pieces]
        values = [evaluate_term(term, rows, partial=False) for _, term in self.pieces]
        return np.select(conditions, values, np.nan)


@dataclass(frozen=True)
class Target:
    """A value that an aggregate of the sampled rows should have.

    Attributes:
        text: The aggregate as it was written.
        aggregate: The function.
        arguments: Its arguments.
        value: The value that it should have.
        tolerance: How far from it the aggregate may be; None: the default.
    """

    text: str
    aggregate: Aggregate
    arguments: tuple[Argument, ...]
    value: float
    tolerance: float | None

    @classmethod
    def parse(cls, text: object, wanted: object, schema: Schema) -> Self:
        """Parse one target and bind it to a schema; raise InvalidCondition that names the functions.

        >>> from harpoon.data import Column, Kind
        >>> Target.parse("median(x)", 1, Schema((Column("x", Kind.NUMBER),)))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        harpoon.exceptions.InvalidCondition: The target `median(x)` cannot be read. A target is one of mean(income), ...
        """
        call = CALL.fullmatch(text) if isinstance(text, str) else None
        aggregate = None if call is None else AGGREGATES.get(call[1].lower())
        if call is None or aggregate is None:
            raise InvalidCondition(f"The target `{shorten(str(text))}` cannot be read. {SUPPORTED}")
        try:
            arguments = _bind_arguments(aggregate, call[2], schema)
        except InvalidCondition as error:
            raise InvalidCondition(f"In the target `{shorten(str(text))}`: {error}") from None
        value, tolerance = _read_value(str(text), wanted)
        if not aggregate.lowest <= value <= aggregate.highest:
            limits = f"from {aggregate.lowest:g} to {aggregate.highest:g}"
            raise InvalidOption(f"The target `{text}` must be {limits}, got {value:g}.")
        return cls(str(text), aggregate, arguments, value, tolerance)


def parse_targets(targets: object, schema: Schema) -> list[Target]:
    """Return the targets of a mapping of aggregates to values, or to pairs of a value and a tolerance."""
    if not isinstance(targets, Mapping) or not targets:
        got = "an empty one" if isinstance(targets, Mapping) else type(targets).__name__
        raise InvalidOption(f'targets must be a mapping such as {{"mean(income)": 50_000}}, got {got}. {SUPPORTED}')
    return [Target.parse(text, wanted, schema) for text, wanted in targets.items()]


def _bind_arguments(aggregate: Aggregate, text: str, schema: Schema) -> tuple[Argument, ...]:
    if aggregate.of_condition:
        predicate = bind(to_predicate(text, schema.names), schema)
        return (Argument(((predicate, NumberLiteral(1)), (negate(predicate), NumberLiteral(0))), 1.0),)
    terms = parse_terms(text)
    if len(terms) != aggregate.arguments:
        wanted = f"{aggregate.arguments} value{'s' if aggregate.arguments > 1 else ''}"
        raise InvalidCondition(f"it takes {wanted}, as in {aggregate.example}, got {len(terms)}.")
    return tuple(_bind_argument(term, schema) for term in terms)


def _bind_argument(term: Term, schema: Schema) -> Argument:
    """Bind a term; each branch of a `case when` is a piece of its own."""
    case = find_case(term)
    if case is None:
        number = bind_number(term, schema)
        return Argument(((Constant(truth=True), number.term),), float(number.resolution or 0))
    pieces: list[tuple[BoundPredicate, NumericTerm]] = []
    resolutions = set()
    for chosen, result in branches(case, [bind(condition, schema) for condition in case.conditions]):
        if result is not None:
            branch = _bind_argument(result if term is case else substitute(term, case, result), schema)
            pieces += [(all_of((*chosen, condition)), value) for condition, value in branch.pieces]
            resolutions.add(branch.resolution)
    if not pieces:
        raise InvalidCondition(f"{term} has no value in any branch.")
    return Argument(tuple(pieces), min(resolutions, default=0.0))


def _read_value(text: str, wanted: object) -> tuple[float, float | None]:
    """Return the value and the tolerance of a target."""
    pair: list[Any] = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
    numbers = [float(x) for x in pair if isinstance(x, NUMBERS) and not isinstance(x, bool) and np.isfinite(x)]
    if len(pair) not in (1, 2) or len(numbers) < len(pair) or min(numbers[1:], default=0.0) < 0:
        raise InvalidOption(
            f"The target `{shorten(text)}` needs a number, or a number and a tolerance of at least 0, such as "
            f"(50_000, 100); got {format_list([wanted])}."
        )
    return numbers[0], numbers[1] if len(numbers) > 1 else None
