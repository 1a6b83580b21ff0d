"""Experiments: their cells, the measurement of one cell, and runs that measure all cells."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from harpoon import Kind, Schema, metrics
from harpoon.diffusion import geometry
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.exceptions import HarpoonError, InvalidOption
from harpoon.metrics import METRICS, masks
from harpoon_bench.baselines import METHODS, Method, method_class
from harpoon_bench.baselines.presets import HarpoonMethod, Paper
from harpoon_bench.cache import cache_folder
from harpoon_bench.datasets import NAMES, SPECS, Dataset, hide_cells
from harpoon_bench.machine import circumstances, peak_mib, reset_peak
from harpoon_bench.published_scores import score_encoded
from harpoon_bench.records import Cell, Record, Results

Result = TypeVar("Result")
CONDITIONS = ("range", "category", "and", "or")
MIXED = ("adult", "default", "shoppers")  # data sets with numeric and categorical columns
MANIFOLD_DIMENSIONS = {"circle": 2, "sphere": 3}  # synthetic data with an exact denoiser
EXACT = "exact"  # the method of synthetic data
DATA = "data"  # the method of statistics, which need none
# The paper's ablations: one change of its preset at a time.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "loss": {
        "MAE": {},
        "MSE": {"reconstruction_loss": "mse"},
        "MAE + CE": {"reconstruction_loss": "mae+ce"},
        "MSE + CE": {"reconstruction_loss": "mse+ce"},
    },
    "schedule": {"Fixed": {}, "Linear": {"guidance_schedule": "linear"}},
    "encoding": {"One-Hot": {}, "Integer": {"encoding": "integer"}},
    "scaler": {"Standard": {}, "Quantile": {"scaling": "quantile"}},
}
SAMPLE_METRICS = (
    "alpha",
    "beta",
    "ks",
    "tv",
    "correlation",
    "detection_linear",
    "detection_xgboost",
    "identifiability",
)
COPY_METRICS = ("authenticity", "closest")
UTILITY_METRICS = ("utility", "utility_accuracy")
ANGLE_ROWS = 100  # as in the paper's figure
MANIFOLD_POINTS = 2000
ALPHA_BARS = (0.5, 0.9, 0.99, 0.999, 0.9999)  # ᾱ_t towards 1


class WrongAnswer(HarpoonError):
    """The result of a method is not what was requested."""


@dataclass(frozen=True)
class Plan:
    """The default cells of an experiment: the product of these lists."""

    datasets: Sequence[str]
    methods: Sequence[str]
    masks: Sequence[str | None] = (None,)
    ratios: Sequence[float | None] = (None,)
    conditions: Sequence[str | None] = (None,)
    seeds: Sequence[int] = (0,)
    options: Sequence[Mapping[str, Any]] = field(default=({},))


def make_cells(experiment: str, budget: float | None = None, **selection: Any) -> list[Cell]:  # noqa: ANN401
    """Return the cells of an experiment.

    Args:
        experiment: One of `EXPERIMENTS`.
        budget: The most seconds of training.
        **selection: Lists of datasets, methods, masks, ratios, conditions, seeds or options that replace the defaults.

    >>> len(make_cells("imputation")), len(make_cells("constraints", methods=["anchored"]))
    (360, 60)
    """
    if experiment not in EXPERIMENTS:
        raise InvalidOption.one_of("An experiment", experiment, EXPERIMENTS)
    plan = EXPERIMENTS[experiment]
    lists = {name: selection.get(name) or getattr(plan, name) for name in DIMENSIONS}
    for name in ("masks", "ratios", "conditions"):
        if selection.get(name) and None in getattr(plan, name):
            raise InvalidOption(f"The experiment {experiment!r} has no {name}. Omit them.")
    _check_names(lists)
    _check_numbers(lists["ratios"], lists["seeds"], budget)
    for method, options in product(lists["methods"], lists["options"]):
        if method in METHODS:
            method_class(method)(**options)  # raises InvalidOption for unknown options
    cells = [
        Cell(experiment, dataset, method, mask, ratio, condition, seed, budget, dict(options))
        for dataset, method, options, mask, ratio, condition, seed in product(*(lists[name] for name in DIMENSIONS))
    ]
    return list({cell.path: cell for cell in cells if _is_defined(cell)}.values())


def _check_names(lists: Mapping[str, Sequence[Any]]) -> None:
    valid = {
        "datasets": [*NAMES, *MANIFOLD_DIMENSIONS],
        "methods": [*METHODS, EXACT, DATA],
        "masks": masks.MECHANISMS,
        "conditions": CONDITIONS,
    }
    for name, values in valid.items():
        for value in lists[name]:
            if value is not None and value not in values:
                raise InvalidOption.one_of(f"One of the {name}", value, values)


def _check_numbers(ratios: Iterable[float | None], seeds: Iterable[int], budget: float | None) -> None:
    for ratio in ratios:
        if ratio is not None and not 0 < ratio < 1:
            raise InvalidOption(f"A ratio must be between 0 and 1, got {ratio:g}.")
    for seed in seeds:
        if seed < 0:
            raise InvalidOption(f"A seed must be at least 0, got {seed}.")
    if budget is not None and not 0 < budget < math.inf:
        raise InvalidOption(f"budget must be a positive number of seconds, got {budget:g}.")


def _is_defined(cell: Cell) -> bool:
    """Return whether the cell exists: synthetic data have one method, and some data sets have no conditions."""
    if (cell.dataset in MANIFOLD_DIMENSIONS) != (cell.method == EXACT):
        return False
    return cell.condition is None or bool(SPECS[cell.dataset].conditions())


def measure_imputation(cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Hide cells of the test rows, impute them, and score the imputed cells."""
    mask = masks.sample_mask(str(cell.mask), dataset.test, float(cell.ratio or 0), cell.seed)
    incomplete = hide_cells(dataset.test, mask)
    imputed, cost = time_call(lambda: method.impute(incomplete))
    check_imputed(incomplete, imputed)
    schema = as_continuous(dataset.schema)
    scores = {"mse": metrics.standardised_mse(schema, dataset.test, imputed, mask, dataset.train)}
    if dataset.categorical:
        scores["accuracy"] = metrics.accuracy(schema, dataset.test, imputed, mask)
    return {**cost, "metrics": scores, "hidden_fraction": float(mask.mean()), "rows": len(incomplete)}


def measure_sampling(cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Sample as many rows as there are test rows that satisfy the condition, and score them against these."""
    where = None if cell.condition is None else dataset.conditions[cell.condition]
    reference = dataset.test if where is None else dataset.test[metrics.satisfies(dataset.schema, dataset.test, where)]
    rows, cost = time_call(lambda: method.sample_like(reference, where))
    if len(rows) != len(reference) or rows.isna().to_numpy().any():
        raise WrongAnswer(f"{method.title} must return {len(reference)} complete rows, returned {len(rows)}.")
    scores = score_samples(dataset, reference, rows)
    record: Record = {**cost, "metrics": scores, "rows": len(rows)}
    if isinstance(method, Paper) and method.encoded is not None and method.is_published_encoding:
        scores |= score_encoded(method.model, reference, method.encoded, where, dataset.target)
    if where is not None:
        scores["violation"] = metrics.violation_rate(dataset.schema, rows, where)
        record |= {"where": where, "branches": branch_fractions(dataset, reference, rows)}
    return record


def score_samples(dataset: Dataset, reference: pd.DataFrame, rows: pd.DataFrame) -> dict[str, float]:
    """Return all scores of sampled rows: copies against the training rows, everything else against the reference."""
    schema = dataset.schema
    scores = {name: METRICS[name].function(schema, reference, rows) for name in SAMPLE_METRICS}
    scores |= {name: METRICS[name].function(schema, dataset.train, rows) for name in COPY_METRICS}
    if dataset.target is not None:
        scores |= {name: METRICS[name].function(schema, rows, reference, dataset.target) for name in UTILITY_METRICS}
    return scores


def branch_fractions(dataset: Dataset, reference: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[float]]:
    """Return the fraction of sampled rows and of real rows in each branch of an "or"."""
    branches = {kind: dataset.conditions[kind] for kind in ("range", "category")}
    return {
        kind: [float(metrics.satisfies(dataset.schema, table, where).mean()) for table in (rows, reference)]
        for kind, where in branches.items()
    }


def measure_statistics(dataset: Dataset) -> Record:
    """Count rows and columns, and the fraction of the training rows that satisfies each condition."""
    kinds = [column.kind for column in dataset.schema.modelled]
    return {
        "data_sha256": dataset.sha256,
        "counts": {
            "rows": len(dataset.train) + len(dataset.test),
            "numeric": sum(kind.numeric for kind in kinds),
            "categorical": sum(kind.discrete for kind in kinds),
            "train": len(dataset.train),
            "test": len(dataset.test),
        },
        "shares": {
            kind: {"where": where, "train": float(metrics.satisfies(dataset.schema, dataset.train, where).mean())}
            for kind, where in dataset.conditions.items()
        },
    }


def measure_angles(_cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Measure the paper's gradient-angle figure for a preset of Harpoon."""
    if not isinstance(method, HarpoonMethod):
        raise WrongAnswer(f"Gradient angles are defined for Harpoon's presets only, not for {method.title}.")
    model = method.model
    angles, cost = time_call(
        lambda: geometry.gradient_angles(
            model.denoiser_,
            model.encode(dataset.test),
            model.codec_.slices,
            rows=ANGLE_ROWS,
            steps=model.config.diffusion_steps,
        )
    )
    return {
        **cost,
        "angles": {
            loss: {"times": angle.times, "mean": angle.mean, "std": angle.std} for loss, angle in angles.items()
        },
    }


def measure_theorems(dimension: int, seed: int) -> Record:
    """Check Theorems 3.1 and 3.2 on the circle or the sphere, where the exact denoiser is known.

    As ᾱ_t → 1, x̂_0 converges to the projection, and the normal component of the gradient of a loss vanishes.
    """
    sphere, generator = geometry.Sphere(dimension), torch.Generator().manual_seed(seed)
    clean = sphere.sample(MANIFOLD_POINTS, generator)
    goal = torch.randn(dimension, generator=generator, dtype=torch.float64)
    rows = []
    for alpha_bar in ALPHA_BARS:
        level = NoiseLevel(alpha_bar**0.5, (1 - alpha_bar) ** 0.5)
        epsilon = torch.randn(clean.shape, generator=generator, dtype=torch.float64)
        x_t = (level.signal * clean + level.noise * epsilon).requires_grad_()
        estimate = sphere.posterior_mean(x_t, level)
        (gradient,) = torch.autograd.grad(((estimate - goal) ** 2).sum(), x_t)
        projection = sphere.project(x_t.detach())
        normal = gradient - sphere.tangential(projection, gradient)
        rows.append(
            {
                "alpha_bar": alpha_bar,
                "distance_to_projection": float((estimate.detach() - projection).norm(dim=1).mean()),
                "normal_fraction": float((normal.norm(dim=1) / gradient.norm(dim=1)).mean()),
            }
        )
    return {"theorems": rows}


def time_call(call: Callable[[], Result]) -> tuple[Result, Record]:
    """Return the result of a call, and its seconds and peak memory."""
    reset_peak()
    began = perf_counter()
    result = call()
    return result, {"answer_seconds": perf_counter() - began, "answer_peak_mib": peak_mib()}


def as_continuous(schema: Schema) -> Schema:
    """Return the schema with integer columns as continuous ones, because an expected value need not be an integer."""
    return Schema(
        tuple(
            replace(column, kind=Kind.NUMBER, step=None) if column.kind is Kind.INTEGER else column for column in schema
        )
    )


def check_imputed(incomplete: pd.DataFrame, imputed: pd.DataFrame) -> None:
    """Raise WrongAnswer unless all cells are filled and the observed cells are unchanged."""
    if list(imputed.columns) != list(incomplete.columns) or not imputed.index.equals(incomplete.index):
        raise WrongAnswer("The imputed table must have the same rows and columns, in the same order.")
    if imputed.isna().to_numpy().any():
        raise WrongAnswer(f"The imputed table has {int(imputed.isna().to_numpy().sum())} missing cells.")
    observed = incomplete.notna().to_numpy()
    same = np.array([imputed[name].to_numpy() == incomplete[name].to_numpy() for name in incomplete.columns]).T
    if not same[observed].all():
        raise WrongAnswer(f"The imputed table changes {int((~same & observed).sum())} observed cells.")


@dataclass(frozen=True)
class Job:
    """Cells of one variant and the folders that a worker needs (`harpoon_bench.worker`)."""

    cells: list[dict[str, Any]]
    results: str
    models: str
    data: str | None = None

    def to_json(self) -> str:
        """Return the job as text."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Run:
    """Measures cells in worker processes.

    Attributes:
        results: The folder of the records.
        data: The folder of the data sets (see `datasets.load`).
        models: The folder of trained methods; by default in the cache.
        limit: The most seconds of a training or of one answer; then the worker is killed and the failure recorded.
        retry_failed: Whether to measure failed cells again.
    """

    results: Path
    data: Path | None = None
    models: Path | None = None
    limit: float | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise InvalidOption(f"limit must be a positive number of seconds, got {self.limit:g}.")

    def __call__(self, cells: Iterable[Cell], on_cell: Callable[[Cell], None] = lambda _cell: None) -> None:
        """Measure all cells without a record; call `on_cell` after each."""
        for _, group in groupby(self.remaining(cells), key=lambda cell: (cell.experiment, cell.dataset, cell.variant)):
            self._measure_variant(list(group), on_cell)

    def remaining(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells without a record."""
        results = Results(self.results)
        return [cell for cell in cells if not results.has(cell, successful=self.retry_failed)]

    def _measure_variant(self, cells: list[Cell], on_cell: Callable[[Cell], None]) -> None:
        """Measure the cells of one variant in a worker; start another worker if one dies."""
        while cells:
            failed, error = self._run_worker(cells, on_cell)
            for cell in failed:
                Results(self.results).write(cell, {"error": error, **circumstances()})
                on_cell(cell)
            cells = [cell for cell in cells if not Results(self.results).has(cell)] if failed else []

    def _run_worker(self, cells: list[Cell], on_cell: Callable[[Cell], None]) -> tuple[list[Cell], dict[str, str]]:
        """Run one worker. Return the cells that it could not measure, and why."""
        models = self.models or cache_folder("models")
        data = None if self.data is None else str(self.data)
        job = Job([cell.to_json() for cell in cells], str(self.results), str(models), data)
        current: int | None = None  # the index of the cell that is measured; None: training
        with _start_worker(job) as (process, lines):
            line = lines.get()  # no limit for the start of Python
            affected = cells
            while line is not None:
                if current is not None:
                    on_cell(cells[current])
                current = None if line == "fit" else int(line)
                affected = cells if current is None else [cells[current]]
                try:
                    line = lines.get(timeout=self.limit)
                except queue.Empty:
                    return affected, _error("OutOfTime", current, f"stopped after {self.limit:g} s")
            code = process.wait()
        if code == 0:
            for cell in affected:
                on_cell(cell)
            return [], {}
        return affected, _error("Died", current, f"its process ended with exit code {code}")


@contextmanager
def _start_worker(job: Job) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
    """Start a worker; yield it and a queue of its output lines, with None at the end. Kill it on exit."""
    command = [sys.executable, "-m", "harpoon_bench.worker"]
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        with process.stdout as output:  # type: ignore[union-attr]
            for line in output:
                lines.put(line.strip())
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(job.to_json())
        yield process, lines
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its child processes
        process.wait()


def _error(kind: str, current: int | None, message: str) -> dict[str, str]:
    return {"kind": kind, "stage": "training" if current is None else "answering", "message": message}


MEASURES: dict[str, Callable[[Cell, Dataset, Method], Record]] = {
    "imputation": measure_imputation,
    "ablation": measure_imputation,
    "runtime": measure_imputation,
    "constraints": measure_sampling,
    "fidelity": measure_sampling,
    "geometry": measure_angles,
}
DIMENSIONS = ("datasets", "methods", "options", "masks", "ratios", "conditions", "seeds")
RATIOS, SEEDS = (0.25, 0.5, 0.75), tuple(range(5))  # as in the paper
VARIANTS = tuple({str(options): options for kind in ABLATIONS.values() for options in kind.values()}.values())
EXPERIMENTS = {
    "imputation": Plan(NAMES, ["anchored"], tuple(masks.MECHANISMS), RATIOS, seeds=SEEDS),
    "constraints": Plan(MIXED, ["anchored", "rejection", "real"], conditions=CONDITIONS, seeds=SEEDS),
    "ablation": Plan(["shoppers"], ["paper"], ["MAR"], RATIOS, seeds=SEEDS, options=VARIANTS),
    "runtime": Plan(
        ["adult"], [name for name in METHODS if name not in ("real", "guided", "rejection")], ["MAR"], [0.25]
    ),
    "geometry": Plan(["adult", *MANIFOLD_DIMENSIONS], ["anchored", "paper", EXACT]),
    "fidelity": Plan(MIXED, ["anchored", "real"]),
    "statistics": Plan(NAMES, [DATA]),
}
