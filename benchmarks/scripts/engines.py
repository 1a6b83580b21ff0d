"""Throughput, start-up time and memory of each engine on a folder of Parquet files.

    python benchmarks/scripts/engines.py --data FOLDER [--rows 5000000] [--runs local:1 ray:1 ray:2 spark:2]
                                         [--output FILE]

FOLDER holds adult.csv.gz. Its rows, with a quarter of the cells hidden, are repeated into a folder of Parquet files,
and a model is trained briefly. Then each engine imputes the folder on the command line, sequentially. Rows per second
and CPU time per row are measured from the first to the last block, so they exclude the start of Python, Ray and Java.
DuckDB checks by a key that each row occurs once, without missing cells.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import harpoon
from common import RESULTS, write_record
from harpoon.engines.blocks import FileSet
from harpoon.metrics import masks
from harpoon_bench.datasets import hide_cells, load

LIMIT_MIB = 2048
ROWS_PER_FILE = 100_000
POLL_SECONDS = 0.2


def write_folder(folder: Path, data: Path, rows: int) -> None:
    """Write rows of Adult with a quarter of their cells hidden, repeated, with a key."""
    folder.mkdir()
    table = load("adult", data).table.sample(ROWS_PER_FILE, replace=True, random_state=0, ignore_index=True)
    hidden = masks.sample_mask("MCAR", table, 0.25, seed=0)
    incomplete = pa.Table.from_pandas(hide_cells(table, hidden), preserve_index=False)
    for start in range(0, rows, ROWS_PER_FILE):
        part = incomplete.slice(0, min(ROWS_PER_FILE, rows - start))
        part = part.append_column("key", pa.array(np.arange(start, start + part.num_rows)))
        pq.write_table(part, folder / f"{start:012d}.parquet")


def process_tree(root: int) -> dict[int, tuple[str, int, float]]:
    """Return a process and its descendants: name, peak memory in MiB and CPU seconds, by process id."""
    parents, found = dict[int, int](), dict[int, tuple[str, int, float]]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in (path / "status").read_text().splitlines() if ":\t" in line)
            ticks = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:  # the process has ended
            continue
        pid, seconds = int(path.name), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        parents[pid] = int(status["PPid"])
        found[pid] = status["Name"], int(status.get("VmHWM", "0 kB").split()[0]) // 1024, seconds

    def is_descendant(pid: int) -> bool:
        return pid == root or (pid in parents and is_descendant(parents[pid]))

    return {pid: facts for pid, facts in found.items() if is_descendant(pid)}


def run(command: list[str], folder: Path) -> tuple[float, dict[str, int], float]:
    """Return the seconds of a command, the peak memory by process name, and the CPU seconds per block after the first.

    On a shared machine, CPU seconds are more reliable than seconds.
    """
    began, peaks, spent, polls = perf_counter(), dict[str, int](), dict[int, float](), list[tuple[int, float]]()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    while process.poll() is None:
        for pid, (name, mib, seconds) in process_tree(process.pid).items():
            peaks[name] = max(mib, peaks.get(name, 0))
            spent[pid] = seconds
        polls.append((len(list(folder.glob(".imputed-*/rows-*"))), sum(spent.values())))
        sleep(POLL_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    started = next((poll for poll in polls if poll[0]), polls[-1])
    ended = max(polls)  # before the folder is renamed
    return perf_counter() - began, peaks, (ended[1] - started[1]) / max(ended[0] - started[0], 1)


def rows_per_second(output: Path) -> float:
    """Return the rows per second from the first to the last block."""
    times = sorted((path.stat().st_mtime, pq.read_metadata(path).num_rows) for path in output.iterdir())
    return float(sum(rows for _, rows in times[1:]) / (times[-1][0] - times[0][0]))


def check(incomplete: Path, imputed: Path) -> None:
    """Check that each key occurs once and no cell is missing."""
    names = pq.read_schema(next(incomplete.iterdir())).names
    missing = " + ".join(f'count(*) - count("{name}")' for name in names)
    query = f"select count(*), count(distinct key), {missing} from '{imputed}/*.parquet'"  # noqa: S608
    rows = sum(pq.read_metadata(path).num_rows for path in incomplete.iterdir())
    if duckdb.connect().execute(query).fetchall() != [(rows, rows, 0)]:
        raise SystemExit(f"rows or cells of {imputed} are missing")


def planning_ms(files: int = 300) -> float:
    """Return the CPU milliseconds per file to read the metadata before the first block and after the last."""
    with tempfile.TemporaryDirectory() as name:
        table = pa.table({f"column {i}": np.arange(1000) % (i + 3) for i in range(15)})
        paths = [Path(name, f"{number:06d}.parquet") for number in range(files)]
        for path in paths:
            pq.write_table(table, path)
        began = process_time()
        FileSet.from_path(name)
        for path in paths:
            pq.read_metadata(path)
        return round(1000 * (process_time() - began) / files, 2)


def size_mib(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 2**20, 1)


def measure(engine: str, workers: int, folder: Path, block_size: int) -> dict[str, Any]:
    """Measure one engine."""
    model, incomplete, imputed = (folder / name for name in ("adult.harpoon", "incomplete", "imputed"))
    options = ["--engine", engine, "--workers", workers, "--block-size", block_size, "--quiet"]
    command = ["impute", model, incomplete, "-o", imputed, *options]
    seconds, peaks, cpu = run([sys.executable, "-m", "harpoon", *map(str, command)], folder)
    check(incomplete, imputed)
    record = {
        "engine": engine,
        "workers": workers,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows_per_second(imputed)),
        "cpu_microseconds_per_row": round(1e6 * cpu / block_size, 1),
        "peak_mib": max(peaks.values()),
        "peaks_mib": dict(sorted(peaks.items(), key=lambda pair: -pair[1])[:5]),
        "output_mib": size_mib(imputed),
    }
    shutil.rmtree(imputed)
    print(json.dumps(record), flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--block-size", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training")
    parser.add_argument("--runs", nargs="+", default=["local:1", "ray:1", "ray:2", "spark:1", "spark:2"])
    parser.add_argument("--note", default="", help="a remark for readers of the record")
    parser.add_argument("--output", type=Path, default=RESULTS / "engines.json")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        incomplete, model = folder / "incomplete", folder / "adult.harpoon"
        write_folder(incomplete, arguments.data, arguments.rows)
        table = load("adult", arguments.data).table
        harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table).save(model)
        pairs = [(engine, int(workers)) for engine, _, workers in (text.partition(":") for text in arguments.runs)]
        runs = [measure(*pair, folder, arguments.block_size) for pair in pairs]
        rates = {(found["engine"], found["workers"]): found["rows_per_second"] for found in runs}
        costs = {(found["engine"], found["workers"]): found["cpu_microseconds_per_row"] for found in runs}
        record: dict[str, Any] = {
            "script": "benchmarks/scripts/engines.py",
            "note": arguments.note,
            "cores": len(os.sched_getaffinity(0)),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "rows": arguments.rows,
            "block_size": arguments.block_size,
            "input_mib": size_mib(incomplete),
            "planning_ms_per_file": planning_ms(),
            "model_mib": round(model.stat().st_size / 2**20, 1),
            "limit_mib": LIMIT_MIB,
            "runs": runs,
        }
        for engine in ("ray", "spark"):
            if {(engine, 1), (engine, 2)} <= rates.keys():
                record[f"{engine}_2_workers_to_1"] = round(rates[engine, 2] / rates[engine, 1], 2)
            if {("local", 1), (engine, 1)} <= rates.keys():
                record[f"{engine}_cost_to_local"] = round(costs[engine, 1] / costs["local", 1], 2)
    write_record(record, arguments.output)
    heavy = [found["engine"] for found in runs if found["peak_mib"] > LIMIT_MIB]
    if heavy:
        raise SystemExit(f"{', '.join(heavy)} used more than {LIMIT_MIB} MiB in one process")


if __name__ == "__main__":
    main()
