"""The paper, reproduced: its tables and figures, the records that they need, and how long missing ones take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from harpoon.exceptions import InvalidOption
from harpoon_bench.experiments import ABLATIONS, EXPERIMENTS, MIXED, Run, make_cells
from harpoon_bench.pages import PUBLISHED
from harpoon_bench.records import Cell, Record, Results
from harpoon_bench.tables import Key as Names
from harpoon_bench.tables import Value, read_published

# The methods of the paper, with the settings of its code, beside the default preset and the mean.
IMPUTERS = (
    *("paper", "anchored", "mean", "repaint"),
    *("gain_published", "remasker_published", "miracle_published", "hyperimpute_published", "great"),
)
SAMPLERS = ("paper", "anchored", "rejection", "real")  # RePaint and GReaT have no conditions here
RUNTIMES = tuple(method for method in IMPUTERS if method != "hyperimpute_published")
BUDGETS = {"anchored": 300.0, "rejection": 300.0, "real": 300.0, "exact": 300.0}  # others have their authors' setting
OPTIONS: dict[str, dict[str, Any]] = {"great": {"epochs": 5}}  # as in the paper's code
SECONDS_PER_MINUTE, SECONDS_PER_HOUR = 60, 3600
Key = tuple[str | None, ...]  # names, with None for any
Estimate = Callable[[Sequence[Cell]], float | None]


@dataclass(frozen=True)
class Item:
    """A table or a figure of the paper.

    Attributes:
        title: What it shows.
        cells: The cells that its numbers are from; several items may share cells.
    """

    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Missing:
    """The missing records of one variant on one data set.

    Attributes:
        name: The data set and the variant.
        cells: How many records are missing.
        seconds: About how long they take with the training; None: there is no record to tell from.
    """

    name: str
    cells: int
    seconds: float | None


def paper_items() -> list[Item]:
    """Return every table and figure of the paper that has measured numbers.

    >>> len(paper_items()), sum(len(item.cells) for item in paper_items()) > 3000
    (16, True)
    """
    items = [
        Item(f"Table: imputation, {mask} (MSE and accuracy)", _cells("imputation", IMPUTERS, masks=[mask]))
        for mask in ("MAR", "MCAR", "MNAR")
    ]
    items += [
        Item(f"Table: conditions ({scores})", _cells("constraints", SAMPLERS))
        for scores in ("violation, α, utility", "KS, detection, identifiability")
    ]
    items += [
        Item(
            f"Table: ablation of the {kind}",
            _cells("ablation", ["paper"], datasets=MIXED, options=[*variants.values()]),
        )
        for kind, variants in ABLATIONS.items()
    ]
    runtimes = {"masks": ["MAR"], "ratios": [0.25], "seeds": [0]}
    items += [
        Item("Table: runtimes on Adult", _cells("runtime", RUNTIMES)),
        Item("Table: runtimes on all data sets", _cells("imputation", RUNTIMES, **runtimes)),
        Item("Table: statistics of the data sets", _cells("statistics", ["data"])),
        Item(
            "Table: share of the training rows under each condition",
            _cells("statistics", ["data"], datasets=MIXED),
        ),
        Item("Figure: gradient angles", _cells("geometry", ["paper", "anchored"], datasets=["adult"])),
        Item("Theorems on the circle and the sphere", _cells("geometry", ["exact"], datasets=["circle", "sphere"])),
        Item("Figure: disconnected regions of an or", _cells("constraints", SAMPLERS, conditions=["or"])),
    ]
    return items


def _cells(experiment: str, methods: Iterable[str], **selection: Any) -> tuple[Cell, ...]:  # noqa: ANN401
    """Return the cells of some methods, each with its budget and its options."""
    found: list[Cell] = []
    for method in methods:
        chosen = {"options": [OPTIONS[method]]} if method in OPTIONS else {}
        found += make_cells(experiment, BUDGETS.get(method), **{"methods": [method], **chosen, **selection})
    return tuple(found)


def select(items: Iterable[Item], datasets: Sequence[str], methods: Sequence[str]) -> list[Item]:
    """Return the items with the cells of some data sets and methods; empty lists select all."""
    kept = [
        replace(
            item,
            cells=tuple(
                cell
                for cell in item.cells
                if (not datasets or cell.dataset in datasets) and (not methods or cell.method in methods)
            ),
        )
        for item in items
    ]
    kept = [item for item in kept if item.cells]
    if not kept:
        raise InvalidOption("No table or figure of the paper has the selected data sets and methods. Select others.")
    return kept


def describe_items(items: Iterable[Item], run: Run) -> str:
    """Return which records each item has and lacks, and about how long the missing ones take."""
    estimate, lines, missing = make_estimate(Results(run.results)), [], dict[Path, Cell]()
    for item in items:
        remaining = run.remaining(item.cells)
        missing |= {cell.path: cell for cell in remaining}
        lines.append(f"{item.title}: {len(item.cells) - len(remaining)} of {len(item.cells)} records")
        groups = group_missing(remaining, estimate)
        lines += [f"    {group.name}: {group.cells} missing, {format_seconds(group.seconds)}" for group in groups]
    groups = group_missing(missing.values(), estimate)  # items share cells and trainings
    known = sum(group.seconds for group in groups if group.seconds is not None)
    unknown = sum(group.cells for group in groups if group.seconds is None)
    total = f"Missing: {len(missing)} records, {format_seconds(known)}"
    return "\n".join([*lines, total + (f", and {unknown} records of unknown time" if unknown else "")])


def group_missing(cells: Iterable[Cell], estimate: Estimate) -> list[Missing]:
    """Group missing cells by data set and variant, because the cells of a variant share one training."""
    groups = defaultdict[str, list[Cell]](list)
    for cell in cells:
        groups[f"{cell.dataset} {cell.variant}"].append(cell)
    return [Missing(name, len(found), estimate(found)) for name, found in groups.items()]


def make_estimate(results: Results) -> Estimate:
    """Return a function that estimates the seconds of cells of one variant and data set, from existing records.

    A training counts once and an answer for each cell. If the data set has no record of the variant, those of other
    data sets are used, in proportion to the number of rows. Without any record the estimate is None.
    """
    sizes = read_published(PUBLISHED / "datasets.csv", ("dataset", "count"))
    fits, answers = defaultdict[Key, list[float]](list), defaultdict[Key, list[float]](list)
    for experiment in EXPERIMENTS:
        for cell, record in results.records(experiment):
            train, test = (_rows(sizes, cell.dataset, part) for part in ("train", "test"))
            if "fit_seconds" in record:
                fits[cell.dataset, cell.variant].append(_training_seconds(record))
                fits[None, cell.variant].append(_training_seconds(record) / train)
            if "answer_seconds" in record:
                answers[experiment, cell.dataset, cell.variant].append(record["answer_seconds"])
                answers[experiment, None, cell.variant].append(record["answer_seconds"] / test)

    def find(found: Mapping[Key, list[float]], key: Key, other: Key, rows: float) -> float | None:
        """Return the mean seconds of a key, or of another key per row."""
        if key in found:
            return fmean(found[key])
        return fmean(found[other]) * rows if other in found else None

    def estimate(cells: Sequence[Cell]) -> float | None:
        dataset, variant = cells[0].dataset, cells[0].variant
        train, test = (_rows(sizes, dataset, part) for part in ("train", "test"))
        parts = [find(fits, (dataset, variant), (None, variant), train)]
        for cell in cells:
            key = (cell.experiment, dataset, variant)
            parts.append(find(answers, key, (cell.experiment, None, variant), test))
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    return estimate


def _rows(sizes: Mapping[Names, Value | str], dataset: str, part: str) -> float:
    """Return the training or test rows of a data set; 1 for synthetic data."""
    size = sizes.get((dataset, part))
    return size.mean if isinstance(size, Value) else 1.0


def _training_seconds(record: Record) -> float:
    """Return the seconds of a training, which may have been resumed."""
    facts: dict[str, float] = record.get("facts", {})
    return max(float(record["fit_seconds"]), float(facts.get("train_seconds", 0.0)))


def format_seconds(seconds: float | None) -> str:
    """Return a rough duration.

    >>> [format_seconds(seconds) for seconds in (None, 8.2, 200, 9000)]
    ['unknown', 'about 8 s', 'about 3 min', 'about 2.5 h']
    """
    if seconds is None:
        return "unknown"
    if seconds < 2 * SECONDS_PER_MINUTE:
        return f"about {seconds:.0f} s"
    if seconds < 2 * SECONDS_PER_HOUR:
        return f"about {seconds / SECONDS_PER_MINUTE:.0f} min"
    return f"about {seconds / SECONDS_PER_HOUR:.1f} h"
