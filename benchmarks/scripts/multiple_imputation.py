"""Calibration of multiple imputation: intervals, probabilities and pooled estimates.

    python benchmarks/scripts/multiple_imputation.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult,bean]
                                                     [--draws 20] [--rows 1000] [--masks 3] [--results FOLDER]

For each data set: train on 70 % of the rows (or read the model from --models), hide cells of at most --rows test rows
by each of the paper's nine masks (MCAR, MAR, MNAR; 25, 50 and 75 % of the cells), and make 20 draws of each table.
Recorded are:

- coverage: the fraction of hidden numbers inside their 90 % interval, over all masks and for each. Where values
  repeat, such as zeros, the interval of perfect draws can cover more than 90 %. The attainable coverage accounts for
  that: it is the fraction of the draws inside the interval of the other draws;
- unanimous: the fraction of hidden numbers on which all draws agree to six digits, because other cells determine them;
  the fraction of these that are correct; and the coverage of the other numbers;
- rank coverage: the same without intervals. The true value gets its rank among the draws, with random ranks for ties.
  With perfect draws, 90 % of the ranks are in the middle 90 %, whatever repeats;
- probabilities: the mean predicted probability of sampled categories, and the fraction of these that are correct; the
  same for the most probable category. For a calibrated model the two agree;
- pooling: a linear regression of one number on three others, pooled by Rubin's rules. Its target are the coefficients
  on the complete rows. The pooled 95 % interval also allows for the sampling of the rows, which both regressions
  share, so it should cover more than 95 %. An interval from the variance between the draws alone should cover about 95
  %, except under MNAR.

One JSON file per data set; existing records are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

import harpoon
from common import load_or_train, make_parser, run_datasets, training_facts
from harpoon import metrics
from harpoon.inference.imputation.prediction_intervals import attainable_coverage
from harpoon.metrics import masks
from harpoon.metrics.imputation import RELATIVE_TOLERANCE
from harpoon_bench.datasets import NAMES, hide_cells, load

RATIOS = (0.25, 0.5, 0.75)
LEVEL, POOLED_LEVEL = 0.9, 0.95
SCORES = ("coverage", "attainable_coverage", "rank_coverage", "unanimous", "unanimous_correct", "other_coverage")
WEIGHTS = {"unanimous_correct": "unanimous_cells", "other_coverage": "other_cells"}  # others: "numeric_cells"
REGRESSIONS = {
    "adult": ("hours-per-week", ["age", "education-num", "capital-gain"]),
    "default": ("LIMIT_BAL", ["AGE", "BILL_AMT1", "PAY_AMT1"]),
    "shoppers": ("ExitRates", ["BounceRates", "PageValues", "SpecialDay"]),
    "gesture": ("1", ["2", "7", "13"]),
    "magic": ("fSize", ["fLength", "fWidth", "fConc"]),
    "letter": ("onpix", ["width", "high", "x-bar"]),
    "bean": ("roundness", ["Area", "AspectRation", "Extent"]),
    "california": ("median_house_value", ["median_income", "housing_median_age", "latitude"]),
}
Floats = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Regression:
    """Least squares with an intercept, for `MultipleImputation.pool`: coefficients and their variances."""

    def __init__(self, name: str, reference: pd.DataFrame) -> None:
        self.target, self.inputs = REGRESSIONS[name]
        columns = [self.target, *self.inputs]
        self.mean, self.std = reference[columns].mean(), reference[columns].std()

    def __call__(self, table: pd.DataFrame) -> tuple[Floats, Floats]:
        """Fit the regression on numbers standardised by the complete rows."""
        scaled = (table[list(self.mean.index)].astype(float) - self.mean) / self.std
        X = np.column_stack([np.ones(len(table)), scaled[self.inputs].to_numpy()])
        y = scaled[self.target].to_numpy()
        inverse = np.linalg.inv(X.T @ X)
        coefficients = inverse @ X.T @ y
        variance = ((y - X @ coefficients) ** 2).sum() / (len(y) - X.shape[1])
        return coefficients, variance * np.diag(inverse)


def pool_coefficients(name: str, rows: pd.DataFrame, draws: harpoon.MultipleImputation) -> list[dict[str, Any]]:
    """Return a record per coefficient."""
    regression = Regression(name, rows)
    complete, _ = regression(rows)
    pooled = draws.pool(regression)
    low, high = pooled.interval(POOLED_LEVEL)
    between = np.sqrt(pooled.lambda_) * pooled.std_error
    margin = t.ppf(0.5 + POOLED_LEVEL / 2, len(draws) - 1) * between
    return [
        {
            "coefficient": coefficient,
            "complete": float(complete[i]),
            "pooled": float(pooled.estimate[i]),
            "error": float(pooled.std_error[i]),
            "missing_information": float(pooled.lambda_[i]),
            "covered": bool(low[i] <= complete[i] <= high[i]),
            "covered_between": bool(abs(complete[i] - pooled.estimate[i]) <= margin[i]),
        }
        for i, coefficient in enumerate(["intercept", *regression.inputs])
    ]


def hidden_values(draws: harpoon.MultipleImputation, name: str, hidden: Mask) -> Floats:
    """Return the draws of the hidden numbers of a column, (draws, hidden)."""
    return np.stack([table[name].to_numpy(dtype=float)[hidden] for table in draws])


def numeric_cells(schema: harpoon.Schema, rows: pd.DataFrame, mask: Mask) -> Mask:
    """Return the hidden cells of numeric columns."""
    numbers: Mask = mask & np.array([schema[name].kind.numeric for name in rows.columns])
    return numbers


def unanimous_cells(schema: harpoon.Schema, draws: harpoon.MultipleImputation, mask: Mask) -> Mask:
    """Return the hidden numbers that are equal in all draws, to six digits."""
    columns, found = draws.tables[0].columns, np.zeros_like(mask)
    for index, name in enumerate(columns):
        if schema[name].kind.numeric:
            hidden = mask[:, index]
            values = hidden_values(draws, name, hidden)
            found[hidden, index] = np.ptp(values, axis=0) <= RELATIVE_TOLERANCE * np.abs(values[0])
    return found


def measure_intervals(
    schema: harpoon.Schema, rows: pd.DataFrame, draws: harpoon.MultipleImputation, mask: Mask
) -> dict[str, float]:
    """Return the coverage of intervals: of all numbers, of unanimous ones and of the others."""
    ends = draws.interval(LEVEL)
    numbers, unanimous = numeric_cells(schema, rows, mask), unanimous_cells(schema, draws, mask)
    return {
        "numeric_cells": int(numbers.sum()),
        "unanimous_cells": int(unanimous.sum()),
        "other_cells": int((numbers & ~unanimous).sum()),
        "coverage": metrics.coverage(schema, rows, ends, numbers),
        "attainable_coverage": mean_attainable_coverage(schema, draws, numbers),
        "unanimous": float(unanimous[numbers].mean()),
        "unanimous_correct": metrics.coverage(schema, rows, ends, unanimous) if unanimous.any() else 1.0,
        "other_coverage": metrics.coverage(schema, rows, ends, numbers & ~unanimous),
    }


def mean_attainable_coverage(schema: harpoon.Schema, draws: harpoon.MultipleImputation, mask: Mask) -> float:
    """Return the fraction of draws inside the interval of the other draws."""
    hidden = {name: mask[:, index] for index, name in enumerate(draws.tables[0].columns) if mask[:, index].any()}
    coverages = [
        attainable_coverage(hidden_values(draws, name, rows), LEVEL, schema[name]) for name, rows in hidden.items()
    ]
    return float(np.average(coverages, weights=[rows.sum() for rows in hidden.values()]))


def measure_rank_coverage(
    schema: harpoon.Schema,
    rows: pd.DataFrame,
    draws: harpoon.MultipleImputation,
    mask: Mask,
    generator: np.random.Generator,
) -> float:
    """Return the fraction of hidden numbers whose rank among the draws is central, with random ranks for ties."""
    inside = []
    for column in schema.modelled:
        if column.kind.numeric:
            hidden = mask[:, rows.columns.get_loc(column.name)]
            truth, values = rows[column.name].to_numpy(dtype=float)[hidden], hidden_values(draws, column.name, hidden)
            equal = np.abs(values - truth) <= RELATIVE_TOLERANCE * np.abs(truth)
            below = ((values < truth) & ~equal).sum(axis=0)
            rank = below + generator.uniform(0, equal.sum(axis=0) + 1)
            inside.append(np.abs(rank / (len(values) + 1) - 0.5) <= LEVEL / 2)
    return float(np.concatenate(inside).mean())


def measure_probabilities(
    model: harpoon.Harpoon,
    rows: pd.DataFrame,
    incomplete: pd.DataFrame,
    draws: harpoon.MultipleImputation,
    mask: Mask,
) -> dict[str, float]:
    """Return predicted probabilities and accuracies of the sampled and of the most probable categories."""
    expectation = model.expect(incomplete)
    parts: dict[str, list[Floats]] = {"sampled": [], "sampled_correct": [], "mode": [], "mode_correct": []}
    for name, categories in expectation.categories.items():
        hidden = mask[:, rows.columns.get_loc(name)]
        index = {category: i for i, category in enumerate(categories)}
        truth = rows[name].map(index).fillna(-1).to_numpy().astype(int)[hidden]
        predicted = expectation.probabilities[name][hidden]
        sampled = np.stack([table[name].map(index).to_numpy().astype(int)[hidden] for table in draws])
        parts["sampled"].append(np.take_along_axis(predicted, sampled.T, axis=1).ravel())
        parts["sampled_correct"].append((truth[:, None] == sampled.T).ravel().astype(float))
        parts["mode"].append(predicted.max(axis=1))
        parts["mode_correct"].append((predicted.argmax(axis=1) == truth).astype(float))
    return {part: float(np.concatenate(values).mean()) for part, values in parts.items() if values}


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    model = load_or_train(arguments.data, name, arguments.minutes, arguments.models)
    schema, rows = dataset.schema, dataset.test.head(arguments.rows)
    runs: list[dict[str, Any]] = []
    for mechanism, ratio, seed in product(masks.MECHANISMS, RATIOS, range(arguments.masks)):
        mask = masks.sample_mask(mechanism, rows, ratio, seed)
        incomplete, began = hide_cells(rows, mask), perf_counter()
        draws = model.impute(incomplete, draws=arguments.draws, random_state=seed)
        runs.append(
            {
                "mechanism": mechanism,
                "hidden": ratio,
                "seed": seed,
                "impute_seconds": round(perf_counter() - began, 1),
                **measure_intervals(schema, rows, draws, mask),
                "rank_coverage": measure_rank_coverage(schema, rows, draws, mask, np.random.default_rng(seed)),
                "probabilities": measure_probabilities(model, rows, incomplete, draws, mask),
                "regression": pool_coefficients(name, rows, draws),
            }
        )
        print(name, mechanism, ratio, seed, *(f"{key} {runs[-1][key]:.4f}" for key in SCORES), flush=True)
    return {
        "script": "benchmarks/scripts/multiple_imputation.py",
        "dataset": name,
        "rows": len(rows),
        "draws": arguments.draws,
        "level": LEVEL,
        **{key: average(runs, key) for key in SCORES},
        "coverage_by_mask": {
            f"{mechanism} {ratio}": average(group, "coverage") for (mechanism, ratio), group in by_mask(runs).items()
        },
        "coefficient_coverage": float(np.mean([c["covered"] for run in runs for c in run["regression"]])),
        "coefficient_coverage_between": float(
            np.mean([c["covered_between"] for run in runs for c in run["regression"]])
        ),
        "runs": runs,
        **training_facts(model),
    }


def average(runs: Iterable[dict[str, Any]], key: str) -> float:
    """Return the mean of a score over runs, weighted by the number of cells."""
    weight = WEIGHTS.get(key, "numeric_cells")
    counted = [run for run in runs if run[weight]]
    if not counted:
        return 1.0
    return float(np.average([run[key] for run in counted], weights=[run[weight] for run in counted]))


def by_mask(runs: Iterable[dict[str, Any]]) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """Group runs by mechanism and ratio."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["mechanism"], run["hidden"]), []).append(run)
    return found


def summarise(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per data set."""
    return "\n".join(
        f"{r['dataset']}: coverage {100 * r['coverage']:.1f} % ({100 * min(r['coverage_by_mask'].values()):.1f} to "
        f"{100 * max(r['coverage_by_mask'].values()):.1f} % by mask; attainable "
        f"{100 * r['attainable_coverage']:.1f} %), by rank {100 * r['rank_coverage']:.1f} %; unanimous "
        f"{100 * r['unanimous']:.1f} %, of these correct {100 * r['unanimous_correct']:.2f} %; coverage of the others "
        f"{100 * r['other_coverage']:.1f} %; coefficients covered {r['coefficient_coverage']:.2f}, by the variance "
        f"between draws {r['coefficient_coverage_between']:.2f}"
        for r in records
    )


def main() -> None:
    parser = make_parser(Path(__file__).stem, NAMES)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--masks", type=int, default=3, help="masks of each mechanism and ratio")
    arguments = parser.parse_args()
    records = run_datasets(arguments.datasets, arguments.results, lambda name: run(arguments, name))
    print(summarise(records.values()))


if __name__ == "__main__":
    main()
