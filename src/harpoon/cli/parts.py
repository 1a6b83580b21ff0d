"""Parts of a table, filled one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon.cli.expecting import filled_schema
from harpoon.errors import InvalidOption, SchemaMismatch
from harpoon.kinds import Kind
from harpoon.model import Harpoon
from harpoon.tables import Part, Source, cells
from harpoon.tables.sources import TEXTUAL
from harpoon.tables.texts import as_text

DRAW = "draw"
LOOKED_AT = 2**16  # rows at a time, to find out how truth is spelled


class Filler:
    """Fills part after part, and counts.

    Attributes:
        schema: The types of the filled table, the same for every part.
        passed_on: Columns that the model does not know.
        rows: How many rows there were so far.
        filled: How many cells were filled in each column.
    """

    def __init__(
        self,
        model: Harpoon,
        source: Source,
        *,
        format: str,  # noqa: A002
        only: Sequence[str],
        draws: int | None,
        where: str | None,
        seed: int | None,
    ) -> None:
        schema = source.schema
        self.model, self.draws, self.where, self.seed, self.format = model, draws, where, seed, format
        self.known = [name for name in schema.names if name in model.schema_.names]
        lacking = [name for name in model.schema_.names if name not in self.known]
        if lacking:
            raise SchemaMismatch.missing_columns(lacking, schema.names)
        self.passed_on = [name for name in schema.names if name not in self.known]
        produced = [c.name for c in model.schema_ if c.kind.modelled or c.kind is Kind.CONSTANT]
        idle = [name for name in only if name not in produced]
        if idle:
            raise InvalidOption.one_of("A column that the model fills", idle[0], produced)
        self.schema = filled_schema(schema, model.schema_, model.template_)
        self.filled = dict.fromkeys((name for name in schema.names if name in (only or produced)), 0)
        self.rows = 0
        self._truths = spelled_truths(source, self.filled) if format in TEXTUAL else {}
        if draws is not None and DRAW in schema.names:
            raise InvalidOption(f"The table has a column {DRAW!r} of its own. Rename it to number the draws.")

    def of(self, part: Part) -> list[pa.Table]:
        """The filled part, once for each draw, with its cells as they were written if the format allows that."""
        given = part.table.select(self.known)
        made = self.model.impute(given, draws=self.draws, where=self.where, first_row=self.rows, random_state=self.seed)
        self.rows += given.num_rows
        drawn = [made] if self.draws is None else list(made)
        written = part.as_written(self.format)
        return [self._merged(part.table, filled, written, count=place == 0) for place, filled in enumerate(drawn)]

    def _merged(self, own: pa.Table, filled: pa.Table, texts: pa.Table | None, *, count: bool) -> pa.Table:
        columns = []
        for f in self.schema:
            before, written = own[f.name], None if texts is None else texts[f.name]
            if f.name not in self.filled:
                columns.append(before if written is None else written)
                continue
            after = filled[f.name].cast(f.type)
            new = self._is_new(f.name, before, after)
            self.filled[f.name] += pc.sum(new).as_py() or 0 if count else 0
            columns.append(after if written is None else self._written(f.name, after, new, written))
        fields = [f.with_type(column.type) for f, column in zip(self.schema, columns, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))

    def _is_new(self, name: str, before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which cells were filled: the missing ones, and labels that the model does not know."""
        if self.model.schema_[name].kind.discrete:
            return pc.fill_null(pc.not_equal(as_text(before), as_text(after)), True)
        return pc.is_null(before, nan_is_null=True)

    def _written(
        self, name: str, after: pa.ChunkedArray, new: pa.ChunkedArray, texts: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """The cells as they were written, and new ones in the same spelling."""
        if isinstance(texts.type, cells.Cells):
            return cells.filled(new, after, texts)
        return pc.if_else(new, as_text(after, like=self._truths.get(name, "")), texts)


def spelled_truths(source: Source, names: Iterable[str]) -> dict[str, str]:
    """The first truth value of each column as it is written, wherever in the table it stands: true, True or TRUE."""
    sought = [name for name in names if pa.types.is_boolean(source.schema.field(name).type)]
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


def stacked_draws(draws: Sequence[pa.Table]) -> pa.Table:
    """One table with a first column `draw`. All draws of a row stand together, whatever the parts.

    >>> stacked_draws([pa.table({"x": [1, 2]}), pa.table({"x": [3, 4]})]).to_pydict()
    {'draw': [1, 2, 1, 2], 'x': [1, 3, 2, 4]}
    """
    rows = draws[0].num_rows
    order = np.arange(len(draws) * rows).reshape(len(draws), rows).T.ravel()
    numbers = np.tile(np.arange(1, len(draws) + 1), rows)
    return pa.concat_tables(draws).take(order).add_column(0, DRAW, pa.array(numbers))
