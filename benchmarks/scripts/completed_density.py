"""Density of completed tables: Adult, Default and Shoppers with 20, 50 and 70 % of their cells missing.

    python benchmarks/scripts/completed_density.py --data FOLDER [--datasets adult,default,shoppers]
                                                   [--ratios 20,50,70] [--rows N] [--epochs 60] [--results FOLDER]

Cells of the training rows are removed completely at random, a model is trained on the incomplete table, and one draw
completes it. The completed table is compared with the true one, in-sample as in Impute-EM: Shape and Trend error
(`harpoon_bench.density`), and their mean, which is what that paper prints as a mean over 20, 30, 50 and 70 %. "mean" is
the same for expected numbers and most probable categories, which a density punishes. The floor are other real rows,
as many as there are test rows, against the training rows: these are drawn anew in every cell, while a completed table
has observed cells in common with the true one, so it can be below the floor. One JSON file per data set and ratio;
existing records are kept.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import harpoon
from common import MIXED_DATASETS, RESULTS, run_datasets, training_facts
from harpoon import Schema
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load
from harpoon_bench.density import shape_error, trend_error

MASK_SEED = 0


def errors(schema: Schema, real: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    shape, trend = shape_error(schema, real, other), trend_error(schema, real, other)
    return {"shape": shape, "trend": trend, "density": (shape + trend) / 2}


def run(arguments: argparse.Namespace, cell: str) -> dict[str, Any]:
    name, percent = cell.split("_")
    dataset = load(name, arguments.data)
    train, test = dataset.train.head(arguments.rows), dataset.test.head(arguments.rows)
    incomplete = hide_cells(train, masks.sample_mask("MCAR", train, int(percent) / 100, MASK_SEED))
    kinds = dict.fromkeys(dataset.categorical, "category")
    schema = Schema.infer(incomplete, kinds=kinds)
    model = harpoon.Harpoon(schema=schema, max_epochs=arguments.epochs, random_state=0, progress=False).fit(incomplete)
    score = partial(errors, Schema.infer(train, kinds=kinds), train)
    return {
        "script": "benchmarks/scripts/completed_density.py",
        "dataset": name,
        "missing_fraction": int(percent) / 100,
        "train_rows": len(train),
        "test_rows": len(test),
        "draw": score(model.impute(incomplete, draws=1, random_state=0).tables[0]),
        "mean": score(model.impute(incomplete)),
        "floor": score(test),
        **training_facts(model),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--datasets", default=",".join(MIXED_DATASETS))
    parser.add_argument("--ratios", default="20,50,70", help="of missing cells, in %%")
    parser.add_argument("--rows", type=int, help="training rows and test rows, at most; all by default")
    parser.add_argument("--epochs", type=int, default=60, help="of training")
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    ratios, names = arguments.ratios.split(","), arguments.datasets.split(",")
    cells = ",".join(f"{name}_{ratio}" for name in names for ratio in ratios)
    for cell, record in run_datasets(cells, arguments.results, partial(run, arguments)).items():
        scores = {part: round(record[part]["density"], 4) for part in ("draw", "mean", "floor")}
        print(cell, *(f"{part} {value}" for part, value in scores.items()))


if __name__ == "__main__":
    main()
