"""Tables of DuckDB, which know their types. Any number of connections of one process may read and write a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from harpoon.exceptions import MissingExtra, TableFileError
from harpoon.io import table_names
from harpoon.io.location import Location
from harpoon.io.source import Chunk, Source, check_names, resized
from harpoon.io.table_names import TableName, quoted

MAIN = "main"
ROWS = "harpoon_rows"
Complaint = Callable[[str, object], TableFileError]


class DuckDBSource:
    """A table or a view."""

    delimiter = ","

    def __init__(self, connection: Any, place: Location) -> None:  # noqa: ANN401
        self.connection, self.place, self.met = connection, place, set[str]()
        self.query = f"SELECT * FROM {table_names.table_to_read(place, _tables(connection)).quoted}"  # noqa: S608
        with _complaints(place, TableFileError.unreadable):
            self.schema: pa.Schema = connection.sql(f"{self.query} LIMIT 0").to_arrow_table().schema
        check_names(self.schema.names, repr(place.text))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in their order, so many at a time."""
        with _complaints(self.place, TableFileError.unreadable):
            reader = self.connection.cursor().sql(self.query).to_arrow_reader(size)
            yield from map(Chunk, resized((pa.Table.from_batches([batch]) for batch in reader), size))


class DuckDBWriter:
    """Rows on their way into a new table."""

    def __init__(self, connection: Any, place: Location, *, force: bool) -> None:  # noqa: ANN401
        self.connection, self.place, self.started = connection, place, False
        old = table_names.table_to_replace(place, _tables(connection), force=force)
        self.table = _new(connection, place) if old is None else old.quoted
        if old is not None:
            with _complaints(place, TableFileError.unwritable):
                connection.execute(f"DROP TABLE {old.quoted}")

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        _check_columns(self.place, table.column_names)
        verb = f"INSERT INTO {self.table}" if self.started else f"CREATE TABLE {self.table} AS"
        with _complaints(self.place, TableFileError.unwritable):
            self.connection.register(ROWS, table)
            self.connection.execute(f"{verb} SELECT * FROM temp.{ROWS}")  # noqa: S608
            self.connection.unregister(ROWS)
        self.started = True


def source(place: Location, stack: ExitStack) -> Source:
    """A table to read."""
    return DuckDBSource(stack.enter_context(_connected(place, TableFileError.unreadable)), place)


@contextmanager
def writer(place: Location, *, force: bool) -> Iterator[DuckDBWriter]:
    """A new table, in one transaction. A file that was made for it goes away with it, unless others wrote there."""
    path = place.path or Path()
    new, forsaken = not path.exists(), False
    try:
        with _connected(place, TableFileError.unwritable) as connection:
            try:
                connection.execute("BEGIN")
                yield DuckDBWriter(connection, place, force=force)
                with _complaints(place, TableFileError.unwritable):
                    connection.execute("COMMIT")
            except BaseException:
                with suppress(_duckdb().Error):
                    connection.execute("ROLLBACK")
                forsaken = new and not _tables(connection)
                raise
    except BaseException:
        if forsaken:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise


@contextmanager
def opened(place: Location, complaint: Complaint) -> Iterator[Callable[[], list[TableName]]]:
    """Lists the tables that are there."""
    with _connected(place, complaint) as connection:
        yield lambda: _tables(connection)


@contextmanager
def _connected(place: Location, complaint: Complaint) -> Iterator[Any]:
    path = str(place.path)
    there = os.path.exists(path)  # noqa: PTH110
    with _complaints(place, complaint):
        # All connections of a process to one file must agree on whether they may write.
        connection = _duckdb().connect(path, read_only=there and not os.access(path, os.W_OK))
    with connection:
        yield connection


@contextmanager
def _complaints(place: Location, complaint: Complaint) -> Iterator[None]:
    try:
        yield
    except _duckdb().Error as error:
        raise complaint(repr(place.text), error) from None


def _check_columns(place: Location, columns: Sequence[str]) -> None:
    """DuckDB would rename one of two columns that differ in capital letters only."""
    seen: dict[str, str] = {}
    for name in columns:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            problem = f"DuckDB does not tell the columns {other!r} and {name!r} apart; rename one of them"
            raise TableFileError.unwritable(repr(place.text), problem)


def _duckdb() -> Any:  # noqa: ANN401
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.for_package("duckdb", "sql", "A table of DuckDB") from None
    return duckdb


def _tables(connection: Any) -> list[TableName]:  # noqa: ANN401
    """The tables of all schemas, those of the main one first and by their mere names."""
    rows = connection.execute(
        "SELECT table_catalog, table_schema, table_name, table_type = 'VIEW' FROM information_schema.tables "
        "WHERE table_catalog = current_database() ORDER BY table_schema <> ?, table_schema, table_name",
        [MAIN],
    ).fetchall()
    return [
        TableName(table if schema == MAIN else f"{schema}.{table}", quoted(catalog, schema, table), is_view)
        for catalog, schema, table, is_view in rows
    ]


def _new(connection: Any, place: Location) -> str:  # noqa: ANN401
    """Where a new table goes: before a dot may stand a schema that is there."""
    rows = connection.execute(
        "SELECT catalog_name, schema_name FROM information_schema.schemata WHERE catalog_name = current_database()"
    ).fetchall()
    for catalog, schema in rows:
        table = place.table.removeprefix(f"{schema}.")
        if table and table != place.table:
            return quoted(catalog, schema, table)
    return quoted(rows[0][0], MAIN, place.table)
