"""Panels: the distributions of one column in two tables, and a grid of panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from numpy.typing import NDArray

from harpoon._formatting import format_list, format_percent
from harpoon.data import Column, Kind, Schema, Table, coerce
from harpoon.data.date_parts import DAY
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.plots import style
from harpoon.report.distributions import Bins, CategoryFractions, distance, duration_unit, format_rounded_value, measure
from harpoon.report.what_if import shift

PANELS_PER_ROW, PANEL_WIDTH, PANEL_HEIGHT = 4, 3.0, 2.3  # inches
MAX_TITLE_CHARACTERS = 70
MAX_REASONS = 4
MAX_BINS = 30
MAX_CATEGORIES = 8
DIGITS = 3  # a panel is narrow
MARGIN = 0.02
CALENDAR = np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[D]")


@dataclass(frozen=True)
class ColumnPair:
    """One column of two tables, and the distance of its two distributions (0 to 1)."""

    column: Column
    tables: tuple[Table, Table]
    distance: float

    def distance_text(self) -> str:
        """Return the name and the value of the distance."""
        return f"{measure(self.column)} {self.distance:.2f}"

    def shift_text(self) -> str:
        """Return the change of the mean, or of the category fraction that changed most."""
        return shift(self.column, *self.tables, digits=DIGITS).text


def pair_columns(
    first: Table, second: Table, columns: Sequence[str] | None = None
) -> tuple[list[ColumnPair], list[str]]:
    """Return the columns that two tables have in common and that can be compared, and why others cannot."""
    names = first.names if columns is None else [str(name) for name in columns]
    unknown = [name for name in names if name not in first.names]
    if unknown:
        raise InvalidOption.no_column("The table", unknown[0], first.names)
    found = [_pair_column(first, second, name) for name in names]
    pairs = [pair for pair in found if isinstance(pair, ColumnPair)]
    left_out = [reason for reason in found if isinstance(reason, str)]
    if not pairs:
        raise InvalidTable(f"The tables have no column that can be compared. Left out: {format_list(left_out)}.")
    return pairs, left_out


def draw_grid(
    pairs: Sequence[ColumnPair],
    left_out: Sequence[str],
    *,
    max_panels: int,
    subtitle: Callable[[ColumnPair], str],
    separator: str,
    names: Sequence[str],
    title: str = "",
    size: tuple[float, float] | None = None,
) -> Figure:
    """Draw one panel for each of the first pairs, a legend above them, and below them a note about other columns."""
    shown = pairs[:max_panels]
    n_columns = min(PANELS_PER_ROW, len(shown))
    n_rows = -(-len(shown) // n_columns)
    default_size = max(PANEL_WIDTH * n_columns, 2 * PANEL_WIDTH), PANEL_HEIGHT * n_rows + 0.8
    figure = style.new_figure(size or default_size, title)
    style.add_legend(figure, names)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    for axes, pair in zip(panels, shown, strict=False):
        _draw_panel(axes, pair, subtitle(pair), separator)
    for axes in panels[len(shown) :]:
        axes.remove()
    not_shown = _describe_not_shown(len(pairs) - len(shown), left_out)
    if not_shown:
        style.add_footnote(figure, f"Not shown: {', '.join(not_shown)}.")
    return figure


def _describe_not_shown(n_more: int, left_out: Sequence[str]) -> list[str]:
    more = [f"{n_more} more column{'s' * (n_more > 1)}"] if n_more else []
    reasons = [style.shorten_line(reason, MAX_TITLE_CHARACTERS) for reason in left_out[:MAX_REASONS]]
    n_others = len(left_out) - MAX_REASONS
    return [*more, *reasons, *([f"{n_others} others that cannot be compared"] if n_others > 0 else [])]


def _pair_column(first: Table, second: Table, name: str) -> ColumnPair | str:
    """Return one column of two tables, or why it cannot be compared."""
    if name not in second.names:
        return f"{name} (in one table only)"
    candidates = [Schema.infer(table.arrow.select([name])).columns[0] for table in (first, second)]
    column = candidates[0] if candidates[0].kind.modelled else candidates[1]
    if {each.kind for each in candidates} == {Kind.INTEGER, Kind.NUMBER}:
        column = next(each for each in candidates if each.kind is Kind.NUMBER)
    if not column.kind.modelled:
        return f"{name} ({column.kind.value})"
    for table in (first, second):
        coerce(table.column(name), column)
    apart = distance(column, first, second)
    return f"{name} (empty in one table)" if apart is None else ColumnPair(column, (first, second), apart)


def _draw_panel(axes: Axes, pair: ColumnPair, subtitle: str, separator: str) -> None:
    """Draw the first distribution as a grey area, and the second in blue on top of it."""
    draw = _draw_bars if pair.column.kind.discrete else _draw_histogram
    notes = draw(style.style_axes(axes), pair, separator)
    missing = [float(table.column(pair.column.name).missing.mean()) for table in pair.tables]
    if any(missing):
        notes.append(f"missing: {_format_fractions(missing, separator)}")
    style.set_title(axes, style.shorten_line(pair.column.name), subtitle)
    style.label_axes(axes, "   ".join(notes))


def _draw_bars(axes: Axes, pair: ColumnPair, _separator: str) -> list[str]:
    cells = (table.column(pair.column.name) for table in pair.tables)
    found = CategoryFractions.count(pair.column, *cells, max_categories=MAX_CATEGORIES)
    positions = np.arange(found.fractions.shape[1])
    for fractions, colour, height in zip(found.fractions, (style.SAND, style.SEA), (0.8, 0.34), strict=True):
        axes.barh(positions, fractions, height=height, color=colour)
    axes.set_yticks(positions, [style.shorten_line(text) for text in found.texts()], parse_math=False)
    axes.set_ylim(len(positions) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    style.format_percent_axis(axes.xaxis)
    return []


def _draw_histogram(axes: Axes, pair: ColumnPair, separator: str) -> list[str]:
    """Draw histograms over the same bins; return notes about spikes and about values outside the bins."""
    column, cells = pair.column, [table.column(pair.column.name) for table in pair.tables]
    bins = Bins.fit(column, *cells, max_bins=MAX_BINS)
    histograms = [bins.count(column, one) for one in cells]
    offset, ticks_per_unit, unit = _axis_scale(column, bins)
    edges = offset + bins.edges / ticks_per_unit
    for histogram, colour, fill in zip(histograms, (style.SAND, style.SEA), (True, False), strict=True):
        axes.stairs(histogram.counts / histogram.total, edges, fill=fill, color=colour, linewidth=1.8, baseline=0)
    margin = MARGIN * (edges[-1] - edges[0])
    axes.set_xlim(edges[0] - margin, edges[-1] + margin)
    axes.set_ylim(bottom=0)
    style.format_percent_axis(axes.yaxis)
    if column.kind.is_timestamp:
        _format_date_axis(axes)
    else:
        is_integer = column.kind is Kind.INTEGER or (column.kind is Kind.NUMBER and (column.step or 0) >= 1)
        style.format_number_axis(axes.xaxis, integer=is_integer)
    notes = [unit] if unit else []
    for i, spike in enumerate(bins.spikes):
        at_spike = _format_fractions([float(one.at_spikes[i]) / one.total for one in histograms], separator)
        notes.append(f"at {format_rounded_value(column, float(spike), digits=6)}: {at_spike}")
    outside = [(one.below + one.above) / one.total for one in histograms]
    return [*notes, f"outside: {_format_fractions(outside, separator)}"] if any(outside) else notes


def _axis_scale(column: Column, bins: Bins) -> tuple[float, float, str]:
    """Return offset, ticks per unit and unit of an axis: a value is drawn at offset + value / ticks per unit.

    Dates are drawn at matplotlib's days, durations in a suitable unit of time.
    """
    if column.kind is Kind.DURATION:
        unit, ticks = duration_unit(column, float(np.abs(bins.edges).max()))
        return 0.0, ticks, unit
    if column.kind.is_timestamp:
        epoch = float(_to_matplotlib_days(np.array(0, dtype="datetime64[D]")))
        return epoch, DAY / column.tick, ""
    return 0.0, 1.0, ""


def _format_date_axis(axes: Axes) -> None:
    """Write dates on the axis, and end it within the years 1 to 9999, which matplotlib can draw."""
    axes.set_xlim(*np.clip(axes.get_xlim(), *_to_matplotlib_days(CALENDAR)))
    locator = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.xaxis.get_offset_text().set(fontsize=style.SMALL, color=style.INK)


def _to_matplotlib_days(moments: NDArray[np.datetime64]) -> NDArray[np.float64]:
    return np.asarray(date2num(moments), dtype=np.float64)  # type: ignore[no-untyped-call]


def _format_fractions(fractions: Sequence[float], separator: str) -> str:
    return separator.join(format_percent(fraction, digits=2) for fraction in fractions)
