"""Tables of a database by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harpoon._text import closest_matches, format_list
from harpoon.exceptions import TableFileError
from harpoon.io.location import Location


@dataclass(frozen=True)
class TableName:
    """A table or a view.

    Attributes:
        name: As a user writes it.
        quoted: As SQL has it.
        is_view: Whether it is a view.
    """

    name: str
    quoted: str
    is_view: bool = False


def find_table(place: Location, tables: Sequence[TableName]) -> TableName | None:
    """The table that is meant. Databases see no difference between letters and capital letters, if they are ASCII."""
    exact = [table for table in tables if table.name == place.table]
    alike = [table for table in tables if _folded(table.name) == _folded(place.table)]
    return next(iter(exact + alike), None)


def table_to_read(place: Location, tables: Sequence[TableName]) -> TableName:
    """The table that is meant, or an error with those that there are."""
    table = find_table(place, tables)
    if table is not None:
        return table
    there = [other.name for other in tables]
    near = closest_matches(place.table, there)
    hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(sorted(there))}."
    raise TableFileError(f"The database {str(place.path)!r} has no table {place.table!r}. {hint}")


def table_to_replace(place: Location, tables: Sequence[TableName], *, force: bool) -> TableName | None:
    """The table that has to go, if there is one and it may."""
    table = find_table(place, tables)
    if table is None:
        return None
    if table.is_view:
        raise TableFileError(
            f"In the database {str(place.path)!r}, {table.name!r} is a view, and views are not replaced. "
            "Choose another name."
        )
    if not force:
        raise TableFileError.already_exists(f"The database {str(place.path)!r} already has a table {table.name!r}")
    return table


def quoted(*names: str) -> str:
    """A name, part by part, for SQL.

    >>> print(quoted("main", 'a "b" c'))
    "main"."a ""b"" c"
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _folded(name: str) -> bytes:
    return name.encode(errors="surrogatepass").lower()
