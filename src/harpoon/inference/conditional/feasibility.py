"""The probability of a condition under the model, what makes it unlikely, and what to relax."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import numpy as np

from harpoon._formatting import format_percent, format_rounded
from harpoon._utils import cards
from harpoon.conditions import BoundPredicate, Predicate, bind, evaluate
from harpoon.conditions.binding.bound import ColumnRef, Compare, NumberLiteral, leaves
from harpoon.conditions.language.expressions import Junction, members_of
from harpoon.conditions.language.sql_names import quote_name
from harpoon.conditions.logic.explanation import contradicts_itself
from harpoon.data import Column, Columns, Floats, Kind, Schema, describe, format_number, format_time, n_rows, take
from harpoon.data.contingency import ContingencyTables
from harpoon.inference.conditional.conditional_sampler import PILOT_ROWS, ConditionalSampler
from harpoon.inference.conditional.model_contradiction import find_contradiction
from harpoon.inference.diagnostics.probability_intervals import LEVEL, probability_interval
from harpoon.inference.diagnostics.sampling_info import ProbabilityEstimate
from harpoon.inference.diagnostics.support import Support, find_support, support_paragraph
from harpoon.inference.sampling.row_sampler import RowSampler

UNLIKELY_PROBABILITY = 0.01
MAX_EXPLAINED_PARTS = 3
NOT_CHECKED = "without the error of the model, which only the training table can show"
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
class Feasibility(cards.Displayed):
    """The probability of a condition under the model.

    Attributes:
        condition: The condition.
        probability: The fraction of sampled rows that satisfy it; of a rare condition by importance sampling.
        interval: A 95 % interval of the probability among all rows of the kind that the model was trained on. It
            contains the error of the training sample, not only that of the simulation: the posterior
            Beta(k + 1/2, n - k + 1/2) if k of n training rows satisfy the condition (`support`), widened to the
            probability of the model; see `harpoon.inference.diagnostics.probability_intervals`. Both are those of
            the population that the weights describe, if the model has weights. If no row of the model can satisfy the
            condition (`support.is_impossible`), the probability is 0. If the condition contradicts itself
            (`support.is_contradiction`), so are both ends.
        parts: The parts of the condition, each alone.
        training_fraction: The fraction of the rows of `data` that satisfy it; None if no table was given.
        weighted_fraction: The same by the weights of the rows; None if the model or `data` has none.
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
    weighted_fraction: float | None = None

    def __str__(self) -> str:
        lines = [self.condition]
        if self.support.is_impossible:
            lines.append(f"  {self.suggestion}")
        lines.append(f"  probability {self._number}{f' ({self._basis})' if self._basis else ''}")
        if self._met:
            lines.append(f"  {self._met}")
        lines.append(f"  {self.support}")
        lines += [f"  {format_percent(part.probability):>8}  {part.text}" for part in self.parts]
        lines += [f"  {self.suggestion}"] if self.suggestion and not self.support.is_impossible else []
        return "\n".join(lines)

    @property
    def _number(self) -> str:
        return "0" if self.support.is_impossible else format_percent(self.probability)

    @property
    def _basis(self) -> str:
        """What the probability rests on; "" of a contradiction."""
        if self.support.is_contradiction:
            return ""
        level, low, high = map(format_percent, (LEVEL, *self.interval))
        learnt, sampled = (format_rounded(round(rows)) for rows in (self.support.given_rows, self.rows))
        if self.support.effective_rows is not None:
            level = f"of the weighted population; {level}"
            learnt = f"{format_rounded(round(self.support.effective_rows))} effective of {learnt}"
        rows = (
            f"{learnt} training rows"
            if self.support.is_impossible
            else f"{learnt} training rows and {sampled} sampled rows"
        )
        interval = f"{level} interval {low} to {high}, for {rows}"
        return f"{interval}; {NOT_CHECKED}" if self.support.is_modelled else interval

    @property
    def _met(self) -> str:
        """How many rows of the table satisfy the condition, in words; "" without a table."""
        if self.training_fraction is None:
            return ""
        met = f"met by {format_percent(self.training_fraction)} of the rows of the table"
        if self.weighted_fraction is not None:
            return f"{met} (rows, not weighted), and by {format_percent(self.weighted_fraction)} by their weights"
        return met if self.support.effective_rows is None else f"{met} (rows, not weighted)"

    def _card(self) -> cards.Html:
        parts = [(cards.code(part.text), cards.bar(part.probability)) for part in self.parts]
        alone = [cards.table(["part of the condition", "probability alone"], parts)] if len(parts) > 1 else []
        number = cards.paragraph(self._number, role="number")
        answer = [number, cards.paragraph(self._basis, role="quiet")]
        advice = [cards.paragraph(self.suggestion)]
        if self.support.is_impossible:
            answer, advice = [*advice, *answer], []
        met = cards.paragraph(self._met and f"M{self._met[1:]}.")
        support = support_paragraph(self.support)
        return cards.card(cards.code(self.condition), *answer, met, support, *alone, *advice)


def feasibility(
    sampler: RowSampler,
    tree: Predicate,
    schema: Schema,
    base: Columns,
    *,
    counted: Columns | None,
    weights: Floats | None,
    tables: ContingencyTables,
) -> Feasibility:
    """Sample rows, and count how many satisfy a condition and its parts.

    `base` is what all rows have in common: one row, its free cells missing. `counted` are real rows to count in too,
    which may have `weights`, (n,).
    """
    predicate = bind(tree, schema)
    met = None if counted is None else evaluate(predicate, counted)
    fraction = None if met is None else float(met.mean())
    by_weight = None if met is None or weights is None else float(weights[met].sum() / weights.sum())
    contradiction = partial(find_contradiction, sampler=sampler, rows=base, nullable=sampler.codec.nullable)
    if why := contradiction(tree):
        # Possible parts have the fractions of the training rows.
        parts = tuple(
            FeasibilityPart(str(part), 0.0 if contradiction(part) else _training_fraction(bind(part, schema), tables))
            for part in members_of(tree, Junction)
        )
        found = find_support(tables, predicate, base, table=counted, weights=weights)
        support = found.of_impossible(is_contradiction=contradicts_itself(tree, schema))
        near = [text for term in _comparisons(predicate) for text in _within_reach(term, schema, tables)]
        suggestion = " ".join([f"No row can satisfy it: {why}.", *near])
        interval = probability_interval(0.0, math.inf, support)
        return Feasibility(str(tree), 0.0, interval, parts, fraction, 0, suggestion, support, by_weight)
    search = ConditionalSampler(sampler, predicate, base)
    rows, _ = search.sample_pilot()
    estimate = search.estimate or ProbabilityEstimate(0.0, PILOT_ROWS)
    parts = tuple(
        FeasibilityPart(str(part), float(evaluate(bind(part, schema), rows).mean()))
        for part in members_of(tree, Junction)
    )
    suggestion = " ".join(explain(tree, schema, rows)) if estimate.probability < UNLIKELY_PROBABILITY else ""
    probability = estimate.probability
    support = find_support(tables, predicate, base, table=counted, weights=weights, probability=probability)
    interval = probability_interval(probability, estimate.rows, support)
    return Feasibility(
        str(tree), probability, interval, parts, fraction, search.sampled, suggestion, support, by_weight
    )


def _training_fraction(predicate: BoundPredicate, tables: ContingencyTables) -> float:
    """Return about which fraction of the training rows satisfies a condition."""
    return find_support(tables, predicate, {}).estimate / max(tables.n_rows, 1)


def _within_reach(term: Compare, schema: Schema, tables: ContingencyTables) -> list[str]:
    """Return a bound on one column that about 1 % of the training rows or more meet, if none meets the given one."""
    if not _is_bound(term) or find_support(tables, term, {}).upper_bound or term.left.column not in tables.columns:
        return []
    column, bins = schema[term.left.column], tables.columns[term.left.column]
    is_above = term.operator in (">", ">=")
    ends = np.unique(bins.low if is_above else bins.high)
    for end in ends[::-1] if is_above else ends:
        nearer = Compare(">=" if is_above else "<=", term.left, NumberLiteral(end.item()))
        share = _training_fraction(nearer, tables)
        if share >= UNLIKELY_PROBABILITY:
            text = f"{quote_name(column.name)} {nearer.operator} {_literal(column, end)}"
            return [f"{text} would be met by about {format_percent(share)} of the training rows."]
    return []


def explain(tree: Predicate, schema: Schema, rows: Columns) -> list[str]:
    """Return sentences on why rows violate a condition: for each rare part its probability, and how far rows come."""
    members = members_of(tree)
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
    return (leaf for leaf in leaves(predicate) if isinstance(leaf, Compare))


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
    """Return a value as a condition has it: a point in time in quotes, a duration as an interval."""
    text = _format(column, value)
    return f"{'interval ' * (column.kind is Kind.DURATION)}'{text}'" if column.kind.temporal else text
