"""The privacy audit of models of the data sets: training rows against test rows that the model was not trained on.

    python benchmarks/scripts/audit.py --data FOLDER --models FOLDER [--datasets adult,default] [--minutes 3]
                                       [--rare keep,suppress] [--rows 2000] [--results FOLDER]

For each way to treat rare values, a model is trained, or read from FOLDER, and attacked (`Harpoon.audit`). A last audit
is that of a generator that returns training rows, which every attack must catch. One JSON file per data set.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import harpoon
from common import make_parser, run_datasets, training_facts
from harpoon.data import dataframe
from harpoon.privacy.audit import audit_rows, choose_rows
from harpoon_bench.datasets import NAMES, Dataset, load

SEED = 0


def main() -> None:
    """Write a record for each data set."""
    parser = make_parser("audit", NAMES)
    parser.add_argument("--rare", default="keep,suppress", help="values of the option rare")
    parser.add_argument("--rows", type=int, default=2000, help="rows of each table to attack, at most")
    arguments = parser.parse_args()
    run_datasets(arguments.datasets, arguments.results, lambda name: measure(name, arguments))


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the audits of a data set."""
    dataset = load(name, arguments.data)
    audits: dict[str, Any] = {}
    for rare in arguments.rare.split(","):
        model = fit_or_load(dataset, rare, arguments.minutes, arguments.models)
        found = model.audit(dataset.train, dataset.test, rows=arguments.rows, random_state=SEED)
        audits[rare] = {**found.to_json(), "training": training_facts(model)}
        print(name, rare, {attack.name: attack.light for attack in found.attacks}, flush=True)
    audits["copies"] = audit_copies(dataset, arguments.rows)
    return {"dataset": name, "sha256": dataset.sha256, "audits": audits}


def fit_or_load(dataset: Dataset, rare: str, minutes: float, models: Path) -> harpoon.Harpoon:
    """Return a model of the training rows, from its file if it exists."""
    path = models / f"{dataset.name}-{rare}.harpoon"
    if path.exists():
        return harpoon.load(path, progress=False)
    model = harpoon.Harpoon(
        schema=dataset.schema, max_time=60 * minutes, random_state=SEED, progress=False, rare=rare
    ).fit(dataset.train)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model


def audit_copies(dataset: Dataset, rows: int) -> dict[str, Any]:
    """Return the audit of a generator that returns training rows."""
    train, holdout = dataframe.read(dataset.train), dataframe.read(dataset.test)
    chosen = choose_rows(train.n_rows, holdout.n_rows, rows, SEED)
    copies = dataframe.read(dataset.train.iloc[np.random.default_rng(SEED).permutation(chosen[0])])
    return audit_rows(dataset.schema, train, holdout, copies, chosen=chosen, k=10, seed=SEED).to_json()


if __name__ == "__main__":
    main()
