"""Peak memory of imputing a million rows in a stream of batches.

    python benchmarks/memory.py --data FOLDER [--rows 1000000] [--batch 50000] [--output FILE]

FOLDER holds adult.csv.gz. A model is trained for a short time on Adult; its rows, with a quarter of the cells hidden,
then stream through `impute` again and again. What is measured is the resident memory of the process, so a figure for
the training stands beside it.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from time import perf_counter

import numpy as np

import harpoon
from harpoon.metrics import masks
from harpoon_bench.datasets import load, with_holes


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "memory.json")
    arguments = parser.parse_args()

    table = load("adult", arguments.data).table
    model = harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table)
    after_training = peak_mib()
    rows = table.sample(arguments.batch, replace=True, random_state=0, ignore_index=True)
    batch = with_holes(rows, masks.sample_mask("MCAR", rows, 0.25, seed=0))
    began, done, after_first = perf_counter(), 0, 0.0
    while done < arguments.rows:
        filled = model.impute(batch)
        if np.asarray(filled.isna()).any():
            raise SystemExit("a cell was left empty")
        done += len(filled)
        after_first = after_first or peak_mib()
    record = {
        "script": "benchmarks/memory.py",
        "rows": done,
        "batch": arguments.batch,
        "rows_per_second": round(done / (perf_counter() - began)),
        "peak_mib_after_training": round(after_training),
        "peak_mib_after_first_batch": round(after_first),
        "peak_mib_at_the_end": round(peak_mib()),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
