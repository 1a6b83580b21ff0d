"""Tables of SQLite, whose columns may hold anything: numbers, text and bytes. Dates and times are text there.

A file of SQLite is not written to while others read it. So a new table is made in a database of its own, which SQLite
keeps in a temporary file, and goes where it belongs at the end.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa

from harpoon.exceptions import TableFileError
from harpoon.io import table_names
from harpoon.io.cells import Cells, dumped, plain
from harpoon.io.json_lines import LARGEST, RecordSource, Row
from harpoon.io.location import Location
from harpoon.io.source import ReadOptions, Source, check_names
from harpoon.io.table_names import TableName, quoted

PATIENCE = 60  # seconds that a finished table waits for others to let go of the file
TYPES = {pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}
DECLARATION = re.compile(r"[\w ]+(\([\d, ]+\))?", re.ASCII)
Complaint = Callable[[str, object], TableFileError]


class SQLiteWriter:
    """Rows on their way into a new table."""

    def __init__(self, connection: sqlite3.Connection, place: Location) -> None:
        self.connection, self.place, self.columns = connection, place, ""

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        columns = [[_stored(value) for value in plain(column)] for column in table.columns]
        places = ", ".join("?" * table.num_columns)
        with _complaints(self.place, TableFileError.unwritable):
            if not self.columns:
                self.columns = ", ".join(f"{quoted(f.name)} {_declared(f.type)}".strip() for f in table.schema)
                self.connection.execute(f"CREATE TABLE made ({self.columns})")
            try:
                self.connection.executemany(f"INSERT INTO made VALUES ({places})", zip(*columns, strict=True))  # noqa: S608
            except OverflowError:
                raise self._too_large(dict(zip(table.column_names, columns, strict=True))) from None

    def move(self, *, force: bool) -> None:
        """Put the table where it belongs, in one transaction."""
        run = self.connection.execute
        run("COMMIT")
        run("ATTACH ? AS target", [str(self.place.path)])
        run("BEGIN IMMEDIATE")
        old = table_names.table_to_replace(self.place, _tables(self.connection, "target"), force=force)
        table = f"target.{quoted(self.place.table if old is None else old.name)}"
        if old is not None:
            run(f"DROP TABLE {table}")
        run(f"CREATE TABLE {table} ({self.columns})")
        run(f"INSERT INTO {table} SELECT * FROM made ORDER BY rowid")  # noqa: S608
        run("COMMIT")

    def _too_large(self, columns: dict[str, list[object]]) -> TableFileError:
        name, value = next(
            (name, value)
            for name, values in columns.items()
            for value in values
            if isinstance(value, int) and not -LARGEST <= value < LARGEST
        )
        return TableFileError(
            f"{self.place.text!r} cannot be written: SQLite has no whole numbers beyond {LARGEST - 1:,}, and column "
            f"{name!r} has {value}. Write to another format, or make the column text."
        )


def source(place: Location, how: ReadOptions, stack: ExitStack) -> Source:
    """A table or a view to read."""
    connection = stack.enter_context(_connected(place, TableFileError.unreadable))
    with _complaints(place, TableFileError.unreadable):
        table = table_names.table_to_read(place, _tables(connection))
        cursor = connection.execute(f"SELECT * FROM {table.quoted} LIMIT 0")  # noqa: S608
        columns = [item[0] for item in cursor.description]
        declared = dict.fromkeys(columns, "")
        if not table.is_view:
            declared |= dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", [table.name]))
    check_names(columns, repr(place.text))
    return RecordSource(partial(_rows, connection, place, table, columns), how.types, declared)


@contextmanager
def writer(place: Location, *, force: bool) -> Iterator[SQLiteWriter]:
    """A new table. A file that was made for it goes away with it, unless others wrote there."""
    with closing(sqlite3.connect("", isolation_level=None, timeout=PATIENCE)) as connection:
        connection.execute("BEGIN")
        made = SQLiteWriter(connection, place)
        yield made
        if made.columns:
            with _complaints(place, TableFileError.unwritable), _made(place.path or Path()):
                made.move(force=force)


@contextmanager
def opened(place: Location, complaint: Complaint) -> Iterator[Callable[[], list[TableName]]]:
    """Lists the tables that are there."""
    with _connected(place, complaint) as connection, _complaints(place, complaint):
        yield lambda: _tables(connection)


@contextmanager
def _connected(place: Location, complaint: Complaint) -> Iterator[sqlite3.Connection]:
    with _complaints(place, complaint):
        connection = sqlite3.connect(str(place.path), isolation_level=None)
    with closing(connection):
        yield connection


@contextmanager
def _complaints(place: Location, complaint: Complaint) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise complaint(repr(place.text), error) from None


@contextmanager
def _made(path: Path) -> Iterator[None]:
    """A file that is there, and goes away if it was not there before and stays empty."""
    new = not path.exists()
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if new and not path.stat().st_size:
                path.unlink()
        raise


def _tables(connection: sqlite3.Connection, database: str = "main") -> list[TableName]:
    rows = connection.execute(f"SELECT name, type FROM {database}.sqlite_master WHERE type IN ('table', 'view')")  # noqa: S608
    return [TableName(name, quoted(name), kind == "view") for name, kind in rows]


def _rows(connection: sqlite3.Connection, place: Location, table: TableName, columns: list[str]) -> Iterator[Row]:
    with _complaints(place, TableFileError.unreadable):
        for row in connection.execute(f"SELECT * FROM {table.quoted}"):  # noqa: S608
            yield dict(zip(columns, row, strict=True))


def _declared(dtype: pa.DataType) -> str:
    if isinstance(dtype, Cells):  # what was declared does nothing to cells that it held; ANY depends on the table
        return dtype.declared if DECLARATION.fullmatch(dtype.declared) and dtype.declared.upper() != "ANY" else ""
    if pa.types.is_integer(dtype) or pa.types.is_duration(dtype):
        return "INTEGER"
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "REAL"
    return TYPES.get(dtype, "TEXT")


def _stored(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | dict):
        return dumped(value).decode()
    return value if isinstance(value, str | int | float | bytes | None) else str(value)
