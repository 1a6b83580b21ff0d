"""Tables in database files: DuckDB and SQLite."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from harpoon.exceptions import TableFileError
from harpoon.io import duckdb, sqlite
from harpoon.io.location import Location
from harpoon.io.source import ReadOptions, Source
from harpoon.io.table_names import table_to_replace

SIGNS = {"duckdb": (8, b"DUCK", "DuckDB"), "sqlite": (0, b"SQLite format 3\0", "SQLite")}


def source(place: Location, how: ReadOptions, stack: ExitStack) -> Source:
    """A table of a database, to read."""
    path = place.path or Path()
    if not path.is_file():
        raise TableFileError(f"There is no database {str(path)!r}. The path after {place.format}:/// starts here.")
    problem = _problem(place)
    if problem:
        raise TableFileError.unreadable(repr(place.text), problem)
    return duckdb.source(place, stack) if place.format == "duckdb" else sqlite.source(place, how, stack)


def writer(place: Location, *, force: bool) -> AbstractContextManager[duckdb.DuckDBWriter | sqlite.SQLiteWriter]:
    """A new table of a database: there when all has gone well, and not at all when not."""
    return duckdb.writer(place, force=force) if place.format == "duckdb" else sqlite.writer(place, force=force)


def check_free(place: Location, *, force: bool) -> None:
    """Refuse, before any work is done, a table that is there, and a file that is no database or may not be written."""
    path = place.path or Path()
    if not path.exists():
        return
    empty_is_fine = place.format == "sqlite" and not path.stat().st_size
    problem = "" if empty_is_fine else _problem(place)
    if not os.access(path, os.W_OK):
        problem = "you may not write to the file"
    if problem:
        raise TableFileError.unwritable(repr(place.text), problem)
    with (duckdb if place.format == "duckdb" else sqlite).opened(place, TableFileError.unwritable) as tables:
        table_to_replace(place, tables(), force=force)


def _problem(place: Location) -> str:
    """What a file lacks to be a database; DuckDB also opens text files, as databases with one table."""
    start, sign, name = SIGNS[place.format]
    try:
        with (place.path or Path()).open("rb") as file:
            head = file.read(start + len(sign))
    except OSError as error:
        return error.strerror or str(error)
    return "" if head[start:] == sign else f"the file is no {name} database"
