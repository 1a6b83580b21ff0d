"""Partial tables: tables whose unknown cells are filled, and rows with cells that are given beforehand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from harpoon._utils.progress import sampling_bar
from harpoon.data import Columns, FrameTemplate, Kind, Schema, Table, dataframe, read_columns, scatter, take
from harpoon.exceptions import InvalidOption, StructuralMissingWarning, warn
from harpoon.inference.imputation.results import MultipleImputation
from harpoon.inference.imputation.structural_causes import structural_causes
from harpoon.inference.sampling.row_sampler import Complete, RowSampler


@dataclass(frozen=True)
class PartialTable:
    """A table whose unknown cells are to be filled; all other cells stay bit for bit.

    Attributes:
        table: The table.
        rows: Its modelled columns, those that it lacks included.
        schema: The schema of the model.
        template: The look of the training table.
    """

    table: Table
    rows: Columns
    schema: Schema
    template: FrameTemplate

    @classmethod
    def read(cls, data: object, schema: Schema, template: FrameTemplate, *, partial: bool = False) -> Self:
        """Read a table of any library; a `partial` one may lack columns, another one may have others."""
        table = dataframe.read(data)
        if partial and not table.names:
            raise InvalidOption("A table of partial rows must have columns; use n to sample rows without any.")
        return cls(table, read_columns(table, schema, partial=partial, extra=not partial), schema, template)

    def keep_structural(self, sampler: RowSampler) -> Self:
        """Make structurally missing cells null, so that they stay missing; or warn that they are filled."""
        found = sampler.structural_nulls(self.rows)
        if sampler.config.structural == "keep":
            kept = {name: self.rows[name].with_null(null) for name, null in found.items()}
            return replace(self, rows=self.rows | kept)
        if found:
            counts = {name: int(null.sum()) for name, null in found.items()}
            warn(StructuralMissingWarning.of(counts, structural_causes(sampler, counts)))
        return self

    def fill(self, complete: Complete, row_offset: int) -> Any:  # noqa: ANN401
        """Return the table with its unknown cells filled."""
        return self._write(self._complete(complete, row_offset))

    def draw(self, count: int, complete: Complete, row_offset: int, sampler: RowSampler) -> MultipleImputation:
        """Return several such tables, each with its own draw; several draws have one progress bar."""
        one_bar = sampler.progress is True and count > 1
        sampler.progress = False if one_bar else sampler.progress
        draws = []
        with sampling_bar(count, self.table.n_rows, one_bar) as on_draw:
            for number in range(count):
                draws.append(self._complete(partial(complete, draw=number), row_offset))
                on_draw()
        missing = {name: cells.unknown for name, cells in self.rows.items()}
        tables = [self._write(columns) for columns in draws]
        return MultipleImputation(tables, self.table, self.template, self.schema, draws, missing)

    def _complete(self, complete: Complete, row_offset: int) -> Columns:
        """Complete the rows that have a missing cell; the others are not touched."""
        index = np.flatnonzero(np.any([cells.missing for cells in self.rows.values()], axis=0))
        return scatter(self.rows, complete(take(self.rows, index), index + row_offset), index)

    def _write(self, columns: Columns) -> Any:  # noqa: ANN401
        """Write new cells into the missing cells of the table, constant columns included."""
        constants = constant_columns(self.schema, self.template, self.table.n_rows)
        own_constants = {name: self.table.column(name) for name in constants if name in self.table.names}
        missing = {name: cells.unknown for name, cells in {**self.rows, **own_constants}.items()}
        return self.table.fill({**columns, **constants}, missing, self.template)


def constant_columns(schema: Schema, template: FrameTemplate, n: int) -> Columns:
    """Return n rows of the constant columns."""
    return {name: template.constant(name, value, n) for name, value in schema.constants.items()}


def given_rows(given: Mapping[str, object] | None, n: int, schema: Schema, nullable: Collection[str]) -> Columns:
    """Return n rows with the same given cells; a column that is not sampled can only have its constant value."""
    given = given or {}
    table = dataframe.constant_table(given, n)
    for name, value in given.items():
        column = schema[name] if name in schema.names else None
        if column is None or column.kind.modelled or value is None:
            continue
        if not isinstance(value, str | int | float | bool):
            raise InvalidOption(
                f"Column {name!r} is not sampled, and a value like {type(value).__name__} cannot be given for it."
            )
        if column.kind is not Kind.CONSTANT:
            raise InvalidOption(f"No value can be given for column {name!r}: it is not sampled ({column.note}).")
        if value != (constant := schema.constants[name]):
            raise InvalidOption(f"Column {name!r} is always {constant!r}, got {value!r}.")
    rows = read_columns(table, schema, partial=True, strict=True)
    for name in [name for name in given if name in rows and rows[name].missing.any()]:
        if name not in nullable:
            raise InvalidOption(
                f"given[{name!r}] is missing, but the column is never missing in the training table. Leave it out "
                "to sample it."
            )
        rows[name] = rows[name].with_null(rows[name].missing)
    return rows
