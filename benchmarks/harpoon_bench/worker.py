"""A process that works through the cells of one variant, so that it can be timed, measured and ended.

    python -m harpoon_bench.worker < job.json

It says on the standard output, a line each, what it begins: "fit", or the number of a cell; what else is printed goes
to the standard error. A record is written as soon as its cell is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep
from typing import Any

from harpoon_bench import machine
from harpoon_bench.baselines import Method, method
from harpoon_bench.datasets import Dataset, load
from harpoon_bench.measures import MEASURES, theorems
from harpoon_bench.models import trained
from harpoon_bench.records import Cell, Record, Results

LOOKED = 0.5  # seconds between two looks at the parent
DIMENSIONS = {"circle": 2, "sphere": 3}  # made-up data of the geometry, whose denoiser is known


@dataclass(frozen=True)
class Job:
    """Cells of one variant, and the folders they need."""

    cells: list[dict[str, Any]]
    results: str
    models: str
    data: str | None = None

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))


def work(job: Job, say: Callable[[str], None]) -> None:
    """Do all cells of a job."""
    results, cells = Results(Path(job.results)), [Cell.from_json(cell) for cell in job.cells]
    first = cells[0]
    if first.dataset in DIMENSIONS:
        for place, cell in enumerate(cells):
            say(str(place))
            results.write(cell, {**theorems(DIMENSIONS[cell.dataset], cell.seed), **circumstances()})
        return
    say("fit")
    try:
        dataset = load(first.dataset, job.data)
        chosen = method(first.method, budget=first.budget, **first.options)
        took = trained(chosen, dataset, Path(job.models))
    except Exception as error:  # noqa: BLE001 - whatever a method does is a result
        for cell in cells:
            results.write(cell, {"error": failure(error, "training"), **circumstances()})
        return
    for place, cell in enumerate(cells):
        say(str(place))
        results.write(cell, {**measured(cell, dataset, chosen), **took, **circumstances()})


def measured(cell: Cell, dataset: Dataset, chosen: Method) -> Record:
    """The record of a cell, or of what went wrong in it."""
    chosen.seed = cell.seed
    about = {"title": chosen.title, "settings": chosen.options, "data_sha256": dataset.sha256}
    try:
        record = MEASURES[cell.experiment](cell, dataset, chosen)
    except Exception as error:  # noqa: BLE001
        record = {"error": failure(error, "answering")}
    return {**about, **record, "note": chosen.note, "facts": chosen.facts()}


def failure(error: BaseException, doing: str) -> dict[str, str]:
    """What went wrong, in a record."""
    return {"kind": type(error).__name__, "while": doing, "message": str(error)}


def circumstances() -> Record:
    """What a record says of where it was made."""
    return {"versions": machine.versions(), "commit": machine.commit(), "on": machine.processor()}


def end_with(parent: int) -> None:
    """End this process, and what it has started, once its parent has ended: nobody is left to keep its time."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(LOOKED)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Read a job and do it."""
    end_with(os.getppid())
    warnings.simplefilter("ignore")
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not talk to whoever started us

    def say(word: str) -> None:
        lines.write(f"{word}\n")
        lines.flush()

    work(Job(**json.loads(sys.stdin.read())), say)


if __name__ == "__main__":
    main()
