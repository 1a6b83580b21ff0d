"""How likely a condition is, what in it is unlikely, and what could be relaxed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harpoon._text import format_percent
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import BoundPredicate, ColumnRef, Compare, NumberLiteral
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import And, Or, Predicate
from harpoon.data.column import Column, describe, format_number, format_time
from harpoon.data.column_array import Columns, repeat_row, take
from harpoon.data.schema import Schema
from harpoon.inference.conditional import ConditionalSampler
from harpoon.inference.row_sampler import RowSampler

SAMPLED_ROWS = 10_000
LEVEL = 1.96  # deviations of a normal law that hold 95 % of it
UNLIKELY_PROBABILITY = 0.01
MAX_EXPLAINED = 3
BOUNDS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class FeasibilityPart:
    """A part of a condition and how likely it is by itself."""

    text: str
    probability: float


@dataclass(frozen=True)
class Feasibility:
    """How likely a condition is under the model.

    Attributes:
        condition: The condition.
        probability: The share of drawn rows that meet it.
        interval: Where its probability lies, with 95 % confidence.
        parts: What it is joined from, each by itself.
        training_share: The share of training rows that met it; None for a model that was read from a file.
        rows: How many rows were drawn.
        suggestion: What to relax.
    """

    condition: str
    probability: float
    interval: tuple[float, float]
    parts: tuple[FeasibilityPart, ...]
    training_fraction: float | None
    rows: int
    suggestion: str

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"{self.condition}",
            f"  probability {format_percent(self.probability)} ({format_percent(low)} to {format_percent(high)})",
        ]
        if self.training_fraction is not None:
            lines.append(f"  met by {format_percent(self.training_fraction)} of the training rows")
        lines += [f"  {format_percent(part.probability):>8}  {part.text}" for part in self.parts]
        return "\n".join([*lines, f"  {self.suggestion}"] if self.suggestion else lines)


def feasibility(
    sampler: RowSampler, tree: Predicate, schema: Schema, base: Columns, counted: Columns | None
) -> Feasibility:
    """Draw rows, and see how many meet a condition and its parts."""
    bound = bind(tree, schema)
    plain = sampler.sample(repeat_row(base, SAMPLED_ROWS), np.arange(SAMPLED_ROWS))
    hits = int(evaluate(bound, plain).sum())
    probability, interval = hits / SAMPLED_ROWS, wilson_interval(hits, SAMPLED_ROWS)
    if not hits and sampler.denoiser.is_conditional:
        probability = min(ConditionalSampler(sampler, bound, base).probability(), interval[1])
    parts = tuple(
        FeasibilityPart(str(part), float(evaluate(bind(part, schema), plain).mean())) for part in _members(tree)
    )
    share = None if counted is None else float(evaluate(bound, counted).mean())
    suggestion = " ".join(explain(tree, schema, plain)) if probability < UNLIKELY_PROBABILITY else ""
    return Feasibility(str(tree), probability, interval, parts, share, SAMPLED_ROWS, suggestion)


def explain(tree: Predicate, schema: Schema, rows: Columns) -> list[str]:
    """What keeps these rows from meeting a condition: for each part that does, how far they are and what it costs."""
    members = tree.members if isinstance(tree, And) else (tree,)
    met = np.stack([evaluate(bind(part, schema), rows) for part in members])
    said: list[str] = []
    for place in np.argsort(met.mean(axis=1), kind="stable")[:MAX_EXPLAINED]:
        part, others = members[place], np.asarray(np.delete(met, place, axis=0).all(axis=0))
        alone, without = float(met[place].mean()), float(others.mean())
        if alone >= UNLIKELY_PROBABILITY and without < UNLIKELY_PROBABILITY:
            continue
        cost = f"; without it the rest would be met by {format_percent(without)}" if len(members) > 1 else ""
        said.append(f"{part} is met by {format_percent(alone)} of drawn rows{cost}.")
        among = take(rows, others) if others.any() else rows
        said += [text for leaf in _leaves(bind(part, schema)) for text in _reach(leaf, schema, among)]
    return said or ["Each part is met by itself, but hardly ever together with the others."]


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """The interval of Wilson for a share."""
    share, spread = hits / count, LEVEL**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = LEVEL * math.sqrt(share * (1 - share) / count + spread / count / 4) / (1 + spread)
    return max(middle - half, 0.0) if hits else 0.0, min(middle + half, 1.0)


def _members(tree: Predicate) -> tuple[Predicate, ...]:
    return tree.members if isinstance(tree, And | Or) else (tree,)


def _leaves(bound: BoundPredicate) -> Iterator[Compare]:
    if isinstance(bound, Compare):
        yield bound
    for part in getattr(bound, "parts", ()):
        yield from _leaves(part)


def _reach(leaf: Compare, schema: Schema, rows: Columns) -> list[str]:
    """How far drawn rows come towards a bound on one column, where none gets there."""
    if not isinstance(leaf.left, ColumnRef) or not isinstance(leaf.right, NumberLiteral) or leaf.operator not in BOUNDS:
        return []
    column = schema[leaf.left.column]
    values = rows[column.name].values
    if evaluate(leaf, rows).any() or not len(values):
        return []
    upwards = leaf.operator in (">", ">=")
    closest = values.max() if upwards else values.min()
    likely = np.quantile(
        values, 1 - UNLIKELY_PROBABILITY if upwards else UNLIKELY_PROBABILITY, method="closest_observation"
    )
    reachable = f"{column.name} {'>=' if upwards else '<='} {_value(column, likely)}"
    seen = f"The closest drawn rows come to {_value(column, closest)}; the training rows have "
    return [f"{seen}{describe(column)}. {reachable} would be met by about 1 % of them."]


def _value(column: Column, value: np.generic) -> str:
    return format_time(column, int(value)) if column.kind.temporal else format_number(value.item())
