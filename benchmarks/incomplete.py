"""What is lost by training on a table with holes: Adult, Default and Shoppers without 30 % of their training cells.

    python benchmarks/incomplete.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult] [--results FOLDER]

For each data set two models of the same budget: one of the training rows as they are, one of the same rows with 30 % of
the cells removed completely at random. Both fill the test rows under MCAR, MAR and MNAR masks of 25 and 50 %, two of
each, and are scored as the bench scores: mean squared error on standardised numbers, accuracy in % on categories.
A quotient is the score of the second model divided by that of the first. One JSON file per data set; what is there is
not done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from harpoon import Schema
from harpoon.metrics import masks
from harpoon_bench.datasets import load, with_holes
from models import fitted, trained
from records import each, facts, parser

DATASETS = ("adult", "default", "shoppers")
REMOVED, RATIOS, SEEDS = 0.3, (0.25, 0.5), range(2)
MASK_OF_TRAINING = 30  # a seed that no test mask has
METRICS = ("mse", "accuracy")


def score(model: harpoon.Harpoon, train: pd.DataFrame, test: pd.DataFrame, mask: np.ndarray[Any, Any]) -> list[float]:
    expected = model.impute(with_holes(test, mask), decode=False)
    squares, hits = [], []
    for place, name in enumerate(test.columns):
        hidden, truth = mask[:, place], test[name].to_numpy()
        if name in expected.numbers:
            deviation = train[name].std(ddof=0)
            squares.append(((expected.numbers[name][hidden] - truth[hidden]) / deviation) ** 2)
        else:
            labels = np.array(expected.labels[name], dtype=object)
            hits.append(labels[expected.probabilities[name].argmax(axis=1)][hidden] == truth[hidden])
    return [float(np.concatenate(squares).mean()), *([100 * float(np.concatenate(hits).mean())] if hits else [])]


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    train, test = dataset.train, dataset.test
    holes = with_holes(train, masks.sample_mask("MCAR", train, REMOVED, MASK_OF_TRAINING))
    schema = Schema.infer(holes, kinds=dict.fromkeys(dataset.categorical, "category"))
    path = arguments.models / f"{name}-incomplete.harpoon"
    models = {
        "complete": trained(arguments.data, name, arguments.minutes, arguments.models),
        "incomplete_rows": fitted(holes, schema, arguments.minutes, path),
    }
    cells = []
    for mechanism in masks.MECHANISMS:
        for ratio in RATIOS:
            tests = [masks.sample_mask(mechanism, test, ratio, seed) for seed in SEEDS]
            means = {
                which: np.mean([score(m, train, test, mask) for mask in tests], axis=0) for which, m in models.items()
            }
            for metric, left, right in zip(METRICS, means["complete"], means["incomplete"], strict=False):
                cell = {"mask": mechanism, "ratio": ratio, "metric": metric}
                cells.append(
                    {**cell, "complete": float(left), "incomplete_rows": float(right), "quotient": float(right / left)}
                )
    return {
        "script": "benchmarks/incomplete.py",
        "dataset": name,
        "removed": REMOVED,
        "test_rows": len(test),
        "quotients": {m: mean_quotient(cells, m) for m in METRICS if any(c["metric"] == m for c in cells)},
        "cells": cells,
        "models": {which: facts(model) for which, model in models.items()},
    }


def mean_quotient(cells: list[dict[str, Any]], metric: str) -> float:
    return float(np.mean([cell["quotient"] for cell in cells if cell["metric"] == metric]))


def summary(records: Iterable[dict[str, Any]]) -> str:
    """One line per data set."""
    return "\n".join(
        f"{r['dataset']}: " + ", ".join(f"{metric} × {value:.3f}" for metric, value in r["quotients"].items())
        for r in records
    )


def main() -> None:
    given = parser(Path(__file__).stem, DATASETS).parse_args()
    print(summary(each(given.datasets, given.results, lambda name: run(given, name)).values()))


if __name__ == "__main__":
    main()
