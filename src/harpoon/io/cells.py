"""Cells as they were: what JSON lines and SQLite hold, in columns of Arrow, although each cell may be of another kind.

A cell is its JSON, or a mark and the bytes of a blob, which JSON does not have. A cell that was not there at all (a
line of JSON may lack a key) is null; a null that was there is the JSON of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harpoon.io.text_types import format_texts

BLOB = b"\xff"  # no JSON starts with it
STORAGE = pa.large_binary()
NULL = b"null"


class Cells(pa.ExtensionType):  # type: ignore[misc]
    """The type of a column of cells as they were, and how SQLite had it declared."""

    def __init__(self, declared: str = "") -> None:
        self.declared = declared
        super().__init__(STORAGE, "harpoon.data.column_array")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.declared.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: pa.DataType, serialized: bytes) -> Cells:
        return cls(serialized.decode())


ABSENT = object()


def kept(values: Iterable[Any], declared: str = "") -> pa.ChunkedArray:
    """Plain values, each as it is.

    >>> plain(kept([1, "1", b"1", [1.0, None], None]))
    [1, '1', b'1', [1.0, None], None]
    """
    stored = pa.array([None if value is ABSENT else _encoded(value) for value in values], type=STORAGE)
    return pa.chunked_array([stored]).cast(Cells(declared))


def filled(new: pa.ChunkedArray, values: pa.ChunkedArray, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells as they were, and values where there are `new` ones.

    >>> new, values = pa.chunked_array([[True, False]]), pa.chunked_array([[5, 7]])
    >>> plain(filled(new, values, kept([None, "7"])))
    [5, '7']
    """
    fresh = pa.chunked_array([pa.array(as_json(values), type=STORAGE)])
    return pc.if_else(new, fresh, cells.cast(STORAGE)).cast(cells.type)


def as_json(column: pa.ChunkedArray) -> list[bytes | None]:
    """The JSON of each cell; None where there was none. JSON has no NaN, no infinity and no bytes: null and hex digits.

    >>> as_json(pa.chunked_array([[1.5, float("nan")]])), as_json(kept([b"1", ABSENT]))
    ([b'1.5', b'null'], [b'"31"', None])
    """
    if isinstance(column.type, Cells):
        stored = column.cast(STORAGE).to_pylist()
        return [dumped(c[1:]) if c is not None and c.startswith(BLOB) else c for c in stored]
    return [_strict(value) for value in plain(column)]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; dates and times as text, durations as whole numbers."""
    if isinstance(column.type, Cells):
        return [_decoded(cell or NULL) for cell in column.cast(STORAGE).to_pylist()]
    if pa.types.is_duration(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    return list((format_texts(column) if pa.types.is_temporal(column.type) else column).to_pylist())


def _encoded(value: object) -> bytes:
    return BLOB + value if isinstance(value, bytes) else dumped(value)


def _decoded(cell: bytes) -> Any:  # noqa: ANN401
    return cell[1:] if cell.startswith(BLOB) else json.loads(cell)


def dumped(value: object, **how: Any) -> bytes:  # noqa: ANN401
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=_within, **how).encode()


def _strict(value: object) -> bytes:
    """JSON as the standard has it; a decimal with all its digits."""
    if isinstance(value, Decimal):
        return format(value, "f").encode() if value.is_finite() else NULL
    if isinstance(value, float) and not isfinite(value):
        return NULL
    try:
        return dumped(value, allow_nan=False)
    except ValueError:  # within a list or a structure
        return dumped(json.loads(dumped(value), parse_constant=lambda _: None))


def _within(value: object) -> object:
    """What JSON does not have, within a list or a structure."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else str(value)
