"""Figures of the results page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from harpoon_bench.cache import write_atomically
from harpoon_bench.records import Cell, Record
from harpoon_bench.tables import method_title

ANGLES_FILE, DISJUNCTIONS_FILE = "angles.svg", "disjunctions.svg"
RIGHT_ANGLE_DEGREES = 90


def plot_angles(records: Iterable[tuple[Cell, Record]], output: Path) -> str:
    """Plot the gradient angles of each preset, as in the paper; return Markdown."""
    measured = [(cell, record["angles"]) for cell, record in records if "angles" in record]
    if not measured:
        return "The gradient angles are not measured yet."
    figure, axes = _make_axes(len(measured))
    for axis, (cell, losses) in zip(axes, measured, strict=True):
        for loss, angles in losses.items():
            axis.plot(angles["mean"], label=loss)
        axis.axhline(RIGHT_ANGLE_DEGREES, color="grey", linewidth=0.5)
        title = f"{cell.dataset}: {method_title(cell)}"
        axis.set(title=title, xlabel="step, from noise to rows", ylabel="angle in degrees")
        axis.legend()
    return _save(figure, output / ANGLES_FILE, "Mean angles between gradients and the denoising direction")


def plot_disjunctions(records: Iterable[tuple[Cell, Record]], output: Path) -> str:
    """Plot the fraction of sampled and real rows in each branch of an "or"; return Markdown."""
    fractions: dict[str, dict[str, dict[str, list[list[float]]]]] = {}
    for cell, record in records:
        if cell.condition == "or" and "branches" in record:
            methods = fractions.setdefault(cell.dataset, {})
            for branch, pair in record["branches"].items():
                methods.setdefault(method_title(cell), {}).setdefault(branch, []).append(pair)
    if not fractions:
        return "The branches of disjunctions are not measured yet."
    names = ["test rows", *dict.fromkeys(name for methods in fractions.values() for name in methods)]
    colours = {name: f"C{index}" for index, name in enumerate(names)}  # the same in all panels
    figure, axes = _make_axes(len(fractions))
    for axis, (dataset, methods) in zip(axes, fractions.items(), strict=True):
        branches = next(iter(methods.values()))
        bars = {"test rows": [fmean(pair[1] for pair in pairs) for pairs in branches.values()]}
        for name, found in methods.items():
            bars[name] = [fmean(pair[0] for pair in found[branch]) for branch in branches]
        width = 0.8 / len(bars)
        for index, (name, heights) in enumerate(bars.items()):
            axis.bar([x + index * width for x in range(len(branches))], heights, width, label=name, color=colours[name])
        axis.set_xticks([x + 0.4 - width / 2 for x in range(len(branches))], list(branches))
        axis.set(title=f"{dataset}: branches of the or", ylabel="fraction of the rows")
    labelled = {label: bar for axis in axes for bar, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=2, fontsize="small")
    return _save(figure, output / DISJUNCTIONS_FILE, "Rows in each branch of a disjunction")


def _make_axes(count: int) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(5 * count, 4), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def _save(figure: Figure, path: Path, description: str) -> str:
    """Write a figure, reproducibly to the byte, and return the Markdown that shows it."""
    with write_atomically(path) as file, rc_context({"svg.hashsalt": path.name}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return f"![{description}]({path.name})"
