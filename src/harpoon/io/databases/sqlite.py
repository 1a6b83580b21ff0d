"""Tables of SQLite. A column may hold integers, floats, text and bytes; dates and times are text.

SQLite does not write to a file while others read it. So a new table is first written to a temporary database, and is
copied into the file at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from decimal import Decimal

import pyarrow as pa

from harpoon._utils.sql_quoting import quote_identifier
from harpoon.exceptions import TableFileError
from harpoon.io.databases.base import TableName, table_to_read, table_to_replace
from harpoon.io.json_lines import INT64_END, Record, RecordSource, to_json, warn_if_lossy
from harpoon.io.location import Location
from harpoon.io.source import ReadOptions, Source, check_column_names
from harpoon.io.text_types import is_binary, plain_values

LOCK_TIMEOUT_SECONDS = 60  # for which a finished table waits for other users of the file
READING_ACTIONS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
DECLARED_TYPES = {pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}


class SQLiteWriter:
    """Writes a new table to a temporary database, and moves it into the file."""

    def __init__(self, connection: sqlite3.Connection, location: Location) -> None:
        self.connection, self.location, self.columns = connection, location, ""

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        columns = [[_storable(value) for value in plain_values(column)] for column in table.columns]
        marks = ", ".join("?" * table.num_columns)
        with self.location.writing(sqlite3.Error):
            if not self.columns:
                self.columns = ", ".join(f"{quote_identifier(f.name)} {_declared_type(f.type)}" for f in table.schema)
                self.connection.execute(f"CREATE TABLE new_table ({self.columns})")
            try:
                self.connection.executemany(f"INSERT INTO new_table VALUES ({marks})", zip(*columns, strict=True))  # noqa: S608
            except OverflowError:
                raise self._overflow_error(dict(zip(table.column_names, columns, strict=True))) from None

    def move(self, *, force: bool) -> None:
        """Move the table into the file, in one transaction."""
        run = self.connection.execute
        run("COMMIT")
        run("ATTACH ? AS target", [str(self.location.path)])
        run("BEGIN IMMEDIATE")
        old = table_to_replace(self.location, _tables(self.connection, "target"), force=force)
        table = quote_identifier("target", self.location.table if old is None else old.name)
        if old is not None:
            run(f"DROP TABLE {table}")
        run(f"CREATE TABLE {table} ({self.columns})")
        run(f"INSERT INTO {table} SELECT * FROM new_table ORDER BY rowid")  # noqa: S608
        run("COMMIT")

    def _overflow_error(self, columns: dict[str, list[object]]) -> TableFileError:
        name, value = next(
            (name, value)
            for name, values in columns.items()
            for value in values
            if isinstance(value, int) and not -INT64_END <= value < INT64_END
        )
        return TableFileError(
            f"{self.location.text!r} cannot be written: SQLite has no integers beyond {INT64_END - 1:,}, and column "
            f"{name!r} has {value}. Write to another format, or make the column text."
        )


def open_source(location: Location, options: ReadOptions, stack: ExitStack) -> Source:
    """Open a table, a view or a query for reading."""
    with location.reading(sqlite3.Error, sqlite3.Warning):  # a second statement is a Warning in Python 3.11
        connection = stack.enter_context(_connect(location))
        selected = f"({location.query}\n)" if location.query else table_to_read(location, _tables(connection)).quoted
        query = f"SELECT * FROM {selected}"  # noqa: S608
        connection.set_authorizer(_authorize)
        columns = [item[0] for item in connection.execute(f"{query} LIMIT 0").description]
    check_column_names(columns, location.name)

    def records() -> Iterator[Record]:
        with location.reading(sqlite3.Error):
            for row in connection.execute(query):
                yield dict(zip(columns, row, strict=True))

    source = RecordSource(records, options.types, columns)
    warn_if_lossy(source, location.name)
    return source


@contextmanager
def open_writer(location: Location, *, force: bool) -> Iterator[SQLiteWriter]:
    """Open a new table for writing."""
    with closing(sqlite3.connect("", isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)) as connection:
        connection.execute("BEGIN")
        writer = SQLiteWriter(connection, location)
        yield writer
        if writer.columns:
            with location.writing(sqlite3.Error):
                writer.move(force=force)


def _authorize(action: int, *_: str | None) -> int:
    """Allow what a SELECT statement does, and nothing else."""
    return sqlite3.SQLITE_OK if action in READING_ACTIONS else sqlite3.SQLITE_DENY


def list_tables(location: Location) -> list[TableName]:
    """List the tables and views of a file that is to be written."""
    with location.writing(sqlite3.Error), _connect(location) as connection:
        return _tables(connection)


def _connect(location: Location) -> AbstractContextManager[sqlite3.Connection]:
    return closing(sqlite3.connect(str(location.path), isolation_level=None))


def _tables(connection: sqlite3.Connection, database: str = "main") -> list[TableName]:
    rows = connection.execute(f"SELECT name, type FROM {database}.sqlite_master WHERE type IN ('table', 'view')")  # noqa: S608
    return [TableName(name, quote_identifier(name), kind == "view") for name, kind in rows]


def _declared_type(dtype: pa.DataType) -> str:
    if pa.types.is_integer(dtype) or pa.types.is_duration(dtype):
        return "INTEGER"
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "REAL"
    return "BLOB" if is_binary(dtype) else DECLARED_TYPES.get(dtype, "TEXT")


def _storable(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | dict):
        return to_json(value).decode()
    return value if isinstance(value, str | int | float | bytes | None) else str(value)
