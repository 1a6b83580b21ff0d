"""Pictures: what is missing, what is drawn, what changes under a condition, and how a model came to be.

Every function returns a matplotlib figure that belongs to no window: save it with `figure.savefig("file.png")`, or let
a notebook show it. No global state of matplotlib is changed, and of a style in use only the font shows. Needs the extra
`plots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.validation import check_count
from harpoon.data import dataframe
from harpoon.data.dataframe import Table
from harpoon.diffusion.penalties import RECONSTRUCTION_LOSSES
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, InvalidTable, NotFitted
from harpoon.report.plots.pairs import ColumnPair, pair_columns, percent
from harpoon.report.plots.panels import grid
from harpoon.report.plots.style import (
    COLOURS,
    FAINT,
    INK,
    PAPER,
    SAND,
    SEA,
    SMALL,
    WHITE_TO_BLUE,
    footnote,
    headed,
    in_numbers,
    in_percent,
    labelled,
    picture,
    short,
    tidied,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_PANELS, MOST_COLUMNS = 24, 40
BANDS = 240
STEPS = 40
RIGHT_ANGLE = 90
LONGEST_TITLE = 70
FEW = 4
FAR = 20.0  # losses so far apart are drawn on a scale of factors


Size = tuple[float, float]


def missingness(data: object, *, most: int = MOST_COLUMNS, size: Size | None = None) -> Figure:
    """Where cells are missing: each column from its first row to its last, and its share.

    Args:
        data: A pandas, polars or pyarrow frame.
        most: Columns at the most; those with the most missing cells are drawn, in the order of the table.
        size: Inches, width and height.

    >>> import pyarrow as pa
    >>> figure = missingness(pa.table({"x": [1.5, None, 3.0, None], "y": ["a", "b", "c", None]}))
    >>> [float(bar.get_width()) for bar in figure.axes[1].patches]
    [0.5, 0.25]
    """
    table = _with_rows(data)
    holes = np.stack([table.column(name).missing for name in table.names])
    shares = holes.mean(axis=1)
    chosen = np.sort(np.argsort(-shares, kind="stable")[: check_count(most, "most, the number of columns,")])
    total = f"{holes.sum():,} of {holes.size:,} cells are missing" if holes.any() else "No cell is missing"
    figure = picture(size or (9.0, 1.3 + 0.26 * len(chosen)), total)
    left, right = figure.subplots(1, 2, width_ratios=[4, 1])
    _bands(tidied(left), holes[chosen], [table.names[place] for place in chosen])
    _missing_shares(tidied(right), shares[chosen])
    if len(chosen) < len(shares):
        rest = np.delete(shares, chosen)
        footnote(figure, f"Not drawn: {len(rest)} more columns, of which {percent(rest.max())} or less is missing.")
    return figure


def marginals(
    real: object,
    drawn: object,
    *,
    columns: Sequence[str] | None = None,
    most: int = MOST_PANELS,
    names: tuple[str, str] = ("real", "drawn"),
    size: Size | None = None,
) -> Figure:
    """Each column of two tables, one distribution upon the other.

    The score is their distance, from 0 (the same) to 1: Kolmogorov and Smirnov's for numbers, dates and times, total
    variation for labels. Missing cells are left out of it, and their share is told.

    Args:
        real: A frame, in grey.
        drawn: A frame with columns of the same names, in blue.
        columns: Which columns; by default those that both have and that hold something to compare.
        most: Panels at the most; a note says how many columns are not drawn.
        names: What the two tables are called.
        size: Inches, width and height.
    """
    tables = _with_rows(real), _with_rows(drawn)
    pairs, left_out = pair_columns(*tables, columns)
    shown = pairs[: check_count(most, "most, the number of panels,")]
    note, called = _note(shown, pairs, left_out), _called(names, tables)
    return grid(shown, [pair.score for pair in shown], between=" | ", names=called, note=note, size=size)


def what_if(
    before: object,
    after: object,
    *,
    where: object = None,
    columns: Sequence[str] | None = None,
    most: int = MOST_PANELS,
    names: tuple[str, str] = ("before", "after"),
    size: Size | None = None,
) -> Figure:
    """What a condition does to every column, the most changed first.

    Args:
        before: Rows without the condition: the training table, or plain draws.
        after: Rows under the condition.
        where: The condition, to be written above the picture.
        columns: Which columns; by default those that both have and that hold something to compare.
        most: Panels at the most; a note says how many columns are not drawn.
        names: What the two tables are called.
        size: Inches, width and height.
    """
    tables = _with_rows(before), _with_rows(after)
    pairs, left_out = pair_columns(*tables, columns)
    shown = sorted(pairs, key=lambda pair: -pair.distance)[: check_count(most, "most, the number of panels,")]
    title = "" if where is None else f"What if {short(where, LONGEST_TITLE)}?"
    note, called = _note(shown, pairs, left_out), _called(names, tables)
    return grid(shown, [pair.change for pair in shown], between=" → ", names=called, title=title, note=note, size=size)


def angles(
    model: Harpoon,
    data: object,
    *,
    losses: Sequence[str] = tuple(RECONSTRUCTION_LOSSES),
    rows: int = 100,
    random_state: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """How close guidance gradients are to the tangent space: 90 degrees from the denoising direction (Theorem 3.2).

    The lines are means over rows, the bands one deviation on each side; see `harpoon.diffusion.geometry.gradient_angles`.

    Args:
        model: A fitted model.
        data: A table like the training table; its complete rows are used.
        losses: Of "mae", "mse", "mae+ce" and "mse+ce".
        rows: How many rows to use at the most.
        random_state: The seed of the noise.
        ax: Axes to draw on, in a figure of your own.
    """
    from harpoon.diffusion.geometry import gradient_angles

    _check_fitted(model)
    steps = model.denoiser_.schedule.times(min(STEPS, model.config_.diffusion_steps))[:-1]
    found = gradient_angles(
        model.denoiser_,
        model.encode(data),
        model.codec_.slices,
        losses=losses,
        rows=rows,
        times=steps,
        random_state=random_state,
    )
    axes = tidied(picture((7.0, 4.0)).subplots() if ax is None else ax)
    axes.axhline(RIGHT_ANGLE, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    for (loss, angle), colour in zip(found.items(), COLOURS, strict=False):
        axes.plot(angle.times, angle.mean, color=colour, linewidth=1.8, label=loss)
        low, high = angle.mean - angle.std, angle.mean + angle.std
        axes.fill_between(angle.times, low, high, facecolor=(colour, 0.06), edgecolor=(colour, 0.5), linewidth=0.6)
    axes.set_xlim(max(steps), 0)
    headed(axes, "Gradients of guidance: along the manifold at 90°", f"{rows} rows at the most")
    labelled(axes, "time t: from noise to a clean row", "angle to the denoising direction (degrees)")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)
    return _figure_of(axes)


def training(model: Harpoon, *, ax: Axes | None = None) -> Figure:
    """The loss while the model was trained, on its rows and on held-out ones.

    Args:
        model: A fitted or loaded model.
        ax: Axes to draw on, in a figure of your own.
    """
    _check_fitted(model)
    history = model.history_
    axes = tidied(picture((7.0, 3.6)).subplots() if ax is None else ax)
    passes = [epoch.number for epoch in history.epochs]
    marker = "o" if len(passes) == 1 else ""
    on_rows = [epoch.loss for epoch in history.epochs]
    axes.plot(passes, on_rows, color=SAND, linewidth=1.8, marker=marker, label="training")
    held = [(epoch.number, epoch.validation_loss) for epoch in history.epochs if epoch.validation_loss is not None]
    if held:
        axes.plot(*zip(*held, strict=True), color=SEA, linewidth=1.8, marker=marker, label="held out")
        best = min(held, key=lambda point: point[1])
        axes.plot(*best, color=SEA, marker="o", markersize=5, linestyle="", label=f"lowest: {best[1]:.4g}")
    losses = [*on_rows, *(loss for _, loss in held)]
    if losses and min(losses) > 0 and max(losses) > FAR * min(losses):
        axes.set_yscale("log")
    headed(axes, "Training", f"{_lasted(history.seconds)}, stopped by {history.stopped_by or 'nothing'}")
    labelled(axes, "passes over the rows", "loss")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)
    return _figure_of(axes)


def _bands(axes: Axes, holes: NDArray[np.bool_], names: Sequence[str]) -> None:
    """The rows of each column from left to right, as many together as a picture has room for."""
    height = holes.shape[1]
    starts = np.linspace(0, height, min(BANDS, height), endpoint=False).astype(np.int64)
    shares = np.add.reduceat(holes.astype(np.float64), starts, axis=1) / np.diff(starts, append=height)
    edges = np.append(starts, height)
    axes.pcolormesh(edges, np.arange(len(names) + 1), shares, cmap=WHITE_TO_BLUE, vmin=0, vmax=1)
    axes.set_yticks(np.arange(len(names)) + 0.5, [short(name) for name in names], parse_math=False)
    axes.hlines(np.arange(1, len(names)), 0, height, color=PAPER, linewidth=2)
    axes.set_ylim(len(names), 0)
    in_numbers(axes.xaxis, whole=True)
    axes.tick_params(axis="y", length=0)
    labelled(axes, "row")


def _missing_shares(axes: Axes, shares: NDArray[np.float64]) -> None:
    """How much of each column is missing, beside its rows."""
    places = np.arange(len(shares)) + 0.5
    axes.barh(places, shares, height=0.7, color=SEA)
    for place, share in zip(places, shares, strict=True):
        axes.annotate(
            percent(share) if share else "–",
            (share, place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK if share else FAINT,
        )
    axes.set_ylim(len(shares), 0)
    axes.set_yticks([])
    axes.set_xlim(0, max(float(shares.max()) * 1.35, 0.01))
    in_percent(axes.xaxis)
    labelled(axes, "missing")


def _note(shown: Sequence[ColumnPair], pairs: Sequence[ColumnPair], left_out: Sequence[str]) -> str:
    """Which columns are not in the picture."""
    rest = len(pairs) - len(shown)
    more = [f"{rest} more column{'s' * (rest > 1)}"] if rest else []
    kept = [short(name, LONGEST_TITLE) for name in left_out[:FEW]]
    beyond = [f"{len(left_out) - FEW} others that cannot be compared"] if len(left_out) > FEW else []
    words = [*more, *kept, *beyond]
    return f"Not drawn: {', '.join(words)}." if words else ""


def _called(names: tuple[str, str], tables: tuple[Table, Table]) -> list[str]:
    if isinstance(names, str) or len(names) != len(tables):
        raise InvalidOption(f"names must be two, one for each table, got {names!r}.")
    return [f"{name} ({table.n_rows:,} rows)" for name, table in zip(names, tables, strict=True)]


def _with_rows(data: object) -> Table:
    table = dataframe.read(data)
    if not table.names or not table.n_rows:
        raise InvalidTable(
            f"A table to draw must have rows and columns, got {table.n_rows} rows and {len(table.names)} columns."
        )
    return table


def _check_fitted(model: Harpoon) -> None:
    if not isinstance(model, Harpoon):
        raise InvalidOption(f"A model must be a Harpoon, got {type(model).__name__}.")
    if not hasattr(model, "history_"):
        raise NotFitted("This model has not been trained. Call fit(table) first, or load a saved model.")


def _lasted(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 2 * 60 else f"{seconds:.0f} s"


def _figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    if figure is None:
        raise InvalidOption("ax must belong to a figure.")
    return figure
