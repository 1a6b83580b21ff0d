"""The paper's imputation protocol for the anchored preset, on its eight data sets.

    python benchmarks/imputation.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult,bean]
                                    [--published FILE] [--results FOLDER]

FOLDER holds the data sets. For each data set: train once on 70 % of the rows, hide cells of the other
30 % by MCAR, MAR and MNAR at 25, 50 and 75 % with five masks each, fill them with one evaluation, and score: mean
squared error on standardised numbers, accuracy in % on categories. One JSON file per data set; what is there is not
done again. With the published numbers (imputation.csv), counts in how many cells ours is better than the best of them.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from harpoon import masks
from harpoon.bench.datasets import NAMES, load, with_holes
from models import trained
from records import each, facts, parser

MECHANISMS, RATIOS, SEEDS = ("MCAR", "MAR", "MNAR"), (0.25, 0.5, 0.75), range(5)


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


def run(folder: Path, name: str, model: harpoon.Harpoon) -> dict[str, Any]:
    dataset = load(name, folder)
    train, test = dataset.train, dataset.test
    cells = []
    for mechanism in MECHANISMS:
        for ratio in RATIOS:
            scores = [score(model, train, test, masks.draw(mechanism, test, ratio, seed)) for seed in SEEDS]
            for metric, values in zip(("mse", "accuracy"), np.transpose(scores).tolist(), strict=False):
                cell = {"mask": mechanism, "ratio": ratio, "metric": metric}
                cells.append({**cell, "mean": float(np.mean(values)), "std": float(np.std(values))})
    return {
        "dataset": name,
        "train_rows": len(train),
        "test_rows": len(test),
        **facts(model),
        "cells": cells,
    }


def best_published(path: Path) -> dict[tuple[str, str, float, str], tuple[float, str]]:
    best: dict[tuple[str, str, float, str], tuple[float, str]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            try:
                value = float(row["mean"])
            except ValueError:
                continue
            key = (row["dataset"], row["mask"], float(row["ratio"]), row["metric"])
            sign = 1 if row["metric"] == "mse" else -1
            if np.isfinite(value) and (key not in best or sign * value < sign * best[key][0]):
                best[key] = (value, row["method"])
    return best


def compare(results: Path, published: Path) -> dict[str, Any]:
    best, better, missed = best_published(published), 0, []
    for path in sorted(results.glob("*.json")):
        record = json.loads(path.read_text())
        for cell in record["cells"]:
            key = (record["dataset"], cell["mask"], cell["ratio"], cell["metric"])
            value, method = best[key]
            won = cell["mean"] < value if cell["metric"] == "mse" else cell["mean"] > value
            better += won
            if not won:
                missed.append({"cell": list(key), "ours": round(cell["mean"], 4), "published": value, "method": method})
    return {"better": better, "cells": better + len(missed), "missed": missed}


def main() -> None:
    made = parser("imputation", NAMES)
    made.add_argument("--published", type=Path)
    arguments = made.parse_args()
    each(
        arguments.datasets,
        arguments.results,
        lambda name: run(arguments.data, name, trained(arguments.data, name, arguments.minutes, arguments.models)),
    )
    if arguments.published:
        summary = compare(arguments.results, arguments.published)
        (arguments.results.parent / "imputation_summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
