"""CHECK constraints of a table of SQLite, from the text of its CREATE TABLE statement.

Where SQLite differs from conditions, a constraint is translated by its meaning in SQLite (`like` ignores case), or not
at all (`/` of integers drops the remainder, and columns may compare without case).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from harpoon.conditions.language.expressions import Predicate
from harpoon.conditions.language.parser import from_sql_node
from harpoon.exceptions import InvalidCondition, RuleFileError
from harpoon.io import Location
from harpoon.rules.formats.sql import read_statements
from harpoon.rules.formats.translation import Translation, database_file


def read(location: Location, translation: Translation) -> None:
    """Read the constraints of a table."""
    path = database_file(location)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [location.table]
            ).fetchone()
    except sqlite3.Error as error:
        raise RuleFileError(f"{error}.") from None
    if found is None or not isinstance(found[0], str):
        raise RuleFileError(f"it has no table {location.table!r}.")
    read_statements(found[0], translation, "sqlite", _check)


def _check(node: Any) -> Predicate:  # noqa: ANN401
    """Translate a condition of SQLite."""
    from sqlglot import exp

    if node.find(exp.Div):
        raise InvalidCondition("in SQLite, / drops the remainder of integers; in a condition it does not")
    if node.find(exp.Collate):
        raise InvalidCondition("a condition has no collations")
    ignoring_case = node.transform(
        lambda each: exp.ILike(this=each.this, expression=each.expression) if isinstance(each, exp.Like) else each
    )
    return from_sql_node(ignoring_case)
