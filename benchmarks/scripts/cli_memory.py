"""Peak memory of imputing a long Parquet file on the command line.

    python benchmarks/scripts/cli_memory.py --data FOLDER [--rows 2000000] [--seconds 20] [--output FILE]

FOLDER holds adult.csv.gz. Its rows, with a quarter of the cells hidden, are repeated into a Parquet file, and a model
is trained briefly. `harpoon impute` then runs in another process, whose peak resident memory is recorded. The imputed
file must have the same rows in the same order, without missing cells.
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
from common import RESULTS, write_record
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load

LIMIT_MIB = 2048
CHUNK_ROWS = 50_000
INDEX = "row"  # a column that is not modelled, to check the order of the rows


def write_table(path: Path, data: Path, rows: int) -> None:
    """Write rows of Adult with a quarter of their cells hidden, repeated and numbered."""
    table = load("adult", data).table.sample(CHUNK_ROWS, replace=True, random_state=0, ignore_index=True)
    hidden = masks.sample_mask("MCAR", table, 0.25, seed=0)
    incomplete = pa.Table.from_pandas(hide_cells(table, hidden), preserve_index=False)
    writer = None
    for start in range(0, rows, CHUNK_ROWS):
        chunk = incomplete.slice(0, min(CHUNK_ROWS, rows - start))
        chunk = chunk.append_column(INDEX, pa.array(np.arange(start, start + chunk.num_rows)))
        writer = writer or pq.ParquetWriter(path, chunk.schema)
        writer.write_table(chunk)
    if writer is not None:
        writer.close()


def check(before: Path, after: Path) -> None:
    """Check that the rows are the same, in the same order, without missing cells."""
    old, new = pq.ParquetFile(before), pq.ParquetFile(after)
    if old.metadata.num_rows != new.metadata.num_rows or old.schema_arrow.names != new.schema_arrow.names:
        raise SystemExit("rows or columns are missing")
    start = 0
    for chunk in new.iter_batches(batch_size=CHUNK_ROWS):
        if any(column.null_count for column in chunk.columns):
            raise SystemExit("a cell is missing")
        index = chunk.column(INDEX)
        if not pc.all(pc.equal(index, pa.array(np.arange(start, start + len(index))))).as_py():
            raise SystemExit("the rows are in another order")
        start += len(index)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training")
    parser.add_argument("--output", type=Path, default=RESULTS / "cli_memory.json")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        names = ("incomplete.parquet", "imputed.parquet", "adult.harpoon")
        incomplete, imputed, model = (Path(folder, name) for name in names)
        write_table(incomplete, arguments.data, arguments.rows)
        table = load("adult", arguments.data).table
        harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table).save(model)
        began = perf_counter()
        command = ["-m", "harpoon", "impute", str(model), str(incomplete), "-o", str(imputed)]
        done = subprocess.run(  # noqa: S603
            [sys.executable, *command, "--json", "--quiet"], stdout=subprocess.PIPE, check=True
        )
        seconds = perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        check(incomplete, imputed)
        summary = json.loads(done.stdout)
        record = {
            "script": "benchmarks/scripts/cli_memory.py",
            "rows": summary["rows"],
            "cells_filled": sum(summary["filled"].values()),
            "input_mib": round(incomplete.stat().st_size / 2**20, 1),
            "seconds": round(seconds, 1),
            "rows_per_second": round(arguments.rows / seconds),
            "peak_mib": round(peak),
            "limit_mib": LIMIT_MIB,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        }
    write_record(record, arguments.output)
    if peak > LIMIT_MIB:
        raise SystemExit(f"the peak of {peak:.0f} MiB exceeds {LIMIT_MIB}")


if __name__ == "__main__":
    main()
