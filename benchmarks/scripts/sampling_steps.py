"""Quality of unconditional samples by the number of sampling steps.

    python benchmarks/scripts/sampling_steps.py --data FOLDER --models FOLDER [--minutes 3] [--datasets adult]
                                                [--results FOLDER]

The default is the smallest number of autoregressive steps without a measurable loss. It was chosen on training rows, so
samples are scored against these: detection by a boosted classifier, and the mean similarity of columns. One JSON file
per data set; existing records are kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import harpoon
from common import run_models, training_facts
from harpoon import metrics
from harpoon_bench.datasets import load

VARIANTS: tuple[dict[str, Any], ...] = (
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
    variants = []
    for options in VARIANTS:
        scores = []
        for seed in SEEDS:
            began = perf_counter()
            rows = model.sample(len(real), random_state=seed, **options)
            seconds = perf_counter() - began
            similarity = float(np.mean(list(metrics.similarity(schema, real, rows).values())))
            scores.append((metrics.detection(schema, real, rows, folds=3), similarity, seconds))
        detection, similarity, seconds = np.mean(scores, axis=0).round(4).tolist()
        variants.append({**options, "detection": detection, "similarity": similarity, "seconds": seconds})
        print(name, json.dumps(variants[-1]), flush=True)
    return {"dataset": name, "rows": len(real), "seeds": list(SEEDS), "variants": variants, **training_facts(model)}


def main() -> None:
    run_models(Path(__file__).stem, run)


if __name__ == "__main__":
    main()
