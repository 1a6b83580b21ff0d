"""Rows of a table to encoded rows, and back.

An encoded row is the vector x_0 of the paper (Sec. 3.1): one number per numeric column, one number per label
of a categorical column (or a single number with the integer encoding). A codec is two functions, `encode` and
`decode`, one small class per way of encoding a column; `Codec` lays them side by side.

Encoding is exact in double precision, so `decode(encode(rows))` gives the rows back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from harpoon.cells import Cells, Rows, Storage
from harpoon.conforming import STORAGE, conform, unseen_labels
from harpoon.errors import InvalidOption, UnseenCategory, listed
from harpoon.frames import Table
from harpoon.kinds import Column, Kind
from harpoon.scaling import SCALINGS, Floats, Quantile, Standard
from harpoon.schema import Schema, check_columns, check_known

SPIKE_SHARE, FEW_VALUES = 0.03, 32
EXACT = 2**52  # integers up to here are exact as floats
LOWEST, HIGHEST = -(2**63), 2**63 - 1024  # the whole numbers of 64 bits that are floats too


@dataclass(frozen=True)
class Part:
    """Some numbers of an encoded cell: a point on the line, or one of a simplex (a category)."""

    width: int
    simplex: bool


LINE = (Part(1, simplex=False),)


class ColumnCodec(Protocol):
    """Encodes the cells of one column into a few numbers per row."""

    @property
    def column(self) -> Column:
        """The column it encodes."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What a cell's numbers are."""

    def encode(self, cells: Cells) -> Floats:
        """Cells to (rows, width); a missing cell is all zeros."""

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:
        """(rows, width) to cells, none missing. `expected`: x is a mean over rows, not a row."""


@dataclass(frozen=True)
class NumberCodec:
    """A numeric column as one scaled number; decoding returns to the column's grid and range."""

    column: Column
    scaling: Standard | Quantile
    parts: ClassVar[tuple[Part, ...]] = LINE

    @classmethod
    def fit(cls, column: Column, cells: Cells, scaling: str) -> NumberCodec:
        """Learn the scale from the observed cells."""
        return cls(column, SCALINGS[scaling].fit(_centred(cells.observed, _origin(column))))

    def mean(self, x: Floats) -> Floats:
        """A mean in the table's units, off the grid and beyond the range if that is where it is."""
        return self.scaling.inverse(x[:, 0]) + _origin(self.column)

    def encode(self, cells: Cells) -> Floats:
        """Scaled values."""
        x = self.scaling.forward(_present(cells, _origin(self.column)))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """Values on the column's grid, within its range unless that is lifted."""
        values = _on_grid(self.scaling.inverse(x[:, 0]), self.column)
        if _clipped(self.column):
            values = np.clip(values, self.column.minimum, self.column.maximum)
        missing = np.zeros(len(x), dtype=np.bool_)
        return Cells(STORAGE[self.column.kind], values, missing, unit=self.column.unit)


@dataclass(frozen=True)
class OneHotCodec:
    """A categorical column as one number per label, 1 for the cell's label and 0 for the others."""

    column: Column

    @property
    def parts(self) -> tuple[Part, ...]:
        """As many numbers as labels."""
        return (Part(len(_labels(self.column)), simplex=True),)

    def encode(self, cells: Cells) -> Floats:
        """Corners of the simplex."""
        return _corners(cells.values, cells.missing, len(_labels(self.column)))

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """The label with the largest number."""
        return _category(self.column, x.argmax(axis=1))


@dataclass(frozen=True)
class IntegerCodec:
    """A categorical column as the scaled position of its label (the paper's encoding ablation)."""

    column: Column
    scaling: Standard | Quantile
    parts: ClassVar[tuple[Part, ...]] = LINE

    @classmethod
    def fit(cls, column: Column, cells: Cells, scaling: str) -> IntegerCodec:
        """Learn the scale from the observed positions."""
        return cls(column, SCALINGS[scaling].fit(cells.observed.astype(np.float64)))

    def encode(self, cells: Cells) -> Floats:
        """Scaled positions."""
        x = self.scaling.forward(cells.values.astype(np.float64))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """The label at the nearest position."""
        codes = np.clip(np.rint(self.scaling.inverse(x[:, 0])), 0, len(_labels(self.column)) - 1)
        return _category(self.column, codes.astype(np.int64))


@dataclass(frozen=True)
class SpikeCodec:
    """A numeric column with point masses: its number, and beside it which of the masses it is, if any.

    Real columns have values that occur again and again (no capital gain, forty hours). A mass is a category, and
    treating it as one is what lets drawn rows have it exactly as often.
    """

    number: NumberCodec
    spikes: tuple[float, ...]

    @classmethod
    def fit(cls, column: Column, cells: Cells, scaling: str) -> SpikeCodec | NumberCodec:
        """Find the masses: every value of a column with few, else those that many cells have."""
        number = NumberCodec.fit(column, cells, scaling)
        values, counts = np.unique(_centred(cells.observed, _origin(column)), return_counts=True)
        often = counts >= SPIKE_SHARE * max(counts.sum(), 1)
        spikes = values if len(values) <= FEW_VALUES else values[often]
        return cls(number, tuple(spikes.tolist())) if len(spikes) else number

    @property
    def column(self) -> Column:
        """The column it encodes."""
        return self.number.column

    @property
    def parts(self) -> tuple[Part, ...]:
        """The number, then no mass or one of them."""
        return (*LINE, Part(1 + len(self.spikes), simplex=True))

    def encode(self, cells: Cells) -> Floats:
        """The scaled value and a corner of the simplex."""
        values, spikes = _present(cells, _origin(self.column)), np.array(self.spikes)
        place = np.searchsorted(spikes, values).clip(max=len(spikes) - 1)
        which = np.where(spikes[place] == values, place + 1, 0)
        return np.hstack([self.number.encode(cells), _corners(which, cells.missing, 1 + len(spikes))])

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:
        """The mass that a row sits on, else its number; a mean over rows is a number."""
        if expected:
            return self.number.decode(x[:, :1])
        which, cells = x[:, 1:].argmax(axis=1), self.number.decode(x[:, :1])
        exact = (np.array((0.0, *self.spikes)).astype(cells.values.dtype) + _origin(self.column))[which]
        return cells.filled_with(np.where(which > 0, exact, cells.values))


@dataclass(frozen=True)
class Block:
    """Where a part of a column stands in the encoded row."""

    name: str
    column: int
    start: int
    stop: int
    simplex: bool


@dataclass(frozen=True)
class Codec:
    """The codecs of all modelled columns, side by side."""

    schema: Schema
    columns: tuple[ColumnCodec, ...]

    @classmethod
    def fit(cls, schema: Schema, table: Table, *, encoding: str, scaling: str) -> Codec:
        """Learn the scales from the training table."""
        make = ENCODINGS[encoding]
        codecs: list[ColumnCodec] = []
        for column in schema.modelled:
            cells = conform(table.cells(column.name), column)
            codecs.append(make(column, cells, scaling))
        return cls(schema, tuple(codecs))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Where each part of each column stands in the encoded row."""
        blocks, start = [], 0
        for place, codec in enumerate(self.columns):
            for part in codec.parts:
                blocks.append(Block(codec.column.name, place, start, start + part.width, part.simplex))
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
        numbers, probabilities = {}, {}
        for codec, part in zip(self.columns, np.split(x, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            if isinstance(codec, NumberCodec | SpikeCodec):
                number = codec.number if isinstance(codec, SpikeCodec) else codec
                numbers[codec.column.name] = number.mean(part)
            else:
                probabilities[codec.column.name] = part
        return numbers, probabilities

    def to_json(self) -> list[dict[str, Any]]:
        """What was learnt, as plain data."""
        return [_codec_to_json(codec) for codec in self.columns]

    @classmethod
    def from_json(cls, schema: Schema, data: list[Mapping[str, Any]]) -> Codec:
        """Back from `to_json`."""
        pairs = zip(schema.modelled, data, strict=True)
        return cls(schema, tuple(_codec_from_json(column, item) for column, item in pairs))


def _codec_to_json(codec: ColumnCodec) -> dict[str, Any]:
    data: dict[str, Any] = {"codec": type(codec).__name__}
    if isinstance(codec, SpikeCodec):
        return {**_codec_to_json(codec.number), **data, "spikes": list(codec.spikes)}
    if isinstance(codec, NumberCodec | IntegerCodec):
        data |= {"scaling": codec.scaling.name, **asdict(codec.scaling)}
    return data


def _codec_from_json(column: Column, data: Mapping[str, Any]) -> ColumnCodec:
    if column.kind.discrete != (data["codec"] not in (NumberCodec.__name__, SpikeCodec.__name__)):
        raise ValueError(f"column {column.name!r} of kind {column.kind} cannot have the codec {data['codec']!r}")
    if data["codec"] == OneHotCodec.__name__:
        return OneHotCodec(column)
    if data["codec"] == SpikeCodec.__name__:
        spikes = tuple(sorted(float(spike) for spike in data["spikes"]))
        return SpikeCodec(NumberCodec(column, SCALINGS[data["scaling"]].from_json(data)), spikes)
    scaled = {cls.__name__: cls for cls in (NumberCodec, IntegerCodec)}
    return scaled[data["codec"]](column, SCALINGS[data["scaling"]].from_json(data))


def _origin(column: Column) -> int:
    """Subtracted as an integer before going to floats, so that large integers and times stay exact."""
    if column.kind is Kind.NUMBER or column.minimum is None:
        return 0
    step = int(column.step or 1)
    return int(column.minimum) // step * step


def _present(cells: Cells, origin: int) -> Floats:
    """Centred values; a missing cell stands at the origin, so that it does not stretch the range."""
    return _centred(np.where(cells.missing, origin, cells.values), origin)


def _centred(values: NDArray[Any], origin: int) -> Floats:
    if origin and len(values) and abs(int(values.max()) - origin) > EXACT:
        return values.astype(np.float64) - origin
    return (values - origin).astype(np.float64)


def _on_grid(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold."""
    if column.kind is Kind.NUMBER:
        return np.round(x, round(-np.log10(column.step))) if column.step else x
    step, origin = int(column.step or 1), _origin(column)
    low, high = LOWEST - origin, HIGHEST - origin
    if _clipped(column):
        low, high = int(column.minimum or 0) - origin, int(column.maximum or 0) - origin
    steps = np.rint(np.clip(x, low, high) / step)
    if max(abs(low), abs(high)) <= EXACT:
        return steps.astype(np.int64) * step + origin
    whole: NDArray[np.int64] = np.clip(steps * step + origin, LOWEST, HIGHEST).astype(np.int64)
    return whole


def snapped(values: Floats, column: Column) -> NDArray[Any]:
    """Numbers in the table's units on the column's grid."""
    return _on_grid(values - _origin(column), column)


def _clipped(column: Column) -> bool:
    return column.clip and column.minimum is not None and column.maximum is not None


def _corners(which: NDArray[Any], missing: NDArray[np.bool_], corners: int) -> Floats:
    """Corners of a simplex: 1 in the place of each row, and nothing where it is missing."""
    x = np.zeros((len(which), corners))
    seen = np.flatnonzero(~missing)
    x[seen, which[seen]] = 1.0
    return x


def _labels(column: Column) -> tuple[Any, ...]:
    return column.labels or ()


def _category(column: Column, codes: NDArray[np.int64]) -> Cells:
    storage: Storage = "boolean" if column.kind is Kind.BOOLEAN else "category"
    return Cells(storage, codes, np.zeros(len(codes), dtype=np.bool_), _labels(column), column.ordered)


def _absent(height: int) -> Cells:
    return Cells("null", np.zeros(height, dtype=np.int64), np.ones(height, dtype=np.bool_))


def _warn_unseen(column: Column, unseen: list[Any], count: int) -> None:
    warnings.warn(
        f"Column {column.name!r} holds {listed(unseen)} in {count} {'cell' if count == 1 else 'cells'}, unknown to "
        "the model: treated as missing.",
        UnseenCategory,
        stacklevel=4,
    )


def _one_hot(column: Column, cells: Cells, scaling: str) -> ColumnCodec:
    return OneHotCodec(column) if column.kind.discrete else NumberCodec.fit(column, cells, scaling)


def _integer(column: Column, cells: Cells, scaling: str) -> ColumnCodec:
    return (IntegerCodec if column.kind.discrete else NumberCodec).fit(column, cells, scaling)


def _spiked(column: Column, cells: Cells, scaling: str) -> ColumnCodec:
    return OneHotCodec(column) if column.kind.discrete else SpikeCodec.fit(column, cells, scaling)


ENCODINGS = {"onehot": _one_hot, "integer": _integer, "spiked": _spiked}
