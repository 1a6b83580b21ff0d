"""Cost of training on incomplete rows: Adult, Default and Shoppers with 30 % of their training cells missing.

    python benchmarks/scripts/incomplete_rows.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult]
                                                 [--results FOLDER]

For each data set, two models with the same budget: one trained on the training rows, one on the same rows with 30 % of
the cells hidden completely at random. Both impute the test rows under MCAR, MAR and MNAR masks of 25 and 50 %, two of
each. The scores are those of the experiments: MSE of standardised numbers, and accuracy of categories in %. A quotient
is the score of the second model divided by that of the first. One JSON file per data set; existing records are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from common import MIXED_DATASETS, load_or_fit, load_or_train, make_parser, run_datasets, training_facts
from harpoon import Schema
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load

HIDDEN_FRACTION, RATIOS, SEEDS = 0.3, (0.25, 0.5), range(2)
TRAINING_MASK_SEED = 30  # not the seed of a test mask
METRICS = ("mse", "accuracy")


def score(model: harpoon.Harpoon, train: pd.DataFrame, test: pd.DataFrame, mask: np.ndarray[Any, Any]) -> list[float]:
    expectation = model.expect(hide_cells(test, mask))
    squares, hits = [], []
    for index, name in enumerate(test.columns):
        hidden, truth = mask[:, index], test[name].to_numpy()
        if name in expectation.numbers:
            std = train[name].std(ddof=0)
            squares.append(((expectation.numbers[name][hidden] - truth[hidden]) / std) ** 2)
        else:
            categories = np.array(expectation.categories[name], dtype=object)
            hits.append(categories[expectation.probabilities[name].argmax(axis=1)][hidden] == truth[hidden])
    return [float(np.concatenate(squares).mean()), *([100 * float(np.concatenate(hits).mean())] if hits else [])]


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    train, test = dataset.train, dataset.test
    incomplete = hide_cells(train, masks.sample_mask("MCAR", train, HIDDEN_FRACTION, TRAINING_MASK_SEED))
    schema = Schema.infer(incomplete, kinds=dict.fromkeys(dataset.categorical, "category"))
    path = arguments.models / f"{name}-incomplete.harpoon"
    models = {
        "complete": load_or_train(arguments.data, name, arguments.minutes, arguments.models),
        "incomplete": load_or_fit(incomplete, schema, arguments.minutes, path),
    }
    cells = []
    for mechanism in masks.MECHANISMS:
        for ratio in RATIOS:
            tests = [masks.sample_mask(mechanism, test, ratio, seed) for seed in SEEDS]
            means = {
                which: np.mean([score(model, train, test, mask) for mask in tests], axis=0)
                for which, model in models.items()
            }
            for metric, left, right in zip(METRICS, means["complete"], means["incomplete"], strict=False):
                cell = {"mask": mechanism, "ratio": ratio, "metric": metric}
                values = {"complete": float(left), "incomplete": float(right), "quotient": float(right / left)}
                cells.append({**cell, **values})
    return {
        "script": "benchmarks/scripts/incomplete_rows.py",
        "dataset": name,
        "removed": HIDDEN_FRACTION,
        "test_rows": len(test),
        "quotients": {m: mean_quotient(cells, m) for m in METRICS if any(c["metric"] == m for c in cells)},
        "cells": cells,
        "models": {which: training_facts(model) for which, model in models.items()},
    }


def mean_quotient(cells: list[dict[str, Any]], metric: str) -> float:
    return float(np.mean([cell["quotient"] for cell in cells if cell["metric"] == metric]))


def summarise(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per data set."""
    return "\n".join(
        f"{r['dataset']}: " + ", ".join(f"{metric} × {value:.3f}" for metric, value in r["quotients"].items())
        for r in records
    )


def main() -> None:
    arguments = make_parser(Path(__file__).stem, MIXED_DATASETS).parse_args()
    records = run_datasets(arguments.datasets, arguments.results, lambda name: run(arguments, name))
    print(summarise(records.values()))


if __name__ == "__main__":
    main()
