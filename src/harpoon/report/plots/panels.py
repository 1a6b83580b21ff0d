"""Two distributions in one panel, and a grid of such panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from numpy.typing import NDArray

from harpoon.data.column import Kind, format_time
from harpoon.report.plots.pairs import ColumnPair, Floats, percent
from harpoon.report.plots.style import (
    INK,
    SAND,
    SEA,
    SMALL,
    footnote,
    headed,
    in_numbers,
    in_percent,
    labelled,
    legend,
    picture,
    short,
    tidied,
)

ACROSS, WIDTH, HEIGHT = 4, 3.0, 2.3
BINS = 30
MOST_LABELS = 8
MASS, FEW_VALUES = 0.25, 32  # a value that so many cells have hides the others, unless it is one of a few
TAIL, LONG = 0.005, 4.0  # what is cut off on each side where the range is so much longer than the rest
MARGIN = 0.02
CALENDAR = np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[D]")
FINEST = 30_000  # points of a grid; a finer one is as good as none


def grid(
    pairs: Sequence[ColumnPair],
    asides: Sequence[str],
    *,
    between: str,
    names: Sequence[str],
    title: str = "",
    note: str = "",
    size: tuple[float, float] | None = None,
) -> Figure:
    """One panel for each pair, a legend above them and a note below."""
    across = min(ACROSS, len(pairs))
    down = -(-len(pairs) // across)
    figure = picture(size or (max(WIDTH * across, 2 * WIDTH), HEIGHT * down + 0.8), title)
    legend(figure, names)
    places = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for axes, pair, aside in zip(places, pairs, asides, strict=False):
        draw(axes, pair, aside, between)
    for axes in places[len(pairs) :]:
        axes.remove()
    if note:
        footnote(figure, note)
    return figure


def draw(axes: Axes, pair: ColumnPair, aside: str, between: str) -> None:
    """Both distributions in one panel: the first as grey ground, the second in blue upon it."""
    notes = (_labels if pair.column.kind.discrete else _numbers)(tidied(axes), pair, between)
    missing = [float(cells.missing.mean()) for cells in pair.cells]
    if any(missing):
        notes.append(f"missing: {_both(missing, between)}")
    headed(axes, short(pair.column.name), aside)
    labelled(axes, "   ".join(notes))


def _labels(axes: Axes, pair: ColumnPair, _between: str) -> list[str]:
    """Bars of shares, the commonest label on top unless they have an order; rare ones are one bar together."""
    labels, *both = pair.shares()
    common = np.argsort(-np.maximum(*both), kind="stable")
    few = len(labels) <= MOST_LABELS + 1
    shown, rest = (common, common[:0]) if few else (common[:MOST_LABELS], common[MOST_LABELS:])
    if pair.column.ordered or pair.column.kind is Kind.BOOLEAN:
        shown = np.sort(shown)
    words = [short(labels[place]) for place in shown] + ([] if few else [f"{len(rest)} others"])
    places = np.arange(len(words))
    for values, colour, height in zip(both, (SAND, SEA), (0.8, 0.34), strict=True):
        lengths = values[shown] if few else np.append(values[shown], values[rest].sum())
        axes.barh(places, lengths, height=height, color=colour)
    axes.set_yticks(places, words, parse_math=False)
    axes.set_ylim(len(words) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    in_percent(axes.xaxis)
    return []


def _numbers(axes: Axes, pair: ColumnPair, between: str) -> list[str]:
    """Histograms over the same bins; a value that hides all others is told in words."""
    ticks = [cells.observed for cells in pair.cells]
    masses = _masses(ticks[0])
    values = [_on_axis(pair, t[~np.isin(t, masses)]) for t in ticks]
    both = np.concatenate(values)
    edges = _edges(both, _grid_of(pair))
    for i, colour in enumerate((SAND, SEA)):
        heights = np.histogram(values[i], edges)[0] / len(ticks[i])
        axes.stairs(heights, edges, fill=i == 0, color=colour, linewidth=1.8, baseline=0)
    room = MARGIN * (edges[-1] - edges[0])
    axes.set_xlim(*_within_the_calendar(pair, edges[0] - room, edges[-1] + room))
    axes.set_ylim(bottom=0)
    in_percent(axes.yaxis)
    _number_axis(axes, pair.column.kind)
    notes = [pair.span()[0]] if pair.column.kind is Kind.DURATION else []
    notes += [f"at {_written(pair, m)}: {_both([float((t == m).mean()) for t in ticks], between)}" for m in masses]
    outside = [float(((v < edges[0]) | (v > edges[-1])).sum() / len(t)) for v, t in zip(values, ticks, strict=True)]
    return [*notes, f"outside: {_both(outside, between)}"] if any(outside) else notes


def _number_axis(axes: Axes, kind: Kind) -> None:
    """Few ticks, dates as dates, thousands with commas."""
    if kind in (Kind.DATE, Kind.DATETIME):
        locator = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.xaxis.get_offset_text().set(fontsize=SMALL, color=INK)
        return
    in_numbers(axes.xaxis, whole=kind is Kind.INTEGER)


def _masses(ticks: NDArray[Any]) -> NDArray[Any]:
    """The values that hide the others: each is a large share of a column with many values."""
    values, counts = np.unique(ticks, return_counts=True)
    return values[counts >= MASS * counts.sum()] if len(values) > FEW_VALUES else values[:0]


def _edges(values: Floats, unit: float) -> Floats:
    """Bins over all values but for long tails; on a grid, each bin has the same number of its points."""
    if not len(values):
        return np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values, [TAIL, 1 - TAIL], method="closest_observation")
    if high - low > LONG * (inner[1] - inner[0]) > 0:
        low, high = map(float, inner)
    if unit and (high - low) / unit < FINEST:
        width = max(np.ceil(((high - low) / unit + 1) / BINS), 1.0) * unit
        count = int(np.ceil((high - low + unit) / width - 1e-9))
        return np.asarray(low - unit / 2 + width * np.arange(count + 1), dtype=np.float64)
    if low == high:
        reach = max(abs(low) * 1e-3, 0.5)
        low, high = low - reach, high + reach
    return np.linspace(low, high, BINS + 1)


def _grid_of(pair: ColumnPair) -> float:
    """The distance of neighbouring values, as the axis counts; 0: none."""
    if not pair.column.step:
        return 0.0
    zero, one = _on_axis(pair, np.array([0, pair.column.step]))
    return float(one - zero)


def _on_axis(pair: ColumnPair, ticks: NDArray[Any]) -> Floats:
    """Values as the axis counts them: days for dates and times, a unit that suits for spans of time."""
    kind, unit = pair.column.kind, pair.column.unit or "D"
    if kind is Kind.DURATION:
        return np.asarray(ticks / pair.span()[1], dtype=np.float64)
    if kind.temporal:
        moments = ticks.astype(np.int64).astype(f"datetime64[{unit}]")
        return np.asarray(date2num(moments), dtype=np.float64)  # type: ignore[no-untyped-call]
    return ticks.astype(np.float64)


def _within_the_calendar(pair: ColumnPair, low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, which of dates must lie in the years that have four digits."""
    if pair.column.kind not in (Kind.DATE, Kind.DATETIME):
        return low, high
    first, last = date2num(CALENDAR)  # type: ignore[no-untyped-call]
    return max(low, float(first)), min(high, float(last))


def _written(pair: ColumnPair, value: float) -> str:
    if pair.column.kind in (Kind.DATE, Kind.DATETIME):
        return format_time(pair.column, value)
    return f"{float(_on_axis(pair, np.array([value]))[0]):,.6g}"


def _both(values: Sequence[float], between: str) -> str:
    return between.join(percent(value) for value in values)
