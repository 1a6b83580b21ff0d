"""What is measured in one cell: holes filled, rows drawn, angles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

import numpy as np
import pandas as pd
import torch

from harpoon import Kind, Schema, metrics
from harpoon.diffusion import geometry
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.exceptions import HarpoonError
from harpoon.metrics import METRICS, masks
from harpoon_bench.baselines import Method
from harpoon_bench.baselines.own import Own
from harpoon_bench.datasets import Dataset, with_holes
from harpoon_bench.machine import forget_peak, peak_mib
from harpoon_bench.records import Cell, Record

Answer = TypeVar("Answer")
OF_ROWS = ("alpha", "beta", "ks", "tv", "correlation", "detection_linear", "detection_xgboost", "identifiability")
OF_COPIES = ("authenticity", "closest")
UTILITIES = ("utility", "utility_accuracy")
ANGLES = 100  # rows, as in the paper's figure
POINTS, NOISE = 2000, (0.5, 0.9, 0.99, 0.999, 0.9999)  # of the sphere; ᾱ_t towards 1


class WrongAnswer(HarpoonError):
    """A method gave back something else than it was asked for."""


def filled(cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Hide cells of the test rows, let them be filled, and compare."""
    mask = masks.sample_mask(str(cell.mask), dataset.test, float(cell.ratio or 0), cell.seed)
    holes = with_holes(dataset.test, mask)
    answer, took = timed(lambda: method.impute(holes))
    check_filled(holes, answer)
    schema = off_grid(dataset.schema)
    scores = {"mse": metrics.standardised_mse(schema, dataset.test, answer, mask, dataset.train)}
    if dataset.categorical:
        scores["accuracy"] = metrics.accuracy(schema, dataset.test, answer, mask)
    return {**took, "metrics": scores, "hidden": float(mask.mean()), "rows": len(holes)}


def drawn(cell: Cell, dataset: Dataset, method: Method) -> Record:
    """Draw as many rows as there are test rows that meet the condition, and compare them with those."""
    where = None if cell.condition is None else dataset.conditions[cell.condition]
    reference = dataset.test if where is None else dataset.test[metrics.satisfies(dataset.schema, dataset.test, where)]
    rows, took = timed(lambda: method.sample(len(reference), where))
    if len(rows) != len(reference) or rows.isna().to_numpy().any():
        raise WrongAnswer(f"{method.title} was asked for {len(reference)} complete rows and gave {len(rows)}.")
    scores = scores_of(dataset, reference, rows)
    record: Record = {**took, "metrics": scores, "rows": len(rows)}
    if where is not None:
        scores["violation"] = metrics.violation_rate(dataset.schema, rows, where)
        record |= {"where": where, "branches": branches(dataset, reference, rows)}
    return record


def scores_of(dataset: Dataset, reference: pd.DataFrame, rows: pd.DataFrame) -> dict[str, float]:
    """Every score of drawn rows. Copies are looked for among the training rows, all else in the reference."""
    schema = dataset.schema
    scores = {name: METRICS[name].function(schema, reference, rows) for name in OF_ROWS}
    scores |= {name: METRICS[name].function(schema, dataset.train, rows) for name in OF_COPIES}
    if dataset.target is not None:
        scores |= {name: METRICS[name].function(schema, rows, reference, dataset.target) for name in UTILITIES}
    return scores


def branches(dataset: Dataset, reference: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[float]]:
    """The share of drawn rows, and of real ones, in each part of a condition: an "or" should keep both parts."""
    parts = {kind: dataset.conditions[kind] for kind in ("range", "category")}
    return {
        kind: [float(metrics.satisfies(dataset.schema, table, where).mean()) for table in (rows, reference)]
        for kind, where in parts.items()
    }


def angles(_cell: Cell, dataset: Dataset, method: Method) -> Record:
    """The paper's gradient-angle figure for one of our presets."""
    if not isinstance(method, Own):
        raise WrongAnswer(f"Gradient angles are those of Harpoon's presets; {method.title} has none.")
    model = method.model
    found, took = timed(
        lambda: geometry.gradient_angles(
            model.denoiser_,
            model.encode(dataset.test),
            model.codec_.slices,
            rows=ANGLES,
            steps=model.config.diffusion_steps,
        )
    )
    return {
        **took,
        "angles": {
            name: {"times": angle.times, "mean": angle.mean, "deviation": angle.std} for name, angle in found.items()
        },
    }


def theorems(dimension: int, seed: int) -> Record:
    """Theorems 3.1 and 3.2 on the circle or the sphere, where the perfect denoiser is known.

    As ᾱ_t → 1 the estimate should become the projection, and the gradient of a loss should leave no part that is
    normal to the manifold.
    """
    sphere, generator = geometry.Sphere(dimension), torch.Generator().manual_seed(seed)
    clean = sphere.sample(POINTS, generator)
    goal = torch.randn(dimension, generator=generator, dtype=torch.float64)
    rows = []
    for alpha_bar in NOISE:
        level = NoiseLevel(alpha_bar**0.5, (1 - alpha_bar) ** 0.5)
        epsilon = torch.randn(clean.shape, generator=generator, dtype=torch.float64)
        x_t = (level.signal * clean + level.noise * epsilon).requires_grad_()
        estimate = sphere.posterior_mean(x_t, level)
        (gradient,) = torch.autograd.grad(((estimate - goal) ** 2).sum(), x_t)
        projection = sphere.project(x_t.detach())
        off = gradient - sphere.tangential(projection, gradient)
        rows.append(
            {
                "alpha_bar": alpha_bar,
                "distance_to_projection": float((estimate.detach() - projection).norm(dim=1).mean()),
                "normal_share": float((off.norm(dim=1) / gradient.norm(dim=1)).mean()),
            }
        )
    return {"theorems": rows}


def timed(answer: Callable[[], Answer]) -> tuple[Answer, Record]:
    """An answer, and the seconds and the memory it took."""
    forget_peak()
    began = perf_counter()
    found = answer()
    return found, {"answer_seconds": perf_counter() - began, "answer_peak_mib": peak_mib()}


def off_grid(schema: Schema) -> Schema:
    """The schema with whole numbers as plain numbers, so that an expectation of 2.5 children is no mistake."""
    return Schema(
        tuple(
            replace(column, kind=Kind.NUMBER, step=None) if column.kind is Kind.INTEGER else column for column in schema
        )
    )


def check_filled(holes: pd.DataFrame, answer: pd.DataFrame) -> None:
    """An answer must have no hole, and what was known must be as it was."""
    if list(answer.columns) != list(holes.columns) or not answer.index.equals(holes.index):
        raise WrongAnswer("The answer must have the rows and columns that were asked about, in their order.")
    if answer.isna().to_numpy().any():
        raise WrongAnswer(f"The answer must have no hole, and has {int(answer.isna().to_numpy().sum())}.")
    known = holes.notna().to_numpy()
    same = np.array([answer[name].to_numpy() == holes[name].to_numpy() for name in holes.columns]).T
    if not same[known].all():
        raise WrongAnswer(f"The answer changes {int((~same & known).sum())} cells that were known.")


MEASURES: dict[str, Callable[[Cell, Dataset, Method], Record]] = {
    "imputation": filled,
    "ablation": filled,
    "runtime": filled,
    "constraints": drawn,
    "fidelity": drawn,
    "geometry": angles,
}
