"""How much faster the anchored preset answers than the paper preset of this repository, side by side in one run.

    python benchmarks/speed.py --data FOLDER [--rows 512] [--output FILE]

FOLDER holds the data sets. Both presets impute Adult's test set under MAR 25 %, draw plain rows, and
draw rows under a condition (the paper preset by Algorithm 1); the paper preset is timed on `--rows` rows and scaled.
Weights hardly change the time, so both are trained for seconds only: this script says nothing about quality.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

import harpoon
from harpoon.metrics import masks
from harpoon_bench.datasets import load, with_holes

WHERE = "age >= 50"
QUICK, SLOW = 20, 2  # answers of which the quickest counts, of a fraction of a second and of many


def least(answer: Callable[[], object], times: int) -> float:
    """The seconds of the quickest of some answers: what others do on the machine only adds to them."""
    taken = []
    for _ in range(times):
        began = perf_counter()
        answer()
        taken.append(perf_counter() - began)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--drawn", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "speed.json")
    arguments = parser.parse_args()

    dataset = load("adult", arguments.data)
    train, test, schema = dataset.train, dataset.test, dataset.schema
    anchored, paper = (
        harpoon.Harpoon(preset, schema=schema, max_time=5.0, random_state=0, progress=False).fit(train)
        for preset in ("anchored", "paper")
    )
    holes = with_holes(test, masks.sample_mask("MAR", test, 0.25, seed=0))
    few = holes.head(arguments.rows)
    anchored.impute(few)  # what is loaded once is not timed

    impute = least(lambda: anchored.impute(holes), QUICK)
    impute_paper = least(lambda: paper.impute(few), SLOW) * len(holes) / len(few)
    draw = least(lambda: anchored.sample(arguments.drawn), SLOW)
    ask = least(lambda: anchored.sample(arguments.drawn, where=WHERE), SLOW)
    guide_paper = least(lambda: paper.sample(arguments.rows, where=WHERE, strategy="paper"), SLOW)
    ask_paper = guide_paper * arguments.drawn / arguments.rows
    draw_paper = least(lambda: paper.sample(arguments.rows), SLOW) * arguments.drawn / arguments.rows
    record = {
        "script": "benchmarks/speed.py",
        "threads": torch.get_num_threads(),
        "paper_rows_timed": len(few),
        "impute": {"rows": len(holes), "anchored_s": round(impute, 3), "paper_s_scaled": round(impute_paper, 1)},
        "sample": {"rows": arguments.drawn, "anchored_s": round(draw, 2), "paper_s_scaled": round(draw_paper, 1)},
        "condition": {
            "where": WHERE,
            "rows": arguments.drawn,
            "anchored_s": round(ask, 2),
            "algorithm_1_s_scaled": round(ask_paper, 1),
        },
        "impute_ratio": round(impute_paper / impute),
        "sample_ratio": round(draw_paper / draw, 1),
        "condition_ratio": round(ask_paper / ask, 1),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
