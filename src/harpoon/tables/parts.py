"""Parts of one table, as it is read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from harpoon.tables import Part, Source

LOOKED_AT = 2**16  # rows at a time, to find out how truth is spelled


def spelled_truths(source: Source) -> dict[str, str]:
    """The first truth value of each column as it is written, wherever in the table it stands: true, True or TRUE."""
    sought = [f.name for f in source.schema if pa.types.is_boolean(f.type)]
    found: dict[str, str] = {}
    parts = source.parts(LOOKED_AT)
    while sought and (part := next(parts, None)) is not None and part.texts is not None:
        for name in sought:
            there = part.texts[name].filter(pc.is_valid(part.table[name]))
            found |= {name: there[0].as_py().strip()} if len(there) else {}
        sought = [name for name in sought if name not in found]
    return found


def parts_of(source: Source, size: int) -> Iterator[Part]:
    """The parts of a table; a table without rows has one, so that its columns are known."""
    empty = True
    for part in source.parts(size):
        empty = False
        yield part
    if empty:
        yield Part(source.schema.empty_table())
