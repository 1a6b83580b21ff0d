"""Elapsed time: the time between two timestamps that are near each other, a variable of the row like any other.

A shipping date is a few days after its order date, and both vary over years. A network that predicts one date from the
other, as a position among all dates, cannot know it to the day. So their difference is modelled as a number of its own,
and the later timestamp is the earlier one plus this number: a relation that always holds (`harpoon.relations`). The
difference is no column of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import numpy as np

from harpoon.data import NANOSECONDS, Column, ColumnArray, ColumnCounts, Columns, Floats, Kind, Mask
from harpoon.data.date_parts import SECOND, UNITS
from harpoon.encoding.codec import Codec, HiddenCodec
from harpoon.encoding.numeric import SpikedNumericCodec
from harpoon.encoding.temporal.calendar_parts import TimestampCodec

MIN_PAIRS = 25  # rows in which both timestamps are observed
MAX_RELATIVE_SPREAD = 0.25  # standard deviation of the difference, relative to that of each timestamp
MAX_EQUAL_FRACTION = 0.8  # of the rows have the most frequent difference: from here on, it is a relation by itself
MIN_LENGTH_CORRELATION = 0.99999  # of the difference with a column that has it already


@dataclass(frozen=True)
class ElapsedTimeCodec(HiddenCodec, SpikedNumericCodec):
    """The numeric codec of a difference of two timestamps.

    Attributes:
        column: The difference as a duration. It is no column of the table.
        start: The timestamp that is subtracted.
        end: The timestamp from which it is subtracted.
    """

    start: Column
    end: Column

    @classmethod
    def from_cells(
        cls,
        name: str,
        start: Column,
        end: Column,
        rows: Columns,
        *,
        scaling: str,
        min_rows: int = 1,
        weights: Floats | None = None,
    ) -> ElapsedTimeCodec:
        """Fit to rows in which both timestamps are observed; what is stored rests on at least `min_rows` of them."""
        unit = _unit(start, end)
        cells = _elapsed(start, end, unit, rows)
        observed = cells.values[~cells.missing]
        order = np.argsort(observed, kind="stable")
        values = observed[order]
        values = np.clip(values, values[min_rows - 1], values[-min_rows])
        weights = None if weights is None else weights[~cells.missing][order]
        column = Column(
            name,
            Kind.DURATION,
            unit=unit,
            minimum=int(values[0]),
            maximum=int(values[-1]),
            step=Kind.DURATION.spec.step(values, unit),
        )
        counts = replace(ColumnCounts.from_column(cells.with_values(values), weights), min_rows=min_rows)
        codec = SpikedNumericCodec.fit(column, counts, scaling)
        return cls(column, codec.scaler, codec.normal_scores, codec.spikes, start, end)

    @property
    def label(self) -> str:
        """What it encodes, as SQL."""
        return self.column.name

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind has times."""
        return kind.is_timestamp

    def cells(self, rows: Columns) -> ColumnArray:
        """Return the differences; missing where a timestamp is."""
        return _elapsed(self.start, self.end, self.column.unit, rows)

    def is_observed(self, rows: Columns) -> Mask:
        """Return in which rows both timestamps are observed, (n,)."""
        return ~self.cells(rows).missing

    def encode_columns(self, rows: Columns) -> Floats:
        """Encode the differences."""
        return self.encode(self.cells(rows))

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        names = [self.start.name, self.end.name]
        return {**super().to_json(), "columns": names, "elapsed": self.column.to_json()}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        start, end = columns
        codec = SpikedNumericCodec.from_json([Column.from_json(data["elapsed"])], data)
        if codec.column.kind != Kind.DURATION:
            raise ValueError(f"the time between {start.name!r} and {end.name!r} must be a duration")
        return cls(codec.column, codec.scaler, codec.normal_scores, codec.spikes, start, end)


def elapsed_times(
    codecs: Sequence[Codec], rows: Columns, scaling: str, min_rows: int = 1, weights: Floats | None = None
) -> list[ElapsedTimeCodec]:
    """Return codecs of the differences of timestamps that are near each other, but at no known distance.

    Each timestamp is linked to others without a cycle, the nearest ones first: all further differences follow.
    """
    times = [codec.column for codec in codecs if isinstance(codec, TimestampCodec)]
    lengths = [c.column for c in codecs if isinstance(c, SpikedNumericCodec) and not isinstance(c, TimestampCodec)]
    found = [(spread, *pair) for pair in combinations(times, 2) if (spread := _spread(*pair, lengths, rows, min_rows))]
    tree, names, chosen = {column.name: column.name for column in times}, set(rows), []
    for _, one, other in sorted(found, key=lambda each: each[0]):
        root, old = tree[one.name], tree[other.name]
        if root != old:
            tree = {name: root if of == old else of for name, of in tree.items()}
            elapsed = _elapsed(one, other, _unit(one, other), rows).observed
            start, end = (one, other) if np.median(elapsed) >= 0 else (other, one)
            name = f"{end.name} - {start.name}"
            while name in names:
                name += "'"
            names.add(name)
            options: dict[str, Any] = {"scaling": scaling, "min_rows": min_rows, "weights": weights}
            chosen.append(ElapsedTimeCodec.from_cells(name, start, end, rows, **options))
    return chosen


def _unit(one: Column, other: Column) -> str:
    """Return the unit of time of a difference: the finer of two, and at least seconds."""
    return UNITS[min(one.tick, other.tick, SECOND)]


def _spread(one: Column, other: Column, lengths: Sequence[Column], rows: Columns, min_rows: int) -> float:
    """Return the standard deviation of the difference in nanoseconds, or 0 if it is not worth a variable of its own."""
    both = ~rows[one.name].missing & ~rows[other.name].missing
    if both.sum() < max(MIN_PAIRS, 2 * min_rows):
        return 0.0
    times = [rows[each.name].values[both].astype(np.float64) * each.tick for each in (one, other)]
    values = times[1] - times[0]
    spread = float(values.std())
    most = np.unique(values, return_counts=True)[1].max()
    if not spread or spread > MAX_RELATIVE_SPREAD * min(map(np.std, times)) or most >= MAX_EQUAL_FRACTION * len(values):
        return 0.0
    is_known = any(_is_length(rows[column.name][both], values) for column in lengths)
    return 0.0 if is_known else spread


def _is_length(cells: ColumnArray, elapsed: Floats) -> bool:
    """Return whether the cells of a column are a linear function of the difference, where they are observed."""
    length, elapsed = cells.observed.astype(np.float64), elapsed[~cells.missing]
    if len(length) < MIN_PAIRS or not length.std() or not elapsed.std():
        return False
    return bool(abs(np.corrcoef(length, elapsed)[0, 1]) > MIN_LENGTH_CORRELATION)


def _elapsed(start: Column, end: Column, unit: str, rows: Columns) -> ColumnArray:
    """Return the time from one timestamp to another in a unit that divides theirs; missing where one of them is."""
    tick, one, other = NANOSECONDS[unit], rows[start.name], rows[end.name]
    values = other.values * (end.tick // tick) - one.values * (start.tick // tick)
    missing = one.missing | other.missing
    return ColumnArray("duration", np.where(missing, 0, values), missing, unit=unit)
