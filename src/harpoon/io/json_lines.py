"""JSON lines, and tables of plain Python values in general (`RecordSource`), which SQLite uses too.

Such tables do not declare the type of a column, so it is inferred from all cells. Text stays text, except for dates and
times. Lists, objects and integers beyond 64 bits become JSON texts. Their field is marked with `JSON_FIELD`, and the
JSON lines writer writes them back as the values they were.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any

import pyarrow as pa

from harpoon._formatting import format_list, shorten
from harpoon.data import MAX_EXACT_INTEGER
from harpoon.data.frame_metadata import JSON_FIELD
from harpoon.exceptions import InvalidTable, MixedTypesWarning, warn
from harpoon.io.byte_source import ByteSource
from harpoon.io.source import Chunk, ReadOptions, Source
from harpoon.io.text_types import TIME_TYPES, TypeInference, cast_texts, plain_values, warn_of_offsets

INT64_END = 2**63
READ_BYTES = 2**20  # at a time
SCAN_ROWS = 2**14  # rows at a time, to infer types
Record = Mapping[str, Any]


class RecordSource(Source):
    """A table of records, which `records()` starts to read. All are read once to infer types that are not in `types`.

    `columns` exist even if no record has them. `lossy` columns hold values of several types, and are read as one type
    that does not distinguish them.
    """

    def __init__(
        self, records: Callable[[], Iterator[Record]], types: Mapping[str, pa.DataType], columns: Iterable[str] = ()
    ) -> None:
        self.records = records
        kinds: dict[str, set[str]] = {name: set() for name in columns}
        times: dict[str, TypeInference] = {}
        for rows in _batches(records(), SCAN_ROWS):
            for name in dict.fromkeys(key for row in rows for key in row):
                cells = [row.get(name) for row in rows]
                kinds[name] = kinds.get(name, set()) | {_kind(cell) for cell in cells}
                is_time = name in types and (types[name] in TIME_TYPES or pa.types.is_timestamp(types[name]))
                known = [types[name]] if is_time else () if name in types else TIME_TYPES
                texts = pa.array([cell for cell in cells if isinstance(cell, str)], type=pa.string())
                times.setdefault(name, TypeInference([name], (), known)).update({name: texts})
        self.times = times
        text_types = {name: inference.types[name] for name, inference in times.items()}
        self.lossy = [name for name, found in kinds.items() if _is_lossy(found - {""})]
        fields = [_field(name, found - {""}, text_types.get(name, pa.null())) for name, found in kinds.items()]
        self.schema = pa.schema(fields)

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        for rows in _batches(islice(self.records(), row_offset, None), size):
            columns = [_column([row.get(f.name) for row in rows], f.type) for f in self.schema]
            yield Chunk(pa.Table.from_arrays(columns, schema=self.schema))


class JsonLinesWriter:
    """One JSON object per line, with dates and times in ISO format."""

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        self.sink = sink

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        keys = [to_json(name) for name in table.column_names]
        columns = [self._encode(f, column) for f, column in zip(table.schema, table.columns, strict=True)]
        for cells in zip(*columns, strict=True):
            pairs = (key + b": " + cell for key, cell in zip(keys, cells, strict=True))
            self.sink.write(b"{" + b", ".join(pairs) + b"}\n")

    @staticmethod
    def _encode(f: pa.Field, column: pa.ChunkedArray) -> list[bytes]:
        if JSON_FIELD.items() <= (f.metadata or {}).items():
            return [b"null" if text is None else text.encode() for text in column.to_pylist()]
        return [to_json(value) for value in plain_values(column)]


def open_json_lines(content: ByteSource, options: ReadOptions, _stack: ExitStack) -> RecordSource:
    """Open a file with one JSON object per line."""
    source = RecordSource(lambda: _objects(content), options.types)
    warn_if_lossy(source, content.name)
    return source


def warn_if_lossy(source: RecordSource, name: str) -> None:
    """Warn of columns whose values are not all kept as they are."""
    for inference in source.times.values():
        warn_of_offsets(inference, name)
    if source.lossy:
        message = (
            f"{name} holds values of several types in {format_list(source.lossy)}, such as 1 and '1'. They are read as "
            "one type, and written as that."
        )
        warn(MixedTypesWarning(message, code="mixed_types", name=name, columns=source.lossy))


def to_json(value: object) -> bytes:
    """Encode a value as standard JSON, which has no NaN, no infinity and no bytes: null and hex digits.

    >>> [to_json(value) for value in (1.5, float("nan"), b"1", Decimal("1.50"), [1, float("inf")])]
    [b'1.5', b'null', b'"31"', b'1.50', b'[1, null]']
    """
    if isinstance(value, Decimal):
        return format(value, "f").encode() if value.is_finite() else b"null"
    if isinstance(value, float) and not isfinite(value):
        return b"null"
    try:
        return _dump(value, allow_nan=False)
    except ValueError:  # within a list or a structure
        return _dump(json.loads(_dump(value), parse_constant=lambda _: None))


def _dump(value: object, *, allow_nan: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_nested_value, allow_nan=allow_nan).encode()


def _nested_value(value: object) -> object:
    """Convert a value that JSON does not have, within a list or a structure."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _objects(content: ByteSource) -> Iterator[Record]:
    with content.translate_errors(), content.open() as file:
        for number, line in enumerate(io.BufferedReader(file, READ_BYTES), start=1):
            if line.strip():
                yield _object(line.rstrip(b"\n"), f"Line {number} of {content.name}")


def _object(line: bytes, where: str) -> Record:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidTable(f"{where} is not JSON: {error}. JSON lines hold one object per line.") from None
    if b"\\u" in line:
        _check_text(row, where)
    if not isinstance(row, dict):
        raise InvalidTable(
            f'{where} must be an object like {{"age": 31}}, got {shorten(line.decode(errors="replace"))!r}. '
            "Write one object per line."
        )
    return row


def _check_text(row: object, where: str) -> None:
    """Raise InvalidTable for an unpaired surrogate, which JSON can spell but no text can hold."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start]).strip("'")
        raise InvalidTable(f"{where} has {half}, which is half of a character. Fix the text.") from None


def _batches(records: Iterator[Record], size: int) -> Iterator[Sequence[Record]]:
    while batch := list(islice(records, size)):
        yield batch


def _kind(cell: object) -> str:
    """Return the kind of a cell; empty if it is missing."""
    if cell is None or cell != cell:  # NaN  # noqa: PLR0124
        return ""
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int):
        return "integer" if abs(cell) <= MAX_EXACT_INTEGER else "long" if -INT64_END <= cell < INT64_END else "json"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_EXACT_INTEGER:
        return "whole"
    return {float: "float", str: "text", bytes: "bytes"}.get(type(cell), "json")


def _is_lossy(kinds: set[str]) -> bool:
    """Whether values of these kinds cannot all be kept in one column."""
    return kinds >= {"long", "float"} or (len(kinds) > 1 and bool(kinds & {"text", "bytes"}))


def _field(name: str, kinds: set[str], text_type: pa.DataType) -> pa.Field:
    """Return the type of a column with cells of these kinds; a JSON text if no other type holds them."""
    if not kinds:
        return pa.field(name, pa.null())
    if kinds == {"text"}:
        return pa.field(name, pa.string() if pa.types.is_null(text_type) else text_type)
    if kinds <= {"integer", "long", "whole", "float"}:
        is_float = "float" in kinds or ("whole" in kinds and "long" not in kinds)  # 1.0 beside 2**60 is an integer
        return pa.field(name, pa.float64() if is_float else pa.int64())
    if kinds in ({"boolean"}, {"bytes"}):
        return pa.field(name, pa.bool_() if kinds == {"boolean"} else pa.binary())
    return pa.field(name, pa.string(), metadata=None if kinds & {"text", "bytes"} else JSON_FIELD)


def _column(cells: list[Any], dtype: pa.DataType) -> pa.ChunkedArray:
    cells = [cell if _kind(cell) else None for cell in cells]
    if pa.types.is_temporal(dtype):
        return cast_texts(pa.chunked_array([pa.array(cells, type=pa.string())]), dtype, missing=())
    if pa.types.is_string(dtype):
        return pa.chunked_array([pa.array([_text(cell) for cell in cells], type=pa.string())])
    if pa.types.is_floating(dtype):
        cells = [None if cell is None else float(cell) for cell in cells]
    if pa.types.is_integer(dtype):
        cells = [None if cell is None else int(cell) for cell in cells]
    return pa.chunked_array([pa.array(cells, type=dtype)])


def _text(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return cell.hex() if isinstance(cell, bytes) else to_json(cell).decode()
