"""SQL identifiers."""

from __future__ import annotations


def quote_identifier(*names: str) -> str:
    """Quote the parts of an SQL name and join them with dots.

    >>> print(quote_identifier("main", 'a "b" c'))
    "main"."a ""b"" c"
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
