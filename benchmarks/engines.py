"""What each engine does with a long folder of Parquet files: rows per second, start-up, and memory of every process.

    python benchmarks/engines.py --data FOLDER [--rows 5000000] [--runs local:1 ray:1 ray:2 spark:2] [--output FILE]

FOLDER holds adult.csv.gz. Its rows, with a quarter of the cells hidden, are repeated into a folder of Parquet files; a
model is trained for a short time; then each engine fills the folder through the command line, in processes of its own,
one engine after the other in this one run. The rate, and what a row costs on processors, are those between the first
block and the last one, so what it takes to start Python, Ray and Java is apart. DuckDB checks that each row is there
once, by its key, without a hole.
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
from harpoon.engines.blocks import FileSet
from harpoon.metrics import masks
from harpoon_bench.datasets import load, with_holes

LIMIT_MIB = 2048
SHARD = 100_000
LOOKED = 0.2  # seconds between two looks at the memory


def write_folder(folder: Path, data: Path, rows: int) -> None:
    """Rows of Adult with a quarter of their cells hidden, again and again, with a key."""
    folder.mkdir()
    table = load("adult", data).table.sample(SHARD, replace=True, random_state=0, ignore_index=True)
    holes = pa.Table.from_pandas(
        with_holes(table, masks.sample_mask("MCAR", table, 0.25, seed=0)), preserve_index=False
    )
    for start in range(0, rows, SHARD):
        part = holes.slice(0, min(SHARD, rows - start))
        part = part.append_column("key", pa.array(np.arange(start, start + part.num_rows)))
        pq.write_table(part, folder / f"{start:012d}.parquet")


def family(root: int) -> dict[int, tuple[str, int, float]]:
    """The processes that one has started, and theirs: name, most memory so far in MiB, and seconds on a processor."""
    parents, found = dict[int, int](), dict[int, tuple[str, int, float]]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            about = dict(line.split(":\t", 1) for line in (path / "status").read_text().splitlines() if ":\t" in line)
            ticks = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:  # it has ended meanwhile
            continue
        number, seconds = int(path.name), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        parents[number] = int(about["PPid"])
        found[number] = about["Name"], int(about.get("VmHWM", "0 kB").split()[0]) // 1024, seconds

    def belongs(number: int) -> bool:
        return number == root or (number in parents and belongs(parents[number]))

    return {number: about for number, about in found.items() if belongs(number)}


def run(command: list[str], folder: Path) -> tuple[float, dict[str, int], float]:
    """Seconds, the most memory of a process of each name, and seconds on processors for each part, but for the first.

    What a part costs on processors says more than the time it takes, on a machine that others use, too.
    """
    began, peaks, spent, looks = perf_counter(), dict[str, int](), dict[int, float](), list[tuple[int, float]]()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    while process.poll() is None:
        for number, (name, mib, seconds) in family(process.pid).items():
            peaks[name] = max(mib, peaks.get(name, 0))
            spent[number] = seconds
        looks.append((len(list(folder.glob(".filled-*/rows-*"))), sum(spent.values())))
        sleep(LOOKED)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    started = next((look for look in looks if look[0]), looks[-1])
    ended = max(looks)  # before the folder has got its name
    return perf_counter() - began, peaks, (ended[1] - started[1]) / max(ended[0] - started[0], 1)


def steady(output: Path) -> float:
    """Rows per second from the first block to the last one."""
    times = sorted((path.stat().st_mtime, pq.read_metadata(path).num_rows) for path in output.iterdir())
    return float(sum(rows for _, rows in times[1:]) / (times[-1][0] - times[0][0]))


def check(holes: Path, filled: Path) -> None:
    """Every key is there once, and no cell is empty."""
    names = pq.read_schema(next(holes.iterdir())).names
    empty = " + ".join(f'count(*) - count("{name}")' for name in names)
    query = f"select count(*), count(distinct key), {empty} from '{filled}/*.parquet'"  # noqa: S608
    rows = sum(pq.read_metadata(path).num_rows for path in holes.iterdir())
    if duckdb.connect().execute(query).fetchall() != [(rows, rows, 0)]:
        raise SystemExit(f"{filled} lacks rows or cells")


def planned(files: int = 300) -> float:
    """Milliseconds on a processor for each file that is looked at before the first block, and after the last one."""
    with tempfile.TemporaryDirectory() as name:
        table = pa.table({f"column {place}": np.arange(1000) % (place + 3) for place in range(15)})
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


def measured(engine: str, workers: int, folder: Path, batch: int) -> dict[str, Any]:
    """One engine, from files to files."""
    model, holes, filled = (folder / name for name in ("adult.harpoon", "holes", "filled"))
    asked = ["--engine", engine, "--workers", workers, "--batch", batch, "--quiet"]
    words = ["impute", model, holes, "-o", filled, *asked]
    seconds, peaks, each = run([sys.executable, "-m", "harpoon.apps.cli", *map(str, words)], folder)
    check(holes, filled)
    record = {
        "engine": engine,
        "workers": workers,
        "seconds": round(seconds, 1),
        "rows_per_second": round(steady(filled)),
        "processor_microseconds_per_row": round(1e6 * each / batch, 1),
        "peak_mib": max(peaks.values()),
        "peaks_mib": dict(sorted(peaks.items(), key=lambda pair: -pair[1])[:5]),
        "output_mib": size_mib(filled),
    }
    shutil.rmtree(filled)
    print(json.dumps(record), flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training")
    parser.add_argument("--runs", nargs="+", default=["local:1", "ray:1", "ray:2", "spark:1", "spark:2"])
    parser.add_argument("--note", default="", help="anything that a reader of the figures should know")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "engines.json")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        holes, model = folder / "holes", folder / "adult.harpoon"
        write_folder(holes, arguments.data, arguments.rows)
        table = load("adult", arguments.data).table
        harpoon.Harpoon(max_time=arguments.seconds, random_state=0, progress=False).fit(table).save(model)
        asked = [(engine, int(workers)) for engine, _, workers in (text.partition(":") for text in arguments.runs)]
        runs = [measured(*which, folder, arguments.batch) for which in asked]
        rates = {(found["engine"], found["workers"]): found["rows_per_second"] for found in runs}
        costs = {(found["engine"], found["workers"]): found["processor_microseconds_per_row"] for found in runs}
        record = {
            "script": "benchmarks/engines.py",
            "note": arguments.note,
            "cores": len(os.sched_getaffinity(0)),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "rows": arguments.rows,
            "block": arguments.batch,
            "input_mib": size_mib(holes),
            "planned_ms_per_file": planned(),
            "model_mib": round(model.stat().st_size / 2**20, 1),
            "limit_mib": LIMIT_MIB,
            "runs": runs,
        }
        for engine in ("ray", "spark"):
            if {(engine, 1), (engine, 2)} <= rates.keys():
                record[f"{engine}_2_workers_to_1"] = round(rates[engine, 2] / rates[engine, 1], 2)
            if {("local", 1), (engine, 1)} <= rates.keys():
                record[f"{engine}_cost_to_local"] = round(costs[engine, 1] / costs["local", 1], 2)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")
    heavy = [found["engine"] for found in runs if found["peak_mib"] > LIMIT_MIB]
    if heavy:
        raise SystemExit(f"{', '.join(heavy)} took more than {LIMIT_MIB} MiB in one process")


if __name__ == "__main__":
    main()
