"""What the scripts have in common: their arguments, and one JSON file per data set."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

import harpoon

HERE = Path(__file__).parent
PACKAGES = ("torch", "numpy", "scikit-learn", "xgboost-cpu")


def parser(name: str, datasets: Iterable[str]) -> argparse.ArgumentParser:
    """The arguments that every script takes which trains or reads models."""
    made = argparse.ArgumentParser()
    made.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    made.add_argument("--models", type=Path, required=True, help="a folder for trained models, outside the repository")
    made.add_argument("--minutes", type=float, default=3.0, help="of training, for a model that is not there yet")
    made.add_argument("--datasets", default=",".join(datasets))
    made.add_argument("--results", type=Path, default=HERE / "results" / name)
    return made


def each(names: str, results: Path, run: Callable[[str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Run every data set whose result is not there yet, and give back the results of all."""
    results.mkdir(parents=True, exist_ok=True)
    records = {}
    for name in names.split(","):
        path = results / f"{name}.json"
        if not path.exists():
            began = perf_counter()
            record = run(name)
            record["seconds"] = round(perf_counter() - began, 1)
            path.write_text(json.dumps(record, indent=1) + "\n")
        records[name] = json.loads(path.read_text())
        print(name, "done", flush=True)
    return records


def facts(model: harpoon.Harpoon) -> dict[str, Any]:
    """What was trained, how long, and with what."""
    return {
        "train_seconds": round(model.history_.seconds, 1),
        "epochs": model.history_.epochs[-1].number,
        "weights": sum(p.numel() for p in model.denoiser_.parameters()),
        "threads": torch.get_num_threads(),
        "settings": model.config_.to_json(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    found = {"harpoon": harpoon.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
