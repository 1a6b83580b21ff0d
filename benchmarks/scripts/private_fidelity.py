"""Fidelity of private models at several ε, beside other programs, a model without privacy and real rows.

    python benchmarks/scripts/private_fidelity.py --data FOLDER [--datasets shoppers,adult] [--epsilons 1,2,8,none,real]
                                                  [--peers mst,aim,mostlyai] [--minutes 10] [--epochs 20]
                                                  [--results FOLDER]

Kinds, categories and ranges are those of the published table, as public knowledge; all models get the same. Private
models take the fixed number of steps of the defaults, and the one without privacy a fixed number of epochs. As many
rows as there are test rows are sampled and scored against these; "real" are training rows. Private trainings of a
benchmark are seeded, to be repeatable, so that they guarantee nothing. Options were chosen on training rows of Default.
Peers run in environments of their own, with the same δ and the same public knowledge, for at most so many minutes each
(mostlyai stops itself then, and the others fail). One JSON file per data set, ε and program; existing records are kept.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

from common import RESULTS, run_datasets
from harpoon import Harpoon, HarpoonError, Privacy, PrivacyWarning, Schema, metrics
from harpoon_bench.baselines import make_method
from harpoon_bench.datasets import Dataset, load
from harpoon_bench.machine import versions

DELTA, SEED = 1e-6, 0
REAL, NONE = "real", "none"


def main() -> None:
    """Write a record for each data set and ε."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--datasets", default="shoppers,adult")
    parser.add_argument("--epsilons", default=f"1,2,8,{NONE},{REAL}")
    parser.add_argument("--peers", default="", help="programs to run beside Harpoon: mst, aim, mostlyai")
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, for a peer")
    parser.add_argument("--epochs", type=int, default=20, help="of the model without privacy")
    parser.add_argument("--results", type=Path, default=RESULTS / "private_fidelity")
    arguments = parser.parse_args()
    pairs = [*product(arguments.datasets.split(","), arguments.epsilons.split(","))]
    names = [f"{name}_{epsilon}" for name, epsilon in pairs]
    for peer in filter(None, arguments.peers.split(",")):
        names += [f"{name}_{epsilon}_{peer}" for name, epsilon in pairs if epsilon not in (REAL, NONE)]
    run_datasets(",".join(names), arguments.results, lambda name: measure(name, arguments))


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of one model of a data set."""
    name, epsilon, *peer = name.split("_")
    dataset = load(name, arguments.data)
    schema, facts = public_schema(dataset), {}
    rows = dataset.train.sample(len(dataset.test), random_state=SEED)
    about = {
        "script": "benchmarks/scripts/private_fidelity.py",
        "dataset": name,
        "epsilon": epsilon,
        "program": peer[0] if peer else "harpoon",
        "sha256": dataset.sha256,
        "train_rows": len(dataset.train),
        "versions": versions(),
    }
    if peer:
        return {**about, **measure_peer(peer[0], dataset, schema, float(epsilon), 60 * arguments.minutes)}
    if epsilon != REAL:
        began, began_cpu = perf_counter(), process_time()
        model = fit(dataset, schema, epsilon, arguments.epochs)
        facts = {
            "train_seconds": perf_counter() - began,
            "train_processor_seconds": process_time() - began_cpu,
            "weights": sum(part.numel() for part in model.denoiser_.parameters()),
            "privacy": None if model.privacy_ is None else model.privacy_.to_json(),
            "config": model.config_.to_json(),
        }
        rows = model.sample(len(dataset.test), random_state=SEED)
    return {**about, "scores": score(schema, dataset, rows), **facts}


def measure_peer(peer: str, dataset: Dataset, schema: Schema, epsilon: float, seconds: float) -> dict[str, Any]:
    """Return the scores of the rows of another program, or why there are none."""
    method = make_method(peer, seed=SEED, budget=seconds, epsilon=epsilon, delta=DELTA)
    began = perf_counter()
    try:
        method.fit(dataset.train, schema)
        trained = perf_counter() - began
        rows = method.sample(len(dataset.test))
    except HarpoonError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"scores": score(schema, dataset, rows), "train_seconds": trained, "note": method.note}


def fit(dataset: Dataset, schema: Schema, epsilon: str, epochs: int) -> Harpoon:
    """Return a model of the training rows at an ε, or without privacy."""
    options: dict[str, Any] = {"schema": schema, "random_state": SEED, "progress": False}
    if epsilon == NONE:
        return Harpoon(max_epochs=epochs, **options).fit(dataset.train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        return Harpoon(privacy=Privacy(epsilon=float(epsilon), delta=DELTA), **options).fit(dataset.train)


def public_schema(dataset: Dataset) -> Schema:
    """Return kinds, categories and ranges of the published table, without fractions of missing cells."""
    table = dataset.table[dataset.schema.names].dropna()
    return Schema.infer(table, kinds=dict.fromkeys(dataset.categorical, "category"))


def score(schema: Schema, dataset: Dataset, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the scores of rows against the test rows."""
    columns = metrics.similarity(schema, dataset.test, rows)
    return {
        "detection_xgboost": metrics.detection(schema, dataset.test, rows),
        "detection_linear": metrics.detection(schema, dataset.test, rows, classifier="linear"),
        "shape": float(np.mean(list(columns.values()))),
        "trend": metrics.correlation_similarity(schema, dataset.test, rows),
        "utility": metrics.utility(schema, rows, dataset.test, dataset.target or "", score="auc"),
    }


if __name__ == "__main__":
    main()
