"""Speed of the anchored preset relative to the paper preset, measured in one run.

    python benchmarks/scripts/speed.py --data FOLDER [--rows 512] [--output FILE]

FOLDER holds the data sets. Both presets impute Adult's test rows under MAR 25 %, sample without a condition, and sample
under a condition (the paper preset by Algorithm 1). The paper preset is timed on `--rows` rows and scaled. The weights
hardly change the time, so both are trained for seconds only, and their quality is not measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

import harpoon
from common import RESULTS, write_record
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load

WHERE = "age >= 50"
FAST_REPEATS, SLOW_REPEATS = 20, 2  # for calls below and above a second


def min_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of several calls, because other load on the machine only adds to it."""
    seconds = []
    for _ in range(repeats):
        began = perf_counter()
        call()
        seconds.append(perf_counter() - began)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=512, help="rows on which the paper preset is timed")
    parser.add_argument("--samples", type=int, default=10_000, help="rows that the anchored preset samples")
    parser.add_argument("--output", type=Path, default=RESULTS / "speed.json")
    arguments = parser.parse_args()
    n, few = arguments.samples, arguments.rows

    dataset = load("adult", arguments.data)
    anchored, paper = (
        harpoon.Harpoon(preset, schema=dataset.schema, max_time=5.0, random_state=0, progress=False).fit(dataset.train)
        for preset in ("anchored", "paper")
    )
    incomplete = hide_cells(dataset.test, masks.sample_mask("MAR", dataset.test, 0.25, seed=0))
    head = incomplete.head(few)
    anchored.impute(head)  # load everything before timing

    impute = min_seconds(lambda: anchored.impute(incomplete), FAST_REPEATS)
    impute_paper = min_seconds(lambda: paper.impute(head), SLOW_REPEATS) * len(incomplete) / len(head)
    sample = min_seconds(lambda: anchored.sample(n), SLOW_REPEATS)
    sample_paper = min_seconds(lambda: paper.sample(few), SLOW_REPEATS) * n / few
    condition = min_seconds(lambda: anchored.sample(n, where=WHERE), SLOW_REPEATS)
    condition_paper = min_seconds(lambda: paper.sample(few, where=WHERE, strategy="paper"), SLOW_REPEATS) * n / few
    record = {
        "script": "benchmarks/scripts/speed.py",
        "threads": torch.get_num_threads(),
        "paper_rows_timed": len(head),
        "impute": {"rows": len(incomplete), "anchored_s": round(impute, 3), "paper_s_scaled": round(impute_paper, 1)},
        "sample": {"rows": n, "anchored_s": round(sample, 2), "paper_s_scaled": round(sample_paper, 1)},
        "condition": {
            "where": WHERE,
            "rows": n,
            "anchored_s": round(condition, 2),
            "algorithm_1_s_scaled": round(condition_paper, 1),
        },
        "impute_ratio": round(impute_paper / impute),
        "sample_ratio": round(sample_paper / sample, 1),
        "condition_ratio": round(condition_paper / condition, 1),
    }
    write_record(record, arguments.output)


if __name__ == "__main__":
    main()
