"""Tables of DuckDB and SQLite files, read by a cursor and written in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from harpoon.errors import MissingExtra, TableFileError, closest, listed
from harpoon.tables.loose import Loose, Row
from harpoon.tables.places import Place
from harpoon.tables.sources import Part, Reading, Source, check_names, resized

SQLITE_TYPES = {pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}


class DuckTable:
    """A table or a view of a DuckDB file."""

    delimiter = ","

    def __init__(self, connection: Any, place: Place) -> None:  # noqa: ANN401
        self.connection, self.name, self.met = connection, repr(place.text), set[str]()
        self.query = f"SELECT * FROM {_quoted(place.table)}"  # noqa: S608
        _check_there(place, _duck_tables(connection))
        self.schema: pa.Schema = connection.sql(f"{self.query} LIMIT 0").to_arrow_table().schema
        check_names(self.schema.names, self.name)

    def parts(self, size: int) -> Iterator[Part]:
        """The rows in their order, so many at a time."""
        reader = self.connection.cursor().sql(self.query).to_arrow_reader(size)
        yield from map(Part, resized((pa.Table.from_batches([batch]) for batch in reader), size))


def source(place: Place, how: Reading, stack: ExitStack) -> Source:
    """A table of a database, to read."""
    path = place.path or Path()
    if not path.is_file():
        raise TableFileError(f"There is no database {str(path)!r}. The path after {place.format}:/// starts here.")
    if place.format == "duckdb":
        return DuckTable(stack.enter_context(_duckdb(place)), place)
    connection = stack.enter_context(_sqlite(place))
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    _check_there(place, [name for (name,) in tables])
    cursor = connection.execute(f"SELECT * FROM {_quoted(place.table)} LIMIT 0")  # noqa: S608
    names = [item[0] for item in cursor.description]
    check_names(names, repr(place.text))
    return Loose(partial(_sqlite_rows, connection, place, names), how.types, names)


@contextmanager
def writer(place: Place, *, force: bool) -> Iterator[DuckWriter | SqliteWriter]:
    """A new table of a database: there when all has gone well, and not at all when not."""
    path = place.path or Path()
    new = not path.exists()
    try:
        if place.format == "duckdb":
            with _duckdb(place) as connection, _transaction(place, connection):
                yield DuckWriter(connection, place, force=force)
        else:
            with _sqlite(place) as connection, _transaction(place, connection):
                yield SqliteWriter(connection, place, force=force)
    except BaseException:
        if new:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise


class DuckWriter:
    """Rows on their way into a table of DuckDB."""

    def __init__(self, connection: Any, place: Place, *, force: bool) -> None:  # noqa: ANN401
        self.connection, self.table, self.started = connection, _quoted(place.table), False
        if place.table in _duck_tables(connection):
            _check_free(place, force=force)
            connection.execute(f"DROP TABLE {self.table}")

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        self.connection.register("harpoon_rows", table)
        verb = f"INSERT INTO {self.table}" if self.started else f"CREATE TABLE {self.table} AS"
        self.connection.execute(f"{verb} SELECT * FROM harpoon_rows")  # noqa: S608
        self.connection.unregister("harpoon_rows")
        self.started = True


class SqliteWriter:
    """Rows on their way into a table of SQLite, which knows numbers and text: dates and times are text there."""

    def __init__(self, connection: sqlite3.Connection, place: Place, *, force: bool) -> None:
        self.connection, self.table, self.started = connection, _quoted(place.table), False
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [place.table]).fetchone():
            _check_free(place, force=force)
            connection.execute(f"DROP TABLE {self.table}")

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        if not self.started:
            columns = ", ".join(f"{_quoted(f.name)} {_sqlite_type(f.type)}".strip() for f in table.schema)
            self.connection.execute(f"CREATE TABLE {self.table} ({columns})")
            self.started = True
        rows = zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True)
        places = ", ".join("?" * table.num_columns)
        self.connection.executemany(f"INSERT INTO {self.table} VALUES ({places})", rows)  # noqa: S608


@contextmanager
def _transaction(place: Place, connection: Any) -> Iterator[None]:  # noqa: ANN401
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise TableFileError.unwritable(repr(place.text), error) from None


@contextmanager
def _duckdb(place: Place) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("duckdb", "sql", "A table of DuckDB") from None
    path = str(place.path)
    there = os.path.exists(path)  # noqa: PTH110
    try:
        # All connections of a process to one file must agree on whether they may write.
        with duckdb.connect(path, read_only=there and not os.access(path, os.W_OK)) as connection:
            yield connection
    except duckdb.Error as error:
        raise TableFileError.unreadable(repr(place.text), error) from None


@contextmanager
def _sqlite(place: Place) -> Iterator[sqlite3.Connection]:
    connection = None
    try:
        connection = sqlite3.connect(str(place.path), isolation_level=None)
        yield connection
    except sqlite3.Error as error:
        raise TableFileError.unreadable(repr(place.text), error) from None
    finally:
        if connection is not None:
            connection.close()


def _duck_tables(connection: Any) -> list[str]:  # noqa: ANN401
    return [name for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]


def _sqlite_rows(connection: sqlite3.Connection, place: Place, names: list[str]) -> Iterator[Row]:
    for row in connection.execute(f"SELECT * FROM {_quoted(place.table)}"):  # noqa: S608
        yield dict(zip(names, row, strict=True))


def _sqlite_type(dtype: pa.DataType) -> str:
    if pa.types.is_integer(dtype):
        return "INTEGER"
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "REAL"
    return SQLITE_TYPES.get(dtype, "TEXT")


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, str | int | float | bytes | None) else str(value)


def _check_there(place: Place, tables: list[str]) -> None:
    if place.table not in tables:
        near = closest(place.table, tables)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {listed(sorted(tables))}."
        raise TableFileError(f"The database {str(place.path)!r} has no table {place.table!r}. {hint}")


def _check_free(place: Place, *, force: bool) -> None:
    if not force:
        raise TableFileError(
            f"The database {str(place.path)!r} already has a table {place.table!r}. Choose another name, or replace it "
            "with --force."
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
