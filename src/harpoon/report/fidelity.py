"""Scores of whole synthetic rows, each with a sentence that explains its value.

The scores are those of `harpoon.metrics.METRICS` that take real and synthetic rows and are meant for the report. Title,
direction, range, ideal value and meaning come from there.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from harpoon import metrics
from harpoon.data import Schema, Table
from harpoon.metrics import METRICS, Metric
from harpoon.report.rows import complete_rows, sample_rows
from harpoon.report.summary import ClosestRecord, Fidelity, Score, finite_or_none, finite_or_zero

MIN_ROWS = 20  # of each table; with fewer the scores are noise
MAX_CATEGORIES = 256  # a column with more is left out: its categories hardly repeat
DISTANCE_BINS = 30
MAX_DISTANCE_QUANTILE = 0.99  # larger distances are counted in the last bin


class Reference(NamedTuple):
    """Rows in which copies are searched for: the real rows themselves, or complete training rows."""

    rows: Table | None
    name: str
    note: str = ""  # why there are no rows


def comparable_columns(schema: Schema) -> Schema:
    """Return the columns that scores of whole rows use."""
    return Schema(tuple(column for column in schema.modelled if len(column.categories or ()) <= MAX_CATEGORIES))


def fidelity(schema: Schema, real: Table, synthetic: Table, *, reference: Reference, seed: int) -> Fidelity | None:
    """Score whole rows, and search `reference` for copies; None if there are too few rows.

    Scores that cannot read missing cells are those of the complete rows, and left out if there are too few.
    """
    schema, rng = comparable_columns(schema), np.random.default_rng(seed)
    if not schema.modelled:
        return None
    whole = _equally_many(real, synthetic, rng)
    complete = _equally_many(complete_rows(real, schema), complete_rows(synthetic, schema), rng)
    if whole.size < MIN_ROWS:
        return None
    originals = complete.real if reference.rows is real else reference.rows
    if complete.size < MIN_ROWS:
        originals = None
    elif originals is not None and originals is not complete.real:
        originals = sample_rows(originals, complete.size, rng)
    return Fidelity(
        rows=whole.size,
        complete=complete.size,
        real=real.n_rows,
        scores=list(_scores(schema, whole, complete, Reference(originals, reference.name), seed)),
        copies_of=None if originals is None else reference.name,
        copies_note=reference.note or few_complete(complete.size),
        closest=None if originals is None else _closest_record(schema, originals, complete.synthetic),
    )


def few_complete(size: int) -> str:
    """Return a sentence about scores that need complete rows, if there are too few of them."""
    return "" if size >= MIN_ROWS else f"Not computed: this needs at least {MIN_ROWS} complete rows, got {size:,}."


class _Pair(NamedTuple):
    """As many real as synthetic rows."""

    real: Table
    synthetic: Table

    @property
    def size(self) -> int:
        return self.real.n_rows


def _equally_many(real: Table, synthetic: Table, rng: np.random.Generator) -> _Pair:
    size = min(real.n_rows, synthetic.n_rows)
    return _Pair(sample_rows(real, size, rng), sample_rows(synthetic, size, rng))


def _scores(schema: Schema, whole: _Pair, complete: _Pair, originals: Reference, seed: int) -> Iterator[Score]:
    """Yield the scores in the order of the registry; some need the rows that could have been copied."""
    for key, metric in _shown_metrics().items():
        pair = whole if metric.reads_missing else complete
        table = originals.rows if metric.finds_copies else pair.real
        if table is None or pair.size < MIN_ROWS:
            continue
        seeded = {"random_state": seed} if metric.is_random else {}
        value = metric.function(schema, table.native, pair.synthetic.native, **seeded)
        score = _score(key, metric, value, originals.name, pair.size)
        if pair.size < whole.size:
            score["meaning"] += f" From {pair.size:,} complete rows of each table only."
        yield score


def _shown_metrics() -> dict[str, Metric]:
    """Return the metrics of the report by their keys in it."""
    found: dict[str, Metric] = {}
    for key, metric in METRICS.items():
        can_run = not metric.package or importlib.util.find_spec(metric.package)
        if can_run and metric.in_report and metric.inputs == ("real", "synthetic"):
            found.setdefault(metric.report_key or key, metric)
    return found


def _score(key: str, metric: Metric, value: float, originals: str, rows: int) -> Score:
    score = Score(
        key=key,
        name=metric.title[:1].upper() + metric.title[1:],
        value=finite_or_none(value),
        direction=metric.direction,
        ideal=metric.ideal,
        meaning=metric.explain(value, originals),
        rows=rows,
    )
    if (metric.minimum, metric.maximum) != (0, 1):
        score["range"] = [end if math.isfinite(end) else None for end in (metric.minimum, metric.maximum)]
    return score


def _closest_record(schema: Schema, real: Table, synthetic: Table) -> ClosestRecord:
    found = dict(zip(("synthetic", "real"), metrics.nearest_distances(schema, real, synthetic), strict=True))
    largest = float(np.quantile(np.concatenate(list(found.values())), MAX_DISTANCE_QUANTILE)) or 1.0
    edges = np.linspace(0.0, largest, DISTANCE_BINS + 1)
    fractions = {name: np.histogram(np.minimum(one, largest), edges)[0] / len(one) for name, one in found.items()}
    return ClosestRecord(
        edges=[finite_or_zero(edge) for edge in edges],
        fractions={name: [finite_or_zero(value) for value in one] for name, one in fractions.items()},
        median={name: finite_or_zero(np.median(one)) for name, one in found.items()},
        equal={name: finite_or_zero((one == 0).mean()) for name, one in found.items()},
    )
