"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from harpoon.cells import Cells, Storage
from harpoon.conforming import STORAGE
from harpoon.kinds import Column, Kind
from harpoon.scaling import SCALINGS, Counted, Floats, Quantile, Ranks, Standard, ascending, numbers
from harpoon.tallies import Tally
from harpoon.units import PLAIN, Unit

SPIKE_SHARE, FEW_VALUES = 0.03, 32
MANY_LABELS, FREQUENT_LABELS = 256, 64
CERTAIN = 0.99
LEAST = 1e-100  # the lowest probability: a product of two is still a number
EXACT = 2**52  # integers up to here are exact as floats
LOWEST, HIGHEST = -(2**63), 2**63 - 1024  # the whole numbers of 64 bits that are floats too


class Shape(StrEnum):
    """What the numbers of a part are: a point on the line, one of a simplex (a category), or a mean.

    A mean is not noised: the network says what it expects there, in the units that errors are measured in, and reads it
    where it is known.
    """

    LINE = "line"
    SIMPLEX = "simplex"
    MEAN = "mean"


@dataclass(frozen=True)
class Part:
    """Some numbers of an encoded cell."""

    width: int
    shape: Shape


LINE = (Part(1, Shape.LINE),)


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

    def expectation(self, x: Floats) -> Floats:
        """What a mean over rows says: a number in the table's units, or the probability of each label."""


@dataclass(frozen=True)
class NumberCodec:
    """A numeric column as one scaled number; decoding returns to the column's grid and range."""

    column: Column
    scaling: Standard | Quantile
    parts: ClassVar[tuple[Part, ...]] = LINE

    @classmethod
    def fit(cls, column: Column, tally: Tally, scaling: str) -> NumberCodec:
        """Learn the scale from the observed cells."""
        return cls(column, SCALINGS[scaling].fit(_counted(column, tally)))

    def encode(self, cells: Cells) -> Floats:
        """Scaled values."""
        x = self.scaling.forward(_present(cells, origin_of(self.column)))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """Values on the column's grid, within its range unless that is lifted."""
        values = within(self.scaling.inverse(x[:, 0]), self.column)
        missing = np.zeros(len(x), dtype=np.bool_)
        return Cells(STORAGE[self.column.kind], values, missing, unit=self.column.unit)

    def expectation(self, x: Floats) -> Floats:
        """Off the grid and beyond the range if that is where it is."""
        return self.scaling.inverse(x[:, 0]) + origin_of(self.column)


@dataclass(frozen=True)
class OneHotCodec:
    """A categorical column as one number per label, 1 for the cell's label and 0 for the others."""

    column: Column

    @property
    def parts(self) -> tuple[Part, ...]:
        """As many numbers as labels."""
        return (Part(len(_labels(self.column)), Shape.SIMPLEX),)

    def encode(self, cells: Cells) -> Floats:
        """Corners of the simplex."""
        return _corners(cells.values, cells.missing, len(_labels(self.column)))

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """The label with the largest number."""
        return _category(self.column, x.argmax(axis=1))

    def expectation(self, x: Floats) -> Floats:
        """The probabilities as they are."""
        return x


@dataclass(frozen=True)
class GroupedCodec:
    """A categorical column with very many labels: the frequent ones as they are, the others as members of groups.

    A label is a corner of one simplex, frequent labels and groups, and a rare one a corner of a second too, its place
    in its group. That takes about twice the square root of the number of labels instead of the number itself, and every
    label can still be told apart, known, drawn and filled in. Groups are runs of neighbouring labels, because the codes
    of postal areas, products and diseases that begin alike are often alike.
    """

    column: Column
    frequent: tuple[int, ...]

    def __post_init__(self) -> None:
        places, labels = self.frequent, len(_labels(self.column))
        if not places or not all(type(place) is int and 0 <= place < labels for place in places):
            raise ValueError(f"column {self.column.name!r} has frequent labels that it does not have, or none")
        if sorted(set(places)) != list(places) or len(places) == labels:
            raise ValueError(f"column {self.column.name!r} needs its frequent labels in order, and rare ones beside")

    @classmethod
    def fit(cls, column: Column, tally: Tally) -> GroupedCodec:
        """Find the frequent labels."""
        counts = np.zeros(len(_labels(column)), dtype=np.int64)
        counts[tally.cells.values] = tally.counts
        return cls(column, tuple(sorted(np.argsort(-counts, kind="stable")[:FREQUENT_LABELS].tolist())))

    @cached_property
    def rare(self) -> NDArray[np.int64]:
        """The places of the other labels, in their order."""
        return np.setdiff1d(np.arange(len(_labels(self.column))), self.frequent)

    @property
    def members(self) -> int:
        """How many labels a group has; the last may have fewer."""
        return max(1, math.isqrt(max(len(self.rare) - 1, 0)) + 1)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return -(-len(self.rare) // self.members)

    @property
    def last_members(self) -> int:
        """How many labels the last group has."""
        return len(self.rare) - (self.groups - 1) * self.members

    @property
    def parts(self) -> tuple[Part, ...]:
        """Frequent labels and groups, then no member or one of them."""
        return Part(len(self.frequent) + self.groups, Shape.SIMPLEX), Part(1 + self.members, Shape.SIMPLEX)

    def encode(self, cells: Cells) -> Floats:
        """A corner of each simplex."""
        first = np.zeros(len(_labels(self.column)), dtype=np.int64)
        member = first.copy()
        first[list(self.frequent)] = np.arange(len(self.frequent))
        places = np.arange(len(self.rare))
        first[self.rare], member[self.rare] = len(self.frequent) + places // self.members, 1 + places % self.members
        which, corners = cells.values, (part.width for part in self.parts)
        pairs = zip((first[which], member[which]), corners, strict=True)
        return np.hstack([_corners(corner, cells.missing, width) for corner, width in pairs])

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """The most probable label: a frequent one, or the best member of a group."""
        scores, members = self._split(x)
        best = np.repeat(members.argmax(axis=1, keepdims=True), self.groups, axis=1)
        best[:, -1] = members[:, : self.last_members].argmax(axis=1)
        scores[:, len(self.frequent) :] *= np.take_along_axis(members, best, axis=1)
        chosen = scores.argmax(axis=1)
        group = np.maximum(chosen - len(self.frequent), 0)
        inside = group * self.members + best[np.arange(len(x)), group]
        alone = np.array(self.frequent)[np.minimum(chosen, len(self.frequent) - 1)]
        return _category(self.column, np.where(chosen < len(self.frequent), alone, self.rare[inside]))

    def expectation(self, x: Floats) -> Floats:
        """The probability of each label: of a rare one, that of its group times its share in it."""
        first, members = self._split(x)
        p = np.empty((len(x), len(_labels(self.column))))
        p[:, list(self.frequent)] = first[:, : len(self.frequent)]
        pairs = first[:, len(self.frequent) :, None] * members[:, None, :]
        p[:, self.rare] = pairs.reshape(len(x), -1)[:, : len(self.rare)]
        total: Floats = p.sum(axis=1, keepdims=True)
        return p / total

    def _split(self, x: Floats) -> tuple[Floats, Floats]:
        """Frequent labels and groups, and the share of each member among the members."""
        first, members = np.split(x, [self.parts[0].width], axis=1)
        first, members = np.maximum(first, LEAST), np.maximum(members[:, 1:], LEAST)
        return first, members / members.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class IntegerCodec:
    """A categorical column as the scaled position of its label (the paper's encoding ablation)."""

    column: Column
    scaling: Standard | Quantile
    parts: ClassVar[tuple[Part, ...]] = LINE

    @classmethod
    def fit(cls, column: Column, tally: Tally, scaling: str) -> IntegerCodec:
        """Learn the scale from the observed positions."""
        return cls(column, SCALINGS[scaling].fit(tally.numbers(tally.cells.values.astype(np.float64))))

    def encode(self, cells: Cells) -> Floats:
        """Scaled positions."""
        x = self.scaling.forward(cells.values.astype(np.float64))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:  # noqa: ARG002
        """The label at the nearest position."""
        codes = np.clip(np.rint(self.scaling.inverse(x[:, 0])), 0, len(_labels(self.column)) - 1)
        return _category(self.column, codes.astype(np.int64))

    def expectation(self, x: Floats) -> Floats:
        """All on the label at the nearest position: this encoding knows no probabilities."""
        return _corners(self.decode(x).values, np.zeros(len(x), dtype=np.bool_), len(_labels(self.column)))


@dataclass(frozen=True)
class SpikeCodec:
    """A numeric column in the shapes that suit each question about it.

    Its mean is what errors are measured on; its rank is what is drawn; and beside them stands which of the column's
    point masses it is, if any. Real columns have values that occur again and again (no capital gain, forty hours). A
    mass is a category, and treating it as one is what lets drawn rows have it exactly as often. The rank of a mass
    says nothing, so all ranks stand for it.
    """

    number: NumberCodec
    ranks: Ranks | None  # None: every value is a mass
    spikes: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.ranks is None and not self.spikes:
            raise ValueError(f"column {self.column.name!r} has neither ranks nor point masses")
        if len(self.spikes) > FEW_VALUES or not np.isfinite(self.spikes).all() or not ascending(self.spikes):
            raise ValueError(f"column {self.column.name!r} needs at most {FEW_VALUES} ascending point masses")

    @classmethod
    def fit(cls, column: Column, tally: Tally, scaling: str) -> SpikeCodec:
        """Find the masses: every value of a column with few, else those that many cells have.

        A column whose range is lifted is never nothing but masses.
        """
        seen = _counted(column, tally)
        values, counts = seen.values, seen.counts
        often = np.sort(np.argsort(-counts, kind="stable")[:FEW_VALUES])
        spikes = values[often][counts[often] >= SPIKE_SHARE * seen.total] if len(values) > FEW_VALUES else values
        if len(spikes) == len(values) and not column.clip:  # who lifts the range wants values that were never seen
            spikes = spikes[:0]
        others = seen[~np.isin(values, spikes)]
        ranks = Ranks.fit(others) if len(others) or not len(spikes) else None
        return cls(NumberCodec.fit(column, tally, scaling), ranks, tuple(spikes.tolist()))

    @property
    def column(self) -> Column:
        """The column it encodes."""
        return self.number.column

    @property
    def parts(self) -> tuple[Part, ...]:
        """The mean, the rank if it says anything, and no mass or one of them."""
        rank = LINE if self.ranks else ()
        which = (Part(1 + len(self.spikes), Shape.SIMPLEX),) if self.spikes else ()
        return (Part(1, Shape.MEAN), *rank, *which)

    def encode(self, cells: Cells) -> Floats:
        """The scaled value, its rank and a corner of the simplex."""
        values, which = self._sorted(cells)
        parts = [self.number.encode(cells)]
        if self.ranks:
            parts.append(np.where(cells.missing | (which > 0), 0.0, self.ranks.forward(values))[:, None])
        if self.spikes:
            parts.append(_corners(which, cells.missing, 1 + len(self.spikes)))
        return np.hstack(parts)

    def span(self, cells: Cells) -> tuple[Floats, Floats]:
        """The lowest and highest rank that stand for each cell."""
        values, which = self._sorted(cells)
        low, high = self.ranks.span(values) if self.ranks else (np.zeros(len(values)), np.ones(len(values)))
        return np.where(which > 0, 0.0, low), np.where(which > 0, 1.0, high)

    def decode(self, x: Floats, *, expected: bool = False) -> Cells:
        """The mass that a row sits on, else the value of its rank.

        A mean over rows is a number; a mass that is all but certain is that mass, not a number close to it.
        """
        cells = self.number.decode(x[:, :1])
        if self.ranks and not expected:
            cells = cells.filled_with(within(self.ranks.inverse(x[:, 1]), self.column))
        if self.spikes:
            p = x[:, -1 - len(self.spikes) :]
            which = p.argmax(axis=1)
            sure = (which > 0) & (p.max(axis=1) >= CERTAIN if expected else True)
            masses = within(np.array(self.spikes), self.column)
            cells = cells.filled_with(np.where(sure, masses[which - 1], cells.values))
        return cells

    def expectation(self, x: Floats) -> Floats:
        """The mean in the table's units."""
        return self.number.expectation(x)

    @property
    def unit(self) -> Unit | None:
        """The unit of its numbers, if their means are of one."""
        column, scaling = self.column, self.number.scaling
        if not isinstance(scaling, Standard):
            return None
        plain = column.kind in (Kind.NUMBER, Kind.INTEGER)
        return Unit(
            kind=PLAIN if plain else f"{column.kind} {column.unit}",
            deviation=scaling.deviation,
            zero=float(scaling.forward(np.array([-float(origin_of(column))]))[0]),
            step=float(column.step or column.kind is not Kind.NUMBER),
            additive=plain or column.kind is Kind.DURATION,
        )

    def slot_ends(self, slots: int) -> Floats:
        """The means at which equal shares of the ranks end, but for the last."""
        from scipy.special import ndtri

        ends = np.arange(1, slots) / slots
        return self.number.scaling.forward(self.ranks.inverse(ndtri(ends))) if self.ranks else ends

    def carried(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of other columns as this column holds them."""
        return within((values - origin_of(self.column)).astype(np.float64), self.column)

    def _sorted(self, cells: Cells) -> tuple[Floats, NDArray[np.int64]]:
        """Centred values, and which mass each of them is: 0 for none."""
        values, spikes = _present(cells, origin_of(self.column)), np.array(self.spikes)
        if not len(spikes):
            return values, np.zeros(len(values), dtype=np.int64)
        place = np.searchsorted(spikes, values).clip(max=len(spikes) - 1)
        return values, np.where(spikes[place] == values, place + 1, 0)


def _one_hot(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    return OneHotCodec(column) if column.kind.discrete else NumberCodec.fit(column, tally, scaling)


def _integer(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    return (IntegerCodec if column.kind.discrete else NumberCodec).fit(column, tally, scaling)


def _spiked(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    if column.kind.numeric:
        return SpikeCodec.fit(column, tally, scaling)
    return GroupedCodec.fit(column, tally) if len(_labels(column)) > MANY_LABELS else OneHotCodec(column)


def to_json(codec: ColumnCodec) -> dict[str, Any]:
    """What a codec has learnt, as plain data."""
    data: dict[str, Any] = {"codec": type(codec).__name__}
    if isinstance(codec, SpikeCodec):
        ranks = asdict(codec.ranks) if codec.ranks else None
        return {**to_json(codec.number), **data, "ranks": ranks, "spikes": list(codec.spikes)}
    if isinstance(codec, GroupedCodec):
        data |= {"frequent": list(codec.frequent)}
    if isinstance(codec, NumberCodec | IntegerCodec):
        data |= {"scaling": codec.scaling.name, **asdict(codec.scaling)}
    return data


def from_json(column: Column, data: Mapping[str, Any]) -> ColumnCodec:
    """Back from `to_json`."""
    if column.kind.discrete != (data["codec"] not in (NumberCodec.__name__, SpikeCodec.__name__)):
        raise ValueError(f"column {column.name!r} of kind {column.kind} cannot have the codec {data['codec']!r}")
    if data["codec"] == OneHotCodec.__name__:
        return OneHotCodec(column)
    if data["codec"] == GroupedCodec.__name__:
        return GroupedCodec(column, tuple(data["frequent"]))
    if data["codec"] == SpikeCodec.__name__:
        number = NumberCodec(column, SCALINGS[data["scaling"]].from_json(data))
        ranks = None if data["ranks"] is None else Ranks.from_json(data["ranks"])
        return SpikeCodec(number, ranks, numbers(data["spikes"]))
    scaled = {cls.__name__: cls for cls in (NumberCodec, IntegerCodec)}
    return scaled[data["codec"]](column, SCALINGS[data["scaling"]].from_json(data))


def origin_of(column: Column) -> int:
    """Subtracted as an integer before going to floats, so that large integers and times stay exact."""
    if column.kind is Kind.NUMBER or column.minimum is None:
        return 0
    step = int(column.step or 1)
    return int(column.minimum) // step * step


def _counted(column: Column, tally: Tally) -> Counted:
    """The numbers of a column, centred."""
    return tally.numbers(_centred(tally.cells.values, origin_of(column)))


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
    step, origin = int(column.step or 1), origin_of(column)
    low, high = LOWEST - origin, HIGHEST - origin
    if _clipped(column):
        low, high = int(column.minimum or 0) - origin, int(column.maximum or 0) - origin
    steps = np.rint(np.clip(x, low, high) / step)
    if max(abs(low), abs(high)) <= EXACT:
        return steps.astype(np.int64) * step + origin
    whole: NDArray[np.int64] = np.clip(steps * step + origin, LOWEST, HIGHEST).astype(np.int64)
    return whole


def within(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold, within its range unless that is lifted."""
    values = _on_grid(x, column)
    return np.clip(values, column.minimum, column.maximum) if _clipped(column) else values


def snapped(values: Floats, column: Column) -> NDArray[Any]:
    """Numbers in the table's units on the column's grid."""
    return _on_grid(values - origin_of(column), column)


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


ENCODINGS = {"onehot": _one_hot, "integer": _integer, "spiked": _spiked}
