"""Row codec: tables to encoded rows, and back.

An encoded row is the vector x_0 of the paper (Sec. 3.1): the features of all columns, concatenated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data import ColumnArray, Columns, Floats, Mask, Schema, TableCounts, n_rows
from harpoon.encoding.codec import Codec, ColumnCodec, ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows, QuantizedRows
from harpoon.encoding.missing_indicators import MissingIndicatorCodec
from harpoon.encoding.missing_indicators import missing_indicators as indicators_of
from harpoon.encoding.registry import codec_from_json, fit_codecs
from harpoon.encoding.temporal.calendar_parts import (
    CalendarPartCodec,
    TimestampCodec,
    with_calendar_columns,
    with_calendars,
)
from harpoon.encoding.temporal.elapsed_time import ElapsedTimeCodec, elapsed_times
from harpoon.encoding.units import AffineUnit
from harpoon.exceptions import warn

MAX_STANDARD_SCORE = 1e4  # larger features overflow after a few layers
Array = TypeVar("Array", Floats, Tensor)


class Timestamp(NamedTuple):
    """A timestamp with calendar parts."""

    position: int  # of its codec in `RowCodec.codecs`
    codec: TimestampCodec
    parts: dict[int, CalendarPartCodec]  # by their position


@dataclass(frozen=True)
class RowCodec:
    """The codecs of all modelled columns. d is the width of an encoded row."""

    schema: Schema
    codecs: tuple[Codec, ...]

    def __post_init__(self) -> None:
        encoded = [column.name for codec in self.codecs for column in codec.columns]
        if sorted(encoded) != sorted(column.name for column in self.schema.modelled):
            raise ValueError("each modelled column must have one codec")
        if any(codec.has_normal_score and not isinstance(codec, ColumnCodec) for codec in self.codecs):
            raise ValueError("columns that are encoded together cannot have a normal score")
        n_parts = sum(isinstance(codec, CalendarPartCodec) for codec in self.codecs)
        if n_parts != sum(len({part.part for part in each.parts.values()}) for each in self.timestamps):
            raise ValueError("each calendar part must be that of a timestamp, and no timestamp can have one twice")
        copied = [copy.name for each in self.timestamps for part in each.parts.values() for copy in part.copies]
        if not {*copied, *self.dates} <= set(encoded):
            raise ValueError("a calendar column must be modelled")

    @classmethod
    def fit(
        cls,
        schema: Schema,
        counts: TableCounts,
        *,
        encoding: str,
        scaling: str,
        missing_indicators: bool = False,
        calendar_parts: bool = False,
    ) -> RowCodec:
        """Choose and fit the codecs by the counts of a training table."""
        codecs: Sequence[Codec] = fit_codecs(schema, counts, encoding, scaling)
        indicators = indicators_of(codecs, counts) if missing_indicators else ()
        parts, codecs = with_calendars(codecs, counts) if calendar_parts else ([], codecs)
        # A value is sampled after its indicator, and a timestamp after its parts. Ties are broken by position.
        row_codec = cls(schema, (*indicators, *parts, *codecs))
        for codec in row_codec.codecs:
            if codec.fit_warning is not None:
                warn(codec.fit_warning)
        return row_codec

    def with_calendar_columns(self, rows: Columns, counts: TableCounts, scaling: str) -> RowCodec:
        """Return a codec that knows which columns are calendar parts or dates of a timestamp in all of some rows."""
        parts = [codec for codec in self.codecs if isinstance(codec, CalendarPartCodec)]
        others = [codec for codec in self.codecs if not isinstance(codec, CalendarPartCodec | MissingIndicatorCodec)]
        parts, others = with_calendar_columns(parts, others, rows, counts, scaling)
        return RowCodec(self.schema, (*self.indicators, *parts, *others))

    def with_elapsed_times(
        self, rows: Columns, scaling: str, min_rows: int = 1, weights: Floats | None = None
    ) -> RowCodec:
        """Return a codec that also encodes the time between timestamps that are near each other in some rows.

        What it stores of the times rests on at least `min_rows` rows, which may have weights, (n,).
        """
        codecs = [codec for codec in self.codecs if not {column.name for column in codec.columns} & self.dates.keys()]
        return RowCodec(self.schema, (*self.codecs, *elapsed_times(codecs, rows, scaling, min_rows, weights)))

    @cached_property
    def slices(self) -> tuple[ColumnSlice, ...]:
        """The position of each part in the encoded row."""
        slices, start = [], 0
        for index, codec in enumerate(self.codecs):
            for part in codec.parts:
                slices.append(ColumnSlice(codec.label, index, start, start + part.width, part.type))
                start += part.width
        return tuple(slices)

    @property
    def width(self) -> int:
        """The width d of an encoded row."""
        return sum(self.widths)

    @cached_property
    def widths(self) -> list[int]:
        """The number of features of each codec."""
        return [sum(part.width for part in codec.parts) for codec in self.codecs]

    @cached_property
    def numeric(self) -> list[ColumnCodec]:
        """The codecs with a normal score."""
        return [codec for codec in self.single_columns if codec.has_normal_score]

    @cached_property
    def quantities(self) -> list[ColumnCodec]:
        """The codecs with a standardised value: those with a normal score, then those with few values."""
        return [*self.numeric, *(codec for codec in self.single_columns if codec.is_few_valued)]

    @cached_property
    def quantity_names(self) -> list[str]:
        """The names of `quantities`."""
        return [codec.column.name for codec in self.quantities]

    @cached_property
    def hidden_quantities(self) -> set[int]:
        """The `quantities` that are no column of the table, by their index: the times between timestamps."""
        return {index for index, codec in enumerate(self.quantities) if not codec.columns}

    @property
    def single_columns(self) -> list[ColumnCodec]:
        """The codecs of one column; columns that are encoded together are not among them."""
        return [codec for codec in self.codecs if isinstance(codec, ColumnCodec)]

    def split(self, x: Array) -> Iterator[tuple[Codec, Array]]:
        """Yield each codec with its features of encoded rows, (n, d)."""
        stop = 0
        for codec, width in zip(self.codecs, self.widths, strict=True):
            start, stop = stop, stop + width
            yield codec, x[:, start:stop]

    def encode(self, rows: Columns) -> Floats:
        """Encode rows, (n, d). The features of a missing cell or an unknown category are all zeros."""
        rows = {name: cells.without_unseen() for name, cells in rows.items()}
        return np.concatenate([codec.encode_columns(rows) for codec in self.codecs], axis=1)

    def decode(self, x: Floats, *, is_mean: bool = False, nulls: bool = False, calendar: bool = True) -> Columns:
        """Decode encoded rows, (n, d), to cells.

        Args:
            x: Encoded rows.
            is_mean: x is an expectation, E[x_0], and not a sampled row.
            nulls: Cells are null where their indicator says so; otherwise all cells have values.
            calendar: Sampled timestamps have the calendar parts of their rows; otherwise only their own number counts.
        """
        cells: Columns = {}
        for codec, part in self.split(x):
            cells |= codec.decode_columns(part, is_mean=is_mean)
        if calendar and not is_mean:
            cells |= {each.codec.column.name: self.decode_timestamp(x, each) for each in self.timestamps}
        for codec, part in self.split(x) if nulls else ():
            if isinstance(codec, MissingIndicatorCodec):
                null = codec.decode_null(part)
                cells |= {column.name: cells[column.name].with_null(null) for column in codec.indicated}
        return {column.name: cells[column.name] for column in self.schema.modelled}

    def decode_points(self, x: Floats) -> Columns:
        """Decode encoded rows, (n, d), whose numbers are values and whose other features are expectations."""
        cells: Columns = {}
        for codec, part in self.split(x):
            cells |= codec.decode_columns(part, is_mean=not (codec.has_normal_score or codec.is_few_valued))
        return {column.name: cells[column.name] for column in self.schema.modelled}

    @cached_property
    def indicator_of(self) -> dict[int, int]:
        """The index of the missing indicator of each codec that has one, by the index of the codec.

        The calendar parts of a timestamp have its indicator.
        """
        first = {codec.columns[0].name: index for index, codec in enumerate(self.codecs) if codec.columns}
        indicators = {
            first[codec.indicated[0].name]: index
            for index, codec in enumerate(self.codecs)
            if isinstance(codec, MissingIndicatorCodec)
        }
        of_timestamps = [each for each in self.timestamps if each.position in indicators]
        return indicators | {part: indicators[each.position] for each in of_timestamps for part in each.parts}

    @cached_property
    def part_values(self) -> dict[str, Mapping[str, tuple[int, ...]]]:
        """The values of calendar parts that sampled timestamps have, by the name of the column."""
        return {codec.column.name: codec.calendar.values for codec in self.codecs if isinstance(codec, TimestampCodec)}

    @cached_property
    def dates(self) -> dict[str, str]:
        """The columns that are the date of a timestamp, and that timestamp."""
        timestamps = [codec for codec in self.codecs if isinstance(codec, TimestampCodec)]
        return {name: codec.column.name for codec in timestamps for name in codec.date_columns}

    @cached_property
    def elapsed(self) -> dict[int, ElapsedTimeCodec]:
        """The codecs of times between timestamps, by their position."""
        return {index: codec for index, codec in enumerate(self.codecs) if isinstance(codec, ElapsedTimeCodec)}

    @cached_property
    def elapsed_between(self) -> dict[int, tuple[int, int]]:
        """The positions of the timestamps between which an elapsed time lies, by its position."""
        first = {codec.columns[0].name: index for index, codec in enumerate(self.codecs) if codec.columns}
        return {index: (first[codec.start.name], first[codec.end.name]) for index, codec in self.elapsed.items()}

    def decode_elapsed_times(self, x: Floats, *, is_mean: bool = False) -> Columns:
        """Decode the times between timestamps of encoded rows, (n, d), which are no columns of the table."""
        features = [part for _, part in self.split(x)]
        elapsed = self.elapsed.items()
        return {codec.column.name: codec.decode(features[index], is_mean=is_mean) for index, codec in elapsed}

    def expected_elapsed_times(self, x: Floats) -> dict[str, Floats]:
        """Return the expectations of the times between timestamps, (n,), as `expectation` does of columns."""
        features = [part for _, part in self.split(x)]
        return {codec.column.name: codec.expectation(features[index]) for index, codec in self.elapsed.items()}

    def add_elapsed_times(self, rows: Columns) -> Columns:
        """Return rows with the times between timestamps, where they do not have them yet."""
        return {codec.column.name: codec.cells(rows) for codec in self.elapsed.values()} | rows

    @cached_property
    def timestamps(self) -> tuple[Timestamp, ...]:
        """The timestamps that have calendar parts."""
        indexed = list(enumerate(self.codecs))
        parts = [(index, codec) for index, codec in indexed if isinstance(codec, CalendarPartCodec)]
        found = (
            Timestamp(index, codec, {at: part for at, part in parts if part.timestamp.name == codec.column.name})
            for index, codec in indexed
            if isinstance(codec, TimestampCodec)
        )
        return tuple(each for each in found if each.parts)

    def decode_timestamp(self, x: Floats, timestamp: Timestamp) -> ColumnArray:
        """Decode the times of encoded rows, (n, d), so that they have the calendar parts of their rows."""
        features = [part for _, part in self.split(x)]
        parts = {part.part: part.decode_part(features[index]) for index, part in timestamp.parts.items()}
        return timestamp.codec.decode_with_parts(features[timestamp.position], parts)

    def null_probabilities(self, x: Array) -> dict[str, Array]:
        """Return the probability that a cell is null, (n,), for each column with an indicator."""
        return {
            column.name: codec.null_probability(part)
            for codec, part in self.split(x)
            if isinstance(codec, MissingIndicatorCodec)
            for column in codec.indicated
        }

    @cached_property
    def indicators(self) -> list[MissingIndicatorCodec]:
        """The missing indicators."""
        return [codec for codec in self.codecs if isinstance(codec, MissingIndicatorCodec)]

    @property
    def nullable(self) -> set[str]:
        """The columns that are modelled with a missing indicator."""
        return {column.name for codec in self.indicators for column in codec.indicated}

    def expectation(self, x: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return the expectations of numeric columns, (n,), and the probabilities of others, (n, categories)."""
        values: dict[str, Floats] = {}
        probabilities: dict[str, Floats] = {}
        for codec, part in self.split(x):
            for name, expectation in codec.expectations(part).items():
                (values if self.schema[name].kind.numeric else probabilities)[name] = expectation
        return values, probabilities

    def label_probabilities(self, x: Floats, name: str) -> Floats:
        """Return the probabilities of the labels of a column in encoded means, (n, labels).

        The labels are the categories of the column, or the values of a number that has only few.
        """
        column = self.schema[name]
        if column.kind.discrete:
            return self.expectation(x)[1][name]
        codec, part = next((codec, part) for codec, part in self.split(x) if codec.label_values.get(name) is not None)
        known = np.asarray(codec.label_values[name])
        values = np.array(column.values)
        probabilities = np.zeros((len(x), len(values)))
        probabilities[:, np.searchsorted(values, known)] = np.clip(part[:, -len(known) :], 0.0, None)
        return probabilities

    def observed(self, rows: Columns) -> Mask:
        """Return which codecs are observed, (n, codecs): those without a missing or unseen cell."""
        seen = {name: cells.without_unseen() for name, cells in rows.items()}
        return np.stack([codec.is_observed(seen) for codec in self.codecs], axis=1)

    def repeat_per_part(self, by_codec: NDArray[Any]) -> NDArray[Any]:
        """Repeat one value per codec over its features: (n, codecs) to (n, d)."""
        return np.repeat(by_codec, self.widths, axis=1)

    def to_batch(self, rows: Columns) -> EncodedRows:
        """Encode rows as the network reads them, in single precision."""
        observed = torch.from_numpy(self.repeat_per_part(self.observed(rows)))
        x = self.encode(rows)
        np.clip(x, -MAX_STANDARD_SCORE, MAX_STANDARD_SCORE, out=x)
        return EncodedRows(torch.from_numpy(x).float(), observed)

    def to_training_batch(self, rows: Columns) -> EncodedRows:
        """Encode rows to train on, with the rank intervals of normal scores."""
        batch = self.to_batch(rows)
        if not self.numeric:
            return batch
        scores = [part for part in self.slices if part.type is PartType.CONTINUOUS]
        rank_index = [part.start for part in scores if self.codecs[part.column].has_normal_score]
        rows = self.add_elapsed_times(rows)
        intervals = [codec.rank_interval(rows[codec.column.name]) for codec in self.numeric]
        low, high = (torch.from_numpy(np.stack(ends, axis=1)).float() for ends in zip(*intervals, strict=True))
        return QuantizedRows(batch.x, batch.observed, torch.tensor(rank_index), low, high)

    def unit(self, column: int) -> AffineUnit | None:
        """Return the unit of the standardised value of a codec, by its index."""
        return self.codecs[column].unit

    def bin_edges(self, column: int, n_bins: int) -> Floats:
        """Return `ColumnCodec.bin_edges` of a codec, by its index."""
        codec = self.codecs[column]
        return codec.bin_edges(n_bins) if isinstance(codec, ColumnCodec) else np.zeros(n_bins - 1)

    @cached_property
    def units(self) -> dict[int, AffineUnit]:
        """The units of numeric columns, by their index in `quantities`; a date that a timestamp has needs none."""
        units = {
            index: codec.unit for index, codec in enumerate(self.quantities) if codec.column.name not in self.dates
        }
        return {index: unit for index, unit in units.items() if unit}

    @cached_property
    def times(self) -> list[int]:
        """The dates and datetimes among `quantities` that have a unit, by their index."""
        return [index for index, unit in self.units.items() if unit.nanoseconds and not unit.additive]

    def quantity_values(self, rows: Columns) -> Floats:
        """Return the values of `quantities` that have a unit in double precision, (n, quantities); the others are 0.

        Times and durations are in nanoseconds, and times are counted from a reference that all columns share.
        """
        values, rows = np.zeros((n_rows(rows), len(self.quantities))), self.add_elapsed_times(rows)
        reference: int | None = None
        for index, unit in self.units.items():
            codec = self.quantities[index]
            centred, origin = codec.centred_values(rows[codec.column.name])
            tick = unit.nanoseconds or 1
            if not unit.additive:
                reference = origin * tick if reference is None else reference
            values[:, index] = centred * tick + (origin * tick - (0 if unit.additive else reference or 0))
        return values

    def to_json(self) -> list[dict[str, Any]]:
        """Return the fitted codecs as plain data."""
        return [codec.to_json() for codec in self.codecs]

    @classmethod
    def from_json(cls, schema: Schema, data: list[Mapping[str, Any]]) -> RowCodec:
        """Restore from `to_json`."""
        return cls(schema, tuple(codec_from_json(schema, item) for item in data))
