"""CHECK constraints of a table of DuckDB, from its catalogue."""

from __future__ import annotations

import re
from typing import Any

from harpoon.conditions.language.expressions import Predicate
from harpoon.conditions.language.parser import from_sql_node
from harpoon.conditions.language.scalars import INTERVALS
from harpoon.exceptions import InvalidCondition, MissingExtra, RuleFileError
from harpoon.io import Location
from harpoon.rules.formats.translation import SEVERAL_ROWS, Translation, database_file, not_null

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
            with translation.part(described):
                predicate = _parse(expression)
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
    path = database_file(location)
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            if not connection.execute(EXISTS, [location.table]).fetchall()[0][0]:
                raise RuleFileError(f"it has no table {location.table!r}.")
            found: list[tuple[Any, ...]] = connection.execute(QUERY, [location.table]).fetchall()
            return found
    except duckdb.Error as error:
        raise RuleFileError(f"{str(error).splitlines()[0]}.") from None


def _parse(expression: str) -> Predicate:
    """Parse an expression of the catalogue, which has "month"(t) for month(t), and to_days(3) for an interval."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        node = sqlglot.parse_one(re.sub(r'"([a-z_]+)"\(', r"\1(", expression), dialect="duckdb")
    except SqlglotError as error:
        raise InvalidCondition(f"it cannot be read: {str(error).splitlines()[0]}") from None
    return from_sql_node(node.transform(_as_interval))


def _as_interval(node: Any) -> Any:  # noqa: ANN401
    """Return to_days(CAST(trunc(CAST(3 AS DOUBLE)) AS INTEGER)) as INTERVAL '3' DAY; other nodes as they are."""
    from sqlglot import exp

    is_anonymous = isinstance(node, exp.Anonymous) and len(node.expressions) == 1
    name, number = (node.name, node.expressions[0]) if is_anonymous else (node.key, node.this)
    unit = name.lower().replace("_", "").removeprefix("to").removesuffix("s")
    if unit not in INTERVALS or not isinstance(node, exp.Anonymous | exp.ToDays):
        return node
    while isinstance(number, exp.Cast | exp.Trunc | exp.Paren):
        number = number.this
    return exp.Interval(this=exp.Literal.string(number.name), unit=exp.var(unit)) if number.key == "literal" else node
