"""Isolated virtual environments for baselines whose packages conflict with ours, and jobs that run in them.

An environment is created on first use in the cache, or in the folder named by `HARPOON_ENVIRONMENTS`. Its name has a
digest of its requirements, so changed requirements make a new environment.

A job is a folder: `schema.json`, `settings.json` and tables as CSV, in which a category is its index in the schema. A
worker is one Python file without Harpoon. It gets the folder as its argument and writes its result there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pandas as pd
from filelock import FileLock
from rich.console import Console
from rich.markup import escape

from harpoon import Schema
from harpoon._formatting import shorten
from harpoon.exceptions import HarpoonError
from harpoon_bench.cache import cache_folder

ENVIRONMENTS_VARIABLE = "HARPOON_ENVIRONMENTS"
READY_MARK = "ready"
ISOLATED_PYTHON = ("-E", "-s")  # ignores PYTHONPATH and the packages of the user
OUTPUT_LINES_SHOWN = 12
MAX_REASON_LENGTH = 300
PACKAGE_FOLDER = Path(str(resources.files("harpoon_bench")))
WORKERS_FOLDER = PACKAGE_FOLDER / "workers"


class EnvironmentFailed(HarpoonError, RuntimeError):
    """An environment could not be created."""


class WorkerFailed(HarpoonError, RuntimeError):
    """A worker ended with an error, or its result cannot be used."""


class OutOfTime(HarpoonError, TimeoutError):
    """A worker exceeded its time limit."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        name: Its name, in messages and in the name of its folder.
        requirements: The text of a requirements file. torch must be pinned, or pip fetches a CUDA build.

    >>> Environment("bare").folder.name.startswith("bare-")
    True
    """

    name: str
    requirements: str = ""

    @classmethod
    def named(cls, name: str) -> Environment:
        """Return an environment of `environment_specs`."""
        return cls(name, (PACKAGE_FOLDER / "environment_specs" / f"{name}.txt").read_text(encoding="utf-8"))

    @property
    def packages(self) -> list[str]:
        """The requirements without comments."""
        lines = (line.strip() for line in self.requirements.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    @property
    def digest(self) -> str:
        """A digest of the packages and of the Python version."""
        key = "\n".join([str(sys.implementation.cache_tag), *self.packages])
        return hashlib.sha256(key.encode()).hexdigest()[:12]

    @property
    def folder(self) -> Path:
        """The folder of the environment."""
        return environments_folder() / f"{self.name}-{self.digest}"

    @property
    def ready(self) -> bool:
        """Whether it has been created completely."""
        return (self.folder / READY_MARK).exists()

    def python(self) -> Path:
        """Return its interpreter. The first call creates the environment; concurrent calls wait for it."""
        if not self.ready:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder.with_name(f"{self.folder.name}.lock")):
                if not self.ready:
                    self._create()
        return _interpreter(self.folder)

    def _create(self) -> None:
        # A folder without the mark is from an interrupted process.
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            with _status_line(f"Creating the environment {self.name!r} (once, may take minutes)") as show:
                for command in self._commands():
                    self._run(command, show)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        (self.folder / READY_MARK).touch()

    def _commands(self) -> Iterator[list[str]]:
        """Yield the commands that create it; without packages, without pip."""
        venv = [sys.executable, *ISOLATED_PYTHON, "-m", "venv"]
        yield [*venv, *([] if self.packages else ["--without-pip"]), str(self.folder)]
        if self.packages:
            pip = [str(_interpreter(self.folder)), *ISOLATED_PYTHON, "-m", "pip"]
            yield [*pip, "install", "--no-input", "--disable-pip-version-check", *self.packages]

    def _run(self, command: list[str], show: Callable[[str], None]) -> None:
        """Run a command and show its output; raise EnvironmentFailed if it fails."""
        last: deque[str] = deque(maxlen=OUTPUT_LINES_SHOWN)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
            for line in process.stdout or ():
                last.append(line.rstrip())
                show(last[-1])
        if process.returncode:
            tool = command[command.index("-m") + 1]
            raise EnvironmentFailed(
                f"The environment {self.name!r} could not be created in {self.folder}: {tool} ended with "
                f"{process.returncode}. Check that pip can reach its package index and that the disk has space, then "
                f"try again; {ENVIRONMENTS_VARIABLE} names another folder. Its last lines:\n" + "\n".join(last)
            )


def environments_folder() -> Path:
    """Return the folder of all environments."""
    chosen = os.environ.get(ENVIRONMENTS_VARIABLE)
    return Path(chosen) if chosen else cache_folder("environments")


def run_worker(
    environment: Environment,
    worker: Path,
    job: Path,
    settings: Mapping[str, object],
    *,
    title: str = "The worker",
    seconds: float | None = None,
) -> None:
    """Run a worker on a job.

    Args:
        environment: The environment of the worker, created if needed.
        worker: The file of the worker.
        job: The folder of the job.
        settings: The content of `settings.json`.
        title: The name of the worker in errors.
        seconds: The time limit; then the worker and every process that it started are killed.
    """
    python = environment.python()
    (job / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    errors = job / "errors.txt"
    with errors.open("wb") as stderr:
        # The worker watches the pipe, to end when this process ends.
        process = subprocess.Popen(  # noqa: S603
            [str(python), *ISOLATED_PYTHON, str(worker), str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise OutOfTime(f"{title} did not finish within {seconds:g} seconds. Raise the budget.") from None
        finally:
            _kill(process)
    if process.returncode:
        raise WorkerFailed(f"{title} failed in its environment {environment.name!r}: {_reason(process, errors)}")


def encode_table(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return the modelled columns as numbers: a category as its index in the schema, a missing cell as NaN.

    >>> table = pd.DataFrame({"age": [30, 40], "job": ["nurse", None]})
    >>> schema = Schema.infer(pd.DataFrame({"age": [30, 40, 41], "job": ["chef", "nurse", "chef"]}))
    >>> encode_table(table, schema)["job"].tolist()
    [1.0, nan]
    """
    index = {c.name: {category: i for i, category in enumerate(c.categories or ())} for c in schema.modelled}
    return pd.DataFrame(
        {
            c.name: (table[c.name].astype(object).map(index[c.name]) if c.kind.discrete else table[c.name])
            for c in schema.modelled
        },
        dtype="float64",
    )


def decode_table(numbers: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Invert `encode_table`; an index is rounded to the nearest category."""
    return pd.DataFrame(
        {
            c.name: (_to_categories(numbers[c.name], c.categories or ()) if c.kind.discrete else numbers[c.name])
            for c in schema.modelled
        }
    )


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write numbers as CSV without loss."""
    table.to_csv(path, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """Read numbers from CSV without loss; Python parses them exactly."""
    return pd.read_csv(path, dtype=str).astype("float64")


def _to_categories(index: pd.Series, categories: tuple[object, ...]) -> pd.Series:
    nearest = index.round().clip(0, len(categories) - 1).astype(int)
    return pd.Series([categories[i] for i in nearest], index=index.index)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker that still runs, and the processes that it started."""
    if process.stdin:
        process.stdin.close()
    if process.poll() is None:
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(process: subprocess.Popen[bytes], errors: Path) -> str:
    """Return why a worker failed: the last line of its traceback, or the signal that killed it."""
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return f"it was killed by the signal {name}. Check that there is enough memory."
    lines = errors.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed no error")
    return shorten(last, shown=MAX_REASON_LENGTH)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@contextmanager
def _status_line(title: str) -> Iterator[Callable[[str], None]]:
    """Show the last line of output on the standard error; without a terminal, the title only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(title, soft_wrap=True)
    with console.status(title) as status:
        yield lambda line: status.update(f"{title}: {escape(shorten(line.strip()))}")
