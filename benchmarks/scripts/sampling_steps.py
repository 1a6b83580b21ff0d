"""How many turns drawing needs: plain rows in fewer and in more of them, and all cells together, against training rows.

    python benchmarks/steps.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult] [--results FOLDER]

The default is the fewest turns that lose nothing measurable. A setting is chosen on training rows, so drawn rows are
compared with those: what a boosted classifier tells apart, and how alike the columns are on average. One JSON file per
data set; what is there is not done again.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import harpoon
from harpoon import metrics
from harpoon.config import DrawingOptions
from harpoon_bench.datasets import load
from models import trained
from records import each, facts, parser

DATASETS = ("adult", "default", "shoppers")
WAYS: tuple[DrawingOptions, ...] = (
    {"ar_steps": 4},
    {"ar_steps": 8},
    {"ar_steps": 16},
    {"ar_steps": 64},
    {"ar_steps": 0, "sampling_steps": 12},
    {"ar_steps": 0, "sampling_steps": 24},
)
ROWS, SEEDS = 5000, (1, 2)


def run(data: Path, name: str, model: harpoon.Harpoon) -> dict[str, Any]:
    dataset = load(name, data)
    train, schema = dataset.train, dataset.schema
    real = train.sample(min(ROWS, len(train)), random_state=0).reset_index(drop=True)
    tried = []
    for way in WAYS:
        scores = []
        for seed in SEEDS:
            began = perf_counter()
            rows = model.sample(len(real), random_state=seed, **way)
            seconds = perf_counter() - began
            alike = float(np.mean(list(metrics.similarity(schema, real, rows).values())))
            scores.append((metrics.detection(schema, real, rows, folds=3), alike, seconds))
        detection, similarity, seconds = np.mean(scores, axis=0).round(4).tolist()
        tried.append({**way, "detection": detection, "similarity": similarity, "seconds": seconds})
        print(name, json.dumps(tried[-1]), flush=True)
    return {"dataset": name, "rows": len(real), "seeds": list(SEEDS), "ways": tried, **facts(model)}


def main() -> None:
    arguments = parser("steps", DATASETS).parse_args()
    each(
        arguments.datasets,
        arguments.results,
        lambda name: run(arguments.data, name, trained(arguments.data, name, arguments.minutes, arguments.models)),
    )


if __name__ == "__main__":
    main()
