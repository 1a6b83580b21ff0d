"""What every source of rows has in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._text import format_list
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.io.text_types import MISSING


@dataclass(frozen=True)
class ReadOptions:
    """How to read what does not explain itself.

    Attributes:
        delimiter: Between the cells of a text table; found out by default.
        encoding: Of a text table; UTF-8 by default.
        missing: Which texts mean a missing cell, besides the usual ones (`harpoon.io.text_types.MISSING`).
        types: The types of columns of text, where they need not be found out.
    """

    delimiter: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidOption(f"A delimiter is a single character, such as ; or a tab, got {self.delimiter!r}.")

    @property
    def missing_words(self) -> tuple[str, ...]:
        """All texts that mean a missing cell."""
        return (*MISSING, *(word.strip() for word in self.missing))


TEXTUAL = ("csv", "tsv")
LOOSE = ("jsonl", "sqlite")


@dataclass(frozen=True)
class Chunk:
    """Some rows, and, where Arrow has not all that they are, how they were written.

    Attributes:
        table: The rows.
        texts: Their texts, if they are from a text table.
        cells: Makes their `Cells`, if they are from one that holds anything in any column.
    """

    table: pa.Table
    texts: pa.Table | None = None
    cells: Callable[[], pa.Table] | None = None

    def as_written(self, format: str) -> pa.Table | None:  # noqa: A002
        """The rows as they were, if a table of this format can hold them so."""
        if format in LOOSE:
            return None if self.cells is None else self.cells()
        return self.texts if format in TEXTUAL else None


class Source(Protocol):
    """A table that is read part by part.

    Attributes:
        delimiter: Between its cells, where they are text.
        met: The spellings of missing cells that were met, where they are text.
    """

    delimiter: str
    met: set[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in their order, so many at a time."""


def resized(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows, so many at a time."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while sum(part.num_rows for part in held) >= size:
            whole = pa.concat_tables(held)
            yield whole.slice(0, size)
            held = [whole.slice(size)]
    if sum(part.num_rows for part in held):
        yield pa.concat_tables(held)


def check_names(names: Sequence[str], place: str) -> None:
    """Every column has a name of its own."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidTable(
            f"{place} has several columns called {format_list(twice)}. Give each column a name of its own."
        )


LOOKED_AT = 2**16  # rows at a time, to find out how truth is spelled


def spelled_truths(source: Source) -> dict[str, str]:
    """The first truth value of each column as it is written, wherever in the table it stands: true, True or TRUE."""
    sought = [f.name for f in source.schema if pa.types.is_boolean(f.type)]
    found: dict[str, str] = {}
    parts = source.chunks(LOOKED_AT)
    while sought and (part := next(parts, None)) is not None and part.texts is not None:
        for name in sought:
            there = part.texts[name].filter(pc.is_valid(part.table[name]))
            found |= {name: there[0].as_py().strip()} if len(there) else {}
        sought = [name for name in sought if name not in found]
    return found


def parts_of(source: Source, size: int) -> Iterator[Chunk]:
    """The parts of a table; a table without rows has one, so that its columns are known."""
    empty = True
    for part in source.chunks(size):
        empty = False
        yield part
    if empty:
        yield Chunk(source.schema.empty_table())
