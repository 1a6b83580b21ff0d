"""The figures of `harpoon.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_percent
from harpoon._utils.validation import check_count
from harpoon.data import Table, dataframe
from harpoon.diffusion.geometry import gradient_angles
from harpoon.diffusion.reconstruction_penalty import RECONSTRUCTION_LOSSES
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, InvalidTable, MissingExtra

try:
    import matplotlib as mpl  # noqa: F401
except ImportError:
    raise MissingExtra.for_package("matplotlib", "plots", "Drawing") from None

from harpoon.plots import style
from harpoon.plots.panels import MAX_TITLE_CHARACTERS, ColumnPair, draw_grid, pair_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_PANELS, MAX_COLUMNS = 24, 40
MAX_BANDS = 240  # of rows, from left to right
MAX_ANGLE_STEPS = 40
RIGHT_ANGLE = 90
LOG_SCALE_RATIO = 20.0  # losses that differ by more are drawn on a logarithmic scale
MIN_MINUTES = 2
Size = tuple[float, float]


def missingness(data: object, *, max_columns: int = MAX_COLUMNS, size: Size | None = None) -> Figure:
    """Draw which cells are missing: each column from its first row to its last, and its missing fraction.

    Args:
        data: A pandas, polars or pyarrow dataframe.
        max_columns: Maximum number of columns; those with the most missing cells are drawn, in the order of the table.
        size: Width and height in inches.

    >>> import pyarrow as pa
    >>> figure = missingness(pa.table({"x": [1.5, None, 3.0, None], "y": ["a", "b", "c", None]}))
    >>> [float(bar.get_width()) for bar in figure.axes[1].patches]
    [0.5, 0.25]
    """
    table = _read_with_rows(data)
    missing = np.stack([table.column(name).missing for name in table.names])
    fractions = missing.mean(axis=1)
    shown = np.sort(np.argsort(-fractions, kind="stable")[: check_count(max_columns, "max_columns")])
    title = f"{missing.sum():,} of {missing.size:,} cells are missing" if missing.any() else "No cell is missing"
    figure = style.new_figure(size or (9.0, 1.3 + 0.26 * len(shown)), title)
    left, right = figure.subplots(1, 2, width_ratios=[4, 1])
    _draw_missing_cells(style.style_axes(left), missing[shown], [table.names[i] for i in shown])
    _draw_missing_fractions(style.style_axes(right), fractions[shown])
    if len(shown) < len(fractions):
        rest = np.delete(fractions, shown)
        most = format_percent(rest.max(), digits=2)
        style.add_footnote(figure, f"Not shown: {len(rest)} more columns, with at most {most} missing cells.")
    return figure


def marginals(
    real: object,
    synthetic: object,
    *,
    columns: Sequence[str] | None = None,
    max_panels: int = MAX_PANELS,
    names: tuple[str, str] = ("real", "synthetic"),
    size: Size | None = None,
) -> Figure:
    """Draw the distribution of each column in two tables.

    The subtitle of a panel is the distance of the two distributions, from 0 (the same) to 1: Kolmogorov-Smirnov (KS)
    for numeric and temporal columns, total variation (TV) for categories. Missing cells are left out; their fraction
    is given below the panel.

    Args:
        real: A dataframe, in grey.
        synthetic: A dataframe with columns of the same names, in blue.
        columns: Names of columns; by default all that both tables have and that can be compared.
        max_panels: Maximum number of panels; a note gives the number of columns that are not shown.
        names: Names of the two tables.
        size: Width and height in inches.
    """
    tables = _read_with_rows(real), _read_with_rows(synthetic)
    pairs, left_out = pair_columns(*tables, columns)
    return draw_grid(
        pairs,
        left_out,
        max_panels=check_count(max_panels, "max_panels"),
        subtitle=ColumnPair.distance_text,
        separator=" | ",
        names=_legend_names(names, tables),
        size=size,
    )


def what_if(
    before: object,
    after: object,
    *,
    where: object = None,
    columns: Sequence[str] | None = None,
    max_panels: int = MAX_PANELS,
    names: tuple[str, str] = ("before", "after"),
    size: Size | None = None,
) -> Figure:
    """Draw the effect of a condition on every column, the strongest first.

    `before` has rows without the condition (the training table, or unconditional samples), `after` rows under it, and
    `where` is the condition, for the title. The other arguments are those of `marginals`.
    """
    tables = _read_with_rows(before), _read_with_rows(after)
    pairs, left_out = pair_columns(*tables, columns)
    return draw_grid(
        sorted(pairs, key=lambda pair: -pair.distance),
        left_out,
        max_panels=check_count(max_panels, "max_panels"),
        subtitle=ColumnPair.shift_text,
        separator=" → ",
        names=_legend_names(names, tables),
        title="" if where is None else f"What if {style.shorten_line(where, MAX_TITLE_CHARACTERS)}?",
        size=size,
    )


def angles(
    model: Harpoon,
    data: object,
    *,
    losses: Sequence[str] = tuple(RECONSTRUCTION_LOSSES),
    rows: int = 100,
    random_state: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw the angle between guidance gradients and the denoising direction, 90 degrees in Theorem 3.2.

    Lines are means over complete rows of `data`, a table like the training table, at most `rows` of them. Bands are one
    standard deviation. `losses` are any of "mae", "mse", "mae+ce" and "mse+ce", `random_state` is the seed of the noise
    (`harpoon.diffusion.geometry.gradient_angles`). `ax` are axes to draw on.
    """
    _check_fitted(model)
    times = model.denoiser_.schedule.times(min(MAX_ANGLE_STEPS, model.config_.diffusion_steps))[:-1]
    found = gradient_angles(
        model.denoiser_,
        model.encode(data),
        model.codec_.slices,
        losses=losses,
        rows=rows,
        times=times,
        random_state=random_state,
    )
    axes, figure = _axes(ax, (7.0, 4.0))
    axes.axhline(RIGHT_ANGLE, color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)))
    for (loss, angle), colour in zip(found.items(), style.COLOURS, strict=False):
        axes.plot(angle.times, angle.mean, color=colour, linewidth=1.8, label=loss)
        low, high = angle.mean - angle.std, angle.mean + angle.std
        axes.fill_between(angle.times, low, high, facecolor=(colour, 0.06), edgecolor=(colour, 0.5), linewidth=0.6)
    axes.set_xlim(max(times), 0)
    style.set_title(axes, "Guidance gradients: tangent to the data manifold at 90°", f"at most {rows} rows")
    style.label_axes(axes, "time t, from noise to data", "angle to the denoising direction (degrees)")
    axes.legend(frameon=False, fontsize=style.SMALL, labelcolor=style.INK)
    return figure


def training(model: Harpoon, *, ax: Axes | None = None) -> Figure:
    """Draw the training and validation loss of a fitted or loaded model by epoch, on `ax` if it is given."""
    _check_fitted(model)
    history = model.history_
    axes, figure = _axes(ax, (7.0, 3.6))
    epochs = [epoch.number for epoch in history.epochs]
    marker = "o" if len(epochs) == 1 else ""
    losses = [epoch.loss for epoch in history.epochs]
    axes.plot(epochs, losses, color=style.SAND, linewidth=1.8, marker=marker, label="training")
    validated = [(epoch.number, epoch.validation_loss) for epoch in history.epochs if epoch.validation_loss is not None]
    if validated:
        axes.plot(*zip(*validated, strict=True), color=style.SEA, linewidth=1.8, marker=marker, label="validation")
        best = min(validated, key=lambda point: point[1])
        axes.plot(*best, color=style.SEA, marker="o", markersize=5, linestyle="", label=f"lowest: {best[1]:.4g}")
    losses += [loss for _, loss in validated]
    if losses and min(losses) > 0 and max(losses) > LOG_SCALE_RATIO * min(losses):
        axes.set_yscale("log")
    limit = history.stopped_by or "nothing"
    style.set_title(axes, "Training", f"{_format_seconds(history.seconds)}, stopped by {limit}")
    style.label_axes(axes, "epoch", "loss")
    axes.legend(frameon=False, fontsize=style.SMALL, labelcolor=style.INK)
    return figure


def _draw_missing_cells(axes: Axes, missing: NDArray[np.bool_], names: Sequence[str]) -> None:
    """Draw the rows of each column from left to right; neighbouring rows share a band if there are many."""
    n_rows = missing.shape[1]
    starts = np.linspace(0, n_rows, min(MAX_BANDS, n_rows), endpoint=False).astype(np.int64)
    fractions = np.add.reduceat(missing.astype(np.float64), starts, axis=1) / np.diff(starts, append=n_rows)
    edges = np.append(starts, n_rows)
    axes.pcolormesh(edges, np.arange(len(names) + 1), fractions, cmap=style.WHITE_TO_BLUE, vmin=0, vmax=1)
    axes.set_yticks(np.arange(len(names)) + 0.5, [style.shorten_line(name) for name in names], parse_math=False)
    axes.hlines(np.arange(1, len(names)), 0, n_rows, color=style.PAPER, linewidth=2)
    axes.set_ylim(len(names), 0)
    style.format_number_axis(axes.xaxis, integer=True)
    axes.tick_params(axis="y", length=0)
    style.label_axes(axes, "row")


def _draw_missing_fractions(axes: Axes, fractions: NDArray[np.float64]) -> None:
    """Draw the missing fraction of each column as a bar beside its rows."""
    positions = np.arange(len(fractions)) + 0.5
    bars = axes.barh(positions, fractions, height=0.7, color=style.SEA)
    labels = [format_percent(fraction, digits=2) if fraction else "–" for fraction in fractions]
    for text, fraction in zip(axes.bar_label(bars, labels, padding=3, fontsize=style.SMALL), fractions, strict=True):
        text.set_color(style.INK if fraction else style.FAINT)
    axes.set_ylim(len(fractions), 0)
    axes.set_yticks([])
    axes.set_xlim(0, max(float(fractions.max()) * 1.35, 0.01))
    style.format_percent_axis(axes.xaxis)
    style.label_axes(axes, "missing")


def _legend_names(names: tuple[str, str], tables: tuple[Table, Table]) -> list[str]:
    if isinstance(names, str) or len(names) != len(tables):
        raise InvalidOption(f"names must be two names, one for each table, got {names!r}.")
    return [f"{name} ({table.n_rows:,} rows)" for name, table in zip(names, tables, strict=True)]


def _read_with_rows(data: object) -> Table:
    table = dataframe.read(data)
    if not table.names or not table.n_rows:
        raise InvalidTable(
            f"A table to draw must have rows and columns, got {table.n_rows} rows and {len(table.names)} columns."
        )
    return table


def _check_fitted(model: Harpoon) -> None:
    if not isinstance(model, Harpoon):
        raise InvalidOption(f"model must be a Harpoon, got {type(model).__name__}.")
    model._check_fitted()


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= MIN_MINUTES * 60 else f"{seconds:.0f} s"


def _axes(ax: Axes | None, size: Size) -> tuple[Axes, Figure]:
    """Return axes without a frame, the given ones or those of a new figure, and their figure."""
    axes = style.style_axes(style.new_figure(size).subplots() if ax is None else ax)
    figure = axes.get_figure(root=True)
    if figure is None:
        raise InvalidOption("ax must belong to a figure.")
    return axes, figure
