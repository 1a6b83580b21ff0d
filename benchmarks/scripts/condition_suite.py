"""Sixty conditions on four data sets, against what rejection keeps of many unconditional rows of the same model.

    python benchmarks/scripts/condition_suite.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult]
                                                 [--pool 400000] [--results FOLDER]

A pool of unconditional rows is sampled once; those that satisfy a condition are what rejection keeps. 500 rows are
sampled under each condition, as a user would. Recorded are: the model's probability of the condition by both; how well
a boosted classifier tells the two kinds of rows apart (the area under the ROC curve; 0.5 is best), and two halves of
what rejection keeps; the same against the training rows that satisfy the condition, for both kinds of rows; by how many
standard errors the share of each branch of an "or" differs; violations by DuckDB; the effective size, evaluations of
the network and seconds; violations and seconds of the paper's Algorithm 1 on the same model. Rejection needs the
seconds of the pool for each row that it keeps, times 500. Fewer than `MIN_ROWS` rows are no judge. One JSON file per
data set.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from common import load_or_train, make_parser, run_datasets, training_facts
from conditions import count_violations, select
from harpoon import metrics
from harpoon_bench.datasets import load

N_ROWS, MIN_ROWS, ROWS_AT_ONCE = 500, 100, 50_000
SEEDS = range(3)  # of the rows and folds that a detection is averaged over
# The three groups of each data set: probabilities above 1e-2; of 1e-2 to 1e-3; and rarer ones, equations, narrow bands,
# twelve rules at once and three-way ors. A list is an "or" of its parts.
Condition = str | list[str]
CONDITIONS: dict[str, dict[str, list[Condition]]] = json.loads(Path(__file__).with_suffix(".json").read_text())


def text_of(condition: Condition) -> str:
    """Return a condition as SQL."""
    return condition if isinstance(condition, str) else " or ".join(f"({part})" for part in condition)


def sample_pool(model: harpoon.Harpoon, count: int) -> tuple[pd.DataFrame, float]:
    """Return unconditional rows, and the seconds for them."""
    began = perf_counter()
    parts = [model.sample(ROWS_AT_ONCE, random_state=100 + block) for block in range(-(-count // ROWS_AT_ONCE))]
    return pd.concat(parts, ignore_index=True), perf_counter() - began


def detection(schema: harpoon.Schema, *tables: pd.DataFrame) -> float | None:
    """Return how well boosted trees tell two tables apart, the mean over random rows of both; None: too few rows."""
    n = min(N_ROWS, *map(len, tables))
    if n < MIN_ROWS:
        return None
    chosen = ((table.sample(n, random_state=seed).reset_index(drop=True) for table in tables) for seed in SEEDS)
    return round(float(np.mean([metrics.detection(schema, *both) for both in chosen])), 3)


def share_errors(condition: Condition, rows: pd.DataFrame, kept: pd.DataFrame) -> list[float]:
    """Return by how many standard errors the share of each branch of an "or" differs from that of rejection."""
    if isinstance(condition, str) or len(kept) < MIN_ROWS:
        return []
    errors = []
    for branch in condition:
        p, q = (len(select(table, branch)) / len(table) for table in (rows, kept))
        pooled = (p * len(rows) + q * len(kept)) / (len(rows) + len(kept))
        error = np.sqrt(pooled * (1 - pooled) * (1 / len(rows) + 1 / len(kept)))
        errors.append(round(float((p - q) / error), 2) if error else 0.0)
    return errors


def algorithm_1(model: harpoon.Harpoon, where: str) -> dict[str, float]:
    """Return the share of violations and the seconds of the paper's guidance alone."""
    began = perf_counter()
    rows = model.sample(N_ROWS, where=where, strategy="paper", random_state=1)
    return {"violations": count_violations(rows, where) / len(rows), "seconds": round(perf_counter() - began, 2)}


def measure(
    model: harpoon.Harpoon,
    condition: Condition,
    train: pd.DataFrame,
    pool: pd.DataFrame,
    pool_seconds: float,
) -> dict[str, Any]:
    """Return the scores of rows under one condition."""
    where = text_of(condition)
    kept, real, began = select(pool, where), select(train, where), perf_counter()
    rows = model.sample(N_ROWS, where=where, random_state=1)
    seconds, info, schema = perf_counter() - began, model.sampling_info_, model.schema_
    return {
        "condition": where,
        "training_fraction": len(real) / len(train),
        "kept": len(kept),
        "probability_by_rejection": len(kept) / len(pool),
        "probability": info.probability,
        "auc": detection(schema, kept, rows),
        "auc_of_halves": detection(schema, kept[::2], kept[1::2]),
        "auc_real": detection(schema, real, rows),
        "auc_real_by_rejection": detection(schema, real, kept),
        "share_errors": share_errors(condition, rows, kept),
        "violations": count_violations(rows, where),
        "effective_size": info.effective_size,
        "strategy": info.strategy,
        "evaluations": info.evaluations,
        "seconds": round(seconds, 2),
        "rejection_seconds": round(pool_seconds / len(kept) * N_ROWS, 1) if len(kept) else None,
        "algorithm_1": algorithm_1(model, where),
    }


def main() -> None:
    parser = make_parser(Path(__file__).stem, CONDITIONS)
    parser.add_argument("--pool", type=int, default=400_000, help="unconditional rows, of which rejection keeps some")
    arguments = parser.parse_args()

    def run(name: str) -> dict[str, Any]:
        model = load_or_train(arguments.data, name, arguments.minutes, arguments.models)
        pool, seconds = sample_pool(model, arguments.pool)
        train = load(name, arguments.data).train
        found = [
            {"group": group, **measure(model, condition, train, pool, seconds)}
            for group, conditions in CONDITIONS[name].items()
            for condition in conditions
        ]
        facts = {"pool": len(pool), "pool_seconds": round(seconds, 1), "training_rows": len(train)}
        return {"dataset": name, **facts, "conditions": found, **training_facts(model)}

    run_datasets(arguments.datasets, arguments.results, run)


if __name__ == "__main__":
    main()
