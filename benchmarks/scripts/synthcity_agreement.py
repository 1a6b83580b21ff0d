"""Scores as published, computed by us and by the package synthcity on the same rows.

    python benchmarks/scripts/synthcity_agreement.py --data FOLDER --python SYNTHCITY_PYTHON

SYNTHCITY_PYTHON is the interpreter of an environment of its own:

    python3 -m venv synthcity-env
    synthcity-env/bin/pip install torch==2.13.0     # the CPU build of constraints.txt
    synthcity-env/bin/pip install numpy==1.26.4 pandas==2.2.3 scipy==1.13.1 scikit-learn==1.5.2
    synthcity-env/bin/pip install pydantic geomloss xgboost-cpu cloudpickle loguru optuna
    synthcity-env/bin/pip install --no-deps synthcity

The rows are test rows that satisfy a condition, against three tables of as many rows: training rows that satisfy it,
the same with each column permuted, and the same with noise added to the numbers. No model is trained.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from common import run_agreement
from harpoon import Harpoon, metrics
from harpoon.data import Floats
from harpoon_bench import published_scores as published
from harpoon_bench.datasets import load
from harpoon_bench.environments import WORKERS_FOLDER

NOISE = 0.3  # in standard deviations


def main() -> None:
    """Write a record for each data set: both scores and their differences."""
    run_agreement("synthcity", "adult,shoppers", compare)


def compare(data: Path, name: str, python: Path) -> dict[str, Any]:
    """Return both scores of three tables of a data set, under its range condition."""
    dataset = load(name, data)
    where = dataset.conditions["range"]
    # A model is needed for its codec only.
    codec = Harpoon("paper", schema=dataset.schema, hidden=2, max_epochs=1, progress=False, random_state=0)
    codec.fit(dataset.train)
    test, train = (rows[metrics.satisfies(dataset.schema, rows, where)] for rows in (dataset.test, dataset.train))
    size = min(len(test), len(train))
    reference, real = (codec.encode(rows.head(size)).x.double().numpy() for rows in (test, train))
    tables, versions = {}, {}
    for table, x in perturb(real).items():
        rows = [published.PublishedRows.from_encoded(codec.codec_, part, dataset.target) for part in (reference, x)]
        theirs = run_synthcity(python, *rows)
        ours = published.score_rows(*rows)
        difference = {metric: ours[metric] - theirs["scores"][metric] for metric in ours}
        tables[table] = {"ours": ours, "synthcity": theirs["scores"], "difference": difference}
        versions = theirs["versions"]
    return {"dataset": name, "where": where, "rows": size, "tables": tables, "synthcity_versions": versions}


def perturb(rows: Floats) -> dict[str, Floats]:
    """Return encoded rows, (n, d), as they are, with permuted features, and with noise in the features."""
    rng = np.random.default_rng(0)
    return {
        "real rows": rows,
        "permuted columns": rng.permuted(rows, axis=0),
        "noise": rows + rng.normal(0, NOISE, rows.shape),
    }


def run_synthcity(
    python: Path, reference: published.PublishedRows, sampled: published.PublishedRows
) -> dict[str, dict[str, Any]]:
    """Return the scores of synthcity and the versions of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        rows, scores = Path(folder, "rows.npz"), Path(folder, "scores.json")
        arrays: dict[str, Any] = {"reference": reference.x, "sampled": sampled.x}
        for name, part in (("reference", reference), ("sampled", sampled)):
            arrays |= {f"{name}_features": part.features, f"{name}_labels": part.labels}
        np.savez(rows, **arrays)
        command = [str(python), "-E", "-s", str(WORKERS_FOLDER / "synthcity_worker.py"), str(rows), str(scores)]
        subprocess.run(command, check=True)  # noqa: S603
        found: dict[str, dict[str, Any]] = json.loads(scores.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
