"""Scores of whole synthetic rows, each with a sentence that explains its value."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import numpy as np

from harpoon import metrics
from harpoon._text import format_percent
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.report.overview import complete_rows, sample_rows
from harpoon.report.summary import ClosestRecord, Fidelity, Score, finite_or_none

MIN_ROWS = 20  # of each table; with fewer the scores are noise
MAX_CATEGORIES = 256  # a column with more is left out: its categories hardly repeat
DETECTION_FOLDS = 5
REPEATED_ROWS_AUC = 0.45  # an AUC below this means that equal rows are in both tables
DISTANCE_BINS = 30
MAX_DISTANCE_QUANTILE = 0.99  # larger distances are counted in the last bin
DETECTORS = {"xgboost": "XGBoost", "boosted": "a boosted classifier of scikit-learn", "linear": "a logistic regression"}


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
    result = Fidelity(
        rows=size,
        scores=[
            *(_detection(schema, left, right, classifier, seed) for classifier in (_strong_classifier(), "linear")),
            _alpha_precision(metrics.alpha_precision(schema, left, right)),
            _beta_recall(metrics.beta_recall(schema, left, right)),
        ],
        copies_of=None,
        copies_note=reference.note,
        closest=None,
    )
    if reference.rows is not None:
        originals = left if reference.rows is real else sample_rows(reference.rows, size, rng)
        result["scores"].append(_authenticity(metrics.authenticity(schema, originals, right), reference.name))
        result["copies_of"] = reference.name
        result["closest"] = _closest_record(schema, originals, right)
    return result


def _strong_classifier() -> str:
    """Return XGBoost if it is installed."""
    return "xgboost" if importlib.util.find_spec("xgboost") else "boosted"


def _detection(schema: Schema, real: Table, synthetic: Table, classifier: str, seed: int) -> Score:
    auc = metrics.detection(
        schema, real, synthetic, classifier=classifier, folds=DETECTION_FOLDS, random_state=seed % 2**32
    )
    name = DETECTORS[classifier]
    meaning = (
        f"Given a real and a synthetic row, {name} picks the synthetic one in {100 * auc:.0f} of 100 pairs. "
        "Guessing would be right in 50."
    )
    if auc < REPEATED_ROWS_AUC:
        meaning += " Fewer than 50 mean that the same rows are in both tables."
    return Score(
        key="linear_detection" if classifier == "linear" else "detection",
        name=f"Detection by {name}",
        value=finite_or_none(auc) or 0.0,
        ideal=0.5,
        meaning=meaning,
    )


def _alpha_precision(value: float) -> Score:
    return Score(
        key="alpha_precision",
        name="Plausible rows (α-precision)",
        value=finite_or_none(value) or 0.0,
        ideal=0.98,
        meaning=f"Synthetic rows are as typical, and as extreme, as real rows to {format_percent(value)}. "
        "One half of a real table scores about 98 % against the other half.",
    )


def _beta_recall(value: float) -> Score:
    return Score(
        key="beta_recall",
        name="Variety (β-recall)",
        value=finite_or_none(value) or 0.0,
        ideal=0.5,
        meaning=f"{100 * value:.0f} of 100 real rows have a synthetic row at least as close as the closest other real "
        "row. New real rows would reach about 50. Only copies reach 100.",
    )


def _authenticity(value: float, originals: str) -> Score:
    return Score(
        key="authenticity",
        name="No copies (authenticity)",
        value=finite_or_none(value) or 0.0,
        ideal=0.5,
        meaning=f"{100 * value:.0f} of 100 synthetic rows are farther from the closest of the {originals} than that "
        "row is from its own closest neighbour. New rows of the same distribution score about 50; far fewer is a sign "
        "of copies.",
    )


def _closest_record(schema: Schema, real: Table, synthetic: Table) -> ClosestRecord:
    found = dict(zip(("synthetic", "real"), metrics.nearest_distances(schema, real, synthetic), strict=True))
    largest = float(np.quantile(np.concatenate(list(found.values())), MAX_DISTANCE_QUANTILE)) or 1.0
    edges = np.linspace(0.0, largest, DISTANCE_BINS + 1)
    fractions = {name: np.histogram(np.minimum(one, largest), edges)[0] / len(one) for name, one in found.items()}
    return ClosestRecord(
        edges=[finite_or_none(edge) or 0.0 for edge in edges.tolist()],
        fractions={name: [finite_or_none(value) or 0.0 for value in one] for name, one in fractions.items()},
        median={name: finite_or_none(float(np.median(one))) or 0.0 for name, one in found.items()},
        equal={name: finite_or_none(float((one == 0).mean())) or 0.0 for name, one in found.items()},
    )
