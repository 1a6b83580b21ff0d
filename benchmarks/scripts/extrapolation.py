"""How often an answer under a condition that no training row meets is called an extrapolation.

    python benchmarks/scripts/extrapolation.py --data FOLDER --models FOLDER [--datasets adult,default] [--epochs 12]
                                               [--conditions 200] [--results FOLDER]

Random conditions are conjunctions of bounds on numbers and sets of categories, on one to four columns, each of which
some training rows meet. Half of them are met by no training row, half by 50 or more. The model is saved and loaded: it
has counts of one and two columns only. Recorded are the fraction of either half for which `feasibility` warns of an
extrapolation, and for which `support` does, which samples no rows. A condition of which the answer says that no row can
satisfy it counts as warned of.

One JSON file per data set.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import harpoon
from common import make_parser, run_datasets, training_facts
from harpoon import ExtrapolationWarning
from harpoon.conditions import bind, evaluate, to_predicate
from harpoon.data import Column, Columns, dataframe, read_columns
from harpoon_bench.datasets import load

MANY_ROWS, MAX_COLUMNS, SEED = 50, 4, 5


def random_term(column: Column, cells: pd.Series, rng: np.random.Generator) -> str:
    """Return a condition on one column that some rows meet."""
    name = f'"{column.name}"'
    if column.kind.discrete:
        values = cells.dropna().unique()
        chosen = rng.choice(len(values), min(len(values), int(rng.integers(1, 3))), replace=False)
        return f"{name} in ({', '.join(_literal(values[index]) for index in chosen)})"
    low, high = np.sort(cells.dropna().sample(2, random_state=int(rng.integers(2**31))).to_numpy())
    return (f"{name} >= {high}", f"{name} <= {low}", f"{name} between {low} and {high}")[rng.integers(3)]


def _literal(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return f"'{str(value).replace(chr(39), chr(39) * 2)}'" if isinstance(value, str) else str(value)


def random_conditions(schema: harpoon.Schema, table: pd.DataFrame, count: int) -> dict[str, list[str]]:
    """Return conditions that no row meets, and conditions that many rows meet, equally many."""
    rng, rows = np.random.default_rng(SEED), read_columns(dataframe.read(table), schema)
    found: dict[str, list[str]] = {"none": [], "many": []}
    columns = schema.modelled
    while min(map(len, found.values())) < count // 2:
        picked = rng.choice(len(columns), int(rng.integers(1, MAX_COLUMNS + 1)), replace=False)
        text = " and ".join(random_term(columns[index], table[columns[index].name], rng) for index in picked)
        met = n_rows_that_meet(text, schema, rows)
        half = "none" if met == 0 else "many" if met >= MANY_ROWS else ""
        if half and len(found[half]) < count // 2:
            found[half].append(text)
    return found


def n_rows_that_meet(text: str, schema: harpoon.Schema, rows: Columns) -> int:
    return int(evaluate(bind(to_predicate(text), schema), rows).sum())


def ask(model: harpoon.Harpoon, where: str) -> dict[str, Any]:
    """Return whether the model warns of an extrapolation, or says that no row can satisfy it, and what it estimates."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, by_counts = model.feasibility(where, random_state=0), model.support(where)
    return {
        "where": where,
        "warned": found.support.is_impossible or any(issubclass(one.category, ExtrapolationWarning) for one in caught),
        "warned_by_counts": by_counts.is_impossible or by_counts.is_extrapolation,
        "impossible": found.support.is_impossible,
        "estimate": round(found.support.estimate, 2),
        "upper_bound": found.support.upper_bound,
        "probability": found.probability,
    }


def run(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a data set."""
    dataset = load(name, arguments.data)
    path = arguments.models / f"{name},{arguments.epochs}.harpoon"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        trained = harpoon.Harpoon(schema=dataset.schema, max_epochs=arguments.epochs, random_state=0, progress=False)
        trained.fit(dataset.train).save(path)
    model = harpoon.load(path, progress=False)
    conditions = random_conditions(model.schema_, dataset.train, arguments.conditions)
    answers = {half: [ask(model, where) for where in texts] for half, texts in conditions.items()}
    warned = {
        key: {half: float(np.mean([one[key] for one in found])) for half, found in answers.items()}
        for key in ("warned", "warned_by_counts")
    }
    return {
        "script": "benchmarks/scripts/extrapolation.py",
        "dataset": name,
        "train_rows": len(dataset.train),
        "conditions": arguments.conditions,
        "many_rows": MANY_ROWS,
        **warned,
        **training_facts(model),
        "answers": answers,
    }


def main() -> None:
    parser = make_parser(Path(__file__).stem, ("adult", "default"))
    parser.add_argument("--conditions", type=int, default=200, help="half of which no training row meets")
    parser.add_argument("--epochs", type=int, default=12, help="of training, for a model that does not exist yet")
    arguments = parser.parse_args()
    for name, record in run_datasets(arguments.datasets, arguments.results, lambda one: run(one, arguments)).items():
        print(name, record["warned"], record["warned_by_counts"])


if __name__ == "__main__":
    main()
