"""Drawn rows against real ones as wholes, each number with a sentence of what it means."""

from __future__ import annotations

import importlib.util

import numpy as np

from harpoon import metrics
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.report.rows import complete, finite, percent, some
from harpoon.report.summary import Closest, Likeness, Score

FEWEST = 20  # rows of each table, below which such scores are noise
MOST_LABELS = 256  # of a column, beyond which each row has a label almost of its own
FOLDS = 5
FOOLED = 0.45  # an area that only equal rows with different answers lead to
BINS = 30
FURTHEST = 0.99  # the share of the distances that the picture shows
DETECTORS = {"xgboost": "XGBoost", "boosted": "a boosted classifier of scikit-learn", "linear": "a logistic regression"}


def comparable_columns(schema: Schema) -> Schema:
    """The columns that scores of whole rows look at."""
    return Schema(tuple(column for column in schema.modelled if len(column.categories or ()) <= MOST_LABELS))


def fidelity(
    schema: Schema, real: Table, drawn: Table, *, trained_on: Table | None = None, against: str, seed: int
) -> Likeness | None:
    """Every score of rows, or None where there are too few complete rows to score.

    Args:
        schema: What the columns are.
        real: Real rows.
        drawn: Drawn rows.
        trained_on: Complete rows to look for copies in; the real ones by default.
        against: What to call those rows.
        seed: For the choice of rows and the classifiers.
    """
    schema = comparable_columns(schema)
    if not schema.modelled:
        return None
    pair = [complete(table, schema) for table in (real, drawn)]
    size, rng = min(table.n_rows for table in pair), np.random.default_rng(seed)
    if size < FEWEST:
        return None
    left, right = (some(table, size, rng) for table in pair)
    copied = some(trained_on, size, rng) if trained_on is not None else left
    return Likeness(
        rows=size,
        against=against,
        scores=[
            *(_detection(schema, left, right, name, seed) for name in (_strong(), "linear")),
            _alpha(metrics.alpha_precision(schema, left, right)),
            _beta(metrics.beta_recall(schema, left, right)),
            _authenticity(metrics.authenticity(schema, copied, right), against),
        ],
        closest=_closest(schema, copied, right),
    )


def _strong() -> str:
    """XGBoost where it is installed."""
    return "xgboost" if importlib.util.find_spec("xgboost") else "boosted"


def _detection(schema: Schema, real: Table, drawn: Table, name: str, seed: int) -> Score:
    area = metrics.detection(schema, real, drawn, classifier=name, folds=FOLDS, random_state=seed % 2**32)
    in_pairs = f"tells the drawn from the real row in {100 * area:.0f} of 100 pairs; 50 would be a coin toss"
    in_pairs += ", and fewer say that rows stand in both tables" if area < FOOLED else ""
    who = DETECTORS[name][0].upper() + DETECTORS[name][1:]
    return Score(
        name=f"Told apart by {DETECTORS[name]}",
        value=finite(area) or 0.0,
        ideal=0.5,
        meaning=f"{who} {in_pairs}.",
    )


def _alpha(value: float) -> Score:
    return Score(
        name="Plausible rows (α-precision)",
        value=finite(value) or 0.0,
        ideal=0.98,
        meaning=f"Drawn rows lie where real rows lie to {percent(value)}: they are as central, and as far out. Half of "
        "a table against the other half scores about 98 %.",
    )


def _beta(value: float) -> Score:
    return Score(
        name="Variety (β-recall)",
        value=finite(value) or 0.0,
        ideal=0.5,
        meaning=f"Of 100 real rows about {100 * value:.0f} have a drawn row at least as near as any other real one. "
        "New real rows would reach about 50; only copies reach 100.",
    )


def _authenticity(value: float, against: str) -> Score:
    seen = {
        "training rows": "Far fewer than 50 would say that the model copies.",
        "test rows": "If the model was not trained on these rows, that is what chance gives, and no sign of copying; "
        "if it was, far fewer than 50 would say that it copies.",
        "real rows": "New rows of the same law score about 50; far fewer say that rows were copied.",
    }
    return Score(
        name="No copies (authenticity)",
        value=finite(value) or 0.0,
        ideal=0.5,
        meaning=f"{100 * value:.0f} of 100 drawn rows are farther from the nearest of the {against} than that row is "
        f"from its own neighbours. {seen[against]}",
    )


def _closest(schema: Schema, real: Table, drawn: Table) -> Closest:
    found = dict(zip(("drawn", "real"), metrics.nearest_distances(schema, real, drawn), strict=True))
    furthest = float(np.quantile(np.concatenate(list(found.values())), FURTHEST)) or 1.0
    edges = np.linspace(0.0, furthest, BINS + 1)
    return Closest(
        edges=[finite(edge) or 0.0 for edge in edges.tolist()],
        shares={
            name: [finite(share) or 0.0 for share in np.histogram(np.minimum(one, furthest), edges)[0] / len(one)]
            for name, one in found.items()
        },
        median={name: finite(float(np.median(one))) or 0.0 for name, one in found.items()},
        same={name: finite(float((one == 0).mean())) or 0.0 for name, one in found.items()},
    )
