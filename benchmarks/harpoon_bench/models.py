"""Trained methods, kept between cells and runs: training is what takes time, and cells differ in the questions."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from time import perf_counter
from typing import Any

import harpoon
from harpoon_bench.baselines import Method
from harpoon_bench.cache import whole
from harpoon_bench.datasets import Dataset
from harpoon_bench.machine import forget_peak, peak_mib

GIVEN = ("seed", "budget", "options", "checkpoint")  # what a method is made with; everything else in it has been learnt


def trained(method: Method, dataset: Dataset, folder: Path) -> dict[str, float]:
    """Train the method, or give it what was learnt before; and what that took.

    Pickles are read from the folder: it must be one's own.
    """
    path = folder / dataset.name / f"{method.trained_as or method.name}-{_digest(method, dataset)}.pickle"
    if kept := _kept(path):
        learnt, took = kept
        vars(method).update(learnt)
        return took
    method.checkpoint = path.with_suffix(".checkpoint")
    method.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    forget_peak()
    began = perf_counter()
    method.fit(dataset.train, dataset.schema)
    took = {"fit_seconds": perf_counter() - began, "fit_peak_mib": peak_mib()}
    if method.keeps:
        learnt = {name: value for name, value in vars(method).items() if name not in GIVEN}
        with whole(path) as file:
            file.write_bytes(pickle.dumps((learnt, took)))
        method.checkpoint.unlink(missing_ok=True)
    return took


def _kept(path: Path) -> tuple[dict[str, Any], dict[str, float]] | None:
    """What was kept; nothing where another version of the code cannot read it."""
    try:
        found: tuple[dict[str, Any], dict[str, float]] = pickle.loads(path.read_bytes())  # noqa: S301 - our own file
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
        return None
    return found


def _digest(method: Method, dataset: Dataset) -> str:
    """Of everything that training depends on."""
    settings: dict[str, Any] = {
        "harpoon": harpoon.__version__,
        "data": dataset.sha256,
        "seed": method.seed,
        "budget": method.budget,
        "options": {name: value for name, value in method.options.items() if name not in method.later},
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
