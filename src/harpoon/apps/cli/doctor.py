"""`harpoon doctor`: versions, the machine, the extras, and a self-test."""

from __future__ import annotations

import platform
import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from harpoon._utils.extras import EXTRAS, REQUIRED, installed_version
from harpoon._version import __version__
from harpoon.apps.cli.console import Console
from harpoon.exceptions import INSTALL

DOCTOR = ("harpoon doctor", "harpoon doctor --json | jq .self_test")
SELF_TEST_ROWS = 60
GIGABYTE = 1e9


def doctor(*, console: Console) -> None:
    """Check the installation: versions, threads, memory, which extras are there, and a self-test.

    The self-test fits a tiny table, saves and loads the model, imputes and samples. The exit code is 1 if it fails.
    """
    facts = {
        "harpoon": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: installed_version(package) for package in REQUIRED},
        **_machine(),
        "extras": {name: {"purpose": extra.purpose, "packages": extra.versions} for name, extra in EXTRAS.items()},
        "self_test": self_test(),
    }
    console.result(facts, *_parts(facts))
    if facts["self_test"]["problem"]:
        raise typer.Exit(1)


def self_test() -> dict[str, Any]:
    """Fit a tiny table, save and load the model, impute and sample; return the seconds, and the problem if any."""
    started = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a tiny table
            problem = _find_problem()
    except Exception as error:  # noqa: BLE001
        problem = f"{type(error).__name__}: {error}"
    return {"problem": problem, "seconds": round(perf_counter() - started, 2)}


def _find_problem() -> str:
    import pyarrow as pa

    from harpoon.estimator import Harpoon, load

    cells: dict[str, list[Any]] = {"x": [0.1, 0.9, None, 0.2, 0.3], "kind": ["low", "high", "low", "low", None]}
    table = pa.table({name: values * (SELF_TEST_ROWS // 5) for name, values in cells.items()})
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False, device="cpu").fit(table)
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        model.save(path)
        loaded = load(path, library="pyarrow", device="cpu", progress=False)
    filled = loaded.impute(table)
    if any(column.null_count for column in filled.columns):
        return "cells are missing after imputation"
    if not filled.equals(model.impute(table)):
        return "a loaded model imputes other values than the saved one"
    sampled = loaded.sample(20, where="x > 0.15", random_state=1)
    if sampled.num_rows != 20 or min(sampled["x"].to_pylist()) <= 0.15:  # noqa: PLR2004
        return "sampled rows do not satisfy their condition"
    return ""


def _machine() -> dict[str, Any]:
    from harpoon._utils.hardware import memory_bytes, usable_processors

    facts: dict[str, Any] = {"processors": usable_processors(), "memory_bytes": memory_bytes()}
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken installation is what this command is to find
        return {**facts, "threads": None, "device": None, "torch_problem": f"{type(error).__name__}: {error}"}
    return {**facts, "threads": torch.get_num_threads(), "device": "cuda" if torch.cuda.is_available() else "cpu"}


def _parts(facts: dict[str, Any]) -> list[Any]:
    """Return the facts as tables for people."""
    from harpoon.apps.cli.terminal_tables import fact_table

    memory = facts["memory_bytes"]
    shown = {name: facts[name] for name in ("harpoon", "python", "platform", "processors", "threads", "device")}
    shown["memory"] = "unknown" if memory is None else f"{memory / GIGABYTE:.1f} GB"
    packages = {name: version or "not installed" for name, version in facts["packages"].items()}
    extras = {name: f"{_state(extra['packages'])}: {extra['purpose']}" for name, extra in facts["extras"].items()}
    test = facts["self_test"]
    passed = f"passed in {test['seconds']:.1f} s" if not test["problem"] else f"failed: {test['problem']}"
    command = INSTALL.format(extra="name")
    titles = ("\nPackages", f"\nExtras (in the folder of the clone: {command})", f"\nSelf-test {passed}")
    return [fact_table(shown), titles[0], fact_table(packages), titles[1], fact_table(extras), titles[2]]


def _state(versions: dict[str, str | None]) -> str:
    absent = [package for package, version in versions.items() if version is None]
    return f"lacks {', '.join(absent)}" if absent else "installed"
