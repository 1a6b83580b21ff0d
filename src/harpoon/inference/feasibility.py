"""The probability of a condition under the model, what makes it unlikely, and what to relax."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from harpoon._text import format_percent, format_rounded
from harpoon.conditions import BoundPredicate, Predicate, bind, evaluate
from harpoon.conditions.bound import ColumnRef, Compare, NumberLiteral
from harpoon.conditions.expressions import And, Or
from harpoon.conditions.sql import quote_name
from harpoon.data import Column, Columns, Kind, Schema, describe, format_number, format_time, n_rows, take
from harpoon.data.contingency import ContingencyTables
from harpoon.inference.conditional import PILOT_ROWS, ConditionalSampler
from harpoon.inference.diagnostics import ProbabilityEstimate
from harpoon.inference.row_rules import find_contradiction
from harpoon.inference.row_sampler import RowSampler
from harpoon.inference.support import Support, find_support
from harpoon.inference.uncertainty import LEVEL, probability_interval

MIN_HITS = 20  # with fewer rows that satisfy a condition, its branches are sampled too
UNLIKELY_PROBABILITY = 0.01
MAX_EXPLAINED_PARTS = 3
INEQUALITIES = ("<", "<=", ">", ">=")


class _Bound(Compare):
    left: ColumnRef
    right: NumberLiteral


@dataclass(frozen=True)
class FeasibilityPart:
    """A part of a condition, and its probability alone."""

    text: str
    probability: float


@dataclass(frozen=True)
class Feasibility:
    """The probability of a condition under the model.

    Attributes:
        condition: The condition.
        probability: The fraction of sampled rows that satisfy it; of a rare condition by importance sampling.
        interval: A 95 % interval of the probability among all rows of the kind that the model was trained on. It
            contains the error of the training sample, not only that of the simulation: the posterior
            Beta(k + 1/2, n - k + 1/2) if k of n training rows satisfy the condition (`support`), widened to the
            probability of the model; see `harpoon.inference.uncertainty`.
        parts: The parts of the condition, each alone.
        training_fraction: The fraction of the rows of `data` that satisfy it; None if no table was given.
        rows: How many rows were sampled.
        suggestion: What to relax.
        support: How many training rows satisfy it.
    """

    condition: str
    probability: float
    interval: tuple[float, float]
    parts: tuple[FeasibilityPart, ...]
    training_fraction: float | None
    rows: int
    suggestion: str
    support: Support

    def __str__(self) -> str:
        level, low, high = map(format_percent, (LEVEL, *self.interval))
        learnt = format_rounded(round(self.support.given_rows))
        basis = f"{level} interval {low} to {high}, for {learnt} training rows and {self.rows:,} sampled rows"
        lines = [self.condition, f"  probability {format_percent(self.probability)} ({basis})"]
        if self.training_fraction is not None:
            lines.append(f"  met by {format_percent(self.training_fraction)} of the rows of the table")
        lines.append(f"  {self.support}")
        lines += [f"  {format_percent(part.probability):>8}  {part.text}" for part in self.parts]
        lines += [f"  {self.suggestion}"] if self.suggestion else []
        return "\n".join(lines)


def feasibility(
    sampler: RowSampler,
    tree: Predicate,
    schema: Schema,
    base: Columns,
    *,
    counted: Columns | None,
    tables: ContingencyTables,
) -> Feasibility:
    """Sample rows, and count how many satisfy a condition and its parts.

    `base` is what all rows have in common: one row, its free cells missing. `counted` are real rows to count in too.
    """
    predicate = bind(tree, schema)
    fraction = None if counted is None else float(evaluate(predicate, counted).mean())
    if why := find_contradiction(tree, sampler, base, sampler.codec.nullable):
        support = find_support(tables, predicate, base, table=counted)
        return _impossible(tree, schema, tables, why, support=support, fraction=fraction)
    search = ConditionalSampler(sampler, predicate, base)
    rows = search.count(search.unconditional(0, PILOT_ROWS))
    estimate = _estimate_probability(search, int(evaluate(predicate, rows).sum()))
    parts = tuple(
        FeasibilityPart(str(part), float(evaluate(bind(part, schema), rows).mean())) for part in _members(tree)
    )
    suggestion = " ".join(explain(tree, schema, rows)) if estimate.probability < UNLIKELY_PROBABILITY else ""
    support = find_support(tables, predicate, base, table=counted, probability=estimate.probability)
    interval = probability_interval(estimate.probability, estimate.rows, support)
    return Feasibility(str(tree), estimate.probability, interval, parts, fraction, search.sampled, suggestion, support)


def _members(tree: Predicate) -> tuple[Predicate, ...]:
    return tree.members if isinstance(tree, And | Or) else (tree,)


def _impossible(
    tree: Predicate, schema: Schema, tables: ContingencyTables, why: str, *, support: Support, fraction: float | None
) -> Feasibility:
    """Return the answer to a condition that no row can satisfy. Its parts have the fractions of the training rows."""
    parts = []
    for part in _members(tree):
        rows = find_support(tables, bind(part, schema), {}).estimate
        parts.append(FeasibilityPart(str(part), rows / max(tables.n_rows, 1)))
    support = replace(support, estimate=0.0, counted=0.0) if support.exact is None else support
    interval = probability_interval(0.0, math.inf, support)
    near = [text for term in _comparisons(bind(tree, schema)) for text in _within_reach(term, schema, tables)]
    suggestion = " ".join([f"No row can satisfy it: {why}.", *near])
    return Feasibility(str(tree), 0.0, interval, tuple(parts), fraction, 0, suggestion, support)


def _within_reach(term: Compare, schema: Schema, tables: ContingencyTables) -> list[str]:
    """Return a bound on one column that about 1 % of the training rows or more meet, if none meets the given one."""
    if not _is_bound(term) or find_support(tables, term, {}).upper_bound or term.left.column not in tables.columns:
        return []
    column, bins = schema[term.left.column], tables.columns[term.left.column]
    is_above = term.operator in (">", ">=")
    ends = np.unique(bins.low if is_above else bins.high)
    for end in ends[::-1] if is_above else ends:
        nearer = Compare(">=" if is_above else "<=", term.left, NumberLiteral(end.item()))
        share = find_support(tables, nearer, {}).estimate / max(tables.n_rows, 1)
        if share >= UNLIKELY_PROBABILITY:
            text = f"{quote_name(column.name)} {nearer.operator} {_literal(column, end)}"
            return [f"{text} would be met by about {format_percent(share)} of the training rows."]
    return []


def _estimate_probability(search: ConditionalSampler, hits: int) -> ProbabilityEstimate:
    """Return the probability of a condition that so many of the pilot rows satisfy; 0 if no sampled row does."""
    if hits < MIN_HITS and search.can_condition:
        pilots = search.branch_pilots()
        hits += sum(int(satisfied.sum()) for _, _, satisfied in pilots)
    estimate = search.estimate
    return ProbabilityEstimate(0.0, PILOT_ROWS) if estimate is None or not hits else estimate


def explain(tree: Predicate, schema: Schema, rows: Columns) -> list[str]:
    """Return sentences on why rows violate a condition: for each rare part its probability, and how far rows come."""
    members = tree.members if isinstance(tree, And) else (tree,)
    satisfied = np.stack([evaluate(bind(part, schema), rows) for part in members])
    sentences: list[str] = []
    for number in np.argsort(satisfied.mean(axis=1), kind="stable")[:MAX_EXPLAINED_PARTS]:
        part, others = members[number], np.asarray(np.delete(satisfied, number, axis=0).all(axis=0))
        alone, without = float(satisfied[number].mean()), float(others.mean())
        if alone >= UNLIKELY_PROBABILITY and without < UNLIKELY_PROBABILITY:
            continue
        rest = f"; without it the rest would be met by {format_percent(without)}" if len(members) > 1 else ""
        sentences.append(f"{part} is met by {format_percent(alone)} of sampled rows{rest}.")
        among = take(rows, others) if others.any() else rows
        sentences += [text for term in _comparisons(bind(part, schema)) for text in _closest_rows(term, schema, among)]
    return sentences or ["Each part is met alone, but hardly ever together with the others."]


def _comparisons(predicate: BoundPredicate) -> Iterator[Compare]:
    if isinstance(predicate, Compare):
        yield predicate
    for part in getattr(predicate, "parts", ()):
        yield from _comparisons(part)


def _is_bound(term: Compare) -> TypeGuard[_Bound]:
    """Return whether a comparison is a bound on one column."""
    is_column = isinstance(term.left, ColumnRef) and isinstance(term.right, NumberLiteral)
    return is_column and term.operator in INEQUALITIES


def _closest_rows(term: Compare, schema: Schema, rows: Columns) -> list[str]:
    """Return how close sampled rows come to a bound on one column, if none satisfies it.

    The bound that it suggests is the 1 % quantile. More rows meet it if many have that value.
    """
    if not _is_bound(term) or evaluate(term, rows).any():
        return []
    column = schema[term.left.column]
    values = rows[column.name].observed
    if not len(values):
        return []
    closest, likely = values.min(), np.quantile(values, UNLIKELY_PROBABILITY, method="inverted_cdf")
    operator, is_met = "<=", values <= likely
    if term.operator in (">", ">="):
        closest, likely = values.max(), -np.quantile(-values, UNLIKELY_PROBABILITY, method="inverted_cdf")
        operator, is_met = ">=", values >= likely
    share = format_percent(float(is_met.sum()) / n_rows(rows))
    reach = f"The closest sampled rows have {_format(column, closest)}; the training rows have {describe(column)}."
    suggested = f"{quote_name(column.name)} {operator} {_literal(column, likely)}"
    return [f"{reach} {suggested} would be met by {share} of them."]


def _format(column: Column, value: np.generic) -> str:
    return format_time(column, int(value)) if column.kind.temporal else format_number(value.item())


def _literal(column: Column, value: np.generic) -> str:
    """Return a value as a condition has it: a point in time in quotes."""
    text = _format(column, value)
    return f"'{text}'" if column.kind in (Kind.DATE, Kind.DATETIME) else text
