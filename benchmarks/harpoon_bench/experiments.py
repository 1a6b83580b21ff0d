"""Experiments: which cells they have, and how all of them get done, one by one, whatever happens to any of them."""

from __future__ import annotations

import math
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby, product
from pathlib import Path
from typing import Any

from harpoon.exceptions import InvalidOption
from harpoon.metrics.masks import MECHANISMS
from harpoon_bench.baselines import METHODS, kind_of
from harpoon_bench.cache import cache
from harpoon_bench.datasets import NAMES, SPECS
from harpoon_bench.records import Cell, Results
from harpoon_bench.worker import DIMENSIONS, Job, circumstances

CONDITIONS = ("range", "category", "and", "or")
MIXED = ("adult", "default", "shoppers")
# The paper's ablations: what is changed in its preset, one at a time.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "loss": {"MAE": {}, "MSE": {"loss": "mse"}, "MAE + CE": {"loss": "mae+ce"}, "MSE + CE": {"loss": "mse+ce"}},
    "schedule": {"Fixed": {}, "Linear": {"guidance_schedule": "linear"}},
    "encoding": {"One-Hot": {}, "Integer": {"encoding": "integer"}},
    "scaler": {"Standard": {}, "Quantile": {"scaling": "quantile"}},
}


@dataclass(frozen=True)
class Plan:
    """What an experiment goes through unless it is told otherwise."""

    datasets: Sequence[str]
    methods: Sequence[str]
    masks: Sequence[str | None] = (None,)
    ratios: Sequence[float | None] = (None,)
    conditions: Sequence[str | None] = (None,)
    seeds: Sequence[int] = (0,)
    options: Sequence[Mapping[str, Any]] = field(default=({},))


def cells(experiment: str, budget: float | None = None, **chosen: Any) -> list[Cell]:  # noqa: ANN401
    """The cells of an experiment.

    Args:
        experiment: One of `EXPERIMENTS`.
        budget: Seconds of training at the most.
        **chosen: Datasets, methods, masks, ratios, conditions, seeds or options other than the experiment's own.

    >>> len(cells("imputation")), len(cells("constraints", methods=["anchored"]))
    (360, 60)
    """
    if experiment not in EXPERIMENTS:
        raise InvalidOption.one_of("An experiment", experiment, EXPERIMENTS)
    plan = EXPERIMENTS[experiment]
    known = {
        "datasets": [*NAMES, *DIMENSIONS],
        "methods": [*METHODS, EXACT],
        "masks": MECHANISMS,
        "conditions": CONDITIONS,
    }
    parts = {name: chosen.get(name) or getattr(plan, name) for name in PARTS}
    for name in ("masks", "ratios", "conditions"):
        if chosen.get(name) and None in getattr(plan, name):
            raise InvalidOption(f"The experiment {experiment!r} has no {name} to choose from. Leave them out.")
    for name, values in known.items():
        for value in parts[name]:
            if value is not None and value not in values:
                raise InvalidOption.one_of(f"One of the {name}", value, values)
    _check_numbers(parts["ratios"], parts["seeds"], budget)
    for method, options in product(parts["methods"], parts["options"]):
        if method in METHODS:
            kind_of(method)(**options)  # which complains of options that it does not have
    found = [
        Cell(experiment, dataset, method, mask, ratio, condition, seed, budget, dict(options))
        for dataset, method, options, mask, ratio, condition, seed in product(*(parts[name] for name in PARTS))
    ]
    return list({cell.place: cell for cell in found if _makes_sense(cell)}.values())


def _check_numbers(ratios: Iterable[float | None], seeds: Iterable[int], budget: float | None) -> None:
    """Refuse what could only fail, before there is a record of it."""
    for ratio in ratios:
        if ratio is not None and not 0 < ratio < 1:
            raise InvalidOption(f"A ratio is a share of the cells, between 0 and 1, got {ratio:g}.")
    for seed in seeds:
        if seed < 0:
            raise InvalidOption(f"A seed is 0 or more, got {seed}.")
    if budget is not None and not 0 < budget < math.inf:
        raise InvalidOption(f"A budget is a number of seconds above 0, got {budget:g}.")


def _makes_sense(cell: Cell) -> bool:
    """Made-up data have no methods but their own, and conditions are those of the paper."""
    if (cell.dataset in DIMENSIONS) != (cell.method == EXACT):
        return False
    return cell.condition is None or bool(SPECS[cell.dataset].conditions())


@dataclass(frozen=True)
class Run:
    """Where a run reads and writes, and how long it waits.

    Attributes:
        results: The folder of records.
        data: The folder of data sets, if not the usual ones.
        models: The folder of trained methods.
        limit: Seconds that a training, or one answer, may take before it is ended and recorded as such.
        again: Whether to repeat what has failed.
    """

    results: Path
    data: Path | None = None
    models: Path | None = None
    limit: float | None = None
    again: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise InvalidOption(f"A limit is a number of seconds above 0, got {self.limit:g}.")

    def __call__(self, todo: Iterable[Cell], on_cell: Callable[[Cell], None] = lambda _cell: None) -> None:
        """Do all cells that have no record yet; `on_cell` hears of each."""
        for _, group in groupby(self.left(todo), key=lambda cell: (cell.experiment, cell.dataset, cell.variant)):
            self._do(list(group), on_cell)

    def left(self, todo: Iterable[Cell]) -> list[Cell]:
        """Those that have no record yet."""
        results = Results(self.results)
        return [cell for cell in todo if not results.done(cell, again=self.again)]

    def _do(self, left: list[Cell], on_cell: Callable[[Cell], None]) -> None:
        """Do the cells of one variant in a process of their own, and start another where one ends too early."""
        while left:
            ended, reason = self._work(left, on_cell)
            for cell in ended:
                Results(self.results).write(cell, {"error": reason, **circumstances()})
                on_cell(cell)
            left = [cell for cell in left if not Results(self.results).done(cell)] if ended else []

    def _work(self, left: list[Cell], on_cell: Callable[[Cell], None]) -> tuple[list[Cell], dict[str, str]]:
        """Let a worker do what is left. If it does not come to the end: which cells that concerns, and why."""
        models = self.models or cache("models")
        data = None if self.data is None else str(self.data)
        job = Job([cell.to_json() for cell in left], str(self.results), str(models), data)
        doing: int | None = None  # None: training
        with _worker(job) as (process, lines):
            line = lines.get()  # starting up takes what it takes
            concerned = left
            while line is not None:
                if doing is not None:
                    on_cell(left[doing])
                doing = None if line == "fit" else int(line)
                concerned = left if doing is None else [left[doing]]
                try:
                    line = lines.get(timeout=self.limit)
                except queue.Empty:
                    return concerned, _reason("OutOfTime", doing, f"it took more than {self.limit:g} s and was ended")
            code = process.wait()
        if code == 0:
            for cell in concerned:
                on_cell(cell)
            return [], {}
        return concerned, _reason("Died", doing, f"its process ended with exit code {code}")


@contextmanager
def _worker(job: Job) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
    """A process at work on a job, and the lines it says, with None at the end. It does not outlive the block."""
    command = [sys.executable, "-m", "harpoon_bench.worker"]
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        with process.stdout as said:  # type: ignore[union-attr]
            for line in said:
                lines.put(line.strip())
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(job.to_json())
        yield process, lines
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
        process.wait()


def _reason(kind: str, doing: int | None, message: str) -> dict[str, str]:
    return {"kind": kind, "while": "training" if doing is None else "answering", "message": message}


EXACT = "exact"
PARTS = ("datasets", "methods", "options", "masks", "ratios", "conditions", "seeds")
THIRDS, TRIALS = (0.25, 0.5, 0.75), tuple(range(5))
VARIANTS = tuple({str(options): options for kind in ABLATIONS.values() for options in kind.values()}.values())
EXPERIMENTS = {
    "imputation": Plan(NAMES, ["anchored"], tuple(MECHANISMS), THIRDS, seeds=TRIALS),
    "constraints": Plan(MIXED, ["anchored", "rejection", "real"], conditions=CONDITIONS, seeds=TRIALS),
    "ablation": Plan(["shoppers"], ["paper"], ["MAR"], THIRDS, seeds=TRIALS, options=VARIANTS),
    "runtime": Plan(
        ["adult"], [name for name in METHODS if name not in ("real", "guided", "rejection")], ["MAR"], [0.25]
    ),
    "geometry": Plan(["adult", *DIMENSIONS], ["anchored", "paper", EXACT]),
    "fidelity": Plan(MIXED, ["anchored", "real"]),
}
