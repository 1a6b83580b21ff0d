"""The results page, made from records and published tables only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from harpoon._formatting import shorten
from harpoon.metrics import METRICS
from harpoon_bench.baselines import method_class
from harpoon_bench.baselines.base import PUBLISHED_SETTINGS
from harpoon_bench.cache import write_atomically
from harpoon_bench.datasets import NAMES
from harpoon_bench.experiments import ABLATIONS, CONDITIONS, EXPERIMENTS, MIXED, RATIOS
from harpoon_bench.figures import plot_angles, plot_disjunctions
from harpoon_bench.records import Cell, Record, Results
from harpoon_bench.tables import (
    CEILINGS,
    FAILED,
    Column,
    Comparison,
    Key,
    Table,
    Value,
    average_seeds,
    count_versions,
    keep_shared_seeds,
    method_title,
    read_published,
    task_of,
    warn_of_versions,
)

PUBLISHED_BASELINES = ("GAIN", "MIRACLE", "ReMasker", "HyperImpute")
PUBLISHED = Path(__file__).parent / "published" / "paper"
PUBLISHED_MARK = " (published)"
NOT_MEASURED = "Not measured yet."
MASKS = ("MAR", "MCAR", "MNAR")
MIN_METHODS_TO_COMPARE = 4
MAX_LOST_LISTED = 24
MAX_MESSAGE_LENGTH = 200
ABLATED_OPTIONS = {name for kind in ABLATIONS.values() for options in kind.values() for name in options}
RATIO_TEXTS = tuple(f"{ratio:.2f}" for ratio in RATIOS)
IMPUTATION_METRICS = {"mse": tuple(sorted(NAMES)), "accuracy": MIXED}
CONSTRAINT_METRICS = {  # names in the published tables, and ours
    "violation_pct": "violation",
    "alpha": "alpha",
    "utility": "utility",
    "ks": "ks",
    "detection": "detection_linear",
    "identifiability": "identifiability",
}
SCORED_AS_PUBLISHED = {  # our names of the scores of `published_scores`, by the names in the published tables
    "violation_pct": "published_violation",
    "alpha": "published_alpha",
    "utility": "published_utility",
    "ks": "published_ks",
    "detection": "published_detection",
    "identifiability": "published_identifiability",
}
RESULT_FILES = {"HyperImpute": "HyperImpute, authors' result file"}  # not in a table of the paper
# Rows that reproduce a published row: the paper preset, and baselines with the settings of the paper's code.
REPRODUCED = {
    "Harpoon (paper preset)": "Harpoon",
    "Harpoon (paper preset), scored as published": "Harpoon",
    **{f"{name} ({PUBLISHED_SETTINGS})": RESULT_FILES.get(name, name) for name in PUBLISHED_BASELINES},
}
UNITS = {**dict.fromkeys(METRICS, 1.0), "accuracy": 100.0, "violation": 100.0}  # published in %
NOTES = {
    "imputation": "MSE is the mean squared error of standardised numbers. Accuracy is that of categories, in %. Values "
    "are means ± standard deviations over five masks, or over the number of masks in brackets; all masks share one "
    "training. The best value is bold, and values that agree to two digits are ties. The masks follow the paper's rule "
    "with our own seeds, so published and measured numbers are of different masks. The paper's tables call RePaint on "
    "the paper's denoiser DiffPuter. HyperImpute is in no table of the paper: its published numbers are from the "
    "result file of the authors' code.",
    "agreement": "What was to be reproduced, cell by cell: a measured mean agrees if it is within two published "
    "standard deviations or 5 % of the published mean. In brackets: the measured and the published mean.",
    "same_masks": "These tables use only the masks that every method has imputed; their number is in brackets. Methods "
    "with a single mask are in the tables below. Names include the time limit of the training. All methods ran on the "
    "same machine; Methods lists their training times.",
    "constraints": "Violations are in %. α-precision is the naive variant. Utility is the area under the ROC curve of "
    "a boosted classifier, and detection that of a linear one; 0.5 means that it cannot separate sampled from "
    "real rows. Three differences matter. (1) Published violations are measured right after the guided loop; the "
    "anchored preset and rejection sampling return only rows that satisfy the condition. (2) Published scores are "
    "those of synthcity on encoded rows that are not rounded; ours are of rounded rows, and our KS covers numeric "
    "columns only. Rows with the words “scored as published” can be compared with published rows, and only they can. "
    "(3) Real training rows are a ceiling, not a method.",
    "runtime": "Seconds to impute the test rows, and the ratio to the paper's method (here: the paper preset; "
    "published: Harpoon). The methods ran sequentially on one core. Published seconds are from another machine with a "
    "GPU, so only ratios can be compared.",
    "statistics": "Rows without missing cells, and columns without those that are not features. Where the paper has "
    "another number, it is in brackets.",
    "versions": "The commit of the code that made each record, with the number of records. Tables whose measured rows "
    "are of several commits say so below them.",
}


def write_page(results: Path, output: Path, published: Path = PUBLISHED) -> Path:
    """Write `results.md` and its figures into a folder; return the path of the page."""
    output.mkdir(parents=True, exist_ok=True)
    found = Results(results)
    sections = [section(found, published, output) for section in SECTIONS]
    head = (
        "# Results\n\nThis page is generated by `harpoon-bench page` from the records and the published tables. "
        "Do not edit it."
    )
    page = output / "results.md"
    with write_atomically(page) as file:
        file.write_text("\n\n".join([head, *filter(None, sections)]) + "\n", encoding="utf-8")
    return page


def imputation(results: Results, published: Path, _output: Path) -> str:
    """Return one table per mask, metric and ratio, and how often each method is best."""
    paper = read_published(published / "imputation.csv", ("mask", "ratio", "method", "dataset", "metric"))
    records = list(results.records("imputation"))
    means, parts, tables = average_seeds(records), [], []
    for mask, (metric, datasets), ratio in product(MASKS, IMPUTATION_METRICS.items(), RATIO_TEXTS):
        table = Table([Column(dataset, metric) for dataset in datasets], title=f"{mask} {ratio} {metric}")
        for (paper_mask, paper_ratio, method, dataset, paper_metric), value in paper.items():
            if (paper_mask, paper_ratio, paper_metric) == (mask, ratio, metric):
                table.put(RESULT_FILES.get(method, method) + PUBLISHED_MARK, dataset, value)
        for name, dataset in product(method_names(means), datasets):
            table.put(name, dataset, means.get((name, (dataset, mask, ratio), metric)), UNITS[metric])
        tables.append(table)
        shown = [(cell, record) for cell, record in records if task_of(cell)[1:] == (mask, ratio)]
        shown = [(cell, record) for cell, record in shown if cell.dataset in datasets]
        title = f"### {mask}, {100 * float(ratio):.0f} % hidden: {metric}"
        parts.append(_join(title, table.to_markdown(), warn_of_versions(shown)))
    same_masks = compare_on_same_masks(results)
    agreement = describe_agreement({mask: [t for t in tables if t.title.startswith(mask)] for mask in MASKS})
    return _join("## Imputation", NOTES["imputation"], count_wins(tables), agreement, same_masks, *parts)


def compare_on_same_masks(results: Results) -> str:
    """Return a table of tasks that several methods were measured on, with the same masks for all."""
    records = list(results.records("imputation"))
    names: dict[Key, set[str]] = {}
    for cell, _ in records:
        names.setdefault(task_of(cell), set()).add(method_title(cell))
    rich = [(cell, record) for cell, record in records if len(names[task_of(cell)]) >= MIN_METHODS_TO_COMPARE]
    means, tasks = average_seeds(keep_shared_seeds(rich)), list(dict.fromkeys(task_of(cell) for cell, _ in rich))
    columns = {
        (task, metric): Column(f"{' '.join(task)}: {metric}", metric)
        for task, (metric, datasets) in product(tasks, IMPUTATION_METRICS.items())
        if task[0] in datasets
    }
    table = Table(list(columns.values()))
    for name, ((task, metric), column) in product(method_names(means), columns.items()):
        table.put(name, column.heading, means.get((name, task, metric)), UNITS[metric])
    if not rich:
        return ""
    title = "### All methods on the same masks"
    return _join(title, NOTES["same_masks"], table.to_markdown(), warn_of_versions(rich))


def constraints(results: Results, published: Path, output: Path) -> str:
    """Return one table per condition and data set, and the figure of disjunctions."""
    paper = read_published(published / "constraints.csv", ("constraint", "method", "dataset", "metric"))
    records = list(results.records("constraints"))
    means, parts, tables = average_seeds(records), [], []
    for condition, dataset in product(CONDITIONS, MIXED):
        columns = [Column(name, metric) for name, metric in CONSTRAINT_METRICS.items()]
        table = Table(columns, title=f"{dataset} {condition}")
        for (paper_condition, method, paper_dataset, metric), value in paper.items():
            if (paper_condition, paper_dataset) == (condition, dataset):
                table.put(method + PUBLISHED_MARK, metric, value)
        for name, (heading, metric) in product(method_names(means), CONSTRAINT_METRICS.items()):
            table.put(name, heading, means.get((name, (dataset, condition), metric)), UNITS[metric])
        for name, (heading, metric) in product(method_names(means), SCORED_AS_PUBLISHED.items()):
            scored, unit = means.get((name, (dataset, condition), metric)), UNITS[CONSTRAINT_METRICS[heading]]
            table.put(f"{name}, scored as published", heading, scored, unit)
        tables.append(table)
        shown = [(cell, record) for cell, record in records if task_of(cell) == (dataset, condition)]
        parts.append(_join(f"### {dataset}: {condition}", table.to_markdown(), warn_of_versions(shown)))
    figure = plot_disjunctions(records, output)
    mixed = warn_of_versions([(cell, record) for cell, record in records if cell.condition == "or"])
    comparable = [row for row in REPRODUCED if row.endswith("published")]
    named = {name: [t for t in tables if t.title.startswith(name)] for name in MIXED}
    agreement = describe_agreement(named, comparable)
    return _join("## Conditions", NOTES["constraints"], count_wins(tables), agreement, *parts, figure, mixed)


def ablation(results: Results, published: Path, _output: Path) -> str:
    """Return the paper's ablations for every measured data set."""
    paper = read_published(published / "ablations.csv", ("ablation", "option", "ratio", "dataset", "metric"))
    records = list(results.records("ablation"))
    parts = ["## Ablations", NOTES["imputation"]]
    for dataset, kind in product(sorted({cell.dataset for cell, _ in records}), ABLATIONS):
        columns = [Column(f"{metric} {ratio}", metric) for metric, ratio in product(IMPUTATION_METRICS, RATIO_TEXTS)]
        table, shown = Table(columns), list[tuple[Cell, Record]]()
        for option, changes in ABLATIONS[kind].items():
            same = [(c, record) for c, record in records if c.dataset == dataset and _ablated(c.options) == changes]
            shown += same
            for metric, ratio in product(IMPUTATION_METRICS, RATIO_TEXTS):
                heading = f"{metric} {ratio}"
                table.put(option + PUBLISHED_MARK, heading, paper.get((kind, option, ratio, dataset, metric)))
                for (name, task, measured_metric), value in average_seeds(same).items():
                    if (task[-1], measured_metric) == (ratio, metric):
                        table.put(f"{option}: {name}{_epochs(same)}", heading, value, UNITS[metric])
        parts.append(_join(f"### {dataset}: {kind}", table.to_markdown(), warn_of_versions(shown)))
    return "\n\n".join(parts if records else [*parts, NOT_MEASURED])


def runtime(results: Results, published: Path, _output: Path) -> str:
    """Return seconds and ratios, measured and published, in separate tables."""
    paper = read_published(published / "runtimes.csv", ("method", "dataset"))
    measured: dict[str, dict[str, float | None]] = {}
    records = list(results.records("runtime"))
    for cell, record in records:
        methods = measured.setdefault(cell.dataset, {})
        methods[method_title(cell)] = record.get("answer_seconds", methods.get(method_title(cell)))
    parts = ["## Runtime", NOTES["runtime"]]
    for dataset, methods in measured.items():
        values = {method: value for (method, paper_dataset), value in paper.items() if paper_dataset == dataset}
        seconds = {method: value.mean for method, value in values.items() if isinstance(value, Value)}
        here = _runtime_table("", method_class("paper").title, methods)
        there = _runtime_table("published", "Harpoon", seconds)
        shown = [(cell, record) for cell, record in records if cell.dataset == dataset]
        parts.append(_join(f"### {dataset}", here, warn_of_versions(shown), there))
    return "\n\n".join(parts if measured else [*parts, NOT_MEASURED])


def _runtime_table(heading: str, reference: str, seconds: Mapping[str, float | None]) -> str:
    """Return seconds, the fastest first, and their ratio to the reference method, or to the fastest without it."""
    done = {name: took for name, took in sorted(seconds.items(), key=lambda item: item[1] or 0) if took is not None}
    unit = next((took for name, took in done.items() if name.startswith(reference)), min(done.values(), default=1))
    lines = [f"| {heading} | seconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {took:.3g} | {took / unit:.2g} |" for name, took in done.items()]
    return "\n".join([*lines, *(f"| {name} | {FAILED} | |" for name in seconds if name not in done)])


def fidelity(results: Results, _published: Path, _output: Path) -> str:
    """Return all scores of unconditional samples."""
    records = list(results.records("fidelity"))
    means = average_seeds(records)
    parts = ["## Unconditional samples"]
    for dataset in sorted({task[0] for _, task, _ in means}):
        values = {key: value for key, value in means.items() if key[1][0] == dataset and key[2] in METRICS}
        table = Table([Column(name, name) for name in dict.fromkeys(metric for _, _, metric in values)])
        for (method, _, metric), value in values.items():
            table.put(method, metric, value, UNITS[metric])
        shown = [(cell, record) for cell, record in records if cell.dataset == dataset]
        parts.append(_join(f"### {dataset}", table.to_markdown(), warn_of_versions(shown)))
    return "\n\n".join(parts if means else [*parts, NOT_MEASURED])


def geometry(results: Results, _published: Path, output: Path) -> str:
    """Return the theorems on the circle and the sphere, and the figure of gradient angles."""
    records = list(results.records("geometry"))
    parts = ["## Geometry"]
    for cell, record in records:
        if "theorems" in record:
            lines = ["| ᾱ_t | distance of x̂_0 to the projection | normal fraction of the gradient |", "|---|---|---|"]
            lines += [
                f"| {row['alpha_bar']} | {row['distance_to_projection']:.2e} | {row['normal_fraction']:.2e} |"
                for row in record["theorems"]
            ]
            parts.append(f"### Theorems 3.1 and 3.2 on the {cell.dataset}\n\n" + "\n".join(lines))
    parts += [plot_angles(records, output), warn_of_versions([found for found in records if "angles" in found[1]])]
    return _join(*parts) if records else _join(parts[0], NOT_MEASURED)


def statistics(results: Results, published: Path, _output: Path) -> str:
    """Return the rows and columns of each data set, and the training rows that satisfy each condition."""
    records = {cell.dataset: record for cell, record in results.records("statistics") if "counts" in record}
    counts = read_published(published / "datasets.csv", ("dataset", "count"))
    shares = read_published(published / "shares.csv", ("dataset", "condition"))
    if not records:
        return _join("## Data", NOT_MEASURED)
    names = list(next(iter(records.values()))["counts"])
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for dataset, record in records.items():
        cells = (_beside(record["counts"][name], counts.get((dataset, name)), "{:,.0f}") for name in names)
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    rows = ["| | | condition | training rows, % |", "|---|---|---|---|"]
    for dataset, record in records.items():
        for kind, share in record["shares"].items():
            fraction = _beside(100 * share["train"], shares.get((dataset, kind)), "{:.2f}")
            rows.append(f"| {dataset} | {kind} | `{share['where']}` | {fraction} |")
    title = "### Training rows that satisfy each condition"
    return _join("## Data", NOTES["statistics"], "\n".join(lines), title, "\n".join(rows))


def _beside(measured: float, published: Value | str | None, form: str) -> str:
    """Return a number, with the published one in brackets if it differs."""
    text = form.format(measured)
    paper = form.format(published.mean) if isinstance(published, Value) else text
    return text if paper == text else f"{text} ({paper})"


def versions(results: Results, _published: Path, _output: Path) -> str:
    """Return which commits the records of each experiment are of."""
    found = {name: count_versions(results.records(name)) for name in EXPERIMENTS}
    lines = [f"| {name} | {counts} |" for name, counts in found.items() if counts]
    head = "| records | commits |\n|---|---|\n"
    return _join("## Versions", NOTES["versions"], head + "\n".join(lines)) if lines else ""


def _join(*parts: str) -> str:
    """Join the parts that are not empty by blank lines."""
    return "\n\n".join(filter(None, parts))


def methods(results: Results, _published: Path, _output: Path) -> str:
    """Return the training time, peak memory and remarks of each measured method."""
    lines: dict[str, None] = {}
    for experiment in EXPERIMENTS:
        for cell, record in results.records(experiment):
            if "fit_seconds" in record:
                facts = record["facts"]
                seconds = facts.get("train_seconds", record["fit_seconds"])  # a resumed training is longer than `fit`
                about = [f"{facts['epochs']} epochs"] if "epochs" in facts else []
                about += [f"trained {seconds:.0f} s", f"peak {record['fit_peak_mib']} MiB"]
                note = f": {record['note']}" if record["note"] else ""
                lines[f"- {method_title(cell)}, {cell.dataset} ({', '.join(about)}){note}"] = None
    return "## Methods\n\n" + ("\n".join(lines) or NOT_MEASURED)


def failures(results: Results, _published: Path, _output: Path) -> str:
    """Return every cell that failed."""
    lines = []
    for experiment in EXPERIMENTS:
        for cell, record in results.records(experiment):
            if "error" in record:
                error, task = record["error"], " ".join(map(str, task_of(cell)))
                message = shorten(error["message"].replace("|", "/").replace("\n", " "), shown=MAX_MESSAGE_LENGTH)
                lines.append(
                    f"| {experiment} | {task}, seed {cell.seed} | {method_title(cell)} | {error['stage']} | {message} |"
                )
    head = "| experiment | cell | method | stage | message |\n|---|---|---|---|---|\n"
    return "## Failures\n\n" + (head + "\n".join(lines) if lines else "None.")


def count_wins(tables: Iterable[Table]) -> str:
    """Return a line for each measured method: in how many cells it beats every published one, and in which not."""
    tables = list(tables)
    rows = (name for table in tables for name in table.rows)
    measured = dict.fromkeys(name for name in rows if not is_published(name) and name not in CEILINGS)
    total, lines = sum(len(table.columns) for table in tables), []
    comparisons = {
        name: [found for table in tables for found in table.compare(name, filter(is_published, table.rows))]
        for name in measured
    }
    most = max(map(len, comparisons.values()), default=0)
    for name, compared in comparisons.items():
        if len(compared) < most / 2:  # too few cells for a statement about all
            continue
        lost = [f"{c.cell} ({c.value:.2f}; {c.competitor} {c.competitor_value:.2f})" for c in compared if not c.won]
        missing = f"; {total - len(compared)} of {total} were not measured or failed" if len(compared) < total else ""
        behind = f" Not better in: {', '.join(lost)}." if 0 < len(lost) <= MAX_LOST_LISTED else ""
        lines.append(
            f"- {name} is better than every published method in {len(compared) - len(lost)} of {len(compared)} "
            f"cells{missing}.{behind}"
        )
    return "\n".join(lines) or NOT_MEASURED


def describe_agreement(groups: Mapping[str, Sequence[Table]], rows: Iterable[str] = tuple(REPRODUCED)) -> str:
    """Return a line for each reproduced row and group of tables: how many cells agree, are better, are worse."""
    lines = []
    for row, (name, tables) in product(rows, groups.items()):
        found = [cell for table in tables for cell in table.agreement(row, REPRODUCED[row] + PUBLISHED_MARK)]
        if not found:
            continue
        listed = {
            verdict: [f"{cell.cell} ({cell.value:.2f}; {cell.competitor_value:.2f})" for cell in found if test(cell)]
            for verdict, test in VERDICTS.items()
        }
        texts = [
            f"{verdict} in {len(cells)}" + (f" ({', '.join(cells)})" if 0 < len(cells) <= MAX_LOST_LISTED else "")
            for verdict, cells in listed.items()
        ]
        agree = len(found) - sum(map(len, listed.values()))
        lines.append(f"- {row}, {name}: {agree} of {len(found)} measured cells agree; {'; '.join(texts)}.")
    return _join(NOTES["agreement"], "\n".join(lines)) if lines else ""


def is_published(name: str) -> bool:
    """Return whether a row of a table is published."""
    return name.endswith(PUBLISHED_MARK)


def method_names(means: Iterable[tuple[str, Key, str]]) -> list[str]:
    """Return the measured methods, in the order of the records."""
    return list(dict.fromkeys(name for name, _, _ in means))


def _ablated(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ABLATED_OPTIONS}


def _epochs(records: list[tuple[Cell, Record]]) -> str:
    epochs = {record["facts"]["epochs"] for _, record in records if "epochs" in record.get("facts", {})}
    return f" ({'/'.join(map(str, sorted(epochs)))} epochs)" if epochs else ""


VERDICTS: dict[str, Callable[[Comparison], bool]] = {
    "better": lambda cell: not cell.agrees and cell.won,
    "worse": lambda cell: not cell.agrees and not cell.won,
}
SECTIONS: tuple[Callable[[Results, Path, Path], str], ...] = (
    imputation,
    constraints,
    ablation,
    runtime,
    fidelity,
    geometry,
    statistics,
    methods,
    versions,
    failures,
)
