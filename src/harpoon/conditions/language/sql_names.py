"""Quoting of names and texts in SQL."""

from __future__ import annotations

import re

from harpoon._utils.sql_quoting import quote_identifier

RESERVED_WORDS = """
all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary both by call
case cast check collate collation column concurrently connect_by_root constraint create cross current_date
current_time current_timestamp current_user default deferrable desc describe distinct do drop else end except
execute explain false fetch for foreign freeze from full glob grant group having if ilike implies in initially inner
insert intersect interval into is isnull join lambda lateral leading left like limit list map natural not notnull null
nullable object offset on only optimize or order outer overlaps partitioned_by pivot pivot_longer pivot_wider
placing positional prepare primary qualify range references regexp rename replace returning revoke right rlike
rollback select semi show similar some struct summarize symmetric table tablesample then to trailing true uncache
union unique unpack unpivot using vacuum variadic verbose when where window with xor
"""
RESERVED = frozenset(RESERVED_WORDS.split())  # unquoted, sqlglot or DuckDB would not read them as names


def quote_name(name: str) -> str:
    """Return a column name in SQL, in double quotes unless it is a plain identifier."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in RESERVED
    return name if plain else quote_identifier(name)


def text_literal(text: str) -> str:
    """Return a text in SQL, in single quotes."""
    return "'" + text.replace("'", "''") + "'"
