"""The page of results, made from records and published tables alone: nothing in it is typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from harpoon._text import shorten
from harpoon.metrics import METRICS
from harpoon_bench import figures
from harpoon_bench.baselines import kind_of
from harpoon_bench.cache import whole
from harpoon_bench.datasets import NAMES
from harpoon_bench.experiments import ABLATIONS, CONDITIONS, EXPERIMENTS, MIXED, THIRDS
from harpoon_bench.records import Cell, Record, Results
from harpoon_bench.tables import (
    CEILINGS,
    FAILED,
    Column,
    Key,
    Table,
    Value,
    averaged,
    on_shared_seeds,
    place_of,
    published,
    title_of,
)

PAPER = " (published)"
MASKS = ("MAR", "MCAR", "MNAR")
SEVERAL = 4  # methods make a comparison
VARIED = {name for kind in ABLATIONS.values() for options in kind.values() for name in options}
FEW_LOST = 24  # cells are named one by one
RATIOS = tuple(f"{ratio:.2f}" for ratio in THIRDS)
SCORED = {"mse": tuple(sorted(NAMES)), "accuracy": MIXED}
# A metric in the published tables, and in ours.
CONSTRAINT_METRICS = {
    "violation_pct": "violation",
    "alpha": "alpha",
    "utility": "utility",
    "ks": "ks",
    "detection": "detection_linear",
    "identifiability": "identifiability",
}
UNITS = {**dict.fromkeys(METRICS, 1.0), "accuracy": 100.0, "violation": 100.0}  # published in %
NOTES = {
    "imputation": "Mean squared error of standardised numbers, accuracy of categories in %. The best is bold; what "
    "is equal to two digits is equal. Means over five masks, or as many as stand in brackets, ± their deviation, all "
    "of one training. Masks follow the paper's rule and were drawn anew, so published numbers and ours are of other "
    "masks. What the paper's tables call DiffPuter is RePaint on the paper's denoiser.",
    "side_by_side": "Only masks that every method of the table has filled, as many as stand in brackets; a method that "
    "was asked for a single one is in the tables below. Each was trained for about the time in its name at the most, "
    "on the same machine; what that came to stands under Methods.",
    "constraints": "Violations in %; α-precision in its naive variant; utility is the area under the ROC curve of a "
    "boosted classifier; detection is that of a linear one, 0.5 where it cannot tell. Keep three things in mind: the "
    "published violations are those straight out of the guided loop, while the anchored preset and rejection sampling "
    "give back only rows that meet the condition; the published scores are synthcity's, and ours were written to "
    "the same definitions without running its code beside them, except that KS is here of numeric columns only; real "
    "training rows are a ceiling, not a method.",
    "runtime": "Seconds to fill the test rows, and their ratio to the paper's method (its preset here, Harpoon there), "
    "one method after the other on one core. The published seconds are of another machine, with a GPU: only ratios can "
    "be compared.",
}


def write_page(results: Path, published_folder: Path, output: Path) -> Path:
    """Write `results.md` and its figures into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    found = Results(results)
    sections = [section(found, published_folder, output) for section in SECTIONS]
    head = "# Results\n\nMade by `harpoon bench page` from the records and the published tables; do not edit."
    page = output / "results.md"
    with whole(page) as file:
        file.write_text("\n\n".join([head, *filter(None, sections)]) + "\n", encoding="utf-8")
    return page


def imputation(results: Results, folder: Path, _output: Path) -> str:
    """One table per mask, metric and ratio, and how often each method of ours is best."""
    paper = published(folder / "imputation.csv", ("mask", "ratio", "method", "dataset", "metric"))
    ours, parts, tables = averaged(results.records("imputation")), [], []
    for mask, (metric, datasets), ratio in product(MASKS, SCORED.items(), RATIOS):
        table = Table([Column(dataset, metric) for dataset in datasets], title=f"{mask} {ratio} {metric}")
        for (one, share, method, dataset, what), value in paper.items():
            if (one, share, what) == (mask, ratio, metric):
                table.put(method + PAPER, dataset, value)
        for name, dataset in product(names_of(ours), datasets):
            table.put(name, dataset, ours.get((name, (dataset, mask, ratio), metric)), UNITS[metric])
        tables.append(table)
        parts.append(f"### {mask}, {float(ratio):.0%} hidden: {metric}\n\n{table.markdown()}")
    beside = side_by_side(results)
    return "\n\n".join(filter(None, ["## Imputation", NOTES["imputation"], counts(tables), beside, *parts]))


def side_by_side(results: Results) -> str:
    """All methods that were measured here, where there are several, on the same masks."""
    records = list(results.records("imputation"))
    names: dict[Key, set[str]] = {}
    for cell, _ in records:
        names.setdefault(place_of(cell), set()).add(title_of(cell))
    rich = [(cell, record) for cell, record in records if len(names[place_of(cell)]) >= SEVERAL]
    means, places = averaged(on_shared_seeds(rich)), list(dict.fromkeys(place_of(cell) for cell, _ in rich))
    columns = {
        (place, metric): Column(f"{' '.join(place)}: {metric}", metric)
        for place, (metric, datasets) in product(places, SCORED.items())
        if place[0] in datasets
    }
    table = Table(list(columns.values()))
    for name, ((place, metric), column) in product(names_of(means), columns.items()):
        table.put(name, column.heading, means.get((name, place, metric)), UNITS[metric])
    return f"### Measured here, on the same masks\n\n{NOTES['side_by_side']}\n\n{table.markdown()}" if rich else ""


def constraints(results: Results, folder: Path, output: Path) -> str:
    """One table per condition and data set, of all metrics that are published, and the figure of the disjunction."""
    paper = published(folder / "constraints.csv", ("constraint", "method", "dataset", "metric"))
    records = list(results.records("constraints"))
    ours, parts, tables = averaged(records), [], []
    for condition, dataset in product(CONDITIONS, MIXED):
        columns = [Column(name, metric) for name, metric in CONSTRAINT_METRICS.items()]
        table = Table(columns, title=f"{dataset} {condition}")
        for (one, method, data, metric), value in paper.items():
            if (one, data) == (condition, dataset):
                table.put(method + PAPER, metric, value)
        for name, (heading, metric) in product(names_of(ours), CONSTRAINT_METRICS.items()):
            table.put(name, heading, ours.get((name, (dataset, condition), metric)), UNITS[metric])
        tables.append(table)
        parts.append(f"### {dataset}: {condition}\n\n{table.markdown()}")
    figure = figures.disjunctions(records, output)
    return "\n\n".join(["## Conditions", NOTES["constraints"], counts(tables), *parts, figure])


def ablation(results: Results, folder: Path, _output: Path) -> str:
    """The paper's ablations, option by option, for every data set that was measured."""
    paper = published(folder / "ablations.csv", ("ablation", "option", "ratio", "dataset", "metric"))
    records = list(results.records("ablation"))
    parts = ["## Ablations", NOTES["imputation"]]
    for dataset, kind in product(sorted({cell.dataset for cell, _ in records}), ABLATIONS):
        table = Table([Column(f"{metric} {ratio}", metric) for metric, ratio in product(SCORED, RATIOS)])
        for option, changed in ABLATIONS[kind].items():
            same = [(c, record) for c, record in records if c.dataset == dataset and _varied(c.options) == changed]
            for metric, ratio in product(SCORED, RATIOS):
                heading = f"{metric} {ratio}"
                table.put(option + PAPER, heading, paper.get((kind, option, ratio, dataset, metric)))
                for (name, place, what), value in averaged(same).items():
                    if (place[-1], what) == (ratio, metric):
                        table.put(f"{option}: {name}{_epochs(same)}", heading, value, UNITS[metric])
        parts.append(f"### {dataset}: {kind}\n\n{table.markdown()}")
    return "\n\n".join(parts if records else [*parts, "Not measured yet."])


def runtime(results: Results, folder: Path, _output: Path) -> str:
    """Ratios of times within one run, published and ours, each by itself."""
    paper = published(folder / "runtimes.csv", ("method", "dataset"))
    ours: dict[str, dict[str, float | None]] = {}
    for cell, record in results.records("runtime"):
        methods = ours.setdefault(cell.dataset, {})
        methods[title_of(cell)] = record.get("answer_seconds", methods.get(title_of(cell)))
    parts = ["## Runtime", NOTES["runtime"]]
    for dataset, methods in ours.items():
        same = {method: value for (method, data), value in paper.items() if data == dataset}
        theirs = {method: value.mean for method, value in same.items() if isinstance(value, Value)}
        here, there = _ratios("", kind_of("paper").title, methods), _ratios("published", "Harpoon", theirs)
        parts.append(f"### {dataset}\n\n{here}\n\n{there}")
    return "\n\n".join(parts if ours else [*parts, "Not measured yet."])


def _ratios(heading: str, papers: str, seconds: Mapping[str, float | None]) -> str:
    """Times, the fastest first, and their ratios to that of the paper's method, or to the first without it."""
    done = {name: took for name, took in sorted(seconds.items(), key=lambda item: item[1] or 0) if took is not None}
    one = next((took for name, took in done.items() if name.startswith(papers)), min(done.values(), default=1))
    lines = [f"| {heading} | seconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {took:.3g} | {took / one:.2g} |" for name, took in done.items()]
    return "\n".join([*lines, *(f"| {name} | {FAILED} | |" for name in seconds if name not in done)])


def fidelity(results: Results, _folder: Path, _output: Path) -> str:
    """Every score of rows that were drawn without a condition."""
    means = averaged(results.records("fidelity"))
    parts = ["## Rows without a condition"]
    for dataset in sorted({place[0] for _, place, _ in means}):
        there = {key: value for key, value in means.items() if key[1][0] == dataset}
        names = dict.fromkeys(metric for _, _, metric in there)
        table = Table([Column(name, name) for name in names])
        for (method, _, metric), value in there.items():
            table.put(method, metric, value, UNITS[metric])
        parts.append(f"### {dataset}\n\n{table.markdown()}")
    return "\n\n".join(parts if means else [*parts, "Not measured yet."])


def geometry(results: Results, _folder: Path, output: Path) -> str:
    """The gradient-angle figure of both presets, and the theorems on the circle and the sphere."""
    records = list(results.records("geometry"))
    parts = ["## Geometry"]
    for cell, record in records:
        if "theorems" in record:
            lines = [
                "| ᾱ_t | distance of the estimate to the projection | share of the gradient that is normal |",
                "|---|---|---|",
            ]
            lines += [
                f"| {row['alpha_bar']} | {row['distance_to_projection']:.2e} | {row['normal_share']:.2e} |"
                for row in record["theorems"]
            ]
            parts.append(f"### Theorems 3.1 and 3.2 on the {cell.dataset}\n\n" + "\n".join(lines))
    parts.append(figures.angles(records, output))
    return "\n\n".join(parts if records else [parts[0], "Not measured yet."])


def methods(results: Results, _folder: Path, _output: Path) -> str:
    """What a reader must know of each method that was measured: how long it was trained, and its remarks."""
    lines: dict[str, None] = {}
    for experiment in EXPERIMENTS:
        for cell, record in results.records(experiment):
            if "fit_seconds" in record:
                facts = record["facts"]
                took = facts.get("train_seconds", record["fit_seconds"])  # a training may have gone on after a break
                trained = [f"{facts['epochs']} epochs"] if "epochs" in facts else []
                trained += [f"trained {took:.0f} s", f"peak {record['fit_peak_mib']} MiB"]
                note = f": {record['note']}" if record["note"] else ""
                lines[f"- {title_of(cell)}, {cell.dataset} ({', '.join(trained)}){note}"] = None
    return "## Methods\n\n" + ("\n".join(lines) or "Not measured yet.")


def failures(results: Results, _folder: Path, _output: Path) -> str:
    """Every cell that has an error in place of numbers."""
    lines = []
    for experiment in EXPERIMENTS:
        for cell, record in results.records(experiment):
            if "error" in record:
                error, where = record["error"], " ".join(map(str, place_of(cell)))
                message = shorten(error["message"].replace("|", "/").replace("\n", " "), shown=200)
                lines.append(
                    f"| {experiment} | {where}, seed {cell.seed} | {title_of(cell)} | {error['while']} | {message} |"
                )
    head = "| experiment | cell | method | while | what happened |\n|---|---|---|---|---|\n"
    return "## What failed\n\n" + (head + "\n".join(lines) if lines else "Nothing.")


def counts(tables: Iterable[Table]) -> str:
    """One line for each method of ours: in how many cells it is better than every published one, and where not."""
    tables = list(tables)
    rows = (name for table in tables for name in table.rows)
    ours = dict.fromkeys(name for name in rows if not is_published(name) and name not in CEILINGS)
    total, lines = sum(len(table.columns) for table in tables), []
    fought = {
        name: [duel for table in tables for duel in table.duels(name, filter(is_published, table.rows))]
        for name in ours
    }
    most = max(map(len, fought.values()), default=0)
    for name, duels in fought.items():
        if len(duels) < most / 2:  # few cells say little about a whole table
            continue
        lost = [f"{duel.cell} ({duel.ours:.2f}; {duel.rival} {duel.theirs:.2f})" for duel in duels if not duel.won]
        missing = f"; {total - len(duels)} of {total} were not measured or failed" if len(duels) < total else ""
        behind = f" Not better in: {', '.join(lost)}." if 0 < len(lost) <= FEW_LOST else ""
        lines.append(
            f"- {name} is better than every published method in {len(duels) - len(lost)} of {len(duels)} "
            f"cells{missing}.{behind}"
        )
    return "\n".join(lines) or "Not measured yet."


def is_published(name: str) -> bool:
    """Whether a row of a table is the paper's."""
    return name.endswith(PAPER)


def names_of(ours: Iterable[tuple[str, Key, str]]) -> list[str]:
    """Our methods, in the order of the records."""
    return list(dict.fromkeys(name for name, _, _ in ours))


def _varied(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a method's options that ablations are about."""
    return {name: value for name, value in options.items() if name in VARIED}


def _epochs(records: list[tuple[Cell, Record]]) -> str:
    """How long the models of an ablation were trained, which its readers must know."""
    epochs = {record["facts"]["epochs"] for _, record in records if "epochs" in record.get("facts", {})}
    return f" ({'/'.join(map(str, sorted(epochs)))} epochs)" if epochs else ""


SECTIONS: tuple[Callable[[Results, Path, Path], str], ...] = (
    imputation,
    constraints,
    ablation,
    runtime,
    fidelity,
    geometry,
    methods,
    failures,
)
