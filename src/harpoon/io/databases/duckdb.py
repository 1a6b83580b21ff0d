"""Tables of DuckDB, which store the types of their columns.

Several connections of one process may read and write one file at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from harpoon._utils.sql_quoting import quote_identifier
from harpoon.exceptions import MissingExtra, TableFileError
from harpoon.io.databases.base import TableName, table_to_read, table_to_replace
from harpoon.io.location import Location
from harpoon.io.source import Chunk, ReadOptions, Source, check_column_names, rebatch

MAIN_SCHEMA = "main"
ROWS_VIEW = "harpoon_rows"  # the name of the Arrow rows that are being inserted


class DuckDBSource(Source):
    """A table, a view, or the result of a query."""

    def __init__(self, connection: Any, location: Location) -> None:  # noqa: ANN401
        self.connection, self.location = connection, location
        with self.location.reading(_duckdb().Error):
            tables = [] if location.query else _tables(connection, location)
            selected = _subquery(location) if location.query else table_to_read(location, tables).quoted
            self.query = f"SELECT * FROM {selected}"  # noqa: S608
            self.schema = connection.sql(f"{self.query} LIMIT 0").to_arrow_table().schema
        check_column_names(self.schema.names, location.name)

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with self.location.reading(_duckdb().Error):
            reader = self.connection.cursor().sql(self.query).to_arrow_reader(size)
            tables = (pa.Table.from_batches([batch]) for batch in reader)
            yield from map(Chunk, rebatch(tables, size, row_offset))


class DuckDBWriter:
    """Writes a new table within a transaction."""

    def __init__(self, connection: Any, location: Location, *, force: bool) -> None:  # noqa: ANN401
        self.connection, self.location, self.started = connection, location, False
        old = table_to_replace(location, _tables(connection, location), force=force)
        self.table = _new_table(connection, location) if old is None else old.quoted
        if old is not None:
            with location.writing(_duckdb().Error):
                connection.execute(f"DROP TABLE {old.quoted}")

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        self._check_columns(table.column_names)
        verb = f"INSERT INTO {self.table}" if self.started else f"CREATE TABLE {self.table} AS"
        with self.location.writing(_duckdb().Error):
            self.connection.register(ROWS_VIEW, table)
            self.connection.execute(f"{verb} SELECT * FROM temp.{ROWS_VIEW}")  # noqa: S608
            self.connection.unregister(ROWS_VIEW)
        self.started = True

    def _check_columns(self, columns: list[str]) -> None:
        """Raise TableFileError for two names that differ in case only: DuckDB would rename one of them."""
        seen: dict[str, str] = {}
        for name in columns:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                problem = f"DuckDB does not distinguish the columns {other!r} and {name!r}; rename one of them"
                raise TableFileError.unwritable(self.location.name, problem)


def open_source(location: Location, _: ReadOptions, stack: ExitStack) -> Source:
    """Open a table, a view or a query for reading."""
    with location.reading(_duckdb().Error):
        connection = stack.enter_context(_connect(location))
        connection.execute("SET python_enable_replacements = false")  # a name is a table, never a variable of Python
    return DuckDBSource(connection, location)


@contextmanager
def open_writer(location: Location, *, force: bool) -> Iterator[DuckDBWriter]:
    """Open a new table for writing, in one transaction."""
    with location.writing(_duckdb().Error):
        connection = _connect(location)
    with connection:
        try:
            connection.execute("BEGIN")
            yield DuckDBWriter(connection, location, force=force)
            with location.writing(_duckdb().Error):
                connection.execute("COMMIT")
        except BaseException:
            with suppress(_duckdb().Error):
                connection.execute("ROLLBACK")
            raise


def _subquery(location: Location) -> str:
    """Return the query of a location in parentheses. It must be one statement that only reads."""
    statements = _duckdb().extract_statements(location.query)
    if len(statements) != 1 or statements[0].type != _duckdb().StatementType.SELECT:
        raise TableFileError.unreadable(location.name, "a query must be one SELECT statement")
    return f"({location.query}\n) AS harpoon_query"


def list_tables(location: Location) -> list[TableName]:
    """List the tables and views of a file that is to be written."""
    with location.writing(_duckdb().Error), _connect(location) as connection:
        return _tables(connection, location)


def _connect(location: Location) -> Any:  # noqa: ANN401
    path = location.path or Path()
    # All connections of a process to one file must agree on whether they may write.
    return _duckdb().connect(str(path), read_only=path.exists() and not os.access(path, os.W_OK))


def _duckdb() -> Any:  # noqa: ANN401
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.for_package("duckdb", "sql", "Reading or writing DuckDB") from None
    return duckdb


def _tables(connection: Any, location: Location) -> list[TableName]:  # noqa: ANN401
    """List the tables of all schemas. Those of the main schema come first, and need no name of a schema."""
    rows = connection.execute(
        "SELECT table_catalog, table_schema, table_name, table_type = 'VIEW' FROM information_schema.tables "
        "WHERE table_catalog = current_database() ORDER BY table_schema <> ?, table_schema, table_name",
        [MAIN_SCHEMA],
    ).fetchall()
    return [
        TableName(
            table if schema == MAIN_SCHEMA and location.table != f"{schema}.{table}" else f"{schema}.{table}",
            quote_identifier(catalog, schema, table),
            is_view,
        )
        for catalog, schema, table, is_view in rows
    ]


def _new_table(connection: Any, location: Location) -> str:  # noqa: ANN401
    """Return the quoted name of a new table. A part before a dot is a schema if there is one of that name."""
    rows = connection.execute(
        "SELECT catalog_name, schema_name FROM information_schema.schemata WHERE catalog_name = current_database()"
    ).fetchall()
    for catalog, schema in rows:
        table = location.table.removeprefix(f"{schema}.")
        if table and table != location.table:
            return quote_identifier(catalog, schema, table)
    return quote_identifier(rows[0][0], MAIN_SCHEMA, location.table)
