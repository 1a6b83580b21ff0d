"""Tables of measured numbers in the Markdown files of the repository, written from the records.

A Markdown file marks the place of a table with two comments. `harpoon-bench tables` replaces the text between them:

    <!-- table: speed -->
    <!-- end -->

The names are the keys of `TABLES`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from harpoon.exceptions import InvalidOption
from harpoon_bench.cache import write_atomically
from harpoon_bench.pages import PUBLISHED
from harpoon_bench.tables import Value, read_published

PAGES = ("README.md", "docs/*.md")
MARKED = re.compile(r"^<!-- table: (\w+) -->\n.*?^<!-- end -->$", flags=re.MULTILINE | re.DOTALL)
FIELD = PUBLISHED.parent / "field"  # numbers of other papers
DEFAULT_SAMPLER = "autoregressive"
MIB = 2**20
MAX_EXCESS = 0.03  # of the detection against real rows, beyond that of rejection
MAX_DETECTION = {"common": 0.55, "rare": 0.55, "very rare": 0.6}  # by the group of a condition
MAX_SHARE_ERROR = 3.0  # standard errors, which chance exceeds in one branch of 370


def write_tables(paths: Iterable[Path], results: Path) -> list[Path]:
    """Write the marked tables of Markdown files; return the files that changed."""
    changed = []
    for path in paths:
        before = path.read_text(encoding="utf-8")
        after = fill_tables(before, results)
        if after != before:
            with write_atomically(path) as file:
                file.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def fill_tables(markdown: str, results: Path) -> str:
    """Return Markdown with its marked tables made from a folder of results."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in TABLES:
            raise InvalidOption.one_of("The name of a table", name, TABLES)
        return f"<!-- table: {name} -->\n\n{TABLES[name](results)}\n\n<!-- end -->"

    return MARKED.sub(fill, markdown)


def imputation_mse(results: Path) -> str:
    """Return the MSE of imputed numbers by data set, mechanism and fraction of hidden cells."""
    return _imputation(results, "mse", factor=1, digits=3)


def imputation_accuracy(results: Path) -> str:
    """Return the accuracy of imputed categories in %, by data set, mechanism and fraction of hidden cells."""
    return _imputation(results, "accuracy", factor=100, digits=1)


def conditions(results: Path) -> str:
    """Return scores under the paper's twelve conditions: ours, guided rows, real rows and the paper."""
    headings = ["data set", "condition", "rows", "violations", "paper’s, %"]
    headings += [f"{score} {kind}".strip() for score in ("α", "detection") for kind in ("", "guided", "real", "paper")]
    published = read_published(PUBLISHED / "constraints.csv", ("constraint", "method", "dataset", "metric"))

    def paper(dataset: str, kind: str, metric: str) -> str:
        value = published[kind, "Harpoon", dataset, metric]
        return f"{value.mean:.2f}" if isinstance(value, Value) else value

    rows = []
    for record in _records(results, "conditions"):
        dataset = record["dataset"]
        for kind, task in record["tasks"].items():
            row = [dataset, kind, task["rows"], task["violations"], paper(dataset, kind, "violation_pct")]
            for score, metric in (("alpha", "alpha"), ("detection_linear", "detection")):
                row += [f"{task[rows_of][score]:.3f}" for rows_of in ("sampled", "guided", "ceiling")]
                row.append(paper(dataset, kind, metric))
            rows.append(row)
    return _markdown(headings, rows)


def hard_conditions(results: Path) -> str:
    """Return rows, violations and seconds under harder conditions on Adult."""
    headings = ["", "condition", "training rows that satisfy it", "rows", "violations", "strategy", "seconds"]
    rows = [
        [found["name"], f"`{found['where']}`", found["training_rows"], found.get("rows", "an error with the reason")]
        + [found.get(key, "") for key in ("violations", "strategy", "seconds")]
        for found in _record(results, "conditions/adult")["hard"]
    ]
    return _markdown(headings, rows)


def fidelity(results: Path) -> str:
    """Return scores of unconditional samples and of real rows."""
    scores = {
        "detection_xgboost": "detection, boosted trees",
        "detection_linear": "detection, linear",
        "alpha_precision": "α-precision",
        "beta_recall": "β-recall",
        "similarity_mean": "similarity of columns",
        "valid_pairs": "valid pairs of categories",
        "authenticity": "authenticity",
    }
    rows = []
    for record in _records(results, "fidelity"):
        sampled, real = record["sampled_rows"][DEFAULT_SAMPLER], record["real_rows"]
        rows += [
            [record["dataset"], name, f"{sampled[key]:.3f}", f"{real[key]:.3f}"]
            for key, name in scores.items()
            if key in sampled
        ]
    return _markdown(["data set", "score", "sampled rows", "real rows"], rows)


def multiple_imputation(results: Path) -> str:
    """Return the coverage of intervals and pooled estimates, in %."""
    by_mask = {"inside, lowest": min, "inside, highest": max}
    columns = {
        "coverage": "inside",
        "attainable_coverage": "expected",
        "rank_coverage": "inside by rank",
        "unanimous": "draws agree",
        "unanimous_correct": "right if they agree",
        "other_coverage": "others inside",
        "coefficient_coverage": "coefficients covered",
    }
    rows = [
        [
            record["dataset"],
            *(f"{100 * bound(record['coverage_by_mask'].values()):.1f}" for bound in by_mask.values()),
            *(f"{100 * record[key]:.1f}" for key in columns),
        ]
        for record in _records(results, "multiple_imputation")
    ]
    return _markdown(["data set, %", *by_mask, *columns.values()], rows)


def incomplete_rows(results: Path) -> str:
    """Return the scores after training with 30 % missing cells, relative to complete rows."""
    rows = [
        [record["dataset"], *(f"{record['quotients'][key]:.3f}" for key in ("mse", "accuracy"))]
        for record in _records(results, "incomplete_rows")
    ]
    return _markdown(["data set", "ratio of the MSE", "ratio of the accuracy"], rows)


def missing_values(results: Path) -> str:
    """Return how far the missing cells of sampled rows deviate from those of training rows."""
    headings = ["table", "rows", "missing, %", "complete columns", "missing", "together"]
    headings += ["violations, categories", "violations, numbers", "detection", "detection real", "detection complete"]

    def deviation(found: dict[str, Any]) -> str:
        if found["largest"] is None:
            return "–"
        is_large = found["largest"] > found["by_chance_95"]  # a perfect model has such a deviation in 5 % of tables
        return f"{found['largest']:.1f} ({found['by_chance']:.1f}){' *' if is_large else ''}"

    def violations(found: dict[str, int]) -> str:
        return f"{found['broken']} ({found['rules']} rules)" if found["rules"] else "no rule"

    rows = [
        [
            record["dataset"],
            f"{record['train_rows']:,}",
            f"{100 * record['missing_fraction']:.1f}",
            *(deviation(record[key]) for key in ("shares", "missing", "together")),
            *(violations(record["structural"][key]) for key in ("categories", "numbers")),
            *(f"{record[key]:.3f}" for key in ("detection", "detection_real")),
            f"{record['detection_complete']:.3f}" if "detection_complete" in record else "–",
        ]
        for record in _records(results, "missing_values")
    ]
    return _markdown(headings, rows)


def coverage_simulation(results: Path) -> str:
    """Return bias, coverage and width of pooled estimates in a simulation, by mechanism, estimand and method."""
    methods = ("complete", "complete_rows", "mice", "miceforest", "harpoon")
    found = {(record["method"], record["mechanism"]): record for record in _records(results, "coverage_simulation")}
    mechanisms = [name for name in ("MCAR", "MAR", "MNAR") if ("harpoon", name) in found]
    rows = []
    for mechanism in mechanisms:
        for estimand in found["harpoon", mechanism]["estimands"]:
            for method in (name for name in methods if (name, mechanism) in found):
                score = found[method, mechanism]["estimands"][estimand]
                numbers = [f"{score['bias']:+.3f}", f"{100 * score['coverage']:.1f}", f"{score['width']:.3f}"]
                rows.append([mechanism, estimand, method.replace("_", " "), *numbers])
    return _markdown(["missing", "estimate of", "method", "bias", "coverage, %", "width"], rows)


def completed_density(results: Path) -> str:
    """Return Shape and Trend error of completed tables, beside published means over 20, 30, 50 and 70 %."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for record in _records(results, "completed_density"):
        found.setdefault(record["dataset"], {})[round(100 * record["missing_fraction"])] = record
    peers = {"TabDiff Impute-EM": "Impute-EM", "HyperImpute": "HyperImpute", "DiffPuter": "DiffPuter"}
    published = _published_by_method("density error of the completed table")
    ratios = sorted({ratio for by_ratio in found.values() for ratio in by_ratio})
    rows = []
    for name, by_ratio in found.items():
        errors = [record["draw"]["density"] for record in by_ratio.values()]
        floor = next(iter(by_ratio.values()))["floor"]["density"]
        drawn = [f"{by_ratio[ratio]['draw']['shape']:.4f} / {by_ratio[ratio]['draw']['trend']:.4f}" for ratio in ratios]
        others = [published[peer].get(name, "–") for peer in peers]
        rows.append([name, *drawn, f"{fmean(errors):.3f}", f"{floor:.3f}", *others])
    headings = ["data set", *(f"{ratio} %" for ratio in ratios), "mean", "other real rows", *peers.values()]
    return _markdown(headings, rows)


def incomplete_training(results: Path) -> str:
    """Return errors of models trained on incomplete rows by the protocol of DiffPuter, beside DiffPuter's own.

    Records of older code have absolute errors of means only.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in _records(results, "incomplete_training"):
        if record["protocol"] == "diffputer":
            found.setdefault((record["mechanism"], record["dataset"]), []).append(record)
    rows = []
    for (mechanism, name), records in sorted(found.items()):
        cells = [mechanism, name, len(records), round(fmean(record["epochs"] for record in records))]
        for part, score in product(("in_sample", "out_of_sample"), ("mae", "mae_of_means", "rmse", "accuracy")):
            scores = [_of_means(record[part]) for record in records]
            values = [found[score] for found in scores if score in found]
            cells.append(f"{fmean(values):.{1 if score == 'accuracy' else 3}f}" if values else "–")
        metrics = [f"{score} {mechanism}30 in-sample" for score in ("MAE", "RMSE", "label accuracy %")]
        cells += [_published_by_method(metric).get("DiffPuter", {}).get(name, "–") for metric in metrics]
        rows.append(cells)
    names = ["MAE, median", "MAE, mean", "RMSE", "accuracy, %"]
    headings = ["missing", "data set", "masks", "epochs", *names, *(f"{name}, new rows" for name in names)]
    return _markdown([*headings, *(f"DiffPuter, {name}" for name in ("MAE", "RMSE", "accuracy, %"))], rows)


CACTI_SCORES = tuple(product(("rmse", "r2"), ("in_sample", "out_of_sample")))
CACTI_HEADINGS = ["RMSE", "RMSE, new rows", "R²", "R², new rows"]
CACTI_PEERS = ("CACTI", "ReMasker", "DiffPuter", "HyperImpute", "MissForest", "ICE", "mean")


def cacti(results: Path) -> str:
    """Return means over data sets by the protocol of CACTI, beside published means over its ten data sets."""
    rows: list[list[Any]] = []
    for mechanism, records in _cacti_records(results).items():
        n_datasets = len({record["dataset"] for record in records})
        for method in ("Harpoon", *records[0]["references"]):
            scores = [_cacti_scores(record, method) for record in records]
            rows.append(
                [mechanism, method, f"{n_datasets}, here", *(f"{fmean(x):.2f}" for x in zip(*scores, strict=True))]
            )
        for peer in CACTI_PEERS:
            metrics = (_published_by_method(f"{score} {mechanism}")[peer]["mean of 10"] for score in ("RMSE", "R2"))
            cells = [cell.replace("-", "–") for metric in metrics for cell in metric.split("|")]
            rows.append([mechanism, f"{'means' if peer == 'mean' else peer}, published", "10", *cells])
    return _markdown(["missing", "method", "data sets", *CACTI_HEADINGS], rows)


def cacti_datasets(results: Path) -> str:
    """Return the scores of each data set by the protocol of CACTI, with a reference on the same cells."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for mechanism, records in _cacti_records(results).items():
        for record in records:
            found.setdefault((mechanism, record["dataset"]), []).append(record)
    rows = []
    for (mechanism, name), records in found.items():
        facts = [mechanism, name, f"{records[0]['train_rows']:,}", records[0]["epochs"], len(records)]
        scores = [_cacti_scores(one, method) for method in ("Harpoon", "chained equations") for one in records]
        ours, reference = scores[: len(records)], scores[len(records) :]
        rows.append([*facts, *(f"{fmean(x):.2f}" for of in (ours, reference) for x in zip(*of, strict=True))])
    of_reference = [f"{heading}, chained equations" for heading in CACTI_HEADINGS]
    return _markdown(["missing", "data set", "training rows", "epochs", "masks", *CACTI_HEADINGS, *of_reference], rows)


def _cacti_records(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of the protocol of CACTI by mechanism."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in _records(results, "incomplete_training"):
        if record["protocol"] == "cacti":
            found.setdefault(record["mechanism"], []).append(record)
    return dict(sorted(found.items()))


def _cacti_scores(record: dict[str, Any], method: str) -> list[float]:
    scores = record if method == "Harpoon" else record["references"][method]
    return [scores[part][score] for score, part in CACTI_SCORES]


def _of_means(scores: dict[str, float]) -> dict[str, float]:
    """Return scores in which an absolute error of means is called so, also that of an older record."""
    is_older = "mae" in scores and "mae_of_means" not in scores
    return {"mae_of_means" if is_older and name == "mae" else name: value for name, value in scores.items()}


def _published_by_method(metric: str) -> dict[str, dict[str, str]]:
    """Return published values of a metric by method and data set."""
    found: dict[str, dict[str, str]] = {}
    with (FIELD / "imputation_published.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric:
                found.setdefault(row["method"], {})[row["dataset"]] = row["value"]
    return found


def interval_coverage(results: Path) -> str:
    """Return the coverage of the 95 % intervals of probabilities, shares and means, by rows of the training table."""
    quantities = {"probability": "probability of", "share": "share of `b = 'yes'` under", "mean": "mean of `y` under"}
    rows = []
    for record in sorted(_records(results, "interval_coverage"), key=lambda one: one["rows"]):
        for name, found in record["questions"].items():
            quantity, _, asked = name.partition(": ")
            where, _, at_hand = asked.partition(", ")
            what = f"{quantities[quantity]} `{where}`{f' ({at_hand})' if at_hand else ''}"
            percents = (f"{100 * found[key]:.1f}" for key in ("coverage", "coverage_of_simulation"))
            rows.append([f"{record['rows']:,}", what, f"{found['truth']:.3f}", f"{found['width']:.3f}", *percents])
    headings = ["training rows", "interval of the", "truth", "width", "coverage, %", "of the simulation alone, %"]
    return _markdown(headings, rows)


def extrapolation(results: Path) -> str:
    """Return how often an extrapolation is warned of, by how many training rows meet the condition."""
    rows = [
        [record["dataset"], f"{record['train_rows']:,}", record["conditions"]]
        + [f"{100 * record[key][half]:.0f}" for key in ("warned", "warned_by_counts") for half in ("none", "many")]
        for record in _records(results, "extrapolation")
    ]
    headings = ["data set", "training rows", "conditions", "met by none, %", "met by 50 or more, %"]
    return _markdown([*headings, "without sampling: none, %", "50 or more, %"], rows)


def condition_suite(results: Path) -> str:
    """Return how rows under conditions compare with those that rejection keeps, and what both cost."""

    def number(value: float | None, form: str) -> str:
        return "–" if value is None else f"{value:{form}}"

    forms = {"probability_by_rejection": ".1e", "probability": ".1e", "auc": ".2f", "auc_of_halves": ".2f"}
    forms |= {"auc_real": ".2f", "auc_real_by_rejection": ".2f", "seconds": ".1f", "rejection_seconds": ".0f"}
    rows = [
        [
            record["dataset"],
            one["group"],
            f"`{one['condition']}`",
            one["violations"],
            *(number(one[key], form) for key, form in forms.items()),
            f"{100 * one['algorithm_1']['violations']:.0f}",
        ]
        for record in _records(results, "condition_suite")
        for one in record["conditions"]
    ]
    headings = ["data set", "group", "condition", "violations", "probability by rejection", "by `sample`"]
    headings += ["detection", "of two halves", "against real rows", "rejection against real rows"]
    return _markdown([*headings, "seconds", "seconds by rejection", "violations of Algorithm 1, %"], rows)


def condition_summary(results: Path) -> str:
    """Return, for each group of conditions, how many are within the limits of detection, and the costs."""
    found = [one for record in _records(results, "condition_suite") for one in record["conditions"]]
    rows = []
    for group, limit in MAX_DETECTION.items():
        members = [one for one in found if one["group"] == group]
        judged = [one["auc"] for one in members if one["auc"] is not None]
        real = [one for one in members if one["auc_real"] is not None and one["auc_real_by_rejection"] is not None]
        excess = [one["auc_real"] - one["auc_real_by_rejection"] for one in real]
        faster = [one["rejection_seconds"] / one["seconds"] for one in members if one["rejection_seconds"]]
        shares = [abs(error) for one in members for error in one["share_errors"]]
        rows.append(
            [
                group,
                len(members),
                sum(one["violations"] for one in members),
                f"{sum(auc <= limit for auc in judged)} of {len(judged)} at most {limit}",
                f"{max(judged):.2f}",
                f"{sum(each <= MAX_EXCESS for each in excess)} of {len(excess)}",
                f"{max(shares, default=0.0):.1f}",
                f"{min(faster):.1f} to {max(faster):,.0f}",
            ]
        )
    headings = [
        "group",
        "conditions",
        "violations",
        "detection",
        "highest",
        "against real rows within 0.03 of rejection",
    ]
    return _markdown([*headings, "largest error of a branch share", "times faster than rejection"], rows)


def condition_misses(results: Path) -> str:
    """Return the conditions under which some score is outside its limit."""
    rows = []
    for record in _records(results, "condition_suite"):
        for one in record["conditions"]:
            limit, real = MAX_DETECTION[one["group"]], one["auc_real_by_rejection"]
            misses = [] if one["auc"] is None or one["auc"] <= limit else [f"detection {one['auc']:.2f}"]
            shares = [error for error in one["share_errors"] if abs(error) > MAX_SHARE_ERROR]
            misses += [f"share of a branch off by {abs(max(shares, key=abs)):.1f} standard errors"] if shares else []
            if None not in (one["auc_real"], real) and one["auc_real"] > real + MAX_EXCESS:
                misses.append(f"against real rows {one['auc_real']:.2f}, rejection {real:.2f}")
            if misses:
                rows.append([record["dataset"], one["group"], f"`{one['condition']}`", "; ".join(misses)])
    return _markdown(["data set", "group", "condition", "outside the limit"], rows)


def algorithm_1(results: Path) -> str:
    """Return how many rows of the paper's Algorithm 1 violate each group of conditions."""
    rows = []
    found = [one for record in _records(results, "condition_suite") for one in record["conditions"]]
    for group in MAX_DETECTION:
        broken = sorted(one["algorithm_1"]["violations"] for one in found if one["group"] == group)
        none = sum(share == 0 for share in broken)
        shares = (f"{100 * share:.0f}" for share in (median(broken), broken[-1]))
        rows.append([group, len(broken), none, *shares])
    headings = ["group", "conditions", "without a violation", "median of violations, %", "highest, %"]
    return _markdown(headings, rows)


def rule_sets(results: Path) -> str:
    """Return what rows under published rule sets are worth, beside rows without rules."""

    def spread(values: list[float]) -> str:
        return f"{fmean(values):.3f} ± {stdev(values):.3f}"

    rows = [
        [
            one["dataset"],
            one["name"],
            len(one["rules"]),
            f"{100 * one['training_fraction']:.1f}",
            f"{100 * fmean(one['violations_without']) / one['rows']:.1f}",
            f"{sum(one['violations_with']):.0f}",
            *(spread(one[f"{score}_{kind}"]) for score in ("utility", "detection") for kind in ("with", "without")),
            f"{fmean(one['cost_evaluations']):.2f}",
        ]
        for one in _records(results, "rule_sets")
    ]
    headings = ["data set", "rules", "number", "training rows that obey, %", "rows without rules that break one, %"]
    headings += ["violations", "utility", "without rules", "detection", "without rules"]
    return _markdown([*headings, "evaluations, relative"], rows)


def privacy_audit(results: Path) -> str:
    """Return the attacks on models of the data sets that found a risk, or could not exclude one."""
    rows = []
    for record in _records(results, "audit"):
        for name, audit in record["audits"].items():
            judged = [one for one in audit["attacks"] if one["light"] in ("green", "yellow", "red")]
            found = [one for one in judged if one["light"] != "green"]
            if name == "copies":
                red = [one for one in found if one["light"] == "red"]
                rows.append([record["dataset"], "copies", "–", f"red: {len(red)} of {len(judged)} attacks"])
                continue
            epochs = audit["training"]["epochs"]
            texts = "; ".join(f"{one['title']} {_risk(one)} {one['light']}" for one in found)
            rows.append([record["dataset"], name, epochs, texts or "none"])
    return _markdown(
        ["data set", "rows of", "epochs", "attacks that are not green, with their risk and its interval"], rows
    )


def _risk(attack: dict[str, Any]) -> str:
    low, high = attack["interval"]
    return f"{attack['risk']:.2f} ({low:.2f} to {high:.2f})"


def private_fidelity(results: Path) -> str:
    """Return the scores of rows of private models by ε, beside other programs, no privacy and real rows."""
    names = {"none": "without privacy", "real": "real rows"}
    programs = {"harpoon": "Harpoon", "mostlyai": "MOSTLY AI engine", "mst": "MST", "aim": "AIM"}
    order = [*map(str, range(100)), *names]

    def place(one: dict[str, Any]) -> tuple[str, int, str]:
        return one["dataset"], order.index(one["epsilon"]), one.get("program", "harpoon")

    scores = ("detection_xgboost", "detection_linear", "shape", "trend", "utility")
    rows = []
    for one in sorted(_records(results, "private_fidelity"), key=place):
        program = "–" if one["epsilon"] == "real" else programs[one.get("program", "harpoon")]
        row = [one["dataset"], names.get(one["epsilon"], one["epsilon"]), program]
        if "error" in one:
            rows.append([*row, *["–"] * len(scores), "did not finish"])
            continue
        seconds = f"{one['train_seconds']:.0f}" if "train_seconds" in one else "–"
        rows.append([*row, *(f"{one['scores'][name]:.3f}" for name in scores), seconds])
    headings = [
        "data set",
        "ε",
        "program",
        "detection (XGBoost)",
        "detection (linear)",
        "Shape",
        "Trend",
        "utility (AUC)",
    ]
    return _markdown([*headings, "seconds of training"], rows)


def private_rows(results: Path) -> str:
    """Return two correlations of rows of private models by the number of training rows."""
    rows = []
    for run in _record(results, "private_rows/slid")["runs"]:
        keys = ("epsilon", "steps", "sample_rate", "largest_wage")
        settings = [f"{run[key]:,g}" if key in run else "–" for key in keys]
        ratio = f"{run['signal_to_noise']:.0f}" if "signal_to_noise" in run else "–"
        kind = f"{run['rows']:,}" if "epsilon" in run else "the table itself"
        found = [f"{run[key]:.2f}" for key in ("wages_and_age", "education_and_age")]
        rows.append([kind, *settings, ratio, *found])
    headings = ["rows", "ε", "steps", "sample_rate", "largest wage", "ratio", "wages and age", "education and age"]
    return _markdown(headings, rows)


def sampling_steps(results: Path) -> str:
    """Return scores against training rows and seconds by the number of sampling steps."""

    def describe(variant: dict[str, Any]) -> str:
        if variant["ar_steps"]:
            return f"autoregressive, {variant['ar_steps']} steps"
        return f"diffusion, {variant['sampling_steps']} steps"

    rows = [
        [record["dataset"], describe(v), f"{v['detection']:.3f}", f"{v['similarity']:.4f}", f"{v['seconds']:.1f}"]
        for record in _records(results, "sampling_steps")
        for v in record["variants"]
    ]
    return _markdown(["data set", "sampler", "detection, boosted trees", "similarity of columns", "seconds"], rows)


def speed(results: Path) -> str:
    """Return the seconds of both presets."""
    record = _record(results, "speed")
    tasks = {
        "impute": ("impute", "paper_s_scaled"),
        "sample": ("sample", "paper_s_scaled"),
        "condition": (f"sample where {record['condition']['where']}", "algorithm_1_s_scaled"),
    }
    rows = [
        [name, f"{record[key]['rows']:,}", record[key]["anchored_s"], record[key][paper], record[f"{key}_ratio"]]
        for key, (name, paper) in tasks.items()
    ]
    return _markdown(["task", "rows", "anchored, s", "paper preset, s", "ratio"], rows)


def drawing_speed(results: Path) -> str:
    """Return the seconds of sampling beside an earlier version."""
    tables = {
        "adult": "Adult",
        "adult_where": "Adult where age >= 50",
        "columns_400": "400 columns",
        "labels_200": "40 columns of 200 labels",
    }
    rows = [
        [
            tables[name],
            case["rows"],
            case["earlier"]["processor_seconds"],
            case["current"]["processor_seconds"],
            case["current"]["times_as_fast_by_processor_time"],
            case["current"]["times_as_fast"],
            f"{case['current']['same_rows']:.1%}",
        ]
        for name, case in _record(results, "drawing_speed")["cases"].items()
    ]
    headings = ["table", "rows", "earlier, s", "now, s", "ratio", "ratio by the clock", "same rows"]
    return _markdown(headings, rows)


def engines(results: Path) -> str:
    """Return throughput and memory of the engines."""
    headings = ["engine", "workers", "rows per second", "CPU per row, µs", "seconds", "peak memory, MiB"]
    keys = ("engine", "workers", "rows_per_second", "cpu_microseconds_per_row", "seconds", "peak_mib")
    runs = _record(results, "engines")["runs"]
    return _markdown(headings, ([f"{run[key]:,}" if key != "engine" else run[key] for key in keys] for run in runs))


def engines_setup(results: Path) -> str:
    """Return the set-up of the measurement of engines, and their ratios."""
    record = _record(results, "engines")
    rows = [
        ["rows", f"{record['rows']:,}"],
        ["rows per block", f"{record['block_size']:,}"],
        ["cores", record["cores"]],
        ["Ray, speed-up by a second worker", record.get("ray_2_workers_to_1", "–")],
        ["Spark, speed-up by a second worker", record.get("spark_2_workers_to_1", "–")],
        ["CPU per row, Ray relative to local", record.get("ray_cost_to_local", "–")],
        ["CPU per row, Spark relative to local", record.get("spark_cost_to_local", "–")],
    ]
    return _markdown(["", ""], [*rows, ["note", record["note"]]] if record["note"] else rows)


def engines_estimate(
    results: Path, rows: int = 10**9, machines: int = 100, cores: int = 8, block_size: int = 100_000
) -> str:
    """Return an estimate for a billion rows on a cluster with cores like the measured one."""
    record = _record(results, "engines")
    local, ray = (next(run for run in record["runs"] if run["engine"] == name) for name in ("local", "ray"))
    local_cost, ray_cost = (run["cpu_microseconds_per_row"] for run in (local, ray))
    # Ray's overhead is per block.
    rate = 1e6 / (local_cost + (ray_cost - local_cost) * record["block_size"] / block_size)
    read, written = (mib * MIB / record["rows"] for mib in (record["input_mib"], ray["output_mib"]))
    seconds, blocks = rows / rate / machines / cores, rows // block_size
    startup = ray["seconds"] - record["rows"] / ray["rows_per_second"]
    planning = 2 * rows / block_size * record["planning_ms_per_file"] / 1000
    lines = [
        ["CPU per row", f"{1e6 / rate:.0f} µs"],
        ["one core", f"{rows / rate / 3600:.1f} hours"],
        ["the cluster", f"{seconds:.0f} seconds"],
        ["start-up, once", f"{startup:.0f} seconds"],
        ["reading the metadata of all files, twice", f"{planning:.0f} seconds"],
        ["read and written per row", f"{read:.0f} and {written:.0f} bytes"],
        ["read and written in total", f"{rows * read / 1e9:.0f} and {rows * written / 1e9:.0f} GB"],
        ["network traffic of one machine", f"{(read + written) * rate * cores / 1e6:.1f} MB per second"],
        ["traffic of a shared disk", f"{(read + written) * rate * cores * machines / 1e6:.0f} MB per second"],
        ["the model, sent once to each worker", f"{record['model_mib'] * machines * cores / 1024:.1f} GiB in total"],
        [f"blocks of {block_size:,} rows", f"{blocks:,}, {rows / block_size / seconds:.0f} finished per second"],
    ]
    return _markdown(["", ""], lines)


def serve(results: Path) -> str:
    """Return throughput and latency of the service."""
    headings = ["clients", "requests per second", "median, ms", "95th percentile, ms", "CPU per request, ms"]
    keys = ("requests_per_second", "median_ms", "p95_ms", "cpu_ms")
    clients = _record(results, "serve")["clients"]
    return _markdown(headings, ([count, *(found[key] for key in keys)] for count, found in clients.items()))


def synthcity_agreement(results: Path) -> str:
    """Return the largest difference of each published score from that of synthcity, by data set."""
    records = list(_records(results, "synthcity_agreement"))
    names = list(next(iter(records[0]["tables"].values()))["ours"])
    rows = [
        [record["dataset"], record["rows"]]
        + [f"{max(abs(table['difference'][name]) for table in record['tables'].values()):.0e}" for name in names]
        for record in records
    ]
    return _markdown(["data set", "rows", *names], rows)


def row_trace(results: Path) -> str:
    """Return the modules and rooms that one row passes, in version 0.1 and now."""
    record = _record(results, "row_trace")
    headings = ["call", "module changes, version 0.1", "module changes", "modules", "room changes", "rooms"]
    rows = [
        [call, record["before"][call]["module_changes"]]
        + [found[key] for key in ("module_changes", "modules", "room_changes", "rooms")]
        for call, found in record["after"].items()
    ]
    return _markdown(headings, rows)


def install_sizes(results: Path) -> str:
    """Return the size of the required packages, and what each extra adds."""
    record = _record(results, "install_sizes")
    required = record["required"]
    rows = [["(none)", "what every installation has, most of it torch", required["packages"], required["megabytes"]]]
    rows += [[f"`{name}`", e["purpose"], e["packages"], e["megabytes"]] for name, e in record["extras"].items()]
    return _markdown(["extra", "for", "packages", "MB on disk"], rows)


def install_facts(results: Path) -> str:
    """Return the size of the wheel, and what the import costs."""
    record = _record(results, "install_sizes")
    wheel, cost = record["wheel"], record["import"]
    rows = [
        ["the wheel", f"{wheel['megabytes']:.1f} MB"],
        ["`import harpoon`", f"{cost['processor_seconds']} s of processor time, {cost['modules']} modules in all"],
    ]
    return _markdown(["what", "size"], rows)


def _imputation(results: Path, metric: str, *, factor: float, digits: int) -> str:
    """Return the mean over masks of a score of the anchored preset."""
    scores: dict[str, dict[str, list[float]]] = {}
    for path in sorted(results.glob("experiments/imputation/*/anchored,*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        cell, score = record["cell"], record["metrics"].get(metric)
        if score is not None:
            masks = scores.setdefault(cell["dataset"], {})
            masks.setdefault(f"{cell['mask']} {100 * cell['ratio']:.0f} %", []).append(factor * score)
    headings = list(next(iter(scores.values())))
    rows = ([name, *(f"{fmean(masks[mask]):.{digits}f}" for mask in headings)] for name, masks in scores.items())
    return _markdown(["data set", *headings], rows)


def _record(results: Path, name: str) -> Any:  # noqa: ANN401
    """Read a record of a script."""
    return json.loads((results / "scripts" / f"{name}.json").read_text(encoding="utf-8"))


def timestamps(results: Path) -> str:
    """Return how many means by hour, weekday and month of sampled rows agree with those of the training rows."""
    models = {
        "parts": "calendar parts (default)",
        "number": "a number alone",
        "columns": "parts as columns",
    }
    headings = ["table", "timestamp as", "first number by hour", "cells within 2 s.e., %"]
    headings += [*(f"{part}, %" for part in ("hour", "weekday", "month")), "detection", "without timestamp"]
    rows = []
    for record in _records(results, "timestamps"):
        scored = {"real rows": record["real_rows"]}
        scored |= {name: record["sampled_rows"][kind] for kind, name in models.items()}
        for name, scores in scored.items():
            low, high = scores["means"]["hour"]
            by_part = [f"{100 * scores['within_by_part'][part]:.0f}" for part in ("hour", "weekday", "month")]
            detection = [f"{scores[key]:.3f}" for key in ("detection", "detection_by_parts")]
            within = f"{100 * scores['within']:.0f}"
            rows.append([record["dataset"], name, f"{low:.1f} to {high:.1f}", within, *by_part, *detection])
    return _markdown(headings, rows)


def _records(results: Path, script: str) -> Iterator[Any]:
    """Yield the records of a script, one per data set."""
    return (_record(results, f"{script}/{path.stem}") for path in sorted((results / "scripts" / script).glob("*.json")))


def _markdown(headings: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    names = list(headings)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


TABLES: dict[str, Callable[[Path], str]] = {
    "imputation_mse": imputation_mse,
    "imputation_accuracy": imputation_accuracy,
    "conditions": conditions,
    "own_conditions": hard_conditions,
    "fidelity": fidelity,
    "draws": multiple_imputation,
    "incomplete": incomplete_rows,
    "missing_values": missing_values,
    "timestamps": timestamps,
    "coverage_simulation": coverage_simulation,
    "completed_density": completed_density,
    "incomplete_training": incomplete_training,
    "cacti": cacti,
    "cacti_datasets": cacti_datasets,
    "interval_coverage": interval_coverage,
    "extrapolation": extrapolation,
    "condition_suite": condition_suite,
    "condition_summary": condition_summary,
    "condition_misses": condition_misses,
    "algorithm_1": algorithm_1,
    "rule_sets": rule_sets,
    "privacy_audit": privacy_audit,
    "private_fidelity": private_fidelity,
    "private_rows": private_rows,
    "steps": sampling_steps,
    "speed": speed,
    "drawing_speed": drawing_speed,
    "serve": serve,
    "engines": engines,
    "engines_about": engines_setup,
    "engines_on_paper": engines_estimate,
    "trace": row_trace,
    "install_sizes": install_sizes,
    "install_facts": install_facts,
    "synthcity": synthcity_agreement,
}
