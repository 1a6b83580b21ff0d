"""CHECK constraints of a CREATE TABLE statement.

NOT NULL is a rule too. Keys are conditions on several rows, and are not translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harpoon._formatting import shorten
from harpoon.conditions.language.expressions import Predicate
from harpoon.conditions.language.parser import from_sql_node
from harpoon.exceptions import InvalidCondition, RuleFileError
from harpoon.rules.formats.translation import SEVERAL_ROWS, Translation, not_null

SqlNode = Any  # a node of sqlglot
Check = Callable[[SqlNode], Predicate]
NO_CONDITION = ("defaultcolumnconstraint", "autoincrementcolumnconstraint", "commentcolumnconstraint")


def read(content: str, translation: Translation) -> None:
    """Read the CREATE TABLE statements of a text."""
    read_statements(content, translation, "duckdb", from_sql_node)


def read_statements(content: str, translation: Translation, dialect: str, check: Check) -> None:
    """Read the CREATE TABLE statements of a text in a dialect of SQL; `check` translates a condition."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        statements = sqlglot.parse(content, dialect=dialect)
    except SqlglotError as error:
        raise RuleFileError(f"it is not SQL: {shorten(str(error).splitlines()[0])}.") from None
    tables = [node for node in statements if node is not None and node.key == "create" and node.this.key == "schema"]
    if not tables:
        raise RuleFileError("it has no CREATE TABLE statement with columns.")
    for table in tables:
        for part in table.this.expressions:
            _read_part(part, translation, check)


def _read_part(part: SqlNode, translation: Translation, check: Check) -> None:
    """Read a column or a constraint of a table."""
    if part.key == "columndef":
        for constraint in part.args.get("constraints") or ():
            named = "" if constraint.this is None else constraint.this.name
            _read_constraint(constraint.args["kind"], named, part.name, translation, check)
    elif part.key == "constraint":
        for each in part.expressions:
            _read_constraint(each, part.name, "", translation, check)
    else:
        _read_constraint(part, "", "", translation, check)


def _read_constraint(kind: SqlNode, name: str, column: str, translation: Translation, check: Check) -> None:
    described = shorten(kind.sql(_dialect(translation)))
    if kind.key == "checkcolumnconstraint":
        add_check(kind.this, name, translation, check)
    elif kind.key == "notnullcolumnconstraint" and not kind.args.get("allow_null"):
        translation.add(name or f"{column} not null", not_null(column))
    elif kind.key == "primarykeycolumnconstraint":
        translation.add(f"{column} not null", not_null(column))
        translation.skip(f"{column} {described}", SEVERAL_ROWS)
    elif kind.key == "primarykey":
        for key in _key_columns(kind):
            translation.add(f"{key} not null", not_null(key))
        translation.skip(described, SEVERAL_ROWS)
    elif kind.key not in (*NO_CONDITION, "notnullcolumnconstraint"):
        translation.skip(f"{column} {described}".strip(), SEVERAL_ROWS)


def _dialect(translation: Translation) -> str:
    return "sqlite" if translation.source == "sqlite" else "duckdb"


def _key_columns(key: SqlNode) -> Iterator[str]:
    yield from (each.name for each in key.expressions if each.name)


def add_check(node: SqlNode, name: str, translation: Translation, check: Check) -> None:
    """Add a CHECK constraint; a conjunction stays one rule."""
    described = shorten(f"CHECK ({node.unnest().sql(_dialect(translation))})")
    try:
        predicate = check(node)
    except InvalidCondition as error:
        translation.skip(f"{name}: {described}" if name else described, str(error))
    else:
        translation.add(name or str(predicate), predicate)
