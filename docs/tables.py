"""Tables and formulas of the docs, made while they are built.

A line `<!-- table: name -->` in a page becomes the table of that name, read from benchmarks/results: no number is typed
by hand. In `<div class="equation">` and `<var>`, what follows `_` becomes an index; no reader needs a script for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PLACE = re.compile(r"^<!-- table: (\w+) -->$", flags=re.MULTILINE)
FORMULA = re.compile(r'<div class="equation">.*?</div>|<var>.*?</var>')
INDEX = re.compile(r"_(?:\{([^}]*)\}|([a-zA-Zα-ω]+))")
DEFAULT = ("none", 12)  # the solver, and its steps
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
    """Scores of filled cells, by data set, mechanism and share of hidden cells."""
    head, rows = ["data set"], []
    for found in results("imputation"):
        cells = [cell for cell in found["cells"] if cell["metric"] == metric]
        if cells:
            head = ["data set", *(f"{cell['mask']} {cell['ratio']:.0%}" for cell in cells)]
            rows.append([found["dataset"], *(f"{cell['mean']:.{digits}f}" for cell in cells)])
    return table(head, rows)


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
    """How real plain rows look, at the default number of steps, beside real rows."""
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
        drawn = next(r for r in found["drawn_rows"] if (r["solver"], r["steps"]) == DEFAULT)
        for key, name in names.items():
            if key in drawn:
                rows.append([found["dataset"], name, f"{drawn[key]:.3f}", f"{found['real_rows'][key]:.3f}"])
    return table(["data set", "score", "drawn rows", "real rows"], rows)


def draws() -> str:
    """Whether intervals and pooled estimates hold what they promise."""
    head = ["data set", "inside the 90 % interval", "attainable", "coefficients covered by their 95 % interval"]
    rows = [[f["dataset"], *(f"{f[key]:.3f}" for key in ("inside", "attainable", "covered"))] for f in results("draws")]
    return table(head, rows)


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


def serve() -> str:
    """How many requests a served model answers."""
    head = ["clients", "requests per second", "median, ms", "95 % within, ms", "work of the server for each, ms"]
    keys = ("per_second", "median_ms", "p95_ms", "work_ms")
    rows = [[clients, *(found[key] for key in keys)] for clients, found in result("serve")["clients"].items()]
    return table(head, rows)


def steps() -> str:
    """What more steps of the reverse loop bring, against training rows."""
    rows = [
        [found["dataset"], one["steps"], f"{one['detection']:.3f}", f"{one['similarity']:.4f}"]
        for found in results("steps")
        for one in found["steps"]
    ]
    return table(["data set", "steps", "detection, boosted trees", "similarity of columns"], rows)


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
    "steps": steps,
}
