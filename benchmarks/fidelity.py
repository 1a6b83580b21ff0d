"""How real drawn rows look, and how few steps they need: Adult, Default and Shoppers.

    python benchmarks/fidelity.py --data FOLDER --models FOLDER [--minutes 3] [--steps 8,12,16,25,50]
                                  [--solvers deviation,none] [--datasets adult] [--results FOLDER]

For each data set: train on 70 % of the rows (or read the model from --models), draw as many rows as there are test rows
with each number of steps and each solver (the option `noise_scale` of `sample`), and score them against the test rows.
As many real training rows, scored alike, are the ceiling: no model can be expected to do better. Authenticity alone is
measured against the training rows, which are what a model could copy; its ceiling is the test rows'. One JSON file
per data set; what is there is not done again. Its table names, for each solver, the fewest steps that lose nothing: no
detector gains more than 0.01 in area on the most steps, and no other mean score loses more than 0.01.
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
from harpoon.bench.datasets import load
from models import trained
from records import each, facts, parser

DATASETS = ("adult", "default", "shoppers")
NOTHING = 0.01
LOWER_IS_BETTER = ("detection_xgboost", "detection_linear")
HIGHER_IS_BETTER = ("alpha_precision", "beta_recall", "similarity_mean", "known_pairs")
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


def fewest(table: list[dict[str, Any]]) -> dict[str, int]:
    """For each solver, the fewest steps that lose nothing against its most steps."""
    found = {}
    for solver in dict.fromkeys(row["solver"] for row in table):
        rows = sorted((row for row in table if row["solver"] == solver), key=lambda row: row["steps"])
        found[solver] = next(row["steps"] for row in rows if loses_nothing(row, rows[-1]))
    return found


def loses_nothing(row: dict[str, Any], best: dict[str, Any]) -> bool:
    signs = {**dict.fromkeys(LOWER_IS_BETTER, 1), **dict.fromkeys(HIGHER_IS_BETTER, -1)}
    return all(sign * (row[name] - best[name]) <= NOTHING for name, sign in signs.items() if name in row)


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    train, test, schema = dataset.train, dataset.test, dataset.schema
    model = trained(arguments.data, name, arguments.minutes, arguments.models)
    sample = train.sample(len(test), random_state=0)
    real = {**scores(schema, train, test, sample), "authenticity": metrics.authenticity(schema, train, test)}
    table = []
    for solver in arguments.solvers.split(","):
        for steps in map(int, arguments.steps.split(",")):
            began = perf_counter()
            rows = model.sample(len(test), random_state=1, sampling_steps=steps, noise_scale=solver)
            seconds = round(perf_counter() - began, 2)
            row = {"solver": solver, "steps": steps, "seconds": seconds, **scores(schema, train, test, rows)}
            table.append({**row, "authenticity": metrics.authenticity(schema, train, rows)})
            print(name, json.dumps({key: value for key, value in table[-1].items() if key != "similarity"}), flush=True)
    return {
        "script": "benchmarks/fidelity.py",
        "dataset": name,
        "rows": len(test),
        "real_rows": real,
        "drawn_rows": table,
        "fewest_steps_that_lose_nothing": fewest(table),
        "nothing": NOTHING,
        **facts(model),
    }


def summary(records: Iterable[dict[str, Any]]) -> str:
    """One line per data set: the most steps of the first solver beside real rows."""
    lines = []
    for record in records:
        solver = record["drawn_rows"][0]["solver"]
        most = max((row for row in record["drawn_rows"] if row["solver"] == solver), key=lambda row: row["steps"])
        pairs = [
            f"{name} {most[name]:.3f} ({record['real_rows'][name]:.3f})"
            for name in ("detection_xgboost", "alpha_precision")
        ]
        lines.append(f"{record['dataset']}: {', '.join(pairs)}, steps {record['fewest_steps_that_lose_nothing']}")
    return "\n".join(lines)


def main() -> None:
    arguments = parser(Path(__file__).stem, DATASETS)
    arguments.add_argument("--steps", default="8,12,16,25,50")
    arguments.add_argument("--solvers", default="deviation,none")
    given = arguments.parse_args()
    print(summary(each(given.datasets, given.results, lambda name: run(given, name)).values()))


if __name__ == "__main__":
    main()
