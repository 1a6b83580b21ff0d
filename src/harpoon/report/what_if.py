"""What a condition asks, how it was met, and what it did to every column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from harpoon._text import shorten
from harpoon.conditions.binder import bind
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import Predicate, column_names
from harpoon.conditions.parser import to_predicate as tree_of
from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from harpoon.data.column import Column
from harpoon.data.dataframe import Table
from harpoon.data.reader import read_columns
from harpoon.exceptions import SamplingFailed
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.report.distributions import distance, label_shares, picture
from harpoon.report.rows import finite, percent, rows_of, written
from harpoon.report.summary import Change, Condition

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


GUIDED_ROWS = 256  # drawn by guidance alone, to see how many fail straight out of it
FEWEST_REAL = 30  # rows that meet the condition, below which distances to them are noise
HOW = {
    "rejection": "plain rows were drawn, and those that meet it were kept",
    "conditioning": "the columns it restricts were drawn first, and the rest of each row knowing them",
    "guidance": "rows were pulled by the gradient of a penalty, and weighted to take back how this bends their law",
    "paper": "rows were pulled by Algorithm 1 of the paper, and come back as they are",
}


def what_if(
    model: Harpoon, where: str | Predicate, plain: Table, real: Table | None, *, rows: int, seed: int
) -> Condition:
    """Draw rows under a condition and lay them beside plain ones.

    Args:
        model: The model.
        where: The condition.
        plain: Rows drawn without it.
        real: Real rows, if there are any.
        rows: How many rows to draw.
        seed: For the draws.
    """
    tree, schema = tree_of(where), model.schema_
    after = dataframe.read(model.sample(rows, where=tree, random_state=seed))
    report = model.sampling_info_
    failed, guided = _guidance(model, tree, report, seed)
    inside = None if real is None else rows_of(real, _met(model, tree, real))
    ours = float(_met(model, tree, plain).mean())
    theirs = None if real is None or inside is None else inside.n_rows / real.n_rows
    compared = inside if inside is not None and inside.n_rows >= FEWEST_REAL else None
    whole, asked = plain if real is None else real, column_names(tree)
    changes = [_change(c, plain, after, compared) for c in schema.modelled if c.name not in asked]
    return Condition(
        text=str(tree),
        strategy=report.strategy,
        rows=report.rows,
        tried=report.sampled,
        violations=finite(report.violations) or 0.0,
        guided_violations=None if failed is None else finite(failed),
        guided_rows=guided,
        seconds=round(report.seconds, 2),
        share_of_drawn=finite(ours) or 0.0,
        share_of_real=None if theirs is None else finite(theirs),
        real_rows=None if inside is None else inside.n_rows,
        meanings=list(_meanings(report, failed, ours, theirs)),
        region=[_change(c, whole, after, compared) for c in schema.modelled if c.name in asked],
        what_if=sorted(changes, key=lambda change: -(change["effect"] or 0.0)),
    )


def _guidance(model: Harpoon, tree: Predicate, report: SamplingInfo, seed: int) -> tuple[float | None, int]:
    """The share of rows that fail straight out of the guided loop, and how many rows say so.

    Where no row had to be guided, some are, to see it.
    """
    if report.guided_violations is not None:
        return report.guided_violations, report.sampled
    try:
        model.sample(GUIDED_ROWS, where=tree, strategy="guidance", on_shortfall="return", random_state=seed)
    except SamplingFailed:
        return None, 0
    return model.sampling_info_.guided_violations, model.sampling_info_.sampled


def _met(model: Harpoon, tree: Predicate, table: Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return evaluate(bind(tree, model.schema_), read_columns(table, model.schema_, partial=True))


def _change(column: Column, before: Table, after: Table, inside: Table | None) -> Change:
    size, words = shift(column, before, after)
    return Change(
        name=column.name,
        kind=column.kind.value,
        measure="KS" if column.kind.numeric else "TV",
        effect=distance(column, before, after),
        shift=words,
        shift_size=size,
        from_real=None if inside is None else distance(column, inside, after),
        picture=picture(column, {"before": before, "after": after}),
    )


def shift(column: Column, before: Table, after: Table) -> tuple[float | None, str]:
    """How far the mean moved, or the share that changed most, as a number and in words."""
    cells = [table.column(column.name) for table in (before, after)]
    if any(one.missing.all() for one in cells):
        return None, "no cells"
    if column.kind.discrete:
        old, new = (label_shares(one, column) for one in cells)
        moved = {label: new.get(label, 0.0) - old.get(label, 0.0) for label in {**old, **new}}
        label = max(moved, key=lambda one: (abs(moved[one]), str(one)))
        ends = f"{percent(old.get(label, 0.0))} → {percent(new.get(label, 0.0))}"
        return finite(moved[label]), f"{shorten(str(label), shown=40)}: {ends}"
    values = [coerce(one, column).observed.astype(np.float64) for one in cells]
    means, deviation = [one.mean() for one in values], float(values[0].std())
    size = finite(float(means[1] - means[0]) / deviation) if deviation > 0 else None
    return size, f"mean {' → '.join(_told_apart(column, means))}"


def _told_apart(column: Column, values: list[float]) -> list[str]:
    """Values with as many digits as it takes to see that they differ."""
    texts = [[written(column, value, digits) for value in values] for digits in range(4, 9)]
    return next((text for text in texts if len(set(text)) == len(text)), texts[0])


def _meanings(report: SamplingInfo, failed: float | None, ours: float, theirs: float | None) -> Iterator[str]:
    """What was done and found, in sentences."""
    yield f"{report.rows:,} rows were drawn ({report.strategy}): {HOW[report.strategy]}."
    if report.violations:
        yield f"{percent(report.violations)} of them do not meet the condition."
    else:
        yield "Every one of them meets the condition; each was checked."
    if failed is not None:
        yield f"For comparison: of rows only pulled by guidance, as in the paper, {percent(failed)} would fail it."
    if theirs is None:
        yield f"Of rows drawn without it, {percent(ours)} meet it."
    else:
        yield f"Of rows drawn without it {percent(ours)} meet it, of the real rows {percent(theirs)}."
