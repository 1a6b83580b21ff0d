"""Imputation by models that are trained on incomplete rows, by the protocols of DiffPuter and of CACTI.

    python benchmarks/scripts/incomplete_training.py --data FOLDER [--protocol diffputer | cacti]
                                                     [--datasets california,magic] [--mechanisms MCAR,MAR,MNAR]
                                                     [--masks 3] [--rows N] [--seconds 300 | --epochs N]
                                                     [--results FOLDER]

30 % of the cells are missing in training rows and in test rows. The model is trained on the incomplete training rows
and imputes both: in-sample and out-of-sample. Numbers are standardised by the observed training cells.

    diffputer   70 % of the rows for training; mean absolute and root mean squared error over all missing numbers, and
                the accuracy of missing categories in %
    cacti       80 % of the rows for training; root mean squared error, and the squared correlation of imputed and true
                values, each as a mean over the numeric columns. CACTI has ten data sets, of which six are here
                (adult, california, default, letter, magic, shoppers). As its average over ten data sets is no average
                over six, two references of scikit-learn, which its table has too, are scored on the same cells: means,
                and chained equations (`IterativeImputer`) on numbers and codes of categories

The masks are those of `harpoon.metrics.masks`, logistic as those of the two papers but not the same ones; DiffPuter has
ten and CACTI three. Absolute errors are those of medians (`impute(point="median")`), squared errors and correlations
those of expected numbers: each is the best single value for its score, by one model. One JSON file per protocol, data
set, mechanism and mask; existing records are kept.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

import harpoon
from common import RESULTS, run_datasets, training_facts
from harpoon import Schema
from harpoon.metrics import masks
from harpoon_bench.datasets import NAMES, SPLIT_SEED, hide_cells, load

MISSING_FRACTION = 0.3
TRAIN_FRACTIONS = {"diffputer": 0.7, "cacti": 0.8}
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


def score(
    model: harpoon.Harpoon, protocol: str, truth: pd.DataFrame, incomplete: pd.DataFrame, observed: pd.DataFrame
) -> dict[str, float]:
    """Return the scores of the missing cells; `observed` are the incomplete training rows, for the scale."""
    expectation, hidden = model.expect(incomplete), incomplete.isna().to_numpy() & truth.notna().to_numpy()
    medians = model.impute(incomplete, point="median") if protocol == "diffputer" else incomplete
    residuals, of_medians, squared_correlations, hits = [], [], [], []
    for index, name in enumerate(truth.columns):
        rows, true = hidden[:, index], truth[name].to_numpy()
        if not rows.any():  # under MAR and MNAR some columns stay complete
            continue
        if name in expectation.numbers:
            scale, imputed = observed[name].astype(float).std(ddof=0), expectation.numbers[name][rows]
            residuals.append((imputed - true[rows].astype(float)) / scale)
            of_medians.append((medians[name].to_numpy()[rows].astype(float) - true[rows].astype(float)) / scale)
            squared_correlations.append(squared_correlation(imputed, true[rows].astype(float)))
        elif name in expectation.probabilities:
            categories = np.array(expectation.categories[name], dtype=object)
            hits.append(categories[expectation.probabilities[name].argmax(axis=1)][rows] == true[rows])
    if protocol == "cacti":
        return mean_over_columns(residuals, squared_correlations)
    errors = np.concatenate(residuals)
    found = {
        "mae": float(np.abs(np.concatenate(of_medians)).mean()),
        "mae_of_means": float(np.abs(errors).mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
    }
    return {**found, "accuracy": 100 * float(np.concatenate(hits).mean())} if hits else found


def squared_correlation(imputed: Floats, true: Floats) -> float:
    """Return the squared correlation; 0 if the imputed values, or the true ones, are all equal."""
    return float(np.corrcoef(imputed, true)[0, 1] ** 2) if min(np.std(imputed), np.std(true)) > 0 else 0.0


def mean_over_columns(residuals: list[Floats], squared_correlations: list[float]) -> dict[str, float]:
    """Return the scores of CACTI: means over the numeric columns."""
    rmse = [float(np.sqrt((column**2).mean())) for column in residuals]
    return {"rmse": float(np.mean(rmse)), "r2": float(np.mean(squared_correlations))}


def score_references(
    table: pd.DataFrame, incomplete: pd.DataFrame, train_rows: int, numbers: list[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return CACTI's scores of two imputers of scikit-learn that are fitted to the incomplete training rows."""
    codes = incomplete.copy()
    for name in table.columns.difference(numbers):
        codes[name] = pd.Categorical(incomplete[name]).codes.astype(float)
        codes.loc[incomplete[name].isna(), name] = np.nan
    codes = codes.astype(float)
    scaled = (codes - codes.head(train_rows).mean()) / codes.head(train_rows).std(ddof=0)
    truth = (
        (table[numbers] - codes[numbers].head(train_rows).mean()) / codes[numbers].head(train_rows).std(ddof=0)
    ).to_numpy()
    where, places = [codes.columns.get_loc(name) for name in numbers], incomplete[numbers].isna().to_numpy()
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for method, imputer in {"means": SimpleImputer(), "chained equations": IterativeImputer(random_state=0)}.items():
        imputer.fit(scaled.head(train_rows).to_numpy())
        for part, rows in slices(train_rows).items():
            filled, hidden = imputer.transform(scaled[rows].to_numpy())[:, where], places[rows]
            columns = [(filled[h, j], truth[rows][h, j]) for j, h in enumerate(hidden.T) if h.any()]
            scores.setdefault(method, {})[part] = mean_over_columns(
                [imputed - true for imputed, true in columns], [squared_correlation(*column) for column in columns]
            )
    return scores


def slices(train_rows: int) -> dict[str, slice]:
    """Return the training rows and the others as slices of the table."""
    return {"in_sample": slice(0, train_rows), "out_of_sample": slice(train_rows, None)}


def run(arguments: argparse.Namespace, cell: str) -> dict[str, Any]:
    protocol, name, mechanism, number = cell.split("_")
    dataset = load(name, arguments.data)
    table = pd.concat([dataset.train, dataset.test], ignore_index=True)
    table = table.sample(frac=1, random_state=SPLIT_SEED).head(arguments.rows).reset_index(drop=True)
    incomplete = hide_cells(table, masks.sample_mask(mechanism, table, MISSING_FRACTION, int(number)))
    cut = round(TRAIN_FRACTIONS[protocol] * len(table))
    train = incomplete.head(cut)
    schema = Schema.infer(train, kinds=dict.fromkeys(dataset.categorical, "category"))
    limit = {"max_epochs": arguments.epochs} if arguments.epochs else {"max_time": arguments.seconds}
    numbers = [name for name in table.columns if name not in dataset.categorical]
    model = harpoon.Harpoon(schema=schema, random_state=0, progress=False, **limit).fit(train)
    parts = slices(cut)
    return {
        "script": "benchmarks/scripts/incomplete_training.py",
        "protocol": protocol,
        "dataset": name,
        "mechanism": mechanism,
        "mask": int(number),
        "train_rows": cut,
        "test_rows": len(table) - cut,
        **{part: score(model, protocol, table[rows], incomplete[rows], train) for part, rows in parts.items()},
        **({"references": score_references(table, incomplete, cut, numbers)} if protocol == "cacti" else {}),
        **training_facts(model),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--protocol", choices=TRAIN_FRACTIONS, default="diffputer")
    parser.add_argument("--datasets", default=",".join(NAMES))
    parser.add_argument("--mechanisms", default=",".join(masks.MECHANISMS))
    parser.add_argument("--masks", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of a table, at most; all by default")
    parser.add_argument("--seconds", type=float, default=300.0, help="of training, at most")
    parser.add_argument("--epochs", type=int, help="of training, instead of seconds")
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    choices = product(arguments.datasets.split(","), arguments.mechanisms.split(","), range(arguments.masks))
    cells = ",".join(f"{arguments.protocol}_{name}_{mechanism}_{number}" for name, mechanism, number in choices)
    for cell, record in run_datasets(cells, arguments.results, partial(run, arguments)).items():
        print(cell, {part: record[part] for part in ("in_sample", "out_of_sample")})


if __name__ == "__main__":
    main()
