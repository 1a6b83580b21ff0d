"""The paper's twelve conditions, and harder ones of our own.

    python benchmarks/conditions.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult] [--results FOLDER]
                                    [--published FILE]

For Adult, Default and Shoppers: a range, a label, both, and either. The reference are the test rows that meet the
condition; as many rows are drawn in one call, and as many training rows that meet it, scored alike, are
the ceiling; five trials of both. Beside the rows that come back stand the rates of violation without any guidance and
straight out of the guided loop, which is what the paper reports. Utility is the area under the ROC curve of a boosted
classifier trained on the drawn rows (and its accuracy), judged on the reference. DuckDB, not Harpoon, counts
violations. One JSON file per data set; what is there is not done again. With --published (constraints.csv), the paper's
numbers stand beside ours.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import harpoon
from harpoon import Schema, metrics
from harpoon_bench.datasets import Dataset, load
from models import trained
from records import each, facts, parser

DATASETS = ("adult", "default", "shoppers")
TRIALS = range(5)  # as in the paper
OWN = {
    "three-way or with a not": "age < 20 or \"hours-per-week\" > 80 or not (workclass = 'Private' or sex = 'Male')",
    "across columns": '"capital-gain" - "capital-loss" > 0',
    "across columns, rare": '"hours-per-week" > 3 * age',
    "narrow band": "age between 71 and 72",
    "in a list": "education in ('Doctorate', 'Masters', '1st-4th')",
    "seen in no training row": "age = 88 and education = 'Doctorate' and \"hours-per-week\" between 33 and 39",
    "far apart": "age <= 18 or age >= 85",
    "impossible": "age >= 60 and age < 20",
    "out of range": "age >= 200",
}


def violations(rows: pd.DataFrame, where: str) -> int:
    """How many rows DuckDB does not find when it is asked the same."""
    connection = duckdb.connect()
    connection.register("drawn", rows)
    (met,) = connection.execute(f"SELECT count(*) FROM drawn WHERE {where}").fetchone() or (0,)  # noqa: S608
    return len(rows) - int(met)


def met_by(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """The rows of a table that meet a condition, by DuckDB."""
    connection = duckdb.connect()
    connection.register("asked", table)
    return connection.execute(f"SELECT * FROM asked WHERE {where}").df()  # noqa: S608


def scores(schema: Schema, reference: pd.DataFrame, rows: pd.DataFrame, target: str) -> dict[str, float]:
    """How close rows are to the reference."""
    usable = bool((rows[target] != rows[target].iloc[0]).any())
    return {
        "alpha": metrics.alpha_precision(schema, reference, rows),
        "detection_linear": metrics.detection(schema, reference, rows, classifier="linear"),
        "detection_xgboost": metrics.detection(schema, reference, rows),
        "similarity": float(np.mean(list(metrics.similarity(schema, reference, rows).values()))),
        "utility_auc": metrics.utility(schema, rows, reference, target, score="auc") if usable else float("nan"),
        "utility_accuracy": metrics.utility(schema, rows, reference, target) if usable else float("nan"),
    }


def task(model: harpoon.Harpoon, where: str, dataset: Dataset) -> dict[str, Any]:
    """One condition."""
    train, test, schema, target = dataset.train, dataset.test, dataset.schema, str(dataset.target)
    reference, real = met_by(test, where), met_by(train, where)
    n = len(reference)
    plain = model.sample(n, random_state=0)
    guided = model.sample(n, where=where, strategy="guidance", random_state=0)
    pulled = model.sampling_info_
    drawn, ceiling, failed, seconds = [], [], 0, []
    for seed in TRIALS:
        began = perf_counter()
        rows = model.sample(n, where=where, random_state=seed)
        seconds.append(perf_counter() - began)
        failed += violations(rows, where)
        drawn.append(scores(schema, reference, rows, target))
        ceiling.append(scores(schema, reference, real.sample(n, replace=len(real) < n, random_state=seed), target))
    return {
        "where": where,
        "rows": n,
        "trials": len(TRIALS),
        "training_share": len(real) / len(train),
        "violations": failed,
        "violation_pct_unguided": 100 * violations(plain, where) / n,
        "violation_pct_guided": 100 * (pulled.guided_violations or 0.0),
        "strategy": model.sampling_info_.strategy,
        "seconds": round(float(np.mean(seconds)), 2),
        "evaluations": model.sampling_info_.evaluations,
        "drawn": averaged(drawn),
        "guided": scores(schema, reference, guided, target),
        "ceiling": averaged(ceiling),
    }


def averaged(trials: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each score, and its deviation over the trials."""
    values = {name: [trial[name] for trial in trials] for name in trials[0]}
    means = {name: float(np.mean(found)) for name, found in values.items()}
    return means | {f"{name}_std": float(np.std(found)) for name, found in values.items()}


def own(model: harpoon.Harpoon, train: pd.DataFrame) -> list[dict[str, Any]]:
    """Harder conditions: 500 rows each, or the error that is due."""
    found = []
    for name, where in OWN.items():
        began = perf_counter()
        record: dict[str, Any] = {"name": name, "where": where, "training_rows": len(met_by(train, where))}
        try:
            rows = model.sample(500, where=where, random_state=1)
            record |= {
                "rows": len(rows),
                "violations": violations(rows, where),
                "strategy": model.sampling_info_.strategy,
            }
            if name == "far apart":
                record |= {"young": float((rows["age"] <= 18).mean()), "young_in_training": young(train)}
        except harpoon.InfeasibleCondition as error:
            record["error"] = str(error)
        found.append({**record, "seconds": round(perf_counter() - began, 2)})
        print(json.dumps(found[-1]), flush=True)
    return found


def young(train: pd.DataFrame) -> float:
    """The share of the younger branch among the training rows of both."""
    low, high = (train["age"] <= 18).sum(), (train["age"] >= 85).sum()
    return float(low / (low + high))


def run(data: Path, name: str, model: harpoon.Harpoon) -> dict[str, Any]:
    dataset, tasks = load(name, data), {}
    for kind, where in dataset.conditions.items():
        tasks[kind] = task(model, where, dataset)
        print(name, kind, json.dumps(tasks[kind]), flush=True)
    record = {"dataset": name, **facts(model), "tasks": tasks}
    return record | ({"own": own(model, dataset.train)} if name == "adult" else {})


def compare(records: dict[str, dict[str, Any]], published: Path) -> list[dict[str, Any]]:
    """The paper's Harpoon beside ours, task by task."""
    paper: dict[tuple[str, str, str], float] = {}
    with published.open() as file:
        for row in csv.DictReader(file):
            if row["method"] == "Harpoon":
                paper[row["dataset"], row["constraint"], row["metric"]] = float(row["mean"])
    table = []
    for name, record in records.items():
        for kind, done in record["tasks"].items():
            drawn, ceiling = done["drawn"], done["ceiling"]
            table.append(
                {
                    "dataset": name,
                    "task": kind,
                    "rows": done["rows"],
                    "violations": done["violations"],
                    "violation_pct": [round(done[f"violation_pct_{way}"], 2) for way in ("unguided", "guided")],
                    "paper_violation_pct": paper.get((name, kind, "violation_pct")),
                    "alpha": [round(s["alpha"], 3) for s in (drawn, ceiling)],
                    "paper_alpha": paper.get((name, kind, "alpha")),
                    "detection": [round(s["detection_linear"], 3) for s in (drawn, ceiling)],
                    "paper_detection": paper.get((name, kind, "detection")),
                    "utility": [round(s["utility_auc"], 3) for s in (drawn, ceiling)],
                    "paper_utility": paper.get((name, kind, "utility")),
                }
            )
    return table


def main() -> None:
    made = parser("conditions", DATASETS)
    made.add_argument("--published", type=Path)
    arguments = made.parse_args()
    records = each(
        arguments.datasets,
        arguments.results,
        lambda name: run(arguments.data, name, trained(arguments.data, name, arguments.minutes, arguments.models)),
    )
    if arguments.published:
        table = compare(records, arguments.published)
        path = arguments.results.parent / "conditions_summary.json"
        path.write_text(json.dumps(table, indent=1) + "\n")
        for row in table:
            print(json.dumps(row))


if __name__ == "__main__":
    main()
