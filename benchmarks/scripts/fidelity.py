"""Fidelity of unconditional samples: Adult, Default and Shoppers.

    python benchmarks/scripts/fidelity.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult]
                                          [--results FOLDER]

For each data set: train on 70 % of the rows (or read the model from --models), sample as many rows as there are test
rows, by autoregressive sampling and by reverse diffusion, and score them against the test rows. As many real training
rows with the same scores are the ceiling. Authenticity is measured against the training rows, which a model could copy;
its ceiling is that of the test rows. One JSON file per data set; existing records are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from common import MIXED_DATASETS, load_or_train, make_parser, run_datasets, training_facts
from harpoon import Schema, metrics
from harpoon_bench.datasets import load

SAMPLERS: dict[str, dict[str, Any]] = {"autoregressive": {}, "diffusion": {"ar_steps": 0}}
PAIR = ["education", "education-num"]  # columns of Adult; each determines the other


def score(schema: Schema, train: pd.DataFrame, test: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Return all scores of rows against the test rows."""
    columns = metrics.similarity(schema, test, rows)
    scores: dict[str, Any] = {
        "detection_xgboost": metrics.detection(schema, test, rows),
        "detection_linear": metrics.detection(schema, test, rows, classifier="linear"),
        "alpha_precision": metrics.alpha_precision(schema, test, rows),
        "beta_recall": metrics.beta_recall(schema, test, rows),
        "similarity_mean": float(np.mean(list(columns.values()))),
        "similarity_min": min(columns.values()),
        "similarity": columns,
    }
    if set(PAIR) <= set(train.columns):
        scores["valid_pairs"] = valid_pairs(train, rows)
    return scores


def valid_pairs(train: pd.DataFrame, rows: pd.DataFrame) -> float:
    """Return the fraction of rows whose education and its number occur together in the training rows."""
    valid = set(train[PAIR].itertuples(index=False, name=None))
    return float(np.mean([pair in valid for pair in rows[PAIR].itertuples(index=False, name=None)]))


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    train, test, schema = dataset.train, dataset.test, dataset.schema
    model = load_or_train(arguments.data, name, arguments.minutes, arguments.models)
    ceiling = train.sample(len(test), random_state=0)
    real = {**score(schema, train, test, ceiling), "authenticity": metrics.authenticity(schema, train, test)}
    sampled = {}
    for sampler, options in SAMPLERS.items():
        began = perf_counter()
        rows = model.sample(len(test), random_state=1, **options)
        sampled[sampler] = {"seconds": round(perf_counter() - began, 2), **score(schema, train, test, rows)}
        sampled[sampler]["authenticity"] = metrics.authenticity(schema, train, rows)
        printed = {key: value for key, value in sampled[sampler].items() if key != "similarity"}
        print(name, sampler, json.dumps(printed), flush=True)
    return {
        "script": "benchmarks/scripts/fidelity.py",
        "dataset": name,
        "rows": len(test),
        "real_rows": real,
        "sampled_rows": sampled,
        **training_facts(model),
    }


def summarise(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per data set, with the scores of real rows in brackets."""
    lines = []
    for record in records:
        sampled, real = next(iter(record["sampled_rows"].values())), record["real_rows"]
        names = ("detection_xgboost", "alpha_precision", "similarity_min")
        scores = (f"{name} {sampled[name]:.3f} ({real[name]:.3f})" for name in names)
        lines.append(", ".join([record["dataset"], *scores]))
    return "\n".join(lines)


def main() -> None:
    arguments = make_parser(Path(__file__).stem, MIXED_DATASETS).parse_args()
    records = run_datasets(arguments.datasets, arguments.results, lambda name: run(arguments, name))
    print(summarise(records.values()))


if __name__ == "__main__":
    main()
