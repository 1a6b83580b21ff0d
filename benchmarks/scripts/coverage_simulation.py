"""Bias, coverage and width of pooled estimates, by simulation (van Buuren, Flexible Imputation of Missing Data, 2.5).

    python benchmarks/scripts/coverage_simulation.py [--methods mice,harpoon] [--mechanisms MCAR,MAR,MNAR]
                                                     [--repeats 200] [--draws 10] [--epochs 40]
                                                     [--results FOLDER]

In each repeat a table of 300 rows is drawn from a known distribution, a quarter of the cells of three of its four
columns is removed, and each method completes the same table ten times:

    x is standard normal, and complete;            b is "yes" with probability 1 / (1 + exp(0.5 - x));
    z = 0.5 x + N(0, 0.75);                        y = 1 + 0.5 x + 0.5 z + 0.5 [b = "yes"] + N(0, 1)

    MCAR   cells are removed at random
    MAR    more often where x is large (y, b) or small (z)
    MNAR   more often where the value itself is large, or "yes"

Four estimates of each completed table are pooled by `harpoon.inference.imputation.pooling`: the mean of y, the
coefficient of z in the regression of y on x, z and b, the correlation of y and z (pooled as Fisher's z), and the
proportion of "yes". Their true values are known in closed form. Recorded are the bias, the fraction of the 95 %
intervals that contain the true value, and their mean width. With 200 repeats a coverage of 95 % has a standard error
of 1.5 %.

    complete        the table before cells are removed
    complete_rows   the rows without missing cells
    mice            R's mice with its defaults, run by Rscript
    miceforest      in an environment of its own
    harpoon         draws of one model

One JSON file per method and mechanism, written after every few repeats; a run that was interrupted continues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

import harpoon
from common import RESULTS
from harpoon import Schema
from harpoon.inference.imputation.pooling import Pooled, pool
from harpoon_bench.environments import (
    WORKERS_FOLDER,
    Environment,
    decode_table,
    encode_table,
    read_table,
    run_worker,
    write_table,
)
from harpoon_bench.machine import circumstances

Floats = NDArray[np.float64]
Completed = list[pd.DataFrame]  # the completed tables of one repeat
MECHANISMS = ("MCAR", "MAR", "MNAR")
N_ROWS, MISSING_FRACTION, LEVEL, BATCH = 300, 0.25, 0.95, 10
INTERCEPT_B, SLOPE, ERROR_Z = -0.5, 0.5, 0.75  # of b, of all linear terms, and the error variance of z
SIGNS = {"y": 1, "z": -1, "b": 1}  # of the effect of x on being missing, for MAR
DATA_SEED, MASK_SEED = 1, 2
SCHEMA = Schema.infer(pd.DataFrame({"x": [0.1, 0.2], "b": ["no", "yes"], "z": [0.1, 0.2], "y": [0.1, 0.2]}))
MICE = """
suppressPackageStartupMessages(library(mice))
settings <- as.numeric(commandArgs(TRUE))
for (file in list.files(pattern = "^incomplete_.*csv$")) {
  table <- read.csv(file, stringsAsFactors = TRUE, na.strings = "")
  number <- as.numeric(gsub("[^0-9]", "", file))
  imputed <- mice(table, m = settings[1], seed = number + 1, printFlag = FALSE)
  write.csv(complete(imputed, "long"), sub("incomplete", "completed", file), row.names = FALSE)
}
"""


def sample_table(repeat: int) -> pd.DataFrame:
    """Return the complete table of a repeat."""
    rng = np.random.default_rng([DATA_SEED, repeat])
    x = rng.normal(size=N_ROWS)
    b = rng.random(N_ROWS) < expit(INTERCEPT_B + x)
    z = SLOPE * x + np.sqrt(ERROR_Z) * rng.normal(size=N_ROWS)
    y = 1 + SLOPE * (x + z + b) + rng.normal(size=N_ROWS)
    return pd.DataFrame({"x": x, "b": np.where(b, "yes", "no"), "z": z, "y": y})


def remove_cells(table: pd.DataFrame, mechanism: str, repeat: int) -> pd.DataFrame:
    """Return the table with missing cells; their expected fraction is the same in each column and mechanism."""
    rng, incomplete = np.random.default_rng([MASK_SEED, repeat]), table.copy()
    for name, sign in SIGNS.items():
        own = (table[name] == "yes").astype(float) if name == "b" else table[name]
        score = {"MCAR": 0 * table["x"], "MAR": sign * table["x"], "MNAR": (own - own.mean()) / own.std()}[mechanism]
        intercept = brentq(lambda a, score=score: expit(a + score).mean() - MISSING_FRACTION, -20, 20)
        incomplete.loc[rng.random(len(table)) < expit(intercept + score), name] = None
    return incomplete


def true_values() -> dict[str, float]:
    """Return the estimands of the distribution, by Gauss-Hermite quadrature over x."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights, p = weights / weights.sum(), expit(INTERCEPT_B + nodes)
    mean_b, cov_xb = float(weights @ p), float(weights @ (p * nodes))
    var_z = SLOPE**2 + ERROR_Z
    cov_yz = SLOPE * (SLOPE + var_z + SLOPE * cov_xb)
    linear = 1 + var_z + mean_b * (1 - mean_b) + 2 * (SLOPE + cov_xb + SLOPE * cov_xb)  # variance of x + z + b
    correlation = cov_yz / np.sqrt(var_z * (SLOPE**2 * linear + 1))
    return {
        "mean": 1 + SLOPE * mean_b,
        "coefficient": SLOPE,
        "correlation": float(correlation),
        "proportion": mean_b,
    }


def mean(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the mean of y, its variance and its degrees of freedom."""
    return table["y"].mean(), table["y"].var() / len(table), len(table) - 1


def coefficient(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the coefficient of z in the regression of y on x, z and b."""
    X = np.column_stack([np.ones(len(table)), table["z"], table["x"], table["b"] == "yes"]).astype(float)
    y, df = table["y"].to_numpy(dtype=float), len(table) - X.shape[1]
    inverse = np.linalg.inv(X.T @ X)
    found = inverse @ X.T @ y
    return found[1], ((y - X @ found) ** 2).sum() / df * inverse[1, 1], df


def correlation(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the correlation of y and z as Fisher's z."""
    return np.arctanh(np.corrcoef(table["y"], table["z"])[0, 1]), 1 / (len(table) - 3), np.inf


def proportion(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the proportion of b = "yes"."""
    p = (table["b"] == "yes").mean()
    return p, p * (1 - p) / len(table), np.inf


ESTIMANDS: dict[str, Callable[[pd.DataFrame], tuple[float, float, float]]] = {
    "mean": mean,
    "coefficient": coefficient,
    "correlation": correlation,
    "proportion": proportion,
}


def pool_estimates(tables: Completed) -> dict[str, list[float]]:
    """Return the estimate and the ends of its 95 % interval, for each estimand."""
    found = {}
    for name, estimate in ESTIMANDS.items():
        if len(tables) > 1:
            pooled = pool(tables, estimate)
        else:  # nothing is missing
            value, variance, df = estimate(tables[0])
            pooled = Pooled((name,), np.array([value]), np.array([variance]), np.zeros(1), m=2, df_complete=df)
        numbers = np.array([pooled.estimate[0], *(end[0] for end in pooled.interval(LEVEL))])
        found[name] = (np.tanh(numbers) if name == "correlation" else numbers).round(6).tolist()
    return found


def before_removal(arguments: argparse.Namespace, tables: Completed, numbers: list[int]) -> list[Completed]:
    del arguments, tables
    return [[sample_table(number)] for number in numbers]


def complete_rows(arguments: argparse.Namespace, tables: Completed, numbers: list[int]) -> list[Completed]:
    del arguments, numbers
    return [[table.dropna()] for table in tables]


def mice(arguments: argparse.Namespace, tables: Completed, numbers: list[int]) -> list[Completed]:
    """Complete tables by R's mice with its defaults: predictive mean matching, and logistic regression for b."""
    with tempfile.TemporaryDirectory() as folder:
        for table, number in zip(tables, numbers, strict=True):
            table.to_csv(Path(folder, f"incomplete_{number:06}.csv"), index=False)
        command = ["Rscript", "--vanilla", "-e", MICE, str(arguments.draws)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603
        long = [pd.read_csv(Path(folder, f"completed_{number:06}.csv")) for number in numbers]
    return [[draw for _, draw in table.groupby(".imp")] for table in long]


def miceforest(arguments: argparse.Namespace, tables: Completed, numbers: list[int]) -> list[Completed]:
    """Complete tables by chained random forests with predictive mean matching."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        SCHEMA.save(folder / "schema.json")
        for table, number in zip(tables, numbers, strict=True):
            write_table(encode_table(table, SCHEMA), folder / f"incomplete_{number}.csv")
        settings = {"tables": numbers, "options": {"datasets": arguments.draws, "rounds": 5, "candidates": 5}}
        worker = WORKERS_FOLDER / "miceforest_draws_worker.py"
        run_worker(Environment.named("miceforest"), worker, folder, settings, title="miceforest")
        return [
            [
                decode_table(read_table(folder / f"completed_{number}_{draw}.csv"), SCHEMA)
                for draw in range(arguments.draws)
            ]
            for number in numbers
        ]


def one_model(arguments: argparse.Namespace, tables: Completed, numbers: list[int]) -> list[Completed]:
    options: dict[str, Any] = {"max_epochs": arguments.epochs, "progress": False}
    return [
        harpoon.Harpoon(random_state=number, **options).fit(table).impute(table, draws=arguments.draws).tables
        for table, number in zip(tables, numbers, strict=True)
    ]


METHODS: dict[str, Callable[[argparse.Namespace, Completed, list[int]], list[Completed]]] = {
    "complete": before_removal,
    "complete_rows": complete_rows,
    "mice": mice,
    "miceforest": miceforest,
    "harpoon": one_model,
}


def summarise(repeats: list[dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Return bias, coverage, width and root mean squared error of each estimand over the repeats."""
    found = {}
    for name, truth in true_values().items():
        estimate, low, high = np.array([repeat[name] for repeat in repeats]).T
        found[name] = {
            "truth": truth,
            "bias": float((estimate - truth).mean()),
            "coverage": float(((low <= truth) & (truth <= high)).mean()),
            "width": float((high - low).mean()),
            "rmse": float(np.sqrt(((estimate - truth) ** 2).mean())),
        }
    return found


def run(arguments: argparse.Namespace, method: str, mechanism: str) -> dict[str, Any]:
    """Run the repeats that a record lacks, and return the record."""
    path = arguments.results / f"{method},{mechanism}.json"
    record: dict[str, Any] = {"repeats": [], "cpu_seconds": 0.0}
    if path.exists():
        record = json.loads(path.read_text())
    while len(record["repeats"]) < arguments.repeats:
        done, began = len(record["repeats"]), process_time()
        numbers = list(range(done, min(done + BATCH, arguments.repeats)))
        tables = [remove_cells(sample_table(number), mechanism, number) for number in numbers]
        completed = METHODS[method](arguments, tables, numbers)
        repeats = record["repeats"] + [pool_estimates(draws) for draws in completed]
        record = {
            "script": "benchmarks/scripts/coverage_simulation.py",
            "method": method,
            "mechanism": mechanism,
            "rows": N_ROWS,
            "missing_fraction": MISSING_FRACTION,
            "draws": arguments.draws,
            **({"epochs": arguments.epochs} if method == "harpoon" else {}),
            "estimands": summarise(repeats),
            "cpu_seconds": round(record["cpu_seconds"] + process_time() - began, 1),  # without those of R and workers
            **circumstances(),
            "repeats": repeats,
        }
        path.write_text(json.dumps(record) + "\n")
    return record


def lines(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per method, mechanism and estimand."""
    return "\n".join(
        f"{r['mechanism']:5}{r['method']:18}{name:12} bias {s['bias']:+.3f}  coverage {100 * s['coverage']:5.1f} %  "
        f"width {s['width']:.3f}"
        for r in records
        for name, s in r["estimands"].items()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS))
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=40, help="of the training of a model")
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    for mechanism in arguments.mechanisms.split(","):
        for method in arguments.methods.split(","):
            print(lines([run(arguments, method, mechanism)]), flush=True)


if __name__ == "__main__":
    main()
