"""Samples under the paper's twelve conditions and under harder ones.

    python benchmarks/scripts/conditions.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult]
                                            [--results FOLDER]

Adult, Default and Shoppers have four conditions each: a range, a category, both, and either. The reference are the test
rows that satisfy the condition. As many rows are sampled in one call; as many training rows that satisfy the condition
are the ceiling. Both are repeated five times. The violation rates of unconditional samples and of guided samples right
after the guided loop are recorded too; the paper reports the latter. Utility is the area under the ROC curve (and the
accuracy) of a boosted classifier that is trained on sampled rows and tested on the reference. Violations are counted by
DuckDB, independently of Harpoon. One JSON file per data set; existing records are kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import harpoon
from common import run_models, training_facts
from harpoon import Schema, metrics
from harpoon_bench.datasets import Dataset, load

TRIALS = range(5)  # as in the paper
HARD_CONDITIONS = {
    "three-way or with a not": "age < 20 or \"hours-per-week\" > 80 or not (workclass = 'Private' or sex = 'Male')",
    "across columns": '"capital-gain" - "capital-loss" > 0',
    "across columns, rare": '"hours-per-week" > 3 * age',
    "narrow band": "age between 71 and 72",
    "in a list": "education in ('Doctorate', 'Masters', '1st-4th')",
    "in no training row": "age = 88 and education = 'Doctorate' and \"hours-per-week\" between 33 and 39",
    "far apart": "age <= 18 or age >= 85",
    "impossible": "age >= 60 and age < 20",
    "out of range": "age >= 200",
}
HARD_ROWS = 500


def count_violations(rows: pd.DataFrame, where: str) -> int:
    """Count the rows that do not satisfy a condition, by DuckDB."""
    return len(rows) - len(select(rows, where))


def select(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the rows that satisfy a condition, by DuckDB."""
    connection = duckdb.connect()
    connection.register("selected", table)
    return connection.execute(f"SELECT * FROM selected WHERE {where}").df()  # noqa: S608


def score(schema: Schema, reference: pd.DataFrame, rows: pd.DataFrame, target: str) -> dict[str, float]:
    """Return the scores of rows against the reference."""
    has_classes = bool((rows[target] != rows[target].iloc[0]).any())
    return {
        "alpha": metrics.alpha_precision(schema, reference, rows),
        "detection_linear": metrics.detection(schema, reference, rows, classifier="linear"),
        "detection_xgboost": metrics.detection(schema, reference, rows),
        "similarity": float(np.mean(list(metrics.similarity(schema, reference, rows).values()))),
        "utility_auc": metrics.utility(schema, rows, reference, target, score="auc") if has_classes else float("nan"),
        "utility_accuracy": metrics.utility(schema, rows, reference, target) if has_classes else float("nan"),
    }


def measure(model: harpoon.Harpoon, where: str, dataset: Dataset) -> dict[str, Any]:
    """Measure one condition."""
    train, test, schema, target = dataset.train, dataset.test, dataset.schema, str(dataset.target)
    reference, real = select(test, where), select(train, where)
    n = len(reference)
    unconditional = model.sample(n, random_state=0)
    guided = model.sample(n, where=where, strategy="guidance", random_state=0)
    guidance_info = model.sampling_info_
    sampled, ceiling, violations, seconds = [], [], 0, []
    for seed in TRIALS:
        began = perf_counter()
        rows = model.sample(n, where=where, random_state=seed)
        seconds.append(perf_counter() - began)
        violations += count_violations(rows, where)
        sampled.append(score(schema, reference, rows, target))
        ceiling.append(score(schema, reference, real.sample(n, replace=len(real) < n, random_state=seed), target))
    return {
        "where": where,
        "rows": n,
        "trials": len(TRIALS),
        "training_fraction": len(real) / len(train),
        "violations": violations,
        "violation_pct_unguided": 100 * count_violations(unconditional, where) / n,
        "violation_pct_guided": 100 * (guidance_info.guided_violations or 0.0),
        "strategy": model.sampling_info_.strategy,
        "seconds": round(float(np.mean(seconds)), 2),
        "evaluations": model.sampling_info_.evaluations,
        "sampled": average(sampled),
        "guided": score(schema, reference, guided, target),
        "ceiling": average(ceiling),
    }


def average(trials: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean and the standard deviation of each score over the trials."""
    values = {name: [trial[name] for trial in trials] for name in trials[0]}
    means = {name: float(np.mean(found)) for name, found in values.items()}
    return means | {f"{name}_std": float(np.std(found)) for name, found in values.items()}


def measure_hard(model: harpoon.Harpoon, train: pd.DataFrame) -> list[dict[str, Any]]:
    """Sample 500 rows under each harder condition, or record the error."""
    records = []
    for name, where in HARD_CONDITIONS.items():
        began = perf_counter()
        record: dict[str, Any] = {"name": name, "where": where, "training_rows": len(select(train, where))}
        try:
            rows = model.sample(HARD_ROWS, where=where, random_state=1)
            record |= {
                "rows": len(rows),
                "violations": count_violations(rows, where),
                "strategy": model.sampling_info_.strategy,
            }
            if name == "far apart":
                record |= {"young": float((rows["age"] <= 18).mean()), "young_in_training": young_fraction(train)}
        except harpoon.InfeasibleCondition as error:
            record["error"] = str(error)
        records.append({**record, "seconds": round(perf_counter() - began, 2)})
        print(json.dumps(records[-1]), flush=True)
    return records


def young_fraction(train: pd.DataFrame) -> float:
    """Return the fraction of the younger branch among the training rows of both branches."""
    young, old = (train["age"] <= 18).sum(), (train["age"] >= 85).sum()
    return float(young / (young + old))


def run(data: Path, name: str, model: harpoon.Harpoon) -> dict[str, Any]:
    dataset, tasks = load(name, data), {}
    for kind, where in dataset.conditions.items():
        tasks[kind] = measure(model, where, dataset)
        print(name, kind, json.dumps(tasks[kind]), flush=True)
    record = {"dataset": name, **training_facts(model), "tasks": tasks}
    return record | ({"hard": measure_hard(model, dataset.train)} if name == "adult" else {})


def main() -> None:
    run_models(Path(__file__).stem, run)


if __name__ == "__main__":
    main()
