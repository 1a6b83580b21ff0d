"""Peak memory of imputing a million rows batch by batch.

    python benchmarks/scripts/memory.py --data FOLDER [--rows 1000000] [--batch-size 50000] [--output FILE]

FOLDER holds adult.csv.gz. A model is trained briefly on Adult; then batches of its rows, with a quarter of the cells
hidden, are imputed. The resident memory of the process is recorded, also after the training.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path
from time import perf_counter

import numpy as np

import harpoon
from common import RESULTS, write_record
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training")
    parser.add_argument("--output", type=Path, default=RESULTS / "memory.json")
    arguments = parser.parse_args()

    table = load("adult", arguments.data).table
    model = harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table)
    after_training = peak_mib()
    rows = table.sample(arguments.batch_size, replace=True, random_state=0, ignore_index=True)
    batch = hide_cells(rows, masks.sample_mask("MCAR", rows, 0.25, seed=0))
    began, done, after_first = perf_counter(), 0, 0.0
    while done < arguments.rows:
        imputed = model.impute(batch)
        if np.asarray(imputed.isna()).any():
            raise SystemExit("a cell is missing")
        done += len(imputed)
        after_first = after_first or peak_mib()
    record = {
        "script": "benchmarks/scripts/memory.py",
        "rows": done,
        "batch_size": arguments.batch_size,
        "rows_per_second": round(done / (perf_counter() - began)),
        "peak_mib_after_training": round(after_training),
        "peak_mib_after_first_batch": round(after_first),
        "peak_mib_at_end": round(peak_mib()),
    }
    write_record(record, arguments.output)


if __name__ == "__main__":
    main()
