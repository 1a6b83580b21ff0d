"""Singling out, linkability and attribute inference, attacked by us and by the package Anonymeter on the same rows.

    python benchmarks/scripts/anonymeter_agreement.py --data FOLDER --python ANONYMETER_PYTHON

ANONYMETER_PYTHON is the interpreter of an environment of its own:

    python3 -m venv anonymeter-env
    anonymeter-env/bin/pip install anonymeter==1.1.0

No model is trained. The "synthetic" rows are other real rows, so that there is no risk, or the same with every second
one replaced by a training row, so that there is one. Linkability and attribute inference are compared row by row: both
take the closest row, and differ only if several are equally close. Singling out is compared as a rate, because the
descriptions are random.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from common import run_agreement
from harpoon.data import Schema, dataframe
from harpoon.privacy.attacks.attribute_inference import guess_cells
from harpoon.privacy.attacks.linkability import links
from harpoon.privacy.attacks.singling_out import combined_descriptions, matches, one_column_descriptions
from harpoon.privacy.rates import Rate, excess_risk
from harpoon.privacy.records import read_records
from harpoon_bench.datasets import load
from harpoon_bench.environments import WORKERS_FOLDER

ROWS, LEVEL, SEED = 500, 0.95, 0
SINGLING_OUT = ("singling_out", "singling_out_combined")


def main() -> None:
    """Write a record for each data set: both results, and the largest differences."""
    run_agreement("anonymeter", "adult,default", compare)


def compare(data: Path, name: str, python: Path) -> dict[str, Any]:
    """Return both results on rows without and with copies."""
    dataset = load(name, data)
    table = dataset.table.dropna().drop_duplicates()[dataset.schema.names].sample(3 * ROWS, random_state=SEED)
    # Negative guesses are always right in Anonymeter, so that only columns without negative numbers are compared.
    table = table[[column for column in table if not is_numeric_dtype(table[column]) or (table[column] >= 0).all()]]
    train, holdout, other = (table.iloc[start : start + ROWS] for start in range(0, 3 * ROWS, ROWS))
    copies = pd.concat([train.iloc[: ROWS // 2], other.iloc[: ROWS // 2]])
    found = {}
    for kind, synthetic in (("other rows", other), ("every second row copied", copies)):
        tables = [one.reset_index(drop=True) for one in (train, holdout, synthetic)]
        halves = [list(table.columns[start::2]) for start in (0, 1)]
        ours = attack(tables, halves)
        theirs = run_anonymeter(python, tables, halves, {name: ours[name]["attacks"] for name in SINGLING_OUT})
        found[kind] = {"ours": ours, "anonymeter": theirs["scores"], "difference": difference(ours, theirs["scores"])}
        versions = theirs["versions"]
    return {"dataset": name, "rows": ROWS, "level": LEVEL, "tables": found, "anonymeter_versions": versions}


def attack(tables: list[pd.DataFrame], halves: list[list[str]]) -> dict[str, Any]:
    """Return our results in the form of those of the worker."""
    discrete = {str(name): "category" for name in tables[0] if not is_numeric_dtype(tables[0][name])}
    schema = Schema.infer(pd.concat(tables, ignore_index=True), kinds=discrete)
    train, holdout, synthetic = read_records(schema, [dataframe.read(table) for table in tables])
    rng, names = np.random.default_rng(SEED), train.names
    descriptions = {
        "singling_out": one_column_descriptions(synthetic, rng),
        "singling_out_combined": combined_descriptions(synthetic, rng),
    }
    columns = [[names.index(column) for column in half if column in names] for half in halves]
    found: dict[str, Any] = {
        name: rates(*(matches(some, real).sum(axis=1) == 1 for real in (train, holdout)))
        for name, some in descriptions.items()
    }
    found["linkability"] = rates(*(links(real, synthetic, *columns) for real in (train, holdout)))
    right: list[Any] = [guess_cells(real, synthetic) for real in (train, holdout)]
    found["attribute_inference"] = {
        name: rates(right[0][:, index], right[1][:, index]) for index, name in enumerate(names)
    }
    return found


def rates(train: Any, holdout: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the successes on training and hold-out rows, and the risk with its interval, clipped to [0, 1]."""
    both = [Rate(int(np.sum(one)), len(one)) for one in (train, holdout)]
    risk = excess_risk(both[0], both[1], LEVEL)
    ends = [float(np.clip(value, 0, 1)) for value in (risk.value, risk.low, risk.high)]
    successes = {"attacks": both[0].total, "train": both[0].successes, "holdout": both[1].successes}
    return {**successes, "risk": ends[0], "interval": ends[1:]}


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """Return the differences of risks; of attribute inference, the largest of all columns."""
    found = {name: ours[name]["risk"] - theirs[name]["risk"] for name in ours if name != "attribute_inference"}
    columns = [name for name in theirs["attribute_inference"] if name in ours["attribute_inference"]]
    by_column = [
        ours["attribute_inference"][name]["risk"] - theirs["attribute_inference"][name]["risk"] for name in columns
    ]
    return {**found, "attribute_inference": max(by_column, key=abs)}


def run_anonymeter(
    python: Path, tables: list[pd.DataFrame], halves: list[list[str]], descriptions: dict[str, int]
) -> dict[str, Any]:
    """Return the results of Anonymeter and the versions of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        for name, table in zip(("train", "holdout", "synthetic"), tables, strict=True):
            table.to_parquet(Path(folder, f"{name}.parquet"))
        job = {"halves": halves, "descriptions": descriptions, "level": LEVEL}
        Path(folder, "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [str(python), "-E", "-s", str(WORKERS_FOLDER / "anonymeter_worker.py"), folder]
        subprocess.run(command, check=True)  # noqa: S603
        found: dict[str, Any] = json.loads(Path(folder, "scores.json").read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
