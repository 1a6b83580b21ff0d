"""Time of sampling rows in this version beside an earlier one, with the same models, in one run.

    git worktree add ../earlier d83c56f
    python benchmarks/scripts/drawing_speed.py --data FOLDER --earlier ../earlier --models FOLDER

The earlier version trains a model of each table for a few epochs, if the folder of models has none: the weights hardly
change the time. Tables: Adult, 400 columns (300 numbers and 100 categories), and 40 columns of 200 labels each. Each
version samples in a process of its own, one right after the other. The shortest time of two calls counts, because other
load on the machine only adds to it. Seconds of the processor depend less on that load. The same seed gives nearly the
same rows in both versions: the sums of a matrix product are rounded in another order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from common import RESULTS, write_record
from harpoon import metrics
from harpoon_bench.datasets import Dataset, load

N_NUMBERS, N_CATEGORIES = 300, 100
LABELS, LABEL_COLUMNS = 200, 40
CALLS = 2  # of which the shortest counts
EPOCHS = {"adult": 8, "columns_400": 1, "labels_200": 1}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "adult": ("adult", 4096, {}),
    "adult_where": ("adult", 2048, {"where": "age >= 50"}),
    "columns_400": ("columns_400", 300, {}),
    "labels_200": ("labels_200", 128, {}),
}


def make_table(name: str, data: Path) -> pd.DataFrame:
    """Return the training rows of a table."""
    rng = np.random.default_rng(0)
    if name == "adult":
        return load("adult", data).train
    if name == "columns_400":
        n, width = 5000, N_NUMBERS + N_CATEGORIES
        x = rng.normal(size=(n, 20)) @ rng.normal(size=(20, width)) + rng.normal(size=(n, width))
        categories = np.digitize(x[:, N_NUMBERS:], [-3, 0, 3]).astype(str)
        numbers = {f"x{i}": x[:, i] for i in range(N_NUMBERS)}
        return pd.DataFrame(numbers | {f"c{i}": categories[:, i] for i in range(N_CATEGORIES)})
    n = 20_000
    shared, labels = rng.normal(size=(n, 5)), {}
    for i in range(LABEL_COLUMNS):
        codes = (40 * shared[:, i % 5] + LABELS / 2 + 20 * rng.normal(size=n)).astype(int)
        labels[f"c{i}"] = [f"v{code}" for code in codes.clip(0, LABELS - 1)]
    return pd.DataFrame(labels)


def train(models: Path, data: Path) -> None:
    """Train the models that are missing."""
    for name, epochs in EPOCHS.items():
        path = models / f"{name}.harpoon"
        if not path.exists():
            model = harpoon.Harpoon(max_epochs=epochs, max_time=None, random_state=0, progress=False)
            model.fit(make_table(name, data)).save(path)


def measure(models: Path, case: str, options: dict[str, Any], output: Path) -> None:
    """Sample, write the rows, and print the shortest seconds by the clock and of the processor."""
    name, n, own = CASES[case]
    model = harpoon.Harpoon.load(models / f"{name}.harpoon")
    model.progress = False
    model.sample(64, random_state=0)  # load everything before timing
    times = []
    for _ in range(CALLS):
        wall, cpu = perf_counter(), process_time()
        rows = model.sample(n, random_state=1, **own, **options)
        times.append((perf_counter() - wall, process_time() - cpu))
    rows.to_parquet(output)
    print(json.dumps([min(each) for each in zip(*times, strict=True)]))


def run_version(source: Path, *arguments: str) -> str:
    """Run this script with the package of another folder; return what it prints last."""
    path = os.pathsep.join(str(source / part) for part in ("src", "benchmarks"))
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(  # noqa: S603
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return (done.stdout.splitlines() or [""])[-1]


def compare(
    case: str, versions: dict[str, tuple[Path, dict[str, Any]]], models: Path, real: Dataset | None
) -> dict[str, Any]:
    """Return the shortest times of each version, the ratio to the first, and how many rows of the two are the same.

    With real rows also how well boosted trees tell them from the sampled rows.
    """
    best: dict[str, list[float]] = {}
    rows: dict[str, pd.DataFrame] = {}
    result: dict[str, Any] = {"rows": CASES[case][1], "options": CASES[case][2]}
    for name, (source, options) in versions.items():
        output = models / f"{case}_{name}.parquet"
        best[name] = json.loads(run_version(source, "measure", str(models), case, json.dumps(options), str(output)))
        rows[name] = pd.read_parquet(output)
        wall, cpu = best[name]
        result[name] = {"seconds": round(wall, 2), "processor_seconds": round(cpu, 2)}
        if real is not None:
            result[name]["detection"] = round(metrics.detection(real.schema, real.test, rows[name], folds=3), 3)
        if name != "earlier":
            same = (rows[name].astype(str) == rows["earlier"].astype(str)).all(axis=1)
            result[name]["same_rows"] = round(float(same.mean()), 4)
            result[name]["times_as_fast"] = round(best["earlier"][0] / wall, 2)
            result[name]["times_as_fast_by_processor_time"] = round(best["earlier"][1] / cpu, 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--earlier", type=Path, required=True, help="a checkout of the earlier version")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=RESULTS / "drawing_speed.json")
    arguments = parser.parse_args()
    models, current = arguments.models.resolve(), Path(__file__).parents[2]
    models.mkdir(parents=True, exist_ok=True)
    run_version(arguments.earlier.resolve(), "train", str(models), str(arguments.data.resolve()))
    versions: dict[str, tuple[Path, dict[str, Any]]] = {
        "earlier": (arguments.earlier.resolve(), {}),
        "current": (current, {}),
    }
    cases, dataset = {}, load("adult", arguments.data)
    for case in CASES:
        cases[case] = compare(case, versions, models, dataset if case == "adult" else None)
    write_record({"script": "benchmarks/scripts/drawing_speed.py", "cases": cases}, arguments.output)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), Path(sys.argv[5]))
    else:
        main()
