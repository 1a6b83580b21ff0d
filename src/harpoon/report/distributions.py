"""Histograms and category fractions of a column in one or more tables, for the report, the plots and the server.

Bins and categories are shared by the tables that are compared. Missing cells are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harpoon import metrics
from harpoon._formatting import format_rounded, shorten
from harpoon.data import (
    Column,
    ColumnArray,
    Floats,
    Kind,
    Schema,
    Table,
    as_category,
    coerce,
    factorize,
    format_number,
    format_time,
)
from harpoon.data.date_parts import TIME_UNITS
from harpoon.metrics.marginals import NOISE_LEVEL, ks_noise, total_variation_noise
from harpoon.report.summary import Marginal, Picture, Tick, finite_or_none, finite_or_zero

MIN_BINS, MAX_BINS = 8, 40
TAIL_FRACTION = 0.005  # of the values at either end
LONG_TAIL_RATIO = 4.0  # tails are cut off if the full range is this much longer than the range without them
MAX_RESOLUTION_STEPS = 1e9  # a resolution with more steps than this is ignored
SPIKE_FRACTION = 0.25  # values at least this frequent are spikes ...
MAX_DISTINCT_WITHOUT_SPIKES = 32  # ... unless the column has so few values that each has a bin
MAX_TICKS = 7  # so many values have a tick each
MAX_CATEGORIES = 10
MAX_CATEGORY_CHARACTERS = 80
DURATION_UNITS = {f"{unit}s": TIME_UNITS[unit] for unit in ("day", "hour", "minute", "second")}


@dataclass(frozen=True)
class Histogram:
    """Counts of the observed cells of one table: in bins, below and above them, and at spikes."""

    counts: NDArray[np.int64]  # (bins,)
    below: int
    above: int
    at_spikes: NDArray[np.int64]  # (spikes,)
    total: int

    @property
    def fractions(self) -> Floats:
        """The fraction of the observed cells in each bin, with the tails in the first and the last bin, (bins,)."""
        counts = self.counts.copy()
        counts[0] += self.below
        counts[-1] += self.above
        return counts / max(self.total, 1)


@dataclass(frozen=True)
class Bins:
    """Bins of a numeric or temporal column, in its units (days or ticks for times), from `low` to `high`.

    Spikes, which are frequent values, are counted apart from the bins.
    """

    edges: Floats  # (bins + 1,), ascending
    low: float
    high: float
    spikes: Floats

    @classmethod
    def fit(cls, column: Column, *tables: ColumnArray, max_bins: int = MAX_BINS, find_spikes: bool = True) -> Bins:
        """Choose bins for a column of one or more tables; spikes are those of the first.

        The number of bins grows with the cube root of the number of cells (the rule of Rice) of the smallest table.
        Long tails lie outside the bins.
        """
        values = [_observed(column, cells) for cells in tables]
        spikes = _spikes(values[0]) if find_spikes else np.zeros(0)
        rest = np.concatenate([each[~np.isin(each, spikes)] for each in values])
        low, high = _range_without_long_tails(rest)
        n_bins = int(np.clip(2 * min(map(len, values)) ** (1 / 3), min(MIN_BINS, max_bins), max_bins))
        return cls(_bin_edges(low, high, float(column.step or 0), n_bins), low, high, spikes)

    def count(self, column: Column, cells: ColumnArray) -> Histogram:
        """Count the observed cells of one table."""
        values = _observed(column, cells)
        rest = values[~np.isin(values, self.spikes)]
        return Histogram(
            counts=np.histogram(rest, self.edges)[0],
            below=int((rest < self.edges[0]).sum()),
            above=int((rest > self.edges[-1]).sum()),
            at_spikes=np.array([(values == spike).sum() for spike in self.spikes], dtype=np.int64),
            total=len(values),
        )


@dataclass(frozen=True)
class CategoryFractions:
    """The fraction of each category among the observed cells of one or more tables.

    Ordered categories and booleans keep their order; others are sorted by their largest fraction.
    """

    categories: list[Any]
    fractions: Floats  # (tables, categories), and one more for the others
    n_others: int = 0  # rare categories that are counted together

    @classmethod
    def count(cls, column: Column, *tables: ColumnArray, max_categories: int = MAX_CATEGORIES) -> CategoryFractions:
        """Count categories; if there are more than `max_categories`, the rare ones are counted together."""
        by_table = [category_fractions(column, cells) for cells in tables]
        found = list(dict.fromkeys(category for one in by_table for category in one))
        all_fractions = np.array([[one.get(category, 0.0) for category in found] for one in by_table])
        top, total = all_fractions.max(axis=0, initial=0.0), all_fractions.sum(axis=0)
        order = sorted(range(len(found)), key=lambda i: (-top[i], -total[i], str(found[i])))
        # A single rare category has a bar of its own: "1 other" would take as much room and say less.
        n_shown = len(order) if len(order) <= max_categories + 1 else max_categories
        shown, others = order[:n_shown], order[n_shown:]
        if column.ordered or column.kind is Kind.BOOLEAN:
            rank = {category: i for i, category in enumerate(column.categories or (False, True))}
            shown.sort(key=lambda i: rank.get(found[i], len(rank)))
        fractions = all_fractions[:, shown]
        if others:
            fractions = np.column_stack([fractions, all_fractions[:, others].sum(axis=1)])
        return cls([found[i] for i in shown], fractions, len(others))

    def texts(self) -> list[str]:
        """Return the categories as text, one for each column of `fractions`."""
        texts = [shorten(format_category(category), shown=MAX_CATEGORY_CHARACTERS) for category in self.categories]
        return [*texts, f"{self.n_others} others"] if self.n_others else texts


def format_category(category: object) -> str:
    """Return a category as text: a number without decimals that are zero."""
    if isinstance(category, float) and category.is_integer():
        return format_number(category)
    return str(category)


def category_fractions(column: Column, cells: ColumnArray) -> dict[Any, float]:
    """Return the fraction of each category that occurs among the observed cells."""
    coerce(cells, column)
    coded = factorize(cells)
    codes, counts = np.unique(coded.observed, return_counts=True)
    return {
        coded.categories[code]: float(count) / len(coded.observed) for code, count in zip(codes, counts, strict=True)
    }


def marginals(schema: Schema, tables: Mapping[str, Table]) -> list[Marginal]:
    """Describe every modelled column of one or two tables, the largest distance beyond chance first."""
    pair = tuple(tables.values()) if len(tables) > 1 else None
    found = [
        Marginal(
            name=column.name,
            kind=column.kind.value,
            measure=measure(shown),
            distance=None if pair is None else distance(shown, pair[0], pair[1]),
            noise=None if pair is None else finite_or_none(distance_noise(shown, pair[0], pair[1])),
            picture=describe_distribution(shown, tables),
        )
        for column, shown in ((one, as_category(one)) for one in schema.modelled)
    ]
    return sorted(found, key=lambda one: by_excess(one["distance"], one["noise"]))


def measure(column: Column) -> Literal["KS", "TV"]:
    """Return the name of the distance of two distributions of a column."""
    return "KS" if column.kind.numeric else "TV"


def distance(column: Column, left: Table, right: Table) -> float | None:
    """Return the KS or total variation distance of a column; None if it is empty in one table."""
    if any(table.column(column.name).missing.all() for table in (left, right)):
        return None
    return finite_or_none(1.0 - metrics.similarity(Schema((column,)), left, right)[column.name])


def distance_noise(column: Column, left: Table, right: Table, level: float = NOISE_LEVEL) -> float:
    """Return the distance of a column that two samples of one distribution exceed with probability `level`."""
    cells = [table.column(column.name) for table in (left, right)]
    counts = [len(one) - int(one.missing.sum()) for one in cells]
    if column.kind.numeric:
        return ks_noise(counts[0], counts[1], level)
    found = [category_fractions(column, one) for one in cells]
    total = max(sum(counts), 1)
    pooled = [
        sum(n * one.get(category, 0.0) for n, one in zip(counts, found, strict=True)) / total
        for category in {**found[0], **found[1]}
    ]
    return total_variation_noise(np.array(pooled), counts[0], counts[1], level)


def by_excess(change: float | None, noise: float | None) -> tuple[float, float]:
    """Return a key that sorts distances by what exceeds their noise, the largest first, then by their share of it."""
    size, chance = change or 0.0, noise or 0.0
    return -max(size - chance, 0.0), -(size / chance if chance else size)


def describe_distribution(column: Column, tables: Mapping[str, Table]) -> Picture:
    """Describe the distribution of a column in each table, as plain data to draw a chart from."""
    cells = {name: table.column(column.name) for name, table in tables.items()}
    missing = {name: finite_or_zero(one.missing.mean()) for name, one in cells.items()}
    if not column.kind.discrete:
        return _describe_histogram(column, cells, missing)
    found = CategoryFractions.count(column, *cells.values())
    return Picture(
        shape="bars",
        fractions={name: _to_json(one) for name, one in zip(cells, found.fractions, strict=True)},
        edges=[],
        ticks=[],
        unit="",
        categories=found.texts(),
        spikes=[],
        missing=missing,
    )


def format_rounded_value(column: Column, value: float, digits: int = 4, *, largest: float | None = None) -> str:
    """Return a value of a numeric or temporal column as text; a duration in the unit that suits the `largest` value."""
    if column.kind is Kind.DURATION:
        unit, ticks = duration_unit(column, value if largest is None else largest)
        return f"{format_rounded(value / ticks, digits)} {unit}"
    if column.kind.temporal:
        return format_time(column, value).removesuffix(" 00:00")[:16]
    return format_rounded(value, digits)


def duration_unit(column: Column, ticks: float) -> tuple[str, float]:
    """Return the largest unit of time that a duration is at least two of, and how many ticks of the column it has."""
    unit = next((name for name, size in DURATION_UNITS.items() if abs(ticks) * column.tick >= 2 * size), "seconds")
    return unit, DURATION_UNITS[unit] / column.tick


def _describe_histogram(column: Column, cells: Mapping[str, ColumnArray], missing: dict[str, float]) -> Picture:
    bins = Bins.fit(column, *cells.values())
    histograms = {name: bins.count(column, one) for name, one in cells.items()}
    return Picture(
        shape="histogram",
        fractions={name: _to_json(one.fractions) for name, one in histograms.items()},
        edges=bins.edges.tolist(),
        ticks=_ticks(column, bins, list(histograms.values())) if any(one.total for one in histograms.values()) else [],
        unit=duration_unit(column, _largest(bins))[0] if column.kind is Kind.DURATION else "",
        categories=[],
        spikes=[
            {
                "value": format_rounded_value(column, float(value)),
                "fractions": {name: float(one.at_spikes[i]) / max(one.total, 1) for name, one in histograms.items()},
            }
            for i, value in enumerate(bins.spikes)
        ],
        missing=missing,
    )


def _ticks(column: Column, bins: Bins, histograms: Sequence[Histogram]) -> list[Tick]:
    """Return the first, the middle and the last value that the bins show; of few values, each."""
    step, span = float(column.step or 0), bins.high - bins.low
    n_steps = span / step if step > 0 else np.inf
    if n_steps < MAX_TICKS:
        values = bins.low + step * np.arange(round(n_steps) + 1)
        if column.values is not None:  # of a number with few values, those that it has
            distances = np.abs(values[:, None] - np.array(column.values, dtype=np.float64))
            values = values[(distances < step / 2).any(axis=1)]
    else:
        middle = span / 2 if n_steps > MAX_RESOLUTION_STEPS else step * np.round(n_steps / 2)
        values = bins.low + np.array([0.0, middle, span])
    texts = [format_rounded_value(column, value, largest=_largest(bins)) for value in values.tolist()]
    if column.kind is Kind.DURATION:  # the axis names the unit
        texts = [text.partition(" ")[0] for text in texts]
    if any(one.below for one in histograms):
        texts[0] = f"≤ {texts[0]}"
    if any(one.above for one in histograms):
        texts[-1] = f"≥ {texts[-1]}"
    width = bins.edges[-1] - bins.edges[0]
    at = [finite_or_zero(value) for value in np.clip((values - bins.edges[0]) / width, 0.0, 1.0)]
    by_text = dict(zip(reversed(texts), reversed(at), strict=True))  # of values that look alike, the first
    return [Tick(at=place, text=text) for text, place in reversed(by_text.items())]


def _largest(bins: Bins) -> float:
    return max(abs(bins.low), abs(bins.high))


def _observed(column: Column, cells: ColumnArray) -> Floats:
    return coerce(cells, column).observed.astype(np.float64)


def _spikes(values: Floats) -> Floats:
    """Return the values that would hide the others in a histogram, ascending."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= MAX_DISTINCT_WITHOUT_SPIKES:
        return distinct[:0]
    return distinct[counts >= SPIKE_FRACTION * len(values)]


def _range_without_long_tails(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value; if the tails are long, those of the values between them."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = np.quantile(values, [TAIL_FRACTION, 1 - TAIL_FRACTION], method="closest_observation")
    if high - low > LONG_TAIL_RATIO * (inner_high - inner_low) > 0:
        return float(inner_low), float(inner_high)
    return low, high


def _bin_edges(low: float, high: float, step: float, n_bins: int) -> Floats:
    """Return the edges of at most `n_bins` bins of equal width.

    With a resolution, `step`, each bin holds the same number of steps, so that no bin is fuller by its width alone.
    """
    if step > 0 and (high - low) / step < MAX_RESOLUTION_STEPS:
        width = max(np.ceil(((high - low) / step + 1) / n_bins), 1.0) * step
        count = int(np.ceil((high - low + step) / width - 1e-9))
        edges = low - step / 2 + width * np.arange(count + 1)
    else:
        edges = np.linspace(low, high, n_bins + 1)
    distinct: Floats = np.unique(edges)  # far from zero, neighbouring edges may be the same float
    margin = max(abs(low) * 1e-3, 0.5)
    return distinct if len(distinct) > 1 else np.array([low - margin, low + margin])


def _to_json(fractions: Floats) -> list[float]:
    return [finite_or_zero(one) for one in fractions]
