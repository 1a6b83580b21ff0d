"""Sources: tables that are read in chunks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._formatting import format_list
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.io.registry import DATABASES, FORMATS
from harpoon.io.text_types import MISSING

SCAN_ROWS = 2**16  # rows at a time, to infer types and to find the spellings of booleans


@dataclass(frozen=True)
class ReadOptions:
    """How to read files that do not describe themselves, such as CSV.

    Attributes:
        delimiter: Character between the cells of a text file; detected by default.
        encoding: Encoding of a text file; UTF-8 by default.
        missing: Texts that mean a missing cell, besides the usual ones (`harpoon.io.text_types.MISSING`).
        types: Types of columns, where they should not be inferred.
    """

    delimiter: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidOption(f"delimiter must be a single character, such as ; or a tab, got {self.delimiter!r}.")
        if self.delimiter is not None and not self.delimiter.isascii():
            raise InvalidOption(
                f"delimiter must be an ASCII character, such as ; or | or a tab, got {self.delimiter!r}. Replace it in "
                "the file."
            )
        try:
            "a".encode(self.encoding or "utf-8")  # refuses codecs that are not of text, such as hex
        except (LookupError, UnicodeError):
            raise InvalidOption(f"There is no text encoding {self.encoding!r}. Try utf-8, latin-1 or utf-16.") from None

    def check(self, name: str, format: str) -> None:  # noqa: A002
        """Raise InvalidOption for an option that the format of a table does not use. `types` are for any format."""
        check_text_options(name, format, delimiter=self.delimiter, encoding=self.encoding, missing=self.missing)

    @property
    def missing_words(self) -> tuple[str, ...]:
        """All texts that mean a missing cell."""
        return (*MISSING, *(word.strip() for word in self.missing))


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table.

    Attributes:
        table: The rows.
        texts: The same cells as they are spelled, if the source is a text file.
    """

    table: pa.Table
    texts: pa.Table | None = None


class Source(ABC):
    """A table that is read in chunks.

    Attributes:
        schema: The columns and their types; may be a property.
        delimiter: Character between cells, if they are text.
        missing_spellings: Spellings of missing cells that occurred, if cells are text.
        n_rows: Number of rows, if it is known without reading them.
    """

    schema: pa.Schema
    delimiter = ","
    missing_spellings: Set[str] = frozenset()
    n_rows: int | None = None

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, without reading rows."""
        return list(self.schema.names)

    @abstractmethod
    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time. All chunks have the same types."""


class TableSource(Source):
    """A table in memory as a source."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.schema, self.n_rows = table, table.schema, table.num_rows

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        for start in range(row_offset, self.table.num_rows, size):
            yield Chunk(self.table.slice(start, size))


def rebatch(tables: Iterable[pa.Table], size: int, row_offset: int = 0) -> Iterator[pa.Table]:
    """Yield the rows of consecutive tables, `size` at a time, without the first `row_offset` ones."""
    held: list[pa.Table] = []
    for table in tables:
        skipped = min(row_offset, table.num_rows)
        row_offset -= skipped
        held.append(table.slice(skipped))
        while sum(part.num_rows for part in held) >= size:
            whole = pa.concat_tables(held)
            yield whole.slice(0, size)
            held = [whole.slice(size)]
    if sum(part.num_rows for part in held):
        yield pa.concat_tables(held)


def check_text_options(name: str, format: str, **options: object) -> None:  # noqa: A002
    """Raise InvalidOption if an option of text files is given for another format or a database."""
    given = [option for option, value in options.items() if value]
    text_formats = {key: entry.title for key, entry in FORMATS.items() if entry.keeps_text}
    if given and format not in text_formats:
        title = (FORMATS.get(format) or DATABASES[format]).title
        problem = f"is an option of {' and '.join(text_formats.values())}, and {name} is {title}"
        raise InvalidOption(
            f"{given[0]} {problem}. Leave it out.", code="option_of_text_files", option=given[0], problem=problem
        )


def check_column_names(names: Sequence[str], source: str) -> None:
    """Raise InvalidTable if two columns have the same name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidTable(
            f"{source} has several columns called {format_list(repeated)}. Give each column a name of its own."
        )


def has_spelling(dtype: pa.DataType) -> bool:
    """Return whether cells of a text file with this type can be spelt in several ways that a sampled cell follows."""
    return bool(pa.types.is_boolean(dtype) or pa.types.is_timestamp(dtype))


def spellings(source: Source) -> dict[str, str]:
    """Return the spelling of the first cell of each column of booleans or times: TRUE, or 2024-01-31T12:00:00+01:00."""
    names = [f.name for f in source.schema if has_spelling(f.type)]
    found: dict[str, str] = {}
    chunks = source.chunks(SCAN_ROWS)
    while names and (chunk := next(chunks, None)) is not None and chunk.texts is not None:
        for name in names:
            observed = chunk.texts[name].filter(pc.is_valid(chunk.table[name]))
            found |= {name: observed[0].as_py().strip()} if len(observed) else {}
        names = [name for name in names if name not in found]
    return found


def chunks_or_empty(source: Source, size: int) -> Iterator[Chunk]:
    """Yield the chunks of a table; a table without rows gives one empty chunk with its columns."""
    chunks = source.chunks(size)
    yield next(chunks, Chunk(source.schema.empty_table()))
    yield from chunks
