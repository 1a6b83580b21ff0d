"""Speed under conditions and rules, relative to plain rows in the same run: Adult.

    python benchmarks/scripts/condition_speed.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult]
                                                 [--results FOLDER]

    rare    rows under a condition of probability about 1e-4, beside rejection, whose time is that of plain rows
            divided by the probability
    rules   rows under twelve rules at once, which most plain rows obey, or about a third of them
    named   the time to name the smallest contradicting set among many rules on single columns

Times are processor seconds of one thread: other programs on the machine hardly change them. One JSON file per data
set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import harpoon
from common import load_or_train, make_parser, run_datasets, training_facts
from rule_sets import obeying

N_ROWS, N_PLAIN_ROWS = 2000, 4000
RARE = "age = \"hours-per-week\" and age > 60 and sex = 'Male'"
LENIENT = [
    "age between 17 and 80",
    '"hours-per-week" between 3 and 90',
    '"capital-gain" < 50000',
    '"capital-loss" < 3000',
    "fnlwgt < 600000",
    '"education-num" >= 2',
    "workclass != 'Never-worked'",
    "\"marital-status\" != 'Married-AF-spouse'",
    "occupation != 'Armed-Forces'",
    "education != 'Preschool'",
    '"capital-gain" = 0 or "capital-loss" = 0',
    "relationship = 'Husband' implies sex = 'Male'",
]
STRICT = [*LENIENT[:10], "sex = 'Male' or age < 40", '"hours-per-week" >= 40 or "marital-status" = \'Never-married\'']
MANY = [f"age > {17 + i % 20} or age < {90 - i}" for i in range(40)] + ["age > 60", "fnlwgt > 20000", "age < 30"]


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and the processor seconds for it."""
    began = process_time()
    return run(), process_time() - began


def name_contradiction(model: harpoon.Harpoon) -> str:
    """Return the error about rules that contradict each other."""
    try:
        model.with_rules(MANY)
    except harpoon.InfeasibleCondition as error:
        return str(error)
    return ""


def measure(model: harpoon.Harpoon) -> dict[str, Any]:
    """Return seconds, and their ratios."""
    plain, seconds = timed(lambda: model.sample(N_PLAIN_ROWS, random_state=0))
    per_row = seconds / N_PLAIN_ROWS
    rows, rare_seconds = timed(lambda: model.sample(N_ROWS, where=RARE, random_state=1))
    info = model.sampling_info_
    rejection = per_row * N_ROWS / float(info.probability or 1.0)
    found: dict[str, Any] = {
        "rows": N_ROWS,
        "plain_rows_per_second": round(1 / per_row, 1),
        "rare": {
            "condition": RARE,
            "probability": info.probability,
            "violations": N_ROWS - len(obeying(rows, harpoon.RuleSet.of([RARE]))),
            "effective_size": info.effective_size,
            "seconds": round(rare_seconds, 1),
            "rejection_seconds": round(rejection, 1),
            "times_faster": round(rejection / rare_seconds, 1),
        },
    }
    for name, rules in (("lenient", LENIENT), ("strict", STRICT)):
        ruled = model.with_rules(rules)
        rows, ruled_seconds = timed(partial(ruled.sample, N_ROWS, random_state=1))
        found[f"rules_{name}"] = {
            "rules": rules,
            "fraction": len(obeying(plain, ruled.rules_)) / len(plain),
            "violations": N_ROWS - len(obeying(rows, ruled.rules_)),
            "seconds": round(ruled_seconds, 2),
            "times_plain": round(ruled_seconds / (per_row * N_ROWS), 2),
        }
    message, named_seconds = timed(lambda: name_contradiction(model))
    return {**found, "named": {"rules": len(MANY), "seconds": round(named_seconds, 3), "message": message}}


def main() -> None:
    arguments = make_parser(Path(__file__).stem, ("adult",)).parse_args()

    def run(name: str) -> dict[str, Any]:
        model = load_or_train(arguments.data, name, arguments.minutes, arguments.models)
        return {"dataset": name, **measure(model), **training_facts(model)}

    run_datasets(arguments.datasets, arguments.results, run)


if __name__ == "__main__":
    main()
