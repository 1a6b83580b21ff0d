"""Imputation of one block of a long table.

The command line, the HTTP service and every engine impute a block with this code. What a row gets depends on its row
number, not on its block, so all of them give the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon.conditions.language.expressions import Predicate
from harpoon.data.arrow_types import imputed_schema
from harpoon.data.column import Kind
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, SchemaMismatch, StructuralMissingWarning, hold_warnings, warn
from harpoon.io import Chunk
from harpoon.io.text_types import format_texts

DRAW = "draw"  # the column that numbers draws


class BlockImputer:
    """Imputes chunk after chunk and counts the imputed cells.

    `where`, `draws`, `only` and `options` are those of `Harpoon.impute` and `harpoon.engines.impute`. With `keep_text`,
    cells of text files that are not imputed keep their spelling; imputed booleans and times get that of `spellings`.
    Without it cells have types; columns of text that are not imputed still keep every word, also one that means
    "missing".
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
        keep_text: bool = False,
        spellings: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.draws, self.where, self.seed, self.keep_text = model, draws, where, seed, keep_text
        self.modelled = [name for name in schema.names if name in model.schema_.names]
        if absent := [name for name in model.schema_.required if name not in self.modelled]:
            raise SchemaMismatch.missing_columns(absent, schema.names)
        self.passed_through = [name for name in schema.names if name not in self.modelled]  # not in the model
        produced = [c.name for c in model.schema_ if c.kind.modelled or c.kind is Kind.CONSTANT]
        if unknown := [name for name in only if name not in produced]:
            raise InvalidOption.one_of("A column that the model imputes", unknown[0], produced)
        self.schema = imputed_schema(schema, model.schema_, model.template_)  # of every imputed chunk
        self.n_filled = dict.fromkeys((name for name in schema.names if name in (only or produced)), 0)  # imputed cells
        self.n_rows_filled = 0  # rows with an imputed cell
        self._spellings, self.options = spellings or {}, options or {}
        self.structural = Counter[str]()  # imputed cells that are structurally missing, by column
        self.causes: dict[str, str] = {}  # beside which values of other columns they are
        if draws is not None and DRAW in schema.names:
            raise InvalidOption(f"The table has a column {DRAW!r} already. Rename it, for draws are numbered there.")

    def impute_chunk(self, chunk: Chunk, row_offset: int) -> list[pa.Table]:
        """Impute a chunk that starts at this row of the table. Returns one table, or one per draw."""
        with hold_warnings(StructuralMissingWarning) as held:
            imputed = self.model.impute(
                chunk.table.select(self.modelled),
                draws=self.draws,
                where=self.where,
                row_offset=row_offset,
                random_state=self.seed,
                **self.options,
            )
        for warning in held:
            counts = cast("Mapping[str, int]", warning.facts["counts"])
            self.structural.update({name: count for name, count in counts.items() if name in self.n_filled})
            self.causes |= cast("Mapping[str, str]", warning.facts["causes"])
        tables = [imputed] if self.draws is None else list(imputed)
        return [self._merge(chunk, table, count=index == 0) for index, table in enumerate(tables)]

    def impute_stacked(self, chunk: Chunk, row_offset: int) -> pa.Table:
        """Impute a chunk to one table, with all draws of a row together."""
        tables = self.impute_chunk(chunk, row_offset)
        return tables[0] if self.draws is None else stack_draws(tables)

    def _merge(self, chunk: Chunk, after: pa.Table, *, count: bool) -> pa.Table:
        """Put the imputed cells into the columns of the source."""
        columns, before = [], chunk.table
        texts = chunk.texts if self.keep_text else None
        has_new = np.zeros(before.num_rows, dtype=np.bool_)
        for f in self.schema:
            own = before[f.name] if texts is None else texts[f.name]
            if f.name not in self.n_filled:
                is_text = pa.types.is_string(f.type) or pa.types.is_null(f.type)
                columns.append(own if chunk.texts is None or not is_text else chunk.texts[f.name])
                continue
            filled = _cast(after[f.name], f)
            is_new = pc.and_(pc.is_null(before[f.name], nan_is_null=True), pc.is_valid(filled))
            self.n_filled[f.name] += pc.sum(is_new).as_py() or 0 if count else 0
            has_new |= is_new.to_numpy()
            if texts is not None:
                new_texts = format_texts(filled, like=self._spellings.get(f.name, ""))
                filled = pc.if_else(is_new, new_texts, own)
            columns.append(filled)
        self.n_rows_filled += int(has_new.sum()) if count else 0
        fields = [f.with_type(column.type) for f, column in zip(self.schema, columns, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))


def warn_structural(counts: Mapping[str, int], causes: Mapping[str, str]) -> None:
    """Warn once of the structurally missing cells that were imputed in all blocks, by column; if there are any."""
    if any(counts.values()):
        warn(StructuralMissingWarning.of({name: count for name, count in counts.items() if count}, causes))


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:  # floats that were integers before cells went missing, and one that never was
        raise SchemaMismatch(
            f"Column {field.name!r} is written as {field.type}, which cannot hold all of its cells: {error}. Correct "
            "them, or train again on what the column holds now."
        ) from None


def stack_draws(draws: Sequence[pa.Table]) -> pa.Table:
    """Concatenate draws to one table with a first column `draw`. All draws of a row are together.

    >>> stack_draws([pa.table({"x": [1, 2]}), pa.table({"x": [3, 4]})]).to_pydict()
    {'draw': [1, 2, 1, 2], 'x': [1, 3, 2, 4]}
    """
    n_rows = draws[0].num_rows
    order = np.arange(len(draws) * n_rows).reshape(len(draws), n_rows).T.ravel()
    numbers = np.tile(np.arange(1, len(draws) + 1), n_rows)
    return pa.concat_tables(draws).take(order).add_column(0, DRAW, pa.array(numbers))
