"""The index of pandas, where it is a range.

A Parquet file has it as a note only: "counted from 100". Rows that leave their file for others have to take it along as
a column. One by one and without a name is how pandas counts the rows of a frame anyway: that is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

NOTES = b"pandas"
NAMELESS = "__index_level_0__"  # is the column of an index without a name


@dataclass(frozen=True)
class RangeIndex:
    """An index that is counted."""

    name: str
    start: int
    step: int

    @classmethod
    def of(cls, schema: pa.Schema) -> RangeIndex | None:
        """What a file says of its index, if that is a range to be kept, and no column has its name."""
        for found in _ranges(_notes(schema)):
            index = cls(str(found.get("name") or NAMELESS), int(found["start"]), int(found["step"]))
            if index.name not in schema.names and (index.name, index.step) != (NAMELESS, 1):
                return index
        return None

    def column(self, first_row: int, rows: int) -> pa.Array:
        """The index of rows of the file."""
        return pa.array(self.start + self.step * np.arange(first_row, first_row + rows))


def counted_out(schema: pa.Schema) -> pa.Schema:
    """The columns with that of the index, and what pandas has to know of it.

    >>> notes = {"index_columns": [{"kind": "range", "name": "key", "start": 5, "stop": 8, "step": 1}], "columns": []}
    >>> counted_out(pa.schema([("x", pa.int8())], {NOTES: json.dumps(notes)})).names
    ['x', 'key']
    """
    notes, index = _notes(schema), RangeIndex.of(schema)
    if not _ranges(notes):
        return schema
    notes["index_columns"] = []
    if index is not None:
        schema = schema.append(pa.field(index.name, pa.int64()))
        kind = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
        notes["index_columns"] = [index.name]
        name = None if index.name == NAMELESS else index.name
        notes["columns"] = [*notes.get("columns", []), {"name": name, "field_name": index.name, **kind}]
    return schema.with_metadata({**(schema.metadata or {}), NOTES: json.dumps(notes).encode()})


def _ranges(notes: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for found in notes.get("index_columns", []) if isinstance(found, dict)]


def _notes(schema: pa.Schema) -> dict[str, Any]:
    """What pandas has noted in a file; nothing if it was somebody else."""
    try:
        found = json.loads((schema.metadata or {}).get(NOTES, b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
