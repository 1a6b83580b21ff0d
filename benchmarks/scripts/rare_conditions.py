"""Rows under rare conditions against what rejection keeps of many plain rows of the same model.

    python benchmarks/scripts/rare_conditions.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult]
                                                 [--pool 400000] [--results FOLDER]

A pool of plain rows is sampled once; those that satisfy a condition are what rejection keeps. 500 rows are sampled
under each condition. Recorded are the model's probability of the condition by both, how well a boosted classifier tells
the two kinds of rows apart (the area under the ROC curve; 0.5 is best), violations by DuckDB, the effective size,
evaluations of the network and seconds. Rejection needs the seconds of the pool for each row that it keeps, times 500.
Conditions that fewer than `MIN_KEPT` rows of the pool satisfy have no such judge. One JSON file per data set.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

import harpoon
from common import load_or_train, make_parser, run_datasets, training_facts
from conditions import count_violations, select
from harpoon import metrics
from harpoon_bench.datasets import load

N_ROWS, MIN_KEPT, ROWS_AT_ONCE = 500, 100, 50_000
CONDITIONS = {
    "adult": (
        'age > 70 and "hours-per-week" > 45',
        "\"capital-gain\" > 10000 and education = 'HS-grad'",
        'age + "hours-per-week" > 120',
        '"education-num" * 4 > "hours-per-week" and age < 22 and "marital-status" = \'Married-civ-spouse\'',
        'age = "hours-per-week" and age > 60',
        '"hours-per-week" > 3 * age',
        "age between 71 and 72",
        "age > 60 and sex = 'Female' and \"capital-gain\" > 0",
        "(age < 20 and \"hours-per-week\" > 50) or (age > 75 and occupation = 'Exec-managerial')",
        "occupation = 'Exec-managerial' and \"hours-per-week\" < 15",
        "race = 'Black' and education = 'Masters' and age < 35",
        'abs(age - "hours-per-week") < 1 and age > 55',
        "\"capital-loss\" > 1500 and age < 30 and sex = 'Female'",
        'fnlwgt > 500000 and "hours-per-week" > 60',
        'fnlwgt < 5000 * age and age < 25 and "education-num" > 12',
        "workclass = 'Self-emp-inc' and age < 25",
        "relationship = 'Husband' and age < 22 and \"hours-per-week\" > 40 and education = 'Some-college'",
        "age > 85 and sex = 'Female' and \"hours-per-week\" > 50",
        "\"native-country\" = 'Mexico' and education = 'Bachelors' and \"capital-gain\" > 0",
        'age = 2 * "education-num" + 40 and "hours-per-week" = age - 10',
    ),
}


def sample_pool(model: harpoon.Harpoon, count: int) -> tuple[pd.DataFrame, float]:
    """Return plain rows, and the seconds for them."""
    began = perf_counter()
    parts = [model.sample(ROWS_AT_ONCE, random_state=100 + block) for block in range(-(-count // ROWS_AT_ONCE))]
    return pd.concat(parts, ignore_index=True), perf_counter() - began


def measure(
    model: harpoon.Harpoon, where: str, train: pd.DataFrame, pool: pd.DataFrame, pool_seconds: float
) -> dict[str, Any]:
    """Return the scores of rows under one condition."""
    kept, began = select(pool, where), perf_counter()
    rows = model.sample(N_ROWS, where=where, strategy="conditioning", random_state=1)
    seconds, info = perf_counter() - began, model.sampling_info_
    auc = None
    if len(kept) >= MIN_KEPT:
        n = min(len(kept), N_ROWS)
        sides = (table.sample(n, random_state=0).reset_index(drop=True) for table in (kept, rows))
        auc = round(float(metrics.detection(model.schema_, *sides)), 3)
    return {
        "condition": where,
        "training_fraction": len(select(train, where)) / len(train),
        "kept": len(kept),
        "probability_by_rejection": len(kept) / len(pool),
        "probability": info.probability,
        "auc": auc,
        "violations": count_violations(rows, where),
        "effective_size": info.effective_size,
        "strategy": info.strategy,
        "evaluations": info.evaluations,
        "seconds": round(seconds, 2),
        "rejection_seconds": round(pool_seconds / len(kept) * N_ROWS, 1) if len(kept) else None,
    }


def main() -> None:
    parser = make_parser(Path(__file__).stem, CONDITIONS)
    parser.add_argument("--pool", type=int, default=400_000, help="plain rows, of which rejection keeps some")
    arguments = parser.parse_args()

    def run(name: str) -> dict[str, Any]:
        model = load_or_train(arguments.data, name, arguments.minutes, arguments.models)
        pool, seconds = sample_pool(model, arguments.pool)
        train = load(name, arguments.data).train
        found = [measure(model, where, train, pool, seconds) for where in CONDITIONS[name]]
        facts = {
            "pool": len(pool),
            "pool_seconds": round(seconds, 1),
            "training_rows": len(load(name, arguments.data).train),
        }
        return {"dataset": name, **facts, "conditions": found, **training_facts(model)}

    run_datasets(arguments.datasets, arguments.results, run)


if __name__ == "__main__":
    main()
