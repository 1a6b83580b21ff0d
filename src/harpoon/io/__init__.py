"""Tables in files, on standard streams and in databases: read and written part by part, so that none is too large.

| where | written |
|---|---|
| CSV, TSV | `rows.csv`, `rows.tsv`, `rows.txt` |
| Parquet | `rows.parquet`, `rows.pq` |
| Arrow, Feather | `rows.arrow`, `rows.feather`, `rows.ipc` |
| JSON lines | `rows.jsonl`, `rows.ndjson` |
| any of these packed | `rows.csv.gz` |
| standard streams | `-` |
| DuckDB, SQLite | `duckdb:///file.db#table`, `sqlite:///file.db#table`; `duckdb:////absolute/file.db#table` |

    >>> import pyarrow as pa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/rows.csv.gz", pa.table({"code": ["007", "012"], "price": [1.5, None]}))
    ...     read(f"{folder}/rows.csv.gz").to_pydict()
    {'code': ['007', '012'], 'price': [1.5, None]}

A file is written beside its place and moved there when it is whole; a table of a database in one transaction. What is
there already is only replaced on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from harpoon._text import closest_matches, format_list
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.io import database, writers
from harpoon.io.byte_source import ByteSource
from harpoon.io.columnar import ArrowSource, ParquetSource
from harpoon.io.delimited import DelimitedSource
from harpoon.io.json_lines import RecordSource, json_lines
from harpoon.io.location import Location
from harpoon.io.source import Chunk, ReadOptions, Source
from harpoon.io.writers import Writer, check_free

__all__ = [
    "Chunk",
    "Location",
    "ReadOptions",
    "Source",
    "Writer",
    "check_free",
    "open_source",
    "open_writer",
    "read_batches",
    "read_table",
    "write_table",
]


AnyLocation = str | os.PathLike[str] | Location
ROWS = 2**16
SIGNS = {b"PAR1": "parquet", b"ARROW1": "arrow"}
FOREIGN = {
    b"PK\x03\x04": "a zip or Excel file. Save the sheet as CSV",
    b"SQLite format 3": "a SQLite database. Name its table: sqlite:///file.db#table",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
}


@contextmanager
def open_source(source: AnyLocation, options: ReadOptions | None = None) -> Iterator[Source]:
    """A table to read part by part: its `schema`, and its `parts`."""
    place, options = Location.parse(source), options or ReadOptions()
    with ExitStack() as stack:
        yield database.source(place, options, stack) if place.in_database else _of_bytes(place, options, stack)


def read_table(
    source: AnyLocation, columns: Sequence[str] | None = None, *, options: ReadOptions | None = None
) -> pa.Table:
    """A whole table.

    Args:
        source: Where it is.
        columns: Those to keep; all by default.
        how: Delimiter, encoding and the like, where they should not be found out.
    """
    with open_source(source, options) as table:
        _check_columns(columns or (), table.schema.names)
        kept = list(table.schema.names if columns is None else columns)
        parts = [part.table.select(kept) for part in table.chunks(ROWS)]
        return pa.concat_tables(parts) if parts else table.schema.empty_table().select(kept)


def read_batches(source: AnyLocation, size: int = ROWS, *, options: ReadOptions | None = None) -> Iterator[pa.Table]:
    """A table, `size` rows at a time. All parts have the same types."""
    with open_source(source, options) as table:
        for part in table.chunks(size):
            yield part.table


@contextmanager
def open_writer(
    target: AnyLocation,
    force: bool = False,  # noqa: FBT001, FBT002
    *,
    format: str = "",  # noqa: A002
    delimiter: str = ",",
) -> Iterator[Writer]:
    """Somewhere to `write` a table to, part by part.

    Args:
        target: Where it goes.
        force: Whether to replace what is there.
        format: "csv", "tsv", "parquet", "arrow" or "jsonl", where the name does not tell.
        delimiter: Between the cells of a CSV file.
    """
    with writers.writer(Location.parse(target).to_write(format), force=force, delimiter=delimiter) as made:
        yield made


def write_table(target: AnyLocation, table: pa.Table, force: bool = False, **how: Any) -> None:  # noqa: ANN401, FBT001, FBT002
    """Write a whole table; the options are those of `writer`."""
    with open_writer(target, force, **how) as made:
        made.write(table)


def _of_bytes(place: Location, how: ReadOptions, stack: ExitStack) -> Source:
    content = ByteSource(place, stack)
    sign = next((format_ for start, format_ in SIGNS.items() if content.head.startswith(start)), "")
    if sign:
        return ParquetSource(content, stack) if sign == "parquet" else ArrowSource(content, stack)
    foreign = next((what for start, what in FOREIGN.items() if content.head.startswith(start)), "")
    if content.head[8:9] == b"{" and b"harpoon" in content.head[:200]:
        foreign = "a model. Where a command takes a model and a table, the model comes first"
    if foreign or place.format in SIGNS.values():
        raise InvalidTable(f"{content.name} is {foreign or f'no {place.format.title()} file, whatever its name says'}.")
    if place.format == "jsonl" or (not place.format and content.head.lstrip().startswith(b"{")):
        return RecordSource(lambda: json_lines(content), how.types)
    return DelimitedSource(content, how, delimiter="\t" if place.format == "tsv" else None)


def _check_columns(columns: Sequence[str], there: Sequence[str]) -> None:
    for name in columns:
        if name not in there:
            near = closest_matches(name, there)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(there)}."
            raise InvalidOption(f"The table has no column {name!r}. {hint}")
