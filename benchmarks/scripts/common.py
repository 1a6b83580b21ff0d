"""Shared parts of the scripts: arguments, trained models, and one JSON record per data set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import torch

import harpoon
from harpoon_bench.datasets import load
from harpoon_bench.machine import circumstances, versions

RESULTS = Path(__file__).parents[1] / "results" / "scripts"
MIXED_DATASETS = ("adult", "default", "shoppers")


def make_parser(name: str, datasets: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser with the arguments of scripts that train models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--models", type=Path, required=True, help="folder of trained models, outside the repository")
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, for a model that does not exist yet")
    parser.add_argument("--datasets", default=",".join(datasets))
    parser.add_argument("--results", type=Path, default=RESULTS / name)
    return parser


def run_datasets(names: str, results: Path, run: Callable[[str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Run every data set without a record, and return the records of all."""
    results.mkdir(parents=True, exist_ok=True)
    records, facts = {}, circumstances()  # of the code that was imported: the commit may change while it runs
    for name in names.split(","):
        path = results / f"{name}.json"
        if not path.exists():
            began = perf_counter()
            record = {**run(name), **facts}
            record["seconds"] = round(perf_counter() - began, 1)
            path.write_text(json.dumps(record, indent=1) + "\n")
        records[name] = json.loads(path.read_text())
        print(name, "done", flush=True)
    return records


def run_models(name: str, run: Callable[[Path, str, harpoon.Harpoon], dict[str, Any]]) -> None:
    """Run a script that measures the trained model of each data set."""
    arguments = make_parser(name, MIXED_DATASETS).parse_args()
    run_datasets(
        arguments.datasets,
        arguments.results,
        lambda one: run(arguments.data, one, load_or_train(arguments.data, one, arguments.minutes, arguments.models)),
    )


def run_agreement(package: str, datasets: str, compare: Callable[[Path, str, Path], dict[str, Any]]) -> None:
    """Run a script that compares our scores with those of a package in an environment of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--python", type=Path, required=True, help=f"interpreter with {package}")
    parser.add_argument("--datasets", default=datasets)
    parser.add_argument("--results", type=Path, default=RESULTS / f"{package}_agreement")
    arguments = parser.parse_args()
    run_datasets(arguments.datasets, arguments.results, lambda name: compare(arguments.data, name, arguments.python))


def write_record(record: dict[str, Any], path: Path) -> None:
    """Write and print one record, with the commit and the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {**record, **circumstances()}
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


def training_facts(model: harpoon.Harpoon) -> dict[str, Any]:
    """Return the training time, the size and the options of a model, and the versions of packages."""
    return {
        "train_seconds": round(model.history_.seconds, 1),
        "epochs": model.history_.epochs[-1].number,
        "weights": sum(p.numel() for p in model.denoiser_.parameters()),
        "threads": torch.get_num_threads(),
        "config": model.config_.to_json(),
        "versions": versions(),
    }


def load_or_train(data: Path, name: str, minutes: float, models: Path) -> harpoon.Harpoon:
    """Return the default preset for the training rows of a data set, from `<models>/<name>.harpoon` if it exists.

    An existing model is used whatever its budget was; scripts record its options.
    """
    dataset = load(name, data)
    return load_or_fit(dataset.train, dataset.schema, minutes, models / f"{name}.harpoon")


def load_or_fit(train: pd.DataFrame, schema: harpoon.Schema, minutes: float, path: Path) -> harpoon.Harpoon:
    """Return the default preset for these rows, from the file if it exists."""
    if path.exists():
        return harpoon.load(path, progress=False)
    model = harpoon.Harpoon(schema=schema, max_time=60 * minutes, random_state=0, progress=False).fit(train)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model
