"""Jobs for workers that run in an environment of their own, and know nothing of Harpoon.

A job is a folder: `schema.json`, `settings.json` and tables as CSV, in which a label stands as its position in the
schema. A worker is one file; it is started with the folder as its argument and writes its answer there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pandas as pd

from harpoon._text import shorten
from harpoon.data.schema import Schema
from harpoon.exceptions import HarpoonError
from harpoon_bench.environments import PYTHON_ALONE, Environment

WORKERS = Path(str(resources.files("harpoon_bench"))) / "workers"
LONGEST_LINE = 300


class WorkerFailed(HarpoonError, RuntimeError):
    """A worker ended with an error, or with an answer that cannot be used."""


class OutOfTime(HarpoonError, TimeoutError):
    """A worker took longer than it was given."""


def run(
    environment: Environment,
    worker: Path,
    job: Path,
    settings: Mapping[str, object],
    *,
    title: str = "The worker",
    seconds: float | None = None,
) -> None:
    """Let a worker do a job.

    Args:
        environment: Where it runs; made now if need be.
        worker: Its file.
        job: The folder that it reads and writes.
        settings: What it finds in `settings.json`.
        title: What errors call it.
        seconds: After this time the worker ends, with every process that it started.
    """
    python = environment.python()
    (job / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    errors = job / "errors.txt"
    with errors.open("wb") as stderr:
        # The pipe tells the worker when nobody waits for it any more.
        process = subprocess.Popen(  # noqa: S603
            [str(python), *PYTHON_ALONE, str(worker), str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise OutOfTime(
                f"{title} was given {seconds:g} seconds and was not done; raise the budget, or ask for less."
            ) from None
        finally:
            _end(process)
    if process.returncode:
        raise WorkerFailed(f"{title} failed in its environment {environment.name!r}: {_reason(process, errors)}")


def encoded(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The modelled columns as numbers: a label is its position in the schema, a hole stays one.

    >>> table = pd.DataFrame({"age": [30, 40], "job": ["nurse", None]})
    >>> schema = Schema.infer(pd.DataFrame({"age": [30, 40, 41], "job": ["chef", "nurse", "chef"]}))
    >>> encoded(table, schema)["job"].tolist()
    [1.0, nan]
    """
    positions = {c.name: {label: i for i, label in enumerate(c.categories or ())} for c in schema.modelled}
    return pd.DataFrame(
        {
            c.name: (table[c.name].astype(object).map(positions[c.name]) if c.kind.discrete else table[c.name])
            for c in schema.modelled
        },
        dtype="float64",
    )


def decoded(numbers: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Back from numbers: labels by the nearest position, numeric columns as they are."""
    return pd.DataFrame(
        {
            c.name: (_labels(numbers[c.name], c.categories or ()) if c.kind.discrete else numbers[c.name])
            for c in schema.modelled
        }
    )


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Numbers as CSV, each with all its digits."""
    table.to_csv(path, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """Back from `write_table`, exactly, as texts that Python reads."""
    return pd.read_csv(path, dtype=str).astype("float64")


def _labels(positions: pd.Series, labels: tuple[object, ...]) -> pd.Series:
    nearest = positions.round().clip(0, len(labels) - 1).astype(int)
    return pd.Series([labels[i] for i in nearest], index=positions.index)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a worker that still runs, and what it started."""
    if process.stdin:
        process.stdin.close()
    if process.poll() is None:
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(process: subprocess.Popen[bytes], errors: Path) -> str:
    """Why a worker failed: the last line of its traceback, or the signal that ended it."""
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return f"it was ended by the signal {name}, as happens when memory runs out."
    lines = errors.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it did not say why")
    return shorten(last, shown=LONGEST_LINE)
