"""Rows of plain Python values: JSON lines, and SQLite, whose columns may hold anything.

What a column holds is found out from all of its cells. Text stays text, but for dates and times, which have no other
way of being written in these. A cell that stays is written as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from harpoon._text import shorten
from harpoon.exceptions import InvalidTable
from harpoon.io.byte_source import ByteSource
from harpoon.io.cells import ABSENT, kept
from harpoon.io.source import Chunk
from harpoon.io.text_types import TIMES, TypeInference, cast_texts

LARGEST = 2**63
LOOKED_AT = 2**14
Row = Mapping[str, Any]


class RecordSource:
    """A table of plain values, of which all rows are looked at once before they are read."""

    delimiter = ","

    def __init__(
        self,
        rows: Callable[[], Iterator[Row]],
        types: Mapping[str, pa.DataType],
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self.rows, self.declared, self.met = rows, declared or {}, set[str]()
        kinds: dict[str, set[str]] = {name: set() for name in self.declared}
        times: dict[str, TypeInference] = {}
        for part in _chunks(rows(), LOOKED_AT):
            for name in dict.fromkeys(key for row in part for key in row):
                cells = [row.get(name) for row in part]
                kinds[name] = kinds.get(name, set()) | {_kind(cell) for cell in cells}
                among = [types[name]] if types.get(name) in TIMES else () if name in types else TIMES
                texts = pa.array([cell for cell in cells if isinstance(cell, str)], type=pa.string())
                times.setdefault(name, TypeInference([name], (), among)).look({name: texts})
        texts_of = {name: survey.types[name] for name, survey in times.items()}
        found = {name: _type(kinds[name] - {""}, texts_of.get(name, pa.null())) for name in kinds}
        self.schema = pa.schema(list(found.items()))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in their order, so many at a time."""
        for part in _chunks(self.rows(), size):
            columns = [_column([row.get(f.name) for row in part], f.type) for f in self.schema]
            yield Chunk(pa.Table.from_arrays(columns, schema=self.schema), cells=partial(self._cells, part))

    def _cells(self, rows: Sequence[Row]) -> pa.Table:
        names = self.schema.names
        columns = [kept((row.get(name, ABSENT) for row in rows), self.declared.get(name, "")) for name in names]
        return pa.table(columns, names=names)


def json_lines(content: ByteSource) -> Iterator[Row]:
    """One object per line."""
    with content.complaints(), content.opened() as file:
        for number, line in enumerate(_lines(file), start=1):
            if line.strip():
                yield _object(line, f"Line {number} of {content.name}")


def _object(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidTable(f"{where} is no JSON: {error}. JSON lines hold one object per line.") from None
    if b"\\u" in line:
        _check_text(row, where)
    if not isinstance(row, dict):
        raise InvalidTable(
            f'{where} must be an object like {{"age": 31}}, got {shorten(line.decode(errors="replace"))!r}. '
            "Write one object per line."
        )
    return row


def _check_text(row: object, where: str) -> None:
    """JSON can name halves of characters, which no text holds by themselves."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start]).strip("'")
        raise InvalidTable(f"{where} has {half}, which is half of a character. Mend the text.") from None


def _lines(file: Any) -> Iterator[bytes]:  # noqa: ANN401
    left = b""
    while block := file.read(2**20):
        *lines, left = (left + block).split(b"\n")
        yield from lines
    if left:
        yield left


def _chunks(rows: Iterable[Row], size: int) -> Iterator[Sequence[Row]]:
    rows = iter(rows)
    while part := list(islice(rows, size)):
        yield part


def _kind(cell: object) -> str:
    if cell is None or cell != cell:  # NaN  # noqa: PLR0124
        return ""
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int):
        return "integer" if -LARGEST <= cell < LARGEST else "other"
    return "number" if isinstance(cell, float) else "text" if isinstance(cell, str) else "other"


def _type(kinds: set[str], text: pa.DataType) -> pa.DataType:
    if not kinds:
        return pa.null()
    if kinds == {"text"}:
        return pa.string() if pa.types.is_null(text) else text
    plain = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
    if kinds == {"integer", "number"}:
        return pa.float64()
    return plain.get(next(iter(kinds)), pa.string()) if len(kinds) == 1 else pa.string()


def _column(cells: list[Any], dtype: pa.DataType) -> pa.ChunkedArray:
    cells = [cell if _kind(cell) else None for cell in cells]
    if pa.types.is_temporal(dtype):
        return cast_texts(pa.chunked_array([pa.array(cells, type=pa.string())]), dtype, missing=())
    if pa.types.is_string(dtype):
        return pa.chunked_array([pa.array([_text(cell) for cell in cells], type=pa.string())])
    if pa.types.is_floating(dtype):
        cells = [None if cell is None else float(cell) for cell in cells]
    return pa.chunked_array([pa.array(cells, type=dtype)])


def _text(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return cell.hex() if isinstance(cell, bytes) else json.dumps(cell)
