"""What every worker shares: to read a job, to answer it, and to end together with whoever asked.

Workers run in environments without Harpoon; this file and they import nothing of it.
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
        folder: Where everything is.
        columns: What the schema says of each column that the tables have.
        settings: What is asked: a task, its options, a seed and perhaps a number of seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        columns = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["columns"]
        self.columns: list[dict[str, Any]] = columns

    @property
    def discrete(self) -> list[str]:
        """The columns that hold positions of labels."""
        return [c["name"] for c in self.columns if c["kind"] in ("category", "boolean")]

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables: numbers only, a label as its position, a hole as NaN."""
        return pd.read_csv(self.folder / f"{name}.csv", dtype=str).astype("float64")

    def answer(self, table: pd.DataFrame, note: str = "") -> None:
        """Write the result, and what a reader of it must know."""
        table.to_csv(self.folder / "result.csv", index=False)
        self.remark(note)

    def remark(self, note: str) -> None:
        """Write what a reader of the result must know."""
        (self.folder / "note.txt").write_text(note, encoding="utf-8")


def work(do: Callable[[Job], None]) -> NoReturn:
    """Do the job whose folder is the first argument, and end at once: with 0, or with 1 and a traceback."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        do(Job(Path(sys.argv[1])))
    except BaseException:  # noqa: BLE001 - whatever it is, the last line of it is what the parent shows
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _end_with_parent() -> None:
    """The standard input is a pipe from the parent: when it closes, nobody waits for an answer any more."""
    sys.stdin.buffer.read()
    if os.name != "nt":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
