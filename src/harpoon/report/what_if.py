"""The effect of a condition on every column, and how the condition was satisfied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_percent, shorten
from harpoon.conditions import BoundPredicate, Predicate, bind, column_names, columns_of, evaluate, to_predicate
from harpoon.data import Column, Kind, Table, as_category, coerce, dataframe, read_columns
from harpoon.data.survey_weights import read_known_weights
from harpoon.exceptions import ExtrapolationWarning, SamplingFailed, hold_warnings
from harpoon.inference.diagnostics.answer_grade import grade_answer
from harpoon.inference.diagnostics.conditional_counts import ConditionalCounts
from harpoon.inference.diagnostics.probability_intervals import LEVEL, mean_under_condition, share_under_condition
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.diagnostics.support import warn_extrapolation
from harpoon.report.agreement import MIN_REAL_ROWS, agreement
from harpoon.report.distributions import (
    by_excess,
    category_fractions,
    describe_distribution,
    distance,
    distance_noise,
    format_category,
    format_rounded_value,
    measure,
)
from harpoon.report.rows import sample_rows
from harpoon.report.summary import Change, Condition, finite_or_none, finite_or_zero

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


MAX_ROWS = 2000
GUIDED_ROWS = 256  # sampled by guidance alone, to measure its violations
MAX_CATEGORY_CHARACTERS = 40
MAX_DIGITS = 8
OF_TRAINING, OF_REAL = "the training rows", "the real rows that satisfy the condition"
STRATEGY_TEXTS = {
    "rejection": "unconditional rows were sampled, and those that satisfy the condition were kept",
    "conditioning": "the columns in the condition were sampled first, and the rest of each row given them",
    "guidance": "rows were guided by the gradient of a penalty, and the bias of this was corrected by weights",
    "paper": "rows were guided by Algorithm 1 of the paper, and returned unchecked",
}


def what_if(
    model: Harpoon,
    where: str | Predicate,
    unconditional: Table,
    real: Table | None,
    *,
    seed: int,
    training: Table | None = None,
) -> Condition:
    """Sample rows under a condition, and compare them with unconditional samples and with real rows.

    Args:
        model: The model.
        where: The condition.
        unconditional: Rows that were sampled without it. At most so many real rows are compared.
        real: All real rows, because a condition may be met by few of them.
        seed: Of the rows.
        training: The training table, in which the rows that support the answer are counted.
    """
    tree, columns = to_predicate(where, model.schema_.names), model.schema_.modelled
    predicate = bind(tree, model.schema_)
    with hold_warnings(ExtrapolationWarning):  # one follows, by the exact count if there is one
        after = dataframe.read(model.sample(min(unconditional.n_rows, MAX_ROWS), where=tree, random_state=seed))
        info = model.sampling_info_
        guided_violations, guided_rows = _measure_guidance(model, tree, info, seed)
    synthetic_fraction = float(_satisfied(model, tree, unconditional).mean())
    satisfied = None if real is None else np.flatnonzero(_satisfied(model, tree, real))
    real_fraction = None if real is None or satisfied is None else len(satisfied) / real.n_rows
    rng = np.random.default_rng(seed)
    real_inside, whole_real = None, real
    if real is not None and satisfied is not None:
        real_inside = sample_rows(real.take(satisfied), unconditional.n_rows, rng)
        real = sample_rows(real, unconditional.n_rows, rng)
    truth = real_inside if real_inside is not None and real_inside.n_rows >= MIN_REAL_ROWS else None
    whole, restricted = unconditional if real is None else real, column_names(tree)
    interval_rows, counted = _interval_rows(model, tree, predicate, training, whole_real)
    counts = {column.name: training_counts(model, predicate, column, counted) for column in columns}
    changes = [_change(c, unconditional, after, truth, counts[c.name]) for c in columns if c.name not in restricted]
    region = [_change(c, whole, after, truth, counts[c.name]) for c in columns if c.name in restricted]
    support = info.support if training is None else model.support(tree, data=training)
    warn_extrapolation(support, str(tree))
    own = None if support is None else grade_answer(model.calibration_, support)
    agreed = agreement(columns, after, real_inside, own)
    return Condition(
        text=str(tree),
        strategy=info.strategy,
        rows=info.rows,
        sampled=info.sampled,
        violations=finite_or_zero(info.violations),
        guided_violations=finite_or_none(guided_violations),
        guided_rows=guided_rows,
        seconds=round(info.seconds, 2),
        synthetic_fraction=finite_or_zero(synthetic_fraction),
        real_fraction=finite_or_none(real_fraction),
        real_rows=None if satisfied is None else len(satisfied),
        support=None if support is None else support.to_json(),
        agreement=agreed,
        meanings=list(_meanings(info, guided_violations, synthetic_fraction, real_fraction)),
        interval_rows=interval_rows,
        region=region,
        what_if=sorted(changes, key=lambda change: by_excess(change["effect"], change["noise"])),
    )


def _interval_rows(
    model: Harpoon, tree: Predicate, predicate: BoundPredicate, training: Table | None, real: Table | None
) -> tuple[str, Table | None]:
    """Return whose error intervals contain, and these rows; None for the rows that the model file counts.

    It counts columns in pairs, so that under a condition on several columns only a table can say how sure a mean is.
    """
    if training is None and len(columns_of(predicate)) == 1:
        return OF_TRAINING, None
    # Real rows of a weighted model were chosen by their weights, so that some are there several times.
    table, whose = (real, OF_REAL) if training is None else (training, OF_TRAINING)
    if table is None or (table is real and model.schema_.weights is not None):
        return "", None
    return whose, table.take(np.flatnonzero(_satisfied(model, tree, table)))


def _measure_guidance(model: Harpoon, tree: Predicate, info: SamplingInfo, seed: int) -> tuple[float | None, int]:
    """Return the fraction of guided rows that violate the condition, and their number; guide some if none were."""
    if info.guided_violations is not None:
        return info.guided_violations, info.sampled
    try:
        model.sample(GUIDED_ROWS, where=tree, strategy="guidance", on_shortfall="return", random_state=seed)
    except SamplingFailed:
        return None, 0
    return model.sampling_info_.guided_violations, model.sampling_info_.sampled


def _satisfied(model: Harpoon, tree: Predicate, table: Table) -> NDArray[np.bool_]:
    return evaluate(bind(tree, model.schema_), read_columns(table, model.schema_, partial=True))


def _change(
    column: Column, before: Table, after: Table, truth: Table | None, training: ConditionalCounts | None
) -> Change:
    moved, shown = shift(column, before, after, training), as_category(column)
    return Change(
        name=column.name,
        kind=column.kind.value,
        measure=measure(shown),
        effect=distance(shown, before, after),
        noise=distance_noise(shown, before, after),
        shift=moved.text,
        shift_size=moved.size,
        interval=None if moved.interval is None else [finite_or_zero(end) for end in moved.interval],
        interval_text=moved.interval_text,
        distance_to_real=None if truth is None else distance(shown, truth, after),
        picture=describe_distribution(shown, {"before": before, "after": after}),
    )


@dataclass(frozen=True)
class Shift:
    """How far the mean of a column moved, or the category fraction that changed most.

    Attributes:
        size: The change of the mean in standard deviations, or of the fraction.
        text: The mean or the fraction before and after.
        interval: The 95 % interval of the mean or the fraction after; None if no training rows support one.
        interval_text: The interval as text, or why there is none.
    """

    size: float | None
    text: str
    interval: tuple[float, float] | None = None
    interval_text: str = ""


def shift(
    column: Column, before: Table, after: Table, training: ConditionalCounts | None = None, *, digits: int = 4
) -> Shift:
    """Return how a column moved. `training`: the column among training rows that satisfy the condition, if known."""
    cells = [table.column(column.name) for table in (before, after)]
    if any(one.missing.all() for one in cells):
        return Shift(None, "no cells")
    shown = as_category(column)
    if shown.kind.discrete:
        old, new = (category_fractions(shown, one) for one in cells)
        changes = {category: new.get(category, 0.0) - old.get(category, 0.0) for category in {**old, **new}}
        category = max(changes, key=lambda one: (abs(changes[one]), str(one)))
        ends = " → ".join(format_percent(one.get(category, 0.0), min(digits, 3)) for one in (old, new))
        text = f"{shorten(format_category(category), shown=MAX_CATEGORY_CHARACTERS)}: {ends}"
        return _with_interval(Shift(finite_or_none(changes[category]), text), column, after, training, category)
    values = [coerce(one, column).observed.astype(np.float64) for one in cells]
    means = [float(one.mean()) for one in values]
    with np.errstate(over="ignore"):
        deviation = float(values[0].std())
    size = finite_or_none((means[1] - means[0]) / deviation) if 0 < deviation < np.inf else None
    text = f"mean {' → '.join(_format_distinct(column, means, digits))}"
    return _with_interval(Shift(size, text), column, after, training)


def estimate_interval(
    column: Column, table: Table, training: ConditionalCounts, category: object = None
) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean of a column of sampled rows, or of the fraction of a category.

    `training` is the column among the training rows that satisfy the condition of the sampled ones. The interval
    contains the error of both (`harpoon.inference.diagnostics.probability_intervals`); None without two training rows.
    """
    cells, shown = table.column(column.name), as_category(column)
    if shown.kind.discrete:
        labels = shown.categories or (False, True)
        # The training rows are counted by the codes of labels, but by the values of a flag.
        code_of = dict(zip(labels, labels if column.is_flag else range(len(labels)), strict=True))
        share, n_observed = category_fractions(shown, cells).get(category, 0.0), len(cells.observed)
        return share_under_condition(share, n_observed, training, code_of.get(category, -1))
    values = coerce(cells, column).observed.astype(np.float64)
    with np.errstate(over="ignore"):
        mean, error = float(values.mean()), float(values.std()) / math.sqrt(len(values))
    return mean_under_condition(mean, error, training) if math.isfinite(mean + error) else None


def training_counts(
    model: Harpoon, predicate: BoundPredicate, column: Column, real: Table | None = None
) -> ConditionalCounts | None:
    """Return a column among the training rows that satisfy a condition: of a table of them, or as the model counts.

    None if it is not known, or if the condition itself chooses the categories of the column.
    """
    if as_category(column).kind.discrete and column.name in columns_of(predicate):
        return None
    if real is None:
        return ConditionalCounts.from_tables(model.contingency_, predicate, column.name)
    cells = coerce(real.column(column.name), column)
    weights = read_known_weights(real, model.schema_)
    of_observed = None if weights is None else weights[~cells.missing]
    return ConditionalCounts.from_cells(cells.observed.astype(np.float64), of_observed)


def _with_interval(
    moved: Shift, column: Column, after: Table, training: ConditionalCounts | None, category: object = None
) -> Shift:
    if training is None:
        return moved
    ends = estimate_interval(column, after, training, category)
    if ends is None:
        return replace(moved, interval_text="no interval: fewer than two rows satisfy the condition")
    if as_category(column).kind.discrete:
        what, (low, high) = "share", (format_percent(end, 3) for end in ends)
    else:
        what, (low, high) = "mean", _format_distinct(column, list(ends), 4)
    text = f"{format_percent(LEVEL)} interval of the {what}: {low} to {high}"
    return replace(moved, interval=ends, interval_text=text)


def _format_distinct(column: Column, values: list[float], digits: int) -> list[str]:
    """Return values as text, with as many digits as they need to look different."""
    largest = max(map(abs, values))
    texts = [
        [format_rounded_value(column, value, n, largest=largest) for value in values]
        for n in range(digits, MAX_DIGITS + 1)
    ]
    found = next((text for text in texts if len(set(text)) == len(text)), texts[0])
    if column.kind is Kind.DURATION:  # their unit is the same
        found = [*(text.partition(" ")[0] for text in found[:-1]), found[-1]]
    return found


def _meanings(
    info: SamplingInfo, guided_violations: float | None, synthetic_fraction: float, real_fraction: float | None
) -> Iterator[str]:
    """Yield sentences about the result."""
    yield f"{info.rows:,} rows were sampled by {info.strategy}: {STRATEGY_TEXTS[info.strategy]}."
    if info.violations:
        yield f"{format_percent(info.violations)} of them do not satisfy the condition."
    else:
        yield "Each of them was checked and satisfies the condition."
    if guided_violations is not None:
        yield f"Guidance alone, as in the paper, would violate it in {format_percent(guided_violations)} of the rows."
    yield f"Without the condition, {format_percent(synthetic_fraction)} of the sampled rows satisfy it."
    if real_fraction is not None:
        yield f"Of the real rows, {format_percent(real_fraction)} satisfy it."
