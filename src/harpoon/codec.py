"""Rows of a table to encoded rows, and back.

An encoded row is the vector x_0 of the paper (Sec. 3.1): one number per numeric column, one number per label
of a categorical column (or a single number with the integer encoding), or what the column's encoding makes of it.
A codec is two functions, `encode` and `decode`, of the columns' codecs side by side.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.cells import NOWHERE, Cells, Rows
from harpoon.conforming import conform, unseen_labels
from harpoon.encodings import ENCODINGS, ColumnCodec, GroupedCodec, Shape, SpikeCodec, from_json, to_json
from harpoon.errors import InvalidOption, LabelsGrouped, UnseenCategory, listed
from harpoon.frames import Table
from harpoon.kinds import Column
from harpoon.scaling import Floats
from harpoon.schema import Schema, check_columns, check_known
from harpoon.tallies import Tallies
from harpoon.units import Recipe, Unit


@dataclass(frozen=True)
class Block:
    """Where a part of a column stands in the encoded row."""

    name: str
    column: int
    start: int
    stop: int
    shape: Shape

    @property
    def simplex(self) -> bool:
        """Whether its numbers are those of a category."""
        return self.shape is Shape.SIMPLEX


@dataclass(frozen=True)
class Codec:
    """The codecs of all modelled columns, side by side."""

    schema: Schema
    columns: tuple[ColumnCodec, ...]

    @classmethod
    def fit(cls, schema: Schema, tallies: Tallies, *, encoding: str, scaling: str) -> Codec:
        """Learn the scales from what the training table holds."""
        make = ENCODINGS[encoding]
        codecs: list[ColumnCodec] = []
        for column in schema.modelled:
            codecs.append(make(column, tallies[column.name].conformed(column), scaling))
            if isinstance(codecs[-1], GroupedCodec):
                _warn_grouped(codecs[-1])
        return cls(schema, tuple(codecs))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Where each part of each column stands in the encoded row."""
        blocks, start = [], 0
        for place, codec in enumerate(self.columns):
            for part in codec.parts:
                blocks.append(Block(codec.column.name, place, start, start + part.width, part.shape))
                start += part.width
        return tuple(blocks)

    @property
    def width(self) -> int:
        """The length d of an encoded row."""
        return sum(self.widths)

    @cached_property
    def widths(self) -> list[int]:
        """How many numbers each column takes."""
        return [sum(part.width for part in codec.parts) for codec in self.columns]

    @cached_property
    def ranked(self) -> list[SpikeCodec]:
        """The columns whose numbers have ranks."""
        return [codec for codec in self.columns if isinstance(codec, SpikeCodec) and codec.ranks]

    def read(self, table: Table, *, partial: bool = False, strict: bool = False) -> Rows:
        """The modelled columns of a table, checked against the schema.

        A `partial` table may lack columns; they count as missing. Labels that the model does not know count as
        missing too, with a warning, or are an error if `strict`.
        """
        check = check_known if partial else check_columns
        check(table.names, self.schema.names)
        rows = {}
        for codec in self.columns:
            column = codec.column
            absent = column.name not in table.names
            cells = _absent(table.height) if absent else table.cells(column.name)
            rows[column.name] = conform(cells, column)
            unseen = unseen_labels(cells, column)
            if unseen and strict:
                raise InvalidOption.one_of(f"A value of column {column.name!r}", unseen[0], column.labels or ())
            if unseen:
                _warn_unseen(column, unseen, int((rows[column.name].missing & ~cells.missing).sum()))
        return rows

    def encode(self, rows: Rows) -> Floats:
        """Encoded rows, (n, d); a missing cell is all zeros."""
        return np.concatenate([codec.encode(rows[codec.column.name]) for codec in self.columns], axis=1)

    def spans(self, rows: Rows) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Where ranks stand in the encoded row, and the lowest and highest rank of each cell, (n, ranks)."""
        names = {codec.column.name for codec in self.ranked}
        places = [block.start for block in self.blocks if block.name in names and block.shape is Shape.LINE]
        ends = [codec.span(rows[codec.column.name]) for codec in self.ranked]
        low, high = (np.stack([end[side] for end in ends], axis=1) if ends else np.zeros((0, 0)) for side in (0, 1))
        return np.array(places, dtype=np.int64), low, high

    def unit(self, column: int) -> Unit | None:
        """The unit of a column's numbers, if their means are of one."""
        codec = self.columns[column]
        return codec.unit if isinstance(codec, SpikeCodec) else None

    def ends(self, column: int, slots: int) -> Floats:
        """Where the slots of a column's ranks end on the scale of its means."""
        codec = self.columns[column]
        return codec.slot_ends(slots) if isinstance(codec, SpikeCodec) else np.zeros(slots - 1)

    def copied(self, rows: Rows, form_of: NDArray[np.int64], recipes: Mapping[int, Recipe]) -> Rows:
        """Rows with every number that is a copy just what it is a copy of, on its own grid.

        Args:
            rows: Rows with other numbers in the place of copies.
            form_of: Which form the number of each rank is a copy of, or `NOWHERE`, (n, ranks).
            recipes: How each form is made of the numbers of other ranks.
        """
        values, open_ = [rows[codec.column.name].values for codec in self.ranked], form_of != NOWHERE
        while open_.any():  # copies of copies come after them
            for place in np.flatnonzero(open_.any(axis=0)).tolist():
                for form in np.unique(form_of[open_[:, place], place]).tolist():
                    recipe = recipes[form]
                    ready = open_[:, place] & (form_of[:, place] == form) & ~open_[:, recipe.sources].any(axis=1)
                    said = recipe.made(values)
                    sure = ready & np.isfinite(said)
                    values[place] = np.where(sure, self.ranked[place].carried(np.where(sure, said, 0)), values[place])
                    open_[:, place] &= ~ready
        names = [codec.column.name for codec in self.ranked]
        return rows | {name: rows[name].filled_with(said) for name, said in zip(names, values, strict=True)}

    @property
    def units(self) -> dict[int, Unit]:
        """The units of the numbers that have ranks, by their places among those."""
        return {place: unit for place, codec in enumerate(self.ranked) if (unit := codec.unit)}

    def known(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cells are there, (n, columns)."""
        return np.stack([~rows[codec.column.name].missing for codec in self.columns], axis=1)

    def spread(self, by_column: NDArray[Any]) -> NDArray[Any]:
        """One value per column repeated over the column's numbers: (n, columns) to (n, d)."""
        return np.repeat(by_column, self.widths, axis=1)

    def decode(self, x: Floats, *, expected: bool = False) -> Rows:
        """Encoded rows back to cells; `expected`: x holds means and probabilities instead of rows."""
        parts = np.split(x, np.cumsum(self.widths)[:-1], axis=1)
        pairs = zip(self.columns, parts, strict=True)
        return {codec.column.name: codec.decode(part, expected=expected) for codec, part in pairs}

    def expectation(self, x: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Means of the numeric columns and probabilities of the labels of the others, as they come."""
        numbers: dict[str, Floats] = {}
        probabilities: dict[str, Floats] = {}
        for codec, part in zip(self.columns, np.split(x, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            found = numbers if codec.column.kind.numeric else probabilities
            found[codec.column.name] = codec.expectation(part)
        return numbers, probabilities

    def to_json(self) -> list[dict[str, Any]]:
        """What was learnt, as plain data."""
        return [to_json(codec) for codec in self.columns]

    @classmethod
    def from_json(cls, schema: Schema, data: list[Mapping[str, Any]]) -> Codec:
        """Back from `to_json`."""
        pairs = zip(schema.modelled, data, strict=True)
        return cls(schema, tuple(from_json(column, item) for column, item in pairs))


def _absent(height: int) -> Cells:
    return Cells("null", np.zeros(height, dtype=np.int64), np.ones(height, dtype=np.bool_))


def _warn_grouped(codec: GroupedCodec) -> None:
    warnings.warn(
        f"Column {codec.column.name!r} has {len(codec.column.labels or ()):,} values: the {len(codec.frequent)} most "
        f"frequent are learnt one by one, the others in {codec.groups} groups.",
        LabelsGrouped,
        stacklevel=5,
    )


def _warn_unseen(column: Column, unseen: list[Any], count: int) -> None:
    warnings.warn(
        f"Column {column.name!r} holds {listed(unseen)} in {count} {'cell' if count == 1 else 'cells'}, unknown to "
        "the model: treated as missing.",
        UnseenCategory,
        stacklevel=4,
    )
