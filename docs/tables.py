"""Tables and formulas of the docs, made while they are built.

A line `<!-- table: name -->` in a page becomes the table of that name, read from benchmarks/results, or from results,
where the bench puts what it has measured: no number is typed by hand. In `<div class="equation">` and `<var>`, what
follows `_` becomes an index; no reader needs a script for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ANCHORED = ROOT / "results" / "imputation"
PLACE = re.compile(r"^<!-- table: (\w+) -->$", flags=re.MULTILINE)
FORMULA = re.compile(r'<div class="equation">.*?</div>|<var>.*?</var>')
INDEX = re.compile(r"_(?:\{([^}]*)\}|([a-zA-Zα-ω]+))")
DEFAULT = "in turn"  # of the ways to draw
Row = Iterable[Any]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs for each page."""
    filled = PLACE.sub(lambda found: TABLES[found[1]](), markdown)
    return FORMULA.sub(lambda found: INDEX.sub(r"<sub>\1\2</sub>", found[0]), filled)


def result(name: str) -> Any:  # noqa: ANN401
    """One file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def results(folder: str) -> Iterator[Any]:
    """The results of each data set."""
    return (result(f"{folder}/{path.stem}") for path in sorted((RESULTS / folder).glob("*.json")))


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def imputation(metric: str, digits: int) -> str:
    """Scores of filled cells, by data set, mechanism and share of hidden cells: means over masks."""
    scores: dict[str, dict[str, list[float]]] = {}
    for path in sorted(ANCHORED.glob("*/anchored,*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        cell, found = record["cell"], record["metrics"].get(metric)
        if found is not None:
            of_cell = scores.setdefault(cell["dataset"], {}).setdefault(f"{cell['mask']} {cell['ratio']:.0%}", [])
            of_cell.append(found * (100 if metric == "accuracy" else 1))
    head = list(next(iter(scores.values())))
    rows = ([name, *(f"{fmean(cells[cell]):.{digits}f}" for cell in head)] for name, cells in scores.items())
    return table(["data set", *head], rows)


def conditions() -> str:
    """The paper's twelve conditions: ours, rows that were guided, real rows scored alike, and the paper."""
    head = ["data set", "condition", "rows", "violations", "paper’s, %", "α", "α guided", "α real", "α paper"]
    head += ["detection", "guided", "real", "paper"]
    tasks = {found["dataset"]: found["tasks"] for found in results("conditions")}
    rows = []
    for paper in result("conditions_summary"):
        ours = tasks[paper["dataset"]][paper["task"]]
        row = [paper["dataset"], paper["task"], ours["rows"], ours["violations"], f"{paper['paper_violation_pct']:.2f}"]
        for score, name in (("alpha", "alpha"), ("detection_linear", "detection")):
            row += [f"{ours[kind][score]:.3f}" for kind in ("drawn", "guided", "ceiling")]
            row.append(f"{paper[f'paper_{name}']:.2f}")
        rows.append(row)
    return table(head, rows)


def own_conditions() -> str:
    """Harder conditions of our own, on Adult."""
    head = ["", "condition", "training rows that meet it", "came back", "violations", "strategy", "seconds"]
    rows = [
        [own["name"], f"`{own['where']}`", own["training_rows"], own.get("rows", "an error that says why")]
        + [own.get(key, "") for key in ("violations", "strategy", "seconds")]
        for own in result("conditions/adult")["own"]
    ]
    return table(head, rows)


def fidelity() -> str:
    """How real plain rows look, drawn in the default way, beside real rows."""
    names = {
        "detection_xgboost": "detection, boosted trees",
        "detection_linear": "detection, linear",
        "alpha_precision": "α-precision",
        "beta_recall": "β-recall",
        "similarity_mean": "similarity of columns",
        "known_pairs": "pairs of labels that exist",
        "authenticity": "authenticity",
    }
    rows = []
    for found in results("fidelity"):
        drawn = found["drawn_rows"][DEFAULT]
        for key, name in names.items():
            if key in drawn:
                rows.append([found["dataset"], name, f"{drawn[key]:.3f}", f"{found['real_rows'][key]:.3f}"])
    return table(["data set", "score", "drawn rows", "real rows"], rows)


def draws() -> str:
    """Whether intervals and pooled estimates hold what they promise."""
    columns = {
        "inside": "inside",
        "attainable": "attainable",
        "by_rank": "by rank",
        "agreed": "all draws agree",
        "agreed_right": "and are right",
        "open_inside": "others inside",
        "covered": "coefficients covered",
    }
    rows = [
        [
            f["dataset"],
            *(f"{100 * f[key]:.1f}" for key in columns),
            *(f"{100 * end(f['under'].values()):.1f}" for end in (min, max)),
        ]
        for f in results("draws")
    ]
    return table(["data set, %", *columns.values(), "least of nine masks", "most"], rows)


def incomplete() -> str:
    """What 30 % missing training cells cost."""
    quotients = [(found["dataset"], found["quotients"]) for found in results("incomplete")]
    rows = [[name, *(f"{each[key]:.3f}" for key in ("mse", "accuracy"))] for name, each in quotients]
    return table(["data set", "squared error, times", "accuracy, times"], rows)


def speed() -> str:
    """How long answers take, beside the paper preset."""
    found = result("speed")
    words = {"impute": "impute", "sample": "sample", "condition": f"sample where {found['condition']['where']}"}
    paper = {"impute": "paper_s_scaled", "sample": "paper_s_scaled", "condition": "algorithm_1_s_scaled"}
    rows = [
        [words[key], f"{found[key]['rows']:,}", found[key]["anchored_s"], found[key][paper[key]], found[f"{key}_ratio"]]
        for key in words
    ]
    return table(["task", "rows", "anchored, s", "paper preset, s", "ratio"], rows)


def engines() -> str:
    """What each engine does with the same folder."""
    head = ["engine", "workers", "rows per second", "one row on a processor, µs", "seconds", "memory, MiB"]
    keys = ("engine", "workers", "rows_per_second", "processor_microseconds_per_row", "seconds", "peak_mib")
    return table(head, ([f"{run[key]:,}" if key != "engine" else run[key] for key in keys] for run in _runs()))


def engines_about() -> str:
    """What was run, and how engines compare."""
    found = result("engines")
    facts = [
        ["rows", f"{found['rows']:,}"],
        ["rows in a block", f"{found['block']:,}"],
        ["cores", found["cores"]],
        ["Ray, 2 workers against 1", found.get("ray_2_workers_to_1", "–")],
        ["Spark, 2 workers against 1", found.get("spark_2_workers_to_1", "–")],
        ["a row on Ray against local, on a processor", found.get("ray_cost_to_local", "–")],
        ["a row on Spark against local, on a processor", found.get("spark_cost_to_local", "–")],
    ]
    return table(["", ""], [*facts, ["to know", found["note"]]] if found["note"] else facts)


def engines_on_paper(rows: int = 10**9, machines: int = 100, cores: int = 8, block: int = 100_000) -> str:
    """What a cluster would do with a billion rows, if its cores were like the one that was measured."""
    found = result("engines")
    local, ray = (next(run for run in _runs() if run["engine"] == name) for name in ("local", "ray"))
    alone, on_ray = (run["processor_microseconds_per_row"] for run in (local, ray))
    each = 1e6 / (alone + (on_ray - alone) * found["block"] / block)  # what Ray adds, it does for each block
    read, written = (mib * 2**20 / found["rows"] for mib in (found["input_mib"], ray["output_mib"]))
    seconds, looked = rows / each / machines / cores, rows / block * found["planned_ms_per_file"] / 1000
    lines = [
        ["one row, on one core", f"{1e6 / each:.0f} µs"],
        ["all rows, on one core", f"{rows / each / 3600:.1f} hours"],
        ["all rows, on the cluster", f"{seconds:.0f} seconds"],
        ["to start, once", f"{ray['seconds'] - found['rows'] / ray['rows_per_second']:.0f} seconds"],
        ["a look at as many files, twice, one by one", f"{2 * looked:.0f} seconds"],
        ["read and written, each row", f"{read:.0f} and {written:.0f} bytes"],
        ["read and written, altogether", f"{rows * read / 1e9:.0f} and {rows * written / 1e9:.0f} GB"],
        ["through the network of one machine", f"{(read + written) * each * cores / 1e6:.1f} MB per second"],
        ["through a disk that all share", f"{(read + written) * each * cores * machines / 1e6:.0f} MB per second"],
        ["the model, once to each worker", f"{found['model_mib'] * machines * cores / 1024:.1f} GiB altogether"],
        [f"blocks of {block:,} rows", f"{rows // block:,}, {rows / block / seconds:.0f} receipts per second"],
    ]
    return table(["", ""], lines)


def _runs() -> list[dict[str, Any]]:
    return list(result("engines")["runs"])


def serve() -> str:
    """How many requests a served model answers."""
    head = ["clients", "requests per second", "median, ms", "95 % within, ms", "work of the server for each, ms"]
    keys = ("per_second", "median_ms", "p95_ms", "work_ms")
    rows = [[clients, *(found[key] for key in keys)] for clients, found in result("serve")["clients"].items()]
    return table(head, rows)


def steps() -> str:
    """What more turns bring, and what all cells together come to, against training rows."""
    rows = [
        [found["dataset"], way, f"{one['detection']:.3f}", f"{one['similarity']:.4f}", f"{one['seconds']:.1f}"]
        for found in results("steps")
        for one in found["ways"]
        for way in [f"in {one['turns']} turns" if one["turns"] else f"together, {one['sampling_steps']} steps"]
    ]
    return table(["data set", "drawn", "detection, boosted trees", "similarity of columns", "seconds"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "imputation_mse": lambda: imputation("mse", 3),
    "imputation_accuracy": lambda: imputation("accuracy", 1),
    "conditions": conditions,
    "own_conditions": own_conditions,
    "fidelity": fidelity,
    "draws": draws,
    "incomplete": incomplete,
    "serve": serve,
    "speed": speed,
    "engines": engines,
    "engines_about": engines_about,
    "engines_on_paper": engines_on_paper,
    "steps": steps,
}
