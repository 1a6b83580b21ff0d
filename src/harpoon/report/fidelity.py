"""Scores of whole synthetic rows, each with a sentence that explains its value.

The scores are those of `harpoon.metrics.METRICS` that take real and synthetic rows and are meant for the report. Title,
direction, range and ideal value come from there.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from harpoon import metrics
from harpoon._formatting import format_percent
from harpoon.data import Schema, Table
from harpoon.metrics import METRICS, Metric
from harpoon.report.overview import complete_rows, sample_rows
from harpoon.report.summary import ClosestRecord, Fidelity, Score, finite_or_none, finite_or_zero

MIN_ROWS = 20  # of each table; with fewer the scores are noise
MAX_CATEGORIES = 256  # a column with more is left out: its categories hardly repeat
REPEATED_ROWS_AUC = 0.45  # an AUC below this means that equal rows are in both tables
DISTANCE_BINS = 30
MAX_DISTANCE_QUANTILE = 0.99  # larger distances are counted in the last bin
SUMMARY_KEYS = {  # of the scores whose key in the summary is not that of the registry
    "detection_xgboost": "detection",
    "detection_boosted": "detection",
    "detection_linear": "linear_detection",
    "alpha": "alpha_precision",
    "beta": "beta_recall",
}
DETECTION_MEANING = (
    "Given a real and a synthetic row, {classifier} picks the synthetic one in {of_100} of 100 pairs; "
    "guessing would be right in 50."
)
MEANINGS = {  # of a value; other metrics are explained by their docstring
    "detection": DETECTION_MEANING,
    "linear_detection": DETECTION_MEANING,
    "alpha_precision": (
        "Synthetic rows are as typical, and as extreme, as real rows to {percent}; "
        "one half of a real table scores about 98 % against the other half."
    ),
    "beta_recall": (
        "{of_100} of 100 real rows have a synthetic row at least as close as the closest other real row; "
        "new real rows would reach about 50, only copies 100."
    ),
    "authenticity": (
        "{of_100} of 100 synthetic rows are farther from the closest of the {originals} than that row is from its own "
        "closest neighbour; new rows of the same distribution score about 50, and far fewer is a sign of copies."
    ),
}


class Reference(NamedTuple):
    """Rows in which copies are searched for: the real rows themselves, or complete training rows."""

    rows: Table | None
    name: str
    note: str = ""  # why there are no rows


def comparable_columns(schema: Schema) -> Schema:
    """Return the columns that scores of whole rows use."""
    return Schema(tuple(column for column in schema.modelled if len(column.categories or ()) <= MAX_CATEGORIES))


def fidelity(schema: Schema, real: Table, synthetic: Table, *, reference: Reference, seed: int) -> Fidelity | None:
    """Score whole rows, and search `reference` for copies; None if there are too few complete rows."""
    schema = comparable_columns(schema)
    if not schema.modelled:
        return None
    complete = [complete_rows(table, schema) for table in (real, synthetic)]
    size, rng = min(table.n_rows for table in complete), np.random.default_rng(seed)
    if size < MIN_ROWS:
        return None
    left, right = (sample_rows(table, size, rng) for table in complete)
    originals = left if reference.rows is real else reference.rows
    if originals is not None and originals is not left:
        originals = sample_rows(originals, size, rng)
    return Fidelity(
        rows=size,
        scores=list(_scores(schema, left, right, Reference(originals, reference.name), seed)),
        copies_of=None if originals is None else reference.name,
        copies_note=reference.note,
        closest=None if originals is None else _closest_record(schema, originals, right),
    )


def _scores(schema: Schema, real: Table, synthetic: Table, originals: Reference, seed: int) -> Iterator[Score]:
    """Yield the scores in the order of the registry; authenticity needs the rows that could have been copied."""
    not_used = "detection_boosted" if importlib.util.find_spec("xgboost") else "detection_xgboost"
    for key, metric in METRICS.items():
        table = originals.rows if key == "authenticity" else real
        if key == not_used or not metric.in_report or metric.inputs != ("real", "synthetic") or table is None:
            continue
        seeded = {"random_state": seed} if "random_state" in inspect.signature(metric.function).parameters else {}
        value = metric.function(schema, table.native, synthetic.native, **seeded)
        yield _score(key, metric, value, originals.name)


def _score(key: str, metric: Metric, value: float, originals: str) -> Score:
    score = Score(
        key=SUMMARY_KEYS.get(key, key),
        name=metric.title[:1].upper() + metric.title[1:],
        value=finite_or_none(value),
        direction=metric.direction,
        ideal=metric.ideal,
        meaning=metric.help,
    )
    if score["key"] in MEANINGS:
        score["meaning"] = MEANINGS[score["key"]].format(
            of_100=f"{100 * value:.0f}",
            percent=format_percent(value),
            classifier=metric.title.removeprefix("detection by "),
            originals=originals,
        )
    if MEANINGS.get(score["key"]) is DETECTION_MEANING and value < REPEATED_ROWS_AUC:
        score["meaning"] += " Fewer than 50 mean that the same rows are in both tables."
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
