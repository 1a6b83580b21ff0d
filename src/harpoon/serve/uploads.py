"""Tables that come in: JSON rows, an Arrow stream, or CSV. They stay in memory; no name of a file is ever read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harpoon.cli.expecting import text_types
from harpoon.cli.parts import parts_of
from harpoon.conforming import unseen_labels
from harpoon.errors import InvalidTable, listed
from harpoon.frames import read
from harpoon.kinds import Kind
from harpoon.schema import Schema
from harpoon.serve.faults import too_large
from harpoon.tables import Part, Reading, Source
from harpoon.tables.delimited import Delimited
from harpoon.tables.loose import Loose
from harpoon.tables.sources import check_names
from harpoon.tables.streams import GZIP, Held

NAME = "The table that was sent"
NO_TEXT = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "a zip or Excel file", GZIP: "gzipped"}


@dataclass(frozen=True)
class Upload:
    """A table that was sent, as one part.

    Attributes:
        source: What it was read from.
        part: All of its rows. A label that the model does not know is missing.
        notes: A sentence about each column with such labels.
    """

    source: Source
    part: Part
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, schema: Schema, most: int) -> Upload:
        """All rows of a source, if there are not too many."""
        part = next(parts_of(source, most + 1))
        if part.table.num_rows > most:
            raise too_large(f"A table may have {most:,} rows here, and this one has more. Send it in parts.")
        table, notes = _with_known_labels(part.table, schema)
        return cls(source, replace(part, table=table), tuple(notes))


@dataclass(frozen=True)
class Whole:
    """A table in memory, as a source."""

    table: pa.Table
    delimiter = ","
    met = frozenset[str]()

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self.table.schema

    def parts(self, size: int) -> Iterator[Part]:
        """The rows in their order, so many at a time."""
        for start in range(0, self.table.num_rows, size):
            yield Part(self.table.slice(start, size))


def from_rows(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Source:
    """Objects of JSON; a key that is nowhere is a column of missing cells."""
    loose = Loose(lambda: iter(rows), text_types(schema), dict.fromkeys(schema.names, ""))
    parts = [part.table for part in loose.parts(max(len(rows), 1))]
    table = pa.concat_tables(parts) if parts else loose.schema.empty_table()
    for column in schema:
        place = table.schema.get_field_index(column.name)
        if column.kind is Kind.DURATION and pa.types.is_integer(table.schema.field(place).type):
            table = table.set_column(place, column.name, table[column.name].cast(pa.duration(column.unit)))
    return Whole(table)


def from_text(content: bytes, schema: Schema) -> Source:
    """CSV and its relatives."""
    what = next((what for sign, what in NO_TEXT.items() if content.startswith(sign)), "")
    if what:
        raise InvalidTable(f"{NAME} is {what}. Send it as CSV, or as a stream of Arrow.")
    return Delimited(Held(NAME, content), Reading(types=text_types(schema)))


def from_arrow(content: bytes, most: int) -> Source:
    """A stream of Arrow. Nothing in it is believed before it is checked."""
    batches, rows = [], 0
    try:
        with pa.ipc.open_stream(content) as stream:
            check_names(stream.schema.names, NAME)
            for batch in stream:
                rows += batch.num_rows
                if rows > most:
                    break  # the count of rows is what is refused
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, stream.schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidTable):
            raise
        raise InvalidTable(f"{NAME} is no stream of Arrow: it ends too early, or is something else.") from None
    if rows > most:
        raise too_large(f"A table may have {most:,} rows here, and this one has more. Send it in parts.")
    return Whole(table)


def _with_known_labels(table: pa.Table, schema: Schema) -> tuple[pa.Table, list[str]]:
    """The table without labels that the model has never seen, and what to say about them."""
    notes, whole = [], read(table)
    for column in schema.modelled:
        if column.name not in whole.names:
            continue
        strange = unseen_labels(whole.cells(column.name), column)
        if strange:
            place, cells = whole.names.index(column.name), table[column.name]
            plain = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
            unknown = pc.is_in(plain, pa.array(strange, type=plain.type))
            table = table.set_column(place, column.name, pc.if_else(unknown, None, plain))
            notes.append(
                f"Column {column.name!r} holds {listed(strange)}, which the model has never seen: filled anew."
            )
    return table, notes
