"""Blocks of a long table, filled one after the other or wherever there is room: what a row gets depends on its number.

This is the one way in which the command line and every engine fill a block, so all of them give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon.conditions.expressions import Predicate
from harpoon.data.arrow_types import imputed_schema
from harpoon.data.column import Kind
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, SchemaMismatch
from harpoon.io import Chunk, cells
from harpoon.io.text_types import format_texts

DRAW = "draw"


class BlockImputer:
    """Fills part after part, and counts.

    Args:
        model: What fills.
        schema: The columns of the table.
        only: The columns to fill; all that the model knows by default.
        draws: How many tables to draw, instead of the best value of each cell.
        where: A condition that every completed row meets.
        seed: Of the draws.
        format: Of the table that the parts go to: "csv" takes cells as they were written.
        truths: How truth is spelled in columns of text.
        options: Sampling and guidance options, as for `Harpoon.impute`.

    Attributes:
        schema: The types of the filled table, the same for every part.
        passed_on: Columns that the model does not know.
        filled: How many cells were filled in each column.
    """

    def __init__(
        self,
        model: Harpoon,
        schema: pa.Schema,
        *,
        only: Sequence[str] = (),
        draws: int | None = None,
        where: str | Predicate | None = None,
        seed: int | None = None,
        format: str = "parquet",  # noqa: A002
        truths: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options or {}
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
        self.schema = imputed_schema(schema, model.schema_, model.template_)
        self.filled = dict.fromkeys((name for name in schema.names if name in (only or produced)), 0)
        self._truths = truths or {}
        if draws is not None and DRAW in schema.names:
            raise InvalidOption(f"The table has a column {DRAW!r} of its own. Rename it to number the draws.")

    def of(self, part: Chunk, first_row: int) -> list[pa.Table]:
        """The filled part, once for each draw, with its cells as they were written if the format allows that."""
        given = part.table.select(self.known)
        made = self.model.impute(
            given, draws=self.draws, where=self.where, row_offset=first_row, random_state=self.seed, **self.options
        )
        drawn = [made] if self.draws is None else list(made)
        written = part.as_written(self.format)
        return [self._merged(part.table, filled, written, count=place == 0) for place, filled in enumerate(drawn)]

    def stacked(self, table: pa.Table, first_row: int) -> pa.Table:
        """The filled rows as one table, all draws of a row together."""
        made = self.of(Chunk(table), first_row)
        return made[0] if self.draws is None else stack_draws(made)

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
            return pc.fill_null(pc.not_equal(format_texts(before), format_texts(after)), pa.scalar(value=True))
        return pc.is_null(before, nan_is_null=True)

    def _written(
        self, name: str, after: pa.ChunkedArray, new: pa.ChunkedArray, texts: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """The cells as they were written, and new ones in the same spelling."""
        if isinstance(texts.type, cells.Cells):
            return cells.filled(new, after, texts)
        return pc.if_else(new, format_texts(after, like=self._truths.get(name, "")), texts)


def stack_draws(draws: Sequence[pa.Table]) -> pa.Table:
    """One table with a first column `draw`. All draws of a row stand together, whatever the parts.

    >>> stacked_draws([pa.table({"x": [1, 2]}), pa.table({"x": [3, 4]})]).to_pydict()
    {'draw': [1, 2, 1, 2], 'x': [1, 3, 2, 4]}
    """
    rows = draws[0].num_rows
    order = np.arange(len(draws) * rows).reshape(len(draws), rows).T.ravel()
    numbers = np.tile(np.arange(1, len(draws) + 1), rows)
    return pa.concat_tables(draws).take(order).add_column(0, DRAW, pa.array(numbers))
