"""Timestamps in autoregressive sampling: calendar parts that can occur together, and times that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from harpoon.data import NO_INDEX, Column, Floats
from harpoon.data.date_parts import Ints
from harpoon.encoding import ColumnCodec, PartType, RowCodec, numeric_cells
from harpoon.encoding.encoded_rows import MIN_RANK
from harpoon.encoding.row_codec import Timestamp
from harpoon.encoding.temporal.calendar_columns import dates_of
from harpoon.encoding.temporal.calendar_parts import CalendarPartCodec

MAX_GROUP_TIMES = 2048  # possible times with the same parts, of which one is sampled by its probability
PRECISION = 1e-6  # of a standardised value, relative
MIN_COVERAGE = 0.05  # of a bin by the times of a group, below which its density is not raised further


@dataclass(frozen=True)
class RankGroups:
    """The possible times of a timestamp, or its days, in groups with the same calendar parts.

    A time is sampled among those of the group that the sampled parts define, by the probabilities of their ranks.
    """

    features: tuple[slice, ...]  # the encoded positions of the parts that define the groups
    numbers: Tensor  # the number of the combination of parts of each group, ascending, (groups,); empty: no groups
    intervals: (
        Tensor  # the lowest and highest rank of each time, (groups, most times, 2); both are 0 where there is none
    )
    share: Tensor  # of the ranks of each group among those of its month, (groups,)
    densities: dict[int, Tensor] = field(default_factory=dict)  # those of `density`, by the number of bins

    @classmethod
    def from_timestamp(cls, timestamp: Timestamp, features: dict[str, slice]) -> RankGroups:
        """Group the times of a timestamp, whose parts have the given encoded positions."""
        known = {part.part: np.array(part.values) for part in timestamp.parts.values()}
        parts, ranks = timestamp.codec.rank_cells(list(known))
        is_known = np.all(
            [np.ones(len(ranks)), *(np.isin(values, known[name]) for name, values in parts.items())], axis=0
        )
        parts, ranks = {name: values[is_known] for name, values in parts.items()}, ranks[is_known]
        number = np.zeros(len(ranks), dtype=np.int64)
        for name, values in parts.items():
            number = number * len(known[name]) + np.searchsorted(known[name], values)
        groups, counts = np.unique(number, return_counts=True)
        if not parts or not len(groups) or counts.max() > MAX_GROUP_TIMES:
            empty = torch.zeros(0, dtype=torch.long)
            return cls((), empty, torch.zeros(0, 0, 2), torch.zeros(0))
        order = np.argsort(number, kind="stable")
        row = np.repeat(np.arange(len(groups)), counts)
        position = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
        padded = np.zeros((len(groups), counts.max(), 2))
        padded[row, position] = ranks[order]
        widths, month = np.diff(padded, axis=2)[..., 0].sum(axis=1), np.zeros(len(groups), dtype=np.int64)
        if "month" in parts:
            month[row] = parts["month"][order]
        share = torch.from_numpy(widths / np.bincount(month, weights=widths)[month].clip(min=MIN_RANK))
        used = tuple(features[name] for name in parts)
        return cls(used, torch.from_numpy(groups), torch.from_numpy(padded), share)

    def to(self, device: torch.device) -> RankGroups:
        """Return a copy on another device."""
        tensors = {name: getattr(self, name).to(device) for name in ("numbers", "intervals", "share")}
        return replace(self, **tensors, densities={})

    def of_rows(self, x: Tensor) -> Tensor:
        """Return the group of the parts of encoded rows, or `NO_INDEX`, (n,)."""
        if not len(self.numbers):
            return torch.full((len(x),), NO_INDEX, device=x.device)
        number = torch.zeros(len(x), dtype=torch.long, device=x.device)
        for part in self.features:
            number = number * (part.stop - part.start) + x[:, part].argmax(dim=1)
        group = torch.searchsorted(self.numbers, number).clamp(max=len(self.numbers) - 1)
        return torch.where(self.numbers[group] == number, group, NO_INDEX)

    def density(self, n_bins: int) -> Tensor:
        """Return by how much the density of a bin is higher at each of its times, (groups, most times).

        The probability of a bin given the parts is that of its times with these parts alone, and not of all its times:
        of a bin of three days, a Monday has all that a Monday gives it.
        """
        if n_bins not in self.densities:
            ranks = self.intervals.cpu().numpy()
            centre = (ranks.mean(axis=2) * n_bins).astype(np.int64).clip(0, n_bins - 1)
            covered = np.stack([_coverage(of_group[of_group[:, 1] > 0], n_bins) for of_group in ranks])
            density = 1 / np.take_along_axis(covered, centre, axis=1).clip(MIN_COVERAGE, 1.0)
            self.densities[n_bins] = torch.from_numpy(density).to(self.intervals.device)
        return self.densities[n_bins]


@dataclass(frozen=True)
class DateColumn:
    """A column that is the date of a timestamp, which determines it and its parts."""

    codec: ColumnCodec
    features: slice  # its encoded positions
    parts: dict[int, CalendarPartCodec]  # its calendar parts, by their first encoded position
    variables: tuple[int, ...]  # its variable in autoregressive sampling, and those of its parts

    @classmethod
    def from_codec(cls, codec: RowCodec, name: str, columns: Sequence[int]) -> DateColumn:
        """Return a date column of a row codec; `columns`: the position of the codec of each variable."""
        position = next(i for i, each in enumerate(codec.codecs) if [c.name for c in each.columns] == [name])
        of_timestamps = [each.parts for each in codec.timestamps if each.position == position]
        parts = of_timestamps[0] if of_timestamps else {}
        spans = {index: [part for part in codec.slices if part.column == index] for index in (position, *parts)}
        own = codec.codecs[position]
        assert isinstance(own, ColumnCodec)  # noqa: S101
        return cls(
            codec=own,
            features=slice(spans[position][0].start, spans[position][-1].stop),
            parts={spans[index][0].start: part for index, part in parts.items()},
            variables=tuple(columns.index(index) for index in (position, *parts)),
        )

    def write(self, x: Tensor, rows: Tensor, timestamp: Column, times: Ints) -> None:
        """Write the dates of times, (m,), into some encoded rows, (m,), in place."""
        dates = dates_of(timestamp, self.codec.column, times)
        x[rows, self.features] = torch.from_numpy(self.codec.encode(numeric_cells(dates, self.codec.column))).to(x)
        for start, part in self.parts.items():
            x[rows, start : start + len(part.values)] = torch.from_numpy(part.encode_times(dates)).to(x)


@dataclass(frozen=True)
class SampledTimestamp:
    """A timestamp of encoded rows whose calendar parts are sampled before it."""

    codec: RowCodec
    timestamp: Timestamp
    variable: int  # its variable in autoregressive sampling
    part_variables: tuple[int, ...]  # those of its parts
    standardised: int  # the encoded position of its standardised value
    features: dict[int, slice]  # the encoded positions of it and its parts, by the position of their codecs
    joint: Tensor  # encoded positions of parts that cannot have any value beside any other, (features,)
    joint_categories: Tensor  # the same among all categories of a row, (features,)
    combinations: Tensor  # which of these features occur together, (combinations, features)
    groups: RankGroups
    dates: tuple[DateColumn, ...]  # the columns that are its date

    @classmethod
    def from_codec(cls, codec: RowCodec, timestamp: Timestamp, columns: Sequence[int]) -> SampledTimestamp:
        """Return a timestamp of a row codec; `columns`: the position of the codec of each variable."""
        own = (timestamp.position, *timestamp.parts)
        spans = {index: [part for part in codec.slices if part.column == index] for index in own}
        features = {index: slice(parts[0].start, parts[-1].stop) for index, parts in spans.items()}
        index_of = {part.part: index for index, part in timestamp.parts.items()}
        possible = timestamp.codec.combinations(list(index_of))
        joint = [dim for name in possible for dim in range(codec.width)[features[index_of[name]]]]
        categories = [dim for part in codec.slices if part.is_categorical for dim in range(part.start, part.stop)]
        one_hot = [
            values[:, None] == np.array(timestamp.parts[index_of[name]].values) for name, values in possible.items()
        ]
        # A day that no training row has may have a part that no column has, such as a day of the year.
        fits = np.all([each.any(axis=1) for each in one_hot], axis=0)
        return cls(
            codec=codec,
            timestamp=timestamp,
            variable=columns.index(timestamp.position),
            part_variables=tuple(columns.index(index) for index in timestamp.parts),
            standardised=next(part.start for part in spans[timestamp.position] if part.type is PartType.REGRESSION),
            features=features,
            joint=torch.tensor(joint, dtype=torch.long),
            joint_categories=torch.tensor([categories.index(dim) for dim in joint], dtype=torch.long),
            combinations=torch.from_numpy(np.hstack(one_hot)[fits] if one_hot else np.zeros((0, 0))).float(),
            groups=RankGroups.from_timestamp(timestamp, {name: features[at] for name, at in index_of.items()}),
            dates=tuple(DateColumn.from_codec(codec, name, columns) for name in timestamp.codec.date_columns),
        )

    def to(self, device: torch.device) -> SampledTimestamp:
        """Return a copy on another device."""
        names = ("joint", "joint_categories", "combinations", "groups")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def impossible_parts(self, x: Tensor, excluded: Tensor | None = None) -> Tensor:
        """Return which categories of its joint parts no time has beside those that encoded rows have, (n, features).

        `excluded`: which of them other columns exclude, (n, features).
        """
        known = (x[:, self.joint] > 0).float()
        fits = known @ self.combinations.T == known.sum(dim=1, keepdim=True)
        if excluded is not None:
            allowed = fits & (excluded.float() @ self.combinations.T == 0)
            fits = torch.where(allowed.any(dim=1, keepdim=True), allowed, fits)
        return fits.float() @ self.combinations == 0

    def part_codes(self, values: Tensor, shift: float = 0.0) -> list[Tensor]:
        """Return the category of each part of the times of standardised values, (n, k) each."""
        z = values.cpu().double().numpy()
        times = self.timestamp.codec.standardised_times((z + shift * (1 + np.abs(z))).ravel())
        codes = [part.encode_times(times).argmax(axis=1) for part in self.timestamp.parts.values()]
        return [torch.from_numpy(code).view(values.shape).to(values.device) for code in codes]

    def has_parts(self, x: Tensor, values: Tensor) -> Tensor:
        """Return which standardised values, (n, k), are times with the calendar parts of encoded rows, (n, d).

        Parts that are not sampled yet agree. A value in single precision may be a time shortly before or after the one
        that it stands for.
        """
        sampled = [x[:, self.features[index]] for index in self.timestamp.parts]
        found = torch.zeros_like(values, dtype=torch.bool)
        for shift in (-PRECISION, 0.0, PRECISION):
            agrees = torch.ones_like(found)
            for part, codes in zip(sampled, self.part_codes(values, shift), strict=True):
                agrees &= (codes == part.argmax(dim=1, keepdim=True)) | (part.amax(dim=1, keepdim=True) == 0)
            found |= agrees
        return found

    def write(self, x: Tensor, rows: Tensor, is_copy: Tensor) -> None:
        """Write times that have the sampled parts into encoded rows, in place; a time that is a copy has its own parts.

        Args:
            x: Encoded rows, (n, d), with normal scores and categories.
            rows: The rows to write, (m,).
            is_copy: Where the standardised value is that of a relation, (m,).
        """
        encoded, codec = x[rows].cpu().double().numpy(), self.timestamp.codec
        copies = codec.decode(encoded[:, self.features[self.timestamp.position]], is_mean=True)
        cells = self.codec.decode_timestamp(encoded, self.timestamp)
        is_copied = is_copy.cpu().numpy()
        cells = cells.with_values(np.where(is_copied, copies.values, cells.values))
        value = torch.from_numpy(codec.encode(cells)[:, 0]).to(x)
        x[rows, self.standardised] = torch.where(is_copy, x[rows, self.standardised], value)
        for index, part in self.timestamp.parts.items():
            x[rows, self.features[index]] = torch.from_numpy(part.encode_times(cells.values)).to(x)
        for date in self.dates:
            date.write(x, rows, codec.column, cells.values)


def _coverage(intervals: Floats, n_bins: int) -> Floats:
    """Return the fraction of each of some bins of equal width in [0, 1] that disjoint intervals cover, (n_bins,)."""
    low, high = intervals[np.argsort(intervals[:, 0], kind="stable")].T
    length = np.cumsum(high - low)
    ends, covered = np.stack([low, high], axis=1).ravel(), np.stack([length - (high - low), length], axis=1).ravel()
    return np.asarray(np.diff(np.interp(np.arange(n_bins + 1) / n_bins, ends, covered)) * n_bins)
