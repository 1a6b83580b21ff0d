"""Throughput, latency and memory growth of `harpoon serve`.

    python benchmarks/scripts/serve.py --model FILE [--seconds 10] [--output FILE]

The script starts a server on a free port. 1, 8 and 32 clients request 20 rows at a time, in a closed loop, for
`--seconds` each. Then 2,000 more requests of several kinds follow, a tenth of them garbage and a tenth abandoned, and
the memory before and after is compared. Clients and server share the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from common import RESULTS, write_record
from harpoon_bench.machine import versions

CLIENTS = (1, 8, 32)
REQUESTS, ROWS_PER_REQUEST = 2000, 20
HEADERS = {"Content-Type": "application/json"}


@contextmanager
def start_server(model: Path) -> Iterator[tuple[int, int]]:
    """Start a server; yield its port and its process id."""
    command = [sys.executable, "-c", "from harpoon.apps.cli import main; main()", "serve", str(model), "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as server:  # noqa: S603
            try:
                while not (found := re.search(r"http://[^:]+:(\d+)/", log.read_text())):
                    sleep(0.1)
                yield int(found[1]), server.pid
            finally:
                server.terminate()


def post(connection: HTTPConnection, path: str, body: dict[str, Any]) -> int:
    """Send a request and return the status of the response."""
    connection.request("POST", path, json.dumps(body), HEADERS)
    response = connection.getresponse()
    response.read()
    return response.status


def run_client(port: int, seconds: float, seed: int) -> tuple[list[float], Counter[int]]:
    """Send requests in a closed loop; return the latencies and the statuses."""
    connection, latencies, statuses = HTTPConnection("127.0.0.1", port), list[float](), Counter[int]()
    end = perf_counter() + seconds
    while (began := perf_counter()) < end:
        statuses[post(connection, "/sample", {"n": ROWS_PER_REQUEST, "seed": seed + len(latencies)})] += 1
        latencies.append(perf_counter() - began)
    connection.close()
    return latencies, statuses


def measure_load(port: int, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """Measure several clients at once; CPU time per request is independent of other load on the machine."""
    before, began = cpu_seconds(pid), perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(lambda index: run_client(port, seconds, index * 10**6), range(clients)))
    elapsed, latencies = perf_counter() - began, [latency for found, _ in done for latency in found]
    statuses = sum((found for _, found in done), Counter[int]())
    return {
        "requests": len(latencies),
        "requests_per_second": round(len(latencies) / elapsed, 1),
        "median_ms": round(1000 * float(np.median(latencies)), 1),
        "p95_ms": round(1000 * float(np.quantile(latencies, 0.95)), 1),
        "cpu_ms": round(1000 * (cpu_seconds(pid) - before) / len(latencies), 1),
        "statuses": {str(status): count for status, count in statuses.items()},
    }


def send_mixed(port: int, index: int) -> None:
    """Send garbage, abandon a request, sample, impute or check a condition, by the index."""
    connection, kind = HTTPConnection("127.0.0.1", port), index % 10
    if kind == 0:
        connection.request("POST", "/impute", os.urandom(5000), {"Content-Type": "text/csv"})
        connection.getresponse().read()
    elif kind == 1:
        connection.request("POST", "/sample", json.dumps({"n": 2000}), HEADERS)
    elif kind < 5:
        post(connection, "/sample", {"n": ROWS_PER_REQUEST, "seed": index})
    elif kind < 8:
        post(connection, "/impute", {"rows": [{}]})
    else:
        post(connection, "/condition", {"where": f"unknown_column >= {index}"})
    connection.close()


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024, 1)


def measure_memory(port: int, pid: int) -> dict[str, Any]:
    """Measure the memory before and after many requests of 8 clients, after a warm-up."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda index: send_mixed(port, index), range(80)))
        mib = [resident_mib(pid)]
        for start in range(0, REQUESTS, REQUESTS // 4):
            list(pool.map(lambda index: send_mixed(port, index), range(start, start + REQUESTS // 4)))
            mib.append(resident_mib(pid))
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return {"requests": REQUESTS, "mib": mib, "growth_mib": round(mib[-1] - mib[0], 1), "threads": threads}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--output", type=Path, default=RESULTS / "serve.json")
    arguments = parser.parse_args()

    with start_server(arguments.model) as (port, pid):
        run_client(port, arguments.seconds / 2, seed=0)  # warm-up
        record = {
            "script": "benchmarks/scripts/serve.py",
            "model": arguments.model.stem,
            "rows_per_request": ROWS_PER_REQUEST,
            "cores": len(os.sched_getaffinity(0)),
            "clients": {str(clients): measure_load(port, pid, clients, arguments.seconds) for clients in CLIENTS},
            "memory": measure_memory(port, pid),
            "versions": versions(),
        }
    write_record(record, arguments.output)


if __name__ == "__main__":
    main()
