"""Shared part of the workers: read a job, write its result, end with the parent process.

Workers run in environments without Harpoon, so neither this file nor they import it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd


class Job:
    """A folder with a schema, settings and tables.

    Attributes:
        folder: The folder of the job.
        columns: The columns of the tables, as in the schema.
        settings: The task, its options, a seed and the most seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        columns = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["columns"]
        self.columns: list[dict[str, Any]] = columns

    @property
    def discrete(self) -> list[str]:
        """The columns whose numbers are indices of categories."""
        return [c["name"] for c in self.columns if c["kind"] in ("category", "boolean")]

    def table(self, name: str) -> pd.DataFrame:
        """Read a table of numbers: a category is its index, a missing cell is NaN."""
        return pd.read_csv(self.folder / f"{name}.csv", dtype=str).astype("float64")

    def write_result(self, table: pd.DataFrame, note: str = "") -> None:
        """Write the result and a remark about it."""
        table.to_csv(self.folder / "result.csv", index=False)
        self.write_note(note)

    def write_note(self, note: str) -> None:
        """Write a remark for readers of the result."""
        (self.folder / "note.txt").write_text(note, encoding="utf-8")


def run(task: Callable[[Job], None]) -> NoReturn:
    """Do the job whose folder is the first argument; exit with 0, or with 1 and a traceback."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        task(Job(Path(sys.argv[1])))
    except BaseException:  # noqa: BLE001 - the parent shows the last line of any traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _end_with_parent() -> None:
    """Kill this process when the standard input closes, which is a pipe from the parent."""
    sys.stdin.buffer.read()
    if os.name != "nt":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
