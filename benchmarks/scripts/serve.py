"""How many requests `harpoon serve` answers, how quickly, and whether its memory stays as it is.

    python benchmarks/serve.py --model FILE [--seconds 10] [--output FILE]

A server of its own is started on a free port of this machine. 1, 8 and 32 clients ask for 20 rows at a time, each as
soon as it has its last answer, for `--seconds` each. Then there are 2,000 more requests of several kinds, a tenth of
them garbage and a tenth given up half-way, and the memory before and after is compared. Clients and server share the
cores.
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

from records import HERE, versions

CLIENTS = (1, 8, 32)
REQUESTS, ROWS = 2000, 20
HEADERS = {"Content-Type": "application/json"}


@contextmanager
def serving(model: Path) -> Iterator[tuple[int, int]]:
    """A server: its port, and the number of its process."""
    command = [sys.executable, "-c", "from harpoon.apps.cli import main; main()", "serve", str(model), "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as told, subprocess.Popen(command, stderr=told) as server:  # noqa: S603
            try:
                while not (found := re.search(r"http://[^:]+:(\d+)/", log.read_text())):
                    sleep(0.1)
                yield int(found[1]), server.pid
            finally:
                server.terminate()


def asked(connection: HTTPConnection, path: str, question: dict[str, Any]) -> int:
    """Ask; the status of the answer."""
    connection.request("POST", path, json.dumps(question), HEADERS)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def client(port: int, seconds: float, seed: int) -> tuple[list[float], Counter[int]]:
    """One that asks again and again: how long each answer took, and what came."""
    connection, took, statuses = HTTPConnection("127.0.0.1", port), list[float](), Counter[int]()
    end = perf_counter() + seconds
    while (began := perf_counter()) < end:
        statuses[asked(connection, "/sample", {"n": ROWS, "seed": seed + len(took)})] += 1
        took.append(perf_counter() - began)
    connection.close()
    return took, statuses


def load(port: int, process: int, clients: int, seconds: float) -> dict[str, Any]:
    """Many clients at once. What the server's own work takes does not depend on who else uses the machine."""
    before, began = worked(process), perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(lambda number: client(port, seconds, number * 10**6), range(clients)))
    elapsed, took = perf_counter() - began, [one for times, _ in done for one in times]
    statuses = sum((counted for _, counted in done), Counter[int]())
    return {
        "requests": len(took),
        "per_second": round(len(took) / elapsed, 1),
        "median_ms": round(1000 * float(np.median(took)), 1),
        "p95_ms": round(1000 * float(np.quantile(took, 0.95)), 1),
        "work_ms": round(1000 * (worked(process) - before) / len(took), 1),
        "statuses": {str(status): number for status, number in statuses.items()},
    }


def one_of_many(port: int, number: int) -> None:
    """A request: garbage, one that is given up, for rows, to fill a row, or about a condition."""
    connection, kind = HTTPConnection("127.0.0.1", port), number % 10
    if kind == 0:
        connection.request("POST", "/impute", os.urandom(5000), {"Content-Type": "text/csv"})
        connection.getresponse().read()
    elif kind == 1:
        connection.request("POST", "/sample", json.dumps({"n": 2000}), HEADERS)
    elif kind < 5:
        asked(connection, "/sample", {"n": ROWS, "seed": number})
    elif kind < 8:
        asked(connection, "/impute", {"rows": [{}]})
    else:
        asked(connection, "/condition", {"where": f"nobody_knows >= {number}"})
    connection.close()


def worked(process: int) -> float:
    """The seconds of a core that a process has had."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(process: int) -> float:
    """The memory that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    return round(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024, 1)


def memory(port: int, process: int) -> dict[str, Any]:
    """The memory before and after many requests, by 8 clients; what is loaded on first use is there before."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: one_of_many(port, number), range(80)))
        found = [megabytes(process)]
        for start in range(0, REQUESTS, REQUESTS // 4):
            list(pool.map(lambda number: one_of_many(port, number), range(start, start + REQUESTS // 4)))
            found.append(megabytes(process))
    threads = len(list(Path(f"/proc/{process}/task").iterdir()))
    return {"requests": REQUESTS, "megabytes": found, "growth": round(found[-1] - found[0], 1), "threads": threads}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "serve.json")
    arguments = parser.parse_args()

    with serving(arguments.model) as (port, process):
        client(port, arguments.seconds / 2, seed=0)  # what is loaded once is not timed
        record = {
            "script": "benchmarks/serve.py",
            "model": arguments.model.stem,
            "rows_per_request": ROWS,
            "cores": len(os.sched_getaffinity(0)),
            "clients": {str(clients): load(port, process, clients, arguments.seconds) for clients in CLIENTS},
            "memory": memory(port, process),
            "versions": versions(),
        }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
