"""CHECK constraints of a table of DuckDB, from its catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harpoon.conditions.parser import parse
from harpoon.exceptions import InvalidCondition, MissingExtra, RuleFileError
from harpoon.io import Location
from harpoon.rules.formats.sql import SEVERAL_ROWS
from harpoon.rules.formats.translation import Translation, not_null

QUERY = (
    "SELECT constraint_type, constraint_text, expression, constraint_column_names FROM duckdb_constraints() "
    "WHERE database_name = current_database() AND (table_name = $1 OR schema_name || '.' || table_name = $1)"
)
EXISTS = (
    "SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database() "
    "AND (table_name = $1 OR schema_name || '.' || table_name = $1)"
)


def read(location: Location, translation: Translation) -> None:
    """Read the constraints of a table."""
    for kind, described, expression, columns in _constraints(location):
        if kind == "CHECK":
            try:
                predicate = parse(_plain_functions(expression), "duckdb")
            except InvalidCondition as error:
                translation.skip(described, str(error))
            else:
                translation.add(str(predicate), predicate)
        elif kind == "NOT NULL":
            translation.add(f"{columns[0]} not null", not_null(columns[0]))
        else:
            translation.skip(described, SEVERAL_ROWS)


def _constraints(location: Location) -> list[tuple[Any, ...]]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.for_package("duckdb", "sql", "Reading DuckDB") from None
    path = location.path or Path()
    if not path.is_file():
        raise RuleFileError("there is no such file.")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            if not connection.execute(EXISTS, [location.table]).fetchall()[0][0]:
                raise RuleFileError(f"it has no table {location.table!r}.")
            found: list[tuple[Any, ...]] = connection.execute(QUERY, [location.table]).fetchall()
            return found
    except duckdb.Error as error:
        raise RuleFileError(f"{str(error).splitlines()[0]}.") from None


def _plain_functions(expression: str) -> str:
    """Return an expression of the catalogue, which has "month"(t), with the names of functions as they are written."""
    return re.sub(r'"([a-z_]+)"\(', r"\1(", expression)
