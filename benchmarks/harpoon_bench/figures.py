"""Figures of the page of results, drawn from records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from harpoon.exceptions import MissingExtra
from harpoon_bench.cache import whole
from harpoon_bench.records import Cell, Record
from harpoon_bench.tables import title_of

ANGLES, DISJUNCTIONS = "angles.svg", "disjunctions.svg"
RIGHT = 90


def angles(records: Iterable[tuple[Cell, Record]], output: Path) -> str:
    """Gradient angles of each preset, step by step: the paper's figure."""
    there = [(cell, record["angles"]) for cell, record in records if "angles" in record]
    if not there:
        return "The gradient angles are not measured yet."
    figure, axes = _axes(len(there))
    for axis, (cell, losses) in zip(axes, there, strict=True):
        for loss, found in losses.items():
            axis.plot(found["mean"], label=loss)
        axis.axhline(RIGHT, color="grey", linewidth=0.5)
        axis.set(
            title=f"{cell.dataset}: {title_of(cell)}", xlabel="step, from noise to rows", ylabel="angle in degrees"
        )
        axis.legend()
    return _saved(figure, output / ANGLES, "Mean angles between gradients and the denoising direction")


def disjunctions(records: Iterable[tuple[Cell, Record]], output: Path) -> str:
    """How many rows under an "or" lie in each of its parts, drawn and real: nothing should be left out."""
    shares: dict[str, dict[str, dict[str, list[list[float]]]]] = {}
    for cell, record in records:
        if cell.condition == "or" and "branches" in record:
            for part, pair in record["branches"].items():
                shares.setdefault(cell.dataset, {}).setdefault(title_of(cell), {}).setdefault(part, []).append(pair)
    if not shares:
        return "The parts of disjunctions are not measured yet."
    names = ["test rows", *dict.fromkeys(name for methods in shares.values() for name in methods)]
    colours = {name: f"C{place}" for place, name in enumerate(names)}  # the same in all panels
    figure, axes = _axes(len(shares))
    for axis, (dataset, methods) in zip(axes, shares.items(), strict=True):
        parts = next(iter(methods.values()))
        bars = {"test rows": [fmean(pair[1] for pair in pairs) for pairs in parts.values()]}
        bars |= {name: [fmean(pair[0] for pair in found[part]) for part in parts] for name, found in methods.items()}
        width = 0.8 / len(bars)
        for place, (name, heights) in enumerate(bars.items()):
            axis.bar([x + place * width for x in range(len(parts))], heights, width, label=name, color=colours[name])
        axis.set_xticks([x + 0.4 - width / 2 for x in range(len(parts))], list(parts))
        axis.set(title=f"{dataset}: either part of an or", ylabel="share of the rows")
    labelled = {label: bar for axis in axes for bar, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=2, fontsize="small")
    return _saved(figure, output / DISJUNCTIONS, "Rows in each part of a disjunction")


def _axes(count: int) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.named("matplotlib", "bench", "A figure") from None
    figure = Figure(figsize=(5 * count, 4), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def _saved(figure: Any, path: Path, words: str) -> str:  # noqa: ANN401
    """Write a figure, the same bytes for the same records, and give back the text that shows it."""
    from matplotlib import rc_context

    with whole(path) as file, rc_context({"svg.hashsalt": path.name}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return f"![{words}]({path.name})"
