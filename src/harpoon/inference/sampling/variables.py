"""Variables of a row: what is sampled in one step, and where it lies in encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from harpoon.data import NANOSECONDS, NO_INDEX, Floats
from harpoon.encoding import ColumnSlice, PartType, RowCodec
from harpoon.encoding.encoded_rows import MIN_RANK
from harpoon.encoding.missing_indicators import NULL
from harpoon.encoding.numeric import RANK_TOLERANCE
from harpoon.inference.sampling.timestamps import SampledTimestamp

QUANTILE_POINTS = 1024
LARGER = 1.001  # factor of a scale


@dataclass(frozen=True)
class Variables:
    """The variables of encoded rows.

    A variable is what is sampled in one step: a cell, or one level of a hierarchical category (its group, and right
    after it the member). The tensors have one row per variable, and `NO_INDEX` for what a variable does not have.
    """

    variable_of: Tensor  # the variable of each encoded dimension, (d,)
    follows: Tensor  # the first variable of its column, after which it is sampled; it may be itself, (variables,)
    categories: Tensor  # the positions of its categories among all categories, (variables, most categories)
    first_category: Tensor  # the encoded position of its first category, (variables,)
    ranks: Tensor  # its position among all normal scores, (variables,)
    quantities: (
        Tensor  # its position among `RowCodec.quantities`, of which the normal scores are the first, (variables,)
    )
    continuous: Tensor  # the encoded position of its normal score, (variables,)
    standardised: Tensor  # the encoded position of its standardised value, (variables,)
    quantile_table: Tensor  # its standardised value at evenly spaced probabilities, (variables, QUANTILE_POINTS + 1)
    spikes: Tensor  # its standardised value at each spike, after one entry for no spike, (variables, most categories)
    scales: Tensor  # the place of each number among terms of sums, and its scale relative to its size, (2, quantities)
    indicator: Tensor  # the variable that is its missing indicator, (variables,)
    null_category: Tensor  # the encoded position of the category of that indicator that says "null", (variables,)
    timestamp: Tensor  # of a calendar part or a date of a timestamp: the variable of that, (variables,)
    timestamp_number: Tensor  # of a timestamp: its position in `timestamps`, (variables,)
    timestamps: tuple[SampledTimestamp, ...]  # the timestamps with calendar parts
    calendar_columns: Tensor  # of each column that repeats a calendar part: its variable, and that of the part, (k, 2)
    elapsed: Tensor  # of each time between timestamps: its variable, and those of the two, (elapsed, 3)

    @classmethod
    def from_codec(cls, codec: RowCodec) -> Variables:
        """Return the variables of encoded rows of a codec."""
        variables = _variables(codec.slices)
        categorical, continuous, regression = (
            [next((slice_ for slice_ in slices if slice_.type is kind), None) for slices in variables]
            for kind in (PartType.CATEGORICAL, PartType.CONTINUOUS, PartType.REGRESSION)
        )
        most = max(map(_width, categorical), default=1)
        categories, start = torch.full((len(variables), most), NO_INDEX), 0
        for row, slice_ in enumerate(categorical):
            categories[row, : _width(slice_)] = torch.arange(start, start + _width(slice_))
            start += _width(slice_)
            if regression[row] and not continuous[row]:
                categories[row, 0] = NO_INDEX  # a column of spikes alone always has one of them
        ranked = [row for row, slice_ in enumerate(continuous) if slice_]
        few_valued = [row for row, slice_ in enumerate(regression) if slice_ and not continuous[row]]
        columns = [slices[0].column for slices in variables]
        indicators = [codec.indicator_of.get(column, NO_INDEX) for column in columns]
        first_dimension = {slices[0].column: slices[0].start for slices in reversed(variables)}
        standardised = _starts(regression)
        timestamps = tuple(SampledTimestamp.from_codec(codec, each, columns) for each in codec.timestamps)
        number_of = {each.variable: number for number, each in enumerate(timestamps)}
        timestamp_of = {part: each.variable for each in timestamps for part in each.part_variables}
        timestamp_of |= {part: each.variable for each in timestamps for date in each.dates for part in date.variables}
        elapsed = [[columns.index(at) for at in (index, *pair)] for index, pair in codec.elapsed_between.items()]
        widths = torch.tensor([sum(map(_width, slices)) for slices in variables], dtype=torch.long)
        return cls(
            variable_of=torch.arange(len(variables)).repeat_interleave(widths),
            follows=torch.tensor([columns.index(column) for column in columns]),
            categories=categories,
            first_category=_starts(categorical),
            ranks=_positions(ranked, len(variables)),
            quantities=_positions([*ranked, *few_valued], len(variables)),
            continuous=_starts(continuous),
            standardised=standardised,
            quantile_table=_standardised_values(codec, standardised, _rows_at_quantiles(codec)),
            spikes=_standardised_values(codec, standardised, _rows_at_categories(codec, most)),
            scales=_scales(codec),
            indicator=torch.tensor([columns.index(at) if at != NO_INDEX else at for at in indicators]),
            null_category=torch.tensor([first_dimension[at] + NULL if at != NO_INDEX else at for at in indicators]),
            timestamp=torch.tensor([timestamp_of.get(row, NO_INDEX) for row in range(len(variables))]),
            timestamp_number=torch.tensor([number_of.get(row, NO_INDEX) for row in range(len(variables))]),
            timestamps=timestamps,
            calendar_columns=_calendar_columns(codec, columns),
            elapsed=torch.tensor(elapsed, dtype=torch.long).view(-1, 3),
        )

    def __len__(self) -> int:
        """The number of variables of a row."""
        return len(self.follows)

    def to(self, device: torch.device) -> Variables:
        """Return a copy on another device."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "timestamps"}
        timestamps = tuple(each.to(device) for each in self.timestamps)
        return replace(self, timestamps=timestamps, **{name: tensor.to(device) for name, tensor in tensors.items()})

    @cached_property
    def has_nulls(self) -> bool:
        """Whether any variable has a missing indicator."""
        return bool((self.indicator != NO_INDEX).any())

    def is_null(self, x: Tensor) -> Tensor:
        """Return which variables have no value because their indicator says so, (n, variables)."""
        if not self.has_nulls:
            return torch.zeros(len(x), len(self), dtype=torch.bool, device=x.device)
        null = (self.null_category != NO_INDEX) & (x[:, self.null_category.clamp(min=0)] > 0)
        own, start, end = self.elapsed.T  # there is no time between timestamps of which one is null
        null[:, own] = null[:, start] | null[:, end]
        return null

    @property
    def is_few_valued(self) -> Tensor:
        """Which variables are numbers whose values are all spikes, (variables,)."""
        return (self.quantities != NO_INDEX) & (self.ranks == NO_INDEX)

    @property
    def is_ranked(self) -> Tensor:
        """Which variables are numbers with a normal score, (variables,)."""
        return self.ranks != NO_INDEX

    def spike_values(self, variable: Tensor, like: Tensor) -> Tensor:
        """Return the standardised values of the spikes of variables; infinite where there is none, (m, categories)."""
        spikes = self.spikes[variable].to(like.dtype).masked_fill(self.categories[variable] == NO_INDEX, torch.inf)
        spikes[:, 0] = torch.inf  # the entry for no spike
        return spikes

    def inverse_cdf(self, variable: Tensor, probability: Tensor) -> Tensor:
        """Return the standardised value below which a variable lies with this probability."""
        position = probability * QUANTILE_POINTS
        point = position.long().clamp(max=QUANTILE_POINTS - 1)
        table = self.quantile_table
        return torch.lerp(table[variable, point], table[variable, point + 1], position - point)

    def cdf(self, variable: Tensor, value: Tensor) -> Tensor:
        """Return the probability of lower standardised values, (m,); the middle of the interval of one that repeats.

        It is that of the normal score with which a value is encoded.
        """
        value, table = value.to(self.quantile_table.dtype), self.quantile_table[variable]
        tolerance = RANK_TOLERANCE * (1 + value.abs())  # of values that were computed in single precision
        first = torch.searchsorted(table, (value - tolerance)[:, None], right=False)
        last = torch.searchsorted(table, (value + tolerance)[:, None], right=True)
        right = first.clamp(1, QUANTILE_POINTS)
        below, above = table.gather(1, right - 1), table.gather(1, right)
        between = right - 1 + ((value[:, None] - below) / (above - below)).clamp(0, 1)
        position = torch.where(first == last, between, (first + last - 1) / 2)
        return (position[:, 0] / QUANTILE_POINTS).clamp(MIN_RANK, 1 - MIN_RANK)


def _variables(slices: Sequence[ColumnSlice]) -> list[list[ColumnSlice]]:
    """Return the slices of each variable."""
    variables: list[list[ColumnSlice]] = []
    for slice_ in slices:
        same_column = bool(variables) and variables[-1][0].column == slice_.column
        if same_column and not (slice_.is_categorical and variables[-1][-1].is_categorical):
            variables[-1].append(slice_)
        else:
            variables.append([slice_])
    return variables


def _calendar_columns(codec: RowCodec, columns: Sequence[int]) -> Tensor:
    """Return the variables of columns that are functions of calendar parts, and those of the parts, (k, 2)."""
    position = {each.columns[0].name: index for index, each in enumerate(codec.codecs) if each.columns}
    parts = [item for each in codec.timestamps for item in each.parts.items()]
    pairs = [[columns.index(position[copy.name]), columns.index(at)] for at, part in parts for copy in part.copies]
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def _width(slice_: ColumnSlice | None) -> int:
    return 0 if slice_ is None else slice_.stop - slice_.start


def _positions(rows: Sequence[int], n: int) -> Tensor:
    """Return the position of each of n numbers in a list, or `NO_INDEX`, (n,)."""
    positions = torch.full((n,), NO_INDEX)
    positions[list(rows)] = torch.arange(len(rows))
    return positions


def _starts(slices: Sequence[ColumnSlice | None]) -> Tensor:
    return torch.tensor([NO_INDEX if slice_ is None else slice_.start for slice_ in slices])


def _rows_at_quantiles(codec: RowCodec) -> Floats:
    """Return encoded rows with every normal score at evenly spaced probabilities, (QUANTILE_POINTS + 1, d)."""
    x = _rows_at_categories(codec, 1).repeat(QUANTILE_POINTS + 1, axis=0)
    scores = [slice_.start for slice_ in codec.slices if slice_.type is PartType.CONTINUOUS]
    x[:, scores] = ndtri(np.linspace(MIN_RANK, 1 - MIN_RANK, QUANTILE_POINTS + 1))[:, None]
    return x


def _rows_at_categories(codec: RowCodec, count: int) -> Floats:
    """Return encoded rows with each category in turn, or the first where a column has fewer, (count, d)."""
    x, category = np.zeros((count, codec.width)), np.arange(count)
    for slice_ in codec.slices:
        if slice_.is_categorical:
            x[category, slice_.start + np.where(category < _width(slice_), category, 0)] = 1.0
    return x


def _scales(codec: RowCodec) -> Tensor:
    """Return the place of each number among the terms of sums, and its scale relative to its size, (2, quantities).

    Terms with a coarse resolution come first, and then small ones. So the finest of them is computed: a coarse one
    would be rounded, or lie where no training row has a value, such as a loan that is not a multiple of 100. Terms
    of few values are coarsest. Of times, the time between two timestamps comes first, and then the coarser of the two.
    """
    scales, steps = np.zeros((2, len(codec.quantities))), np.zeros(len(codec.quantities))
    for index, unit in codec.units.items():
        scales[:, index] = unit.scale * (unit.nanoseconds or NANOSECONDS["s"]), 1 / max(abs(unit.zero), MIN_RANK)
        steps[index] = 0.0 if unit.nanoseconds else unit.step if index < len(codec.numeric) else np.inf
    position = {name: index for index, name in enumerate(codec.quantity_names)}
    pairs = [(position[each.start.name], position[each.end.name]) for each in codec.elapsed.values()]
    for _ in pairs:  # of a chain of timestamps, the last one may be the finest
        for pair in (pair for pair in pairs if codec.units.keys() >= set(pair)):
            fine, coarse = sorted(pair, key=lambda at: _resolution(codec, at))
            if _resolution(codec, fine) < _resolution(codec, coarse):
                scales[0, fine] = max(scales[0, fine], scales[0, coarse] * LARGER)
    scales[0, np.lexsort((scales[0], -steps))] = np.arange(len(steps))
    return torch.from_numpy(scales).float()


def _resolution(codec: RowCodec, quantity: int) -> float:
    """Return the resolution of a timestamp in nanoseconds."""
    unit = codec.units[quantity]
    return unit.step * unit.nanoseconds


def _standardised_values(codec: RowCodec, positions: Tensor, x: Floats) -> Tensor:
    """Return the standardised values that encoded rows decode to, (variables, n)."""
    values = torch.from_numpy(codec.encode(codec.decode(x, calendar=False)))
    return torch.where(positions[:, None] == NO_INDEX, 0.0, values[:, positions.clamp(min=0)].T)
