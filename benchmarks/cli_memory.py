"""Peak memory of imputing a long Parquet file through the command line.

    python benchmarks/cli_memory.py --data FOLDER [--rows 2000000] [--seconds 20] [--output FILE]

FOLDER holds adult.csv.gz. Its rows, with a quarter of the cells hidden, are repeated into a Parquet file; a model is
trained for a short time; then `harpoon impute` runs in a process of its own, whose largest resident memory is what is
recorded. The filled file must have as many rows, in order, and no hole.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import harpoon
from harpoon.metrics import masks
from harpoon_bench.datasets import load, with_holes

LIMIT_MIB = 2048
PART = 50_000
NUMBER = "row"  # a column that the model does not know, to see that rows keep their order


def write_table(path: Path, data: Path, rows: int) -> None:
    """Rows of Adult with a quarter of their cells hidden, again and again, numbered."""
    table = load("adult", data).table.sample(PART, replace=True, random_state=0, ignore_index=True)
    holes = pa.Table.from_pandas(
        with_holes(table, masks.sample_mask("MCAR", table, 0.25, seed=0)), preserve_index=False
    )
    writer = None
    for start in range(0, rows, PART):
        part = holes.slice(0, min(PART, rows - start))
        part = part.append_column(NUMBER, pa.array(np.arange(start, start + part.num_rows)))
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def check(before: Path, after: Path) -> None:
    """The same rows in the same order, without a hole, of the same types but for those that holes had changed."""
    old, new = pq.ParquetFile(before), pq.ParquetFile(after)
    if old.metadata.num_rows != new.metadata.num_rows or old.schema_arrow.names != new.schema_arrow.names:
        raise SystemExit("rows or columns are gone")
    place = 0
    for part in new.iter_batches(batch_size=PART):
        if any(column.null_count for column in part.columns):
            raise SystemExit("a cell was left empty")
        numbers = part.column(NUMBER)
        if not pc.all(pc.equal(numbers, pa.array(np.arange(place, place + len(numbers))))).as_py():
            raise SystemExit("the rows are in another order")
        place += len(numbers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "cli_memory.json")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        holes, filled, model = (Path(folder, name) for name in ("holes.parquet", "filled.parquet", "adult.harpoon"))
        write_table(holes, arguments.data, arguments.rows)
        table = load("adult", arguments.data).table
        harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table).save(model)
        began = perf_counter()
        command = ["-m", "harpoon.apps.cli", "impute", str(model), str(holes), "-o", str(filled), "--json", "--quiet"]
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, check=True)  # noqa: S603
        seconds = perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        check(holes, filled)
        record = {
            "script": "benchmarks/cli_memory.py",
            "rows": json.loads(done.stdout)["rows"],
            "cells_filled": sum(json.loads(done.stdout)["filled"].values()),
            "input_mib": round(holes.stat().st_size / 2**20, 1),
            "seconds": round(seconds, 1),
            "rows_per_second": round(arguments.rows / seconds),
            "peak_mib": round(peak),
            "limit_mib": LIMIT_MIB,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))
    if peak > LIMIT_MIB:
        raise SystemExit(f"{peak:.0f} MiB are more than {LIMIT_MIB}")


if __name__ == "__main__":
    main()
