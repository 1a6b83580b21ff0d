"""Tables and queries of databases: the names of tables, and the checks that all databases share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harpoon._formatting import closest_matches, format_list
from harpoon.exceptions import TableFileError
from harpoon.io.location import Location
from harpoon.io.registry import DATABASES
from harpoon.io.source import ReadOptions, Source


@dataclass(frozen=True)
class TableName:
    """A table or a view: its name as a user writes it, and as SQL needs it."""

    name: str
    quoted: str
    is_view: bool = False


def open_source(location: Location, options: ReadOptions, stack: ExitStack) -> Source:
    """Open a table or a query of a database for reading."""
    path, database = location.path, DATABASES[location.format]
    if path is not None:
        _check_file(location, path)
    source: Source = database.load().open_source(location, options, stack)
    return source


def _check_file(location: Location, path: Path) -> None:
    if not path.is_file():
        raise TableFileError(f"There is no database {str(path)!r}. The path after {location.format}:/// starts here.")
    problem = _file_problem(location)
    if problem:
        raise TableFileError.unreadable(location.name, problem)


@contextmanager
def open_writer(location: Location, *, force: bool) -> Iterator[Any]:
    """Open a new table of a database for writing. It appears at the end, or not at all if an error is raised.

    If the file was created for the table, an error removes the file unless others wrote to it.
    """
    path, database = location.path, DATABASES[location.format].load()
    is_new = path is not None and not path.exists()
    try:
        with database.open_writer(location, force=force) as writer:
            yield writer
    except BaseException:
        with suppress(OSError):
            if path is not None and is_new and path.exists() and not database.list_tables(location):
                path.unlink()
        raise


def check_writable(location: Location, *, force: bool) -> None:
    """Raise TableFileError if the table exists and is not to be replaced, or if the file cannot take it."""
    path, database = location.path, DATABASES[location.format]
    if location.query:
        raise TableFileError(
            f"{location.text!r} is a query, which can only be read. Name a table: {database.url}#table."
        )
    if path is None:
        table_to_replace(location, database.load().list_tables(location), force=force)
        return
    if not path.exists():
        return
    problem = "" if database.accepts_empty_file and not path.stat().st_size else _file_problem(location)
    if not os.access(path, os.W_OK):
        problem = "you may not write to the file"
    if problem:
        raise TableFileError.unwritable(location.name, problem)
    table_to_replace(location, database.load().list_tables(location), force=force)


def table_to_read(location: Location, tables: Sequence[TableName]) -> TableName:
    """Return the table of a location, or raise an error that lists the tables of the database."""
    table = _find_table(location, tables)
    if table is not None:
        return table
    names = [other.name for other in tables]
    near = closest_matches(location.table, names)
    listed = f"It has {format_list(sorted(names))}." if names else "It has no tables that you may see."
    hint = f"Did you mean {near[0]!r}?" if near else listed
    raise TableFileError(f"The database {location.database_name} has no table {location.table!r}. {hint}")


def table_to_replace(location: Location, tables: Sequence[TableName], *, force: bool) -> TableName | None:
    """Return the table that a new one replaces, if there is one and `force` is set."""
    table = _find_table(location, tables)
    if table is None:
        return None
    if table.is_view:
        raise TableFileError(
            f"In the database {location.database_name}, {table.name!r} is a view, and views are not replaced. "
            "Choose another name."
        )
    if not force:
        raise TableFileError.already_exists(f"The database {location.database_name} already has a table {table.name!r}")
    return table


def _find_table(location: Location, tables: Sequence[TableName]) -> TableName | None:
    """Return the table of a location. Most databases ignore the case of ASCII letters."""
    exact = [table for table in tables if table.name == location.table]
    if not DATABASES[location.format].folds_case:
        return next(iter(exact), None)
    similar = [table for table in tables if _fold(table.name) == _fold(location.table)]
    return next(iter(exact + similar), None)


def _file_problem(location: Location) -> str:
    """Return why a file is not a database of its format. DuckDB would also open a text file, as a table."""
    database = DATABASES[location.format]
    try:
        with (location.path or Path()).open("rb") as file:
            head = file.read(database.magic_offset + len(database.magic))
    except OSError as error:
        return error.strerror or str(error)
    return "" if head[database.magic_offset :] == database.magic else f"the file is not a {database.title} database"


def _fold(name: str) -> bytes:
    return name.encode(errors="surrogatepass").lower()
