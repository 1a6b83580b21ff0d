"""The process that measures the cells of one variant, so that it can be timed and killed.

    python -m harpoon_bench.worker < job.json

On the standard output it names each stage that it starts, one line each: "fit", or the index of a cell. Anything that
libraries print goes to the standard error. Each record is written as soon as its cell is measured.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from time import sleep

from harpoon_bench.baselines import Method, make_method
from harpoon_bench.datasets import Dataset, load
from harpoon_bench.experiments import DATA, MANIFOLD_DIMENSIONS, MEASURES, Job, measure_statistics, measure_theorems
from harpoon_bench.machine import circumstances
from harpoon_bench.models import train_or_load
from harpoon_bench.records import Cell, Record, Results

PARENT_POLL_SECONDS = 0.5


def work(job: Job, announce: Callable[[str], None]) -> None:
    """Measure all cells of a job."""
    results, cells = Results(Path(job.results)), [Cell.from_json(cell) for cell in job.cells]
    first = cells[0]
    if first.dataset in MANIFOLD_DIMENSIONS:
        for index, cell in enumerate(cells):
            announce(str(index))
            record = measure_theorems(MANIFOLD_DIMENSIONS[cell.dataset], cell.seed)
            results.write(cell, {**record, **circumstances()})
        return
    if first.method == DATA:
        announce("0")
        results.write(first, {**measure_statistics(load(first.dataset, job.data)), **circumstances()})
        return
    announce("fit")
    try:
        dataset = load(first.dataset, job.data)
        method = make_method(first.method, budget=first.budget, **first.options)
        cost = train_or_load(method, dataset, Path(job.models))
    except Exception as error:  # noqa: BLE001 - any failure of a method is a result
        for cell in cells:
            results.write(cell, {"error": describe_error(error, "training"), **circumstances()})
        return
    for index, cell in enumerate(cells):
        announce(str(index))
        results.write(cell, {**measure(cell, dataset, method), **cost, **circumstances()})


def measure(cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Return the record of a cell, with an error if the method failed."""
    method.seed = cell.seed
    about = {"title": method.title, "config": method.options, "data_sha256": dataset.sha256}
    try:
        record = MEASURES[cell.experiment](cell, dataset, method)
    except Exception as error:  # noqa: BLE001
        record = {"error": describe_error(error, "answering")}
    return {**about, **record, "note": method.note, "facts": method.facts()}


def describe_error(error: BaseException, stage: str) -> dict[str, str]:
    """Return an error as plain data."""
    return {"kind": type(error).__name__, "stage": stage, "message": str(error)}


def end_with_parent(parent: int) -> None:
    """Kill this process and its children when the parent ends."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(PARENT_POLL_SECONDS)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Read a job from the standard input and do it."""
    end_with_parent(os.getppid())
    warnings.simplefilter("ignore")
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the output is for stages only

    def announce(stage: str) -> None:
        lines.write(f"{stage}\n")
        lines.flush()

    work(Job(**json.loads(sys.stdin.read())), announce)


if __name__ == "__main__":
    main()
