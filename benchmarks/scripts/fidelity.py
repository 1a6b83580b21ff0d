"""How real drawn rows look: Adult, Default and Shoppers.

    python benchmarks/fidelity.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult] [--results FOLDER]

For each data set: train on 70 % of the rows (or read the model from --models), draw as many rows as there are test
rows, cells in turn and all together, and score them against the test rows. As many real training rows, scored alike,
are the ceiling: no model can be expected to do better. Authenticity alone is measured against the training rows, which
are what a model could copy; its ceiling is the test rows'. One JSON file per data set; what is there is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from harpoon import Schema, metrics
from harpoon.config import DrawingOptions
from harpoon_bench.datasets import load
from models import trained
from records import each, facts, parser

DATASETS = ("adult", "default", "shoppers")
WAYS: dict[str, DrawingOptions] = {"in turn": {}, "together": {"ar_steps": 0}}
PAIR = ["education", "education-num"]  # in Adult one is the number of the other


def scores(schema: Schema, train: pd.DataFrame, test: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Every score of rows against test rows."""
    columns = metrics.similarity(schema, test, rows)
    found: dict[str, Any] = {
        "detection_xgboost": metrics.detection(schema, test, rows),
        "detection_linear": metrics.detection(schema, test, rows, classifier="linear"),
        "alpha_precision": metrics.alpha_precision(schema, test, rows),
        "beta_recall": metrics.beta_recall(schema, test, rows),
        "similarity_mean": float(np.mean(list(columns.values()))),
        "similarity_least": min(columns.values()),
        "similarity": columns,
    }
    if set(PAIR) <= set(train.columns):
        found["known_pairs"] = known_pairs(train, rows)
    return found


def known_pairs(train: pd.DataFrame, rows: pd.DataFrame) -> float:
    """The share of rows whose education goes with the number that it goes with in the training rows."""
    seen = set(train[PAIR].itertuples(index=False, name=None))
    return float(np.mean([pair in seen for pair in rows[PAIR].itertuples(index=False, name=None)]))


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    train, test, schema = dataset.train, dataset.test, dataset.schema
    model = trained(arguments.data, name, arguments.minutes, arguments.models)
    sample = train.sample(len(test), random_state=0)
    real = {**scores(schema, train, test, sample), "authenticity": metrics.authenticity(schema, train, test)}
    drawn = {}
    for way, options in WAYS.items():
        began = perf_counter()
        rows = model.sample(len(test), random_state=1, **options)
        drawn[way] = {"seconds": round(perf_counter() - began, 2), **scores(schema, train, test, rows)}
        drawn[way]["authenticity"] = metrics.authenticity(schema, train, rows)
        told = {key: value for key, value in drawn[way].items() if key != "similarity"}
        print(name, way, json.dumps(told), flush=True)
    return {
        "script": "benchmarks/fidelity.py",
        "dataset": name,
        "rows": len(test),
        "real_rows": real,
        "drawn_rows": drawn,
        **facts(model),
    }


def summary(records: Iterable[dict[str, Any]]) -> str:
    """One line per data set, with what real rows have behind it."""
    lines = []
    for record in records:
        most, real = next(iter(record["drawn_rows"].values())), record["real_rows"]
        names = ("detection_xgboost", "alpha_precision", "similarity_least")
        lines.append(", ".join([record["dataset"], *(f"{name} {most[name]:.3f} ({real[name]:.3f})" for name in names)]))
    return "\n".join(lines)


def main() -> None:
    given = parser(Path(__file__).stem, DATASETS).parse_args()
    print(summary(each(given.datasets, given.results, lambda name: run(given, name)).values()))


if __name__ == "__main__":
    main()
