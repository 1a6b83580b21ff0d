"""Coverage of the 95 % intervals of probabilities on many more tables than models can be trained on.

    python benchmarks/scripts/interval_counts.py [--rows 3000] [--repeats 1500] [--results FOLDER]

`interval_coverage.py` trains a model on each of 200 tables, so that a coverage of 95 % has a standard error of 1.5 %,
and one of twenty settings may lie outside of 90 to 98 % by chance. Here the counts of the model file are made for each
table, and no model is trained. In its place stands an estimate that misses the counts by as much as the models of
`interval_coverage.py` do: by a normal error, so that estimates vary as those of its record. Recorded is the coverage of
the interval of the counts alone, and of the one that is widened to this estimate. With 1500 repeats, the standard error
is 0.5 %. No table is one of `interval_coverage.py`.

One JSON file per number of rows.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, write_record
from harpoon import Schema
from harpoon.conditions import bind, to_predicate
from harpoon.data import count_columns, dataframe, read_columns
from harpoon.data.contingency import ContingencyTables
from harpoon.inference.diagnostics.probability_intervals import probability_interval
from harpoon.inference.diagnostics.support import find_support
from interval_coverage import COMMON, RARE, TWO, sample_table, true_values

DATA_SEED, PROBABILITY_ROWS = 777, 2048


def contingency(table: Any) -> tuple[Schema, ContingencyTables]:  # noqa: ANN401
    """Return the schema and the counts of a table as a model file holds them."""
    read, schema = dataframe.read(table), Schema.infer(table)
    rows = read_columns(read, schema)
    return schema, ContingencyTables.fit(schema, count_columns(read), len(table), rows, rows).suppress()


def error_of_models(rows: int, where: str) -> float:
    """Return the standard deviation of the models' estimates of a probability beyond that of the share of the table."""
    record = json.loads((RESULTS / "interval_coverage" / f"{rows}.json").read_text())
    estimates = [repeat[f"probability: {where}"][0] for repeat in record["repeats"]]
    p = true_values()[f"probability: {where}"]
    return math.sqrt(max(float(np.var(estimates)) - p * (1 - p) / rows, 0.0))


def run(rows: int, repeats: int) -> dict[str, Any]:
    """Return the record of one number of rows."""
    rng = np.random.default_rng(DATA_SEED)
    errors = {where: error_of_models(rows, where) for where in (COMMON, RARE, TWO)}
    covered = {where: np.zeros(2) for where in errors}
    for repeat in range(repeats):
        schema, tables = contingency(sample_table(rows, DATA_SEED, repeat))
        for where, error in errors.items():
            truth = true_values()[f"probability: {where}"]
            support = find_support(tables, bind(to_predicate(where), schema), {}, probability=truth)
            share = support.counted / rows
            estimate = float(np.clip(share + error * rng.normal(), 1 / PROBABILITY_ROWS, 1 - 1 / PROBABILITY_ROWS))
            ends = (probability_interval(one, PROBABILITY_ROWS, support) for one in (share, estimate))
            covered[where] += [low <= truth <= high for low, high in ends]
    return {
        "script": "benchmarks/scripts/interval_counts.py",
        "rows": rows,
        "repeats": repeats,
        "questions": {
            where: {"error_of_models": errors[where], "of_counts": hits[0] / repeats, "coverage": hits[1] / repeats}
            for where, hits in covered.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=1500)
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    write_record(run(arguments.rows, arguments.repeats), arguments.results / f"{arguments.rows}.json")


if __name__ == "__main__":
    main()
