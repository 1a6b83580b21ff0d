"""Trained methods, stored between cells and runs, because the cells of a variant share one training."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from time import perf_counter
from typing import Any

import harpoon
from harpoon_bench.baselines import Method
from harpoon_bench.cache import write_atomically
from harpoon_bench.datasets import Dataset
from harpoon_bench.machine import peak_mib, reset_peak

CONSTRUCTOR_ATTRIBUTES = ("seed", "budget", "options", "checkpoint")  # every other attribute is learnt


def train_or_load(method: Method, dataset: Dataset, folder: Path) -> dict[str, float]:
    """Train the method, or restore an earlier training; return its seconds and its peak memory.

    The folder holds pickles, so it must be trusted.
    """
    name = method.shares_training_with or method.name
    path = folder / dataset.name / f"{name}-{_digest(method, dataset)}.pickle"
    if stored := _load(path):
        learnt, cost = stored
        vars(method).update(learnt)
        return cost
    method.checkpoint = path.with_suffix(".checkpoint")
    method.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    reset_peak()
    began = perf_counter()
    method.fit(dataset.train, dataset.schema)
    cost = {"fit_seconds": perf_counter() - began, "fit_peak_mib": peak_mib()}
    if method.picklable:
        learnt = {name: value for name, value in vars(method).items() if name not in CONSTRUCTOR_ATTRIBUTES}
        with write_atomically(path) as file:
            file.write_bytes(pickle.dumps((learnt, cost)))
        method.checkpoint.unlink(missing_ok=True)
    return cost


def _load(path: Path) -> tuple[dict[str, Any], dict[str, float]] | None:
    """Return a stored training; None if there is none or another version of the code wrote it."""
    try:
        stored: tuple[dict[str, Any], dict[str, float]] = pickle.loads(path.read_bytes())  # noqa: S301 - our own file
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
        return None
    return stored


def _digest(method: Method, dataset: Dataset) -> str:
    """Return a digest of everything that training depends on."""
    inputs: dict[str, Any] = {
        "harpoon": harpoon.__version__,
        "data": dataset.sha256,
        "seed": method.seed,
        "budget": method.budget,
        "options": {name: value for name, value in method.options.items() if name not in method.sampling_options},
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:16]
