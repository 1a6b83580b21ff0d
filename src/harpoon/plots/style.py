"""The style of figures: colours, fonts and plain axes. Figures belong to no window."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from harpoon.exceptions import InvalidOption

INK, FAINT, PAPER = "#1f2933", "#6b7785", "white"
SAND, SEA = "#c3ccd6", "#0072b2"  # the first and the second table
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: safe for colour blindness
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("white to blue", ["#edf1f5", SEA])
SMALL, NORMAL, LARGE = 8.0, 9.5, 12.0  # font sizes in points
MAX_LABEL_CHARACTERS = 20
MAX_INCHES = 500
MIN_PREFIXED, MAX_PREFIXED = 1e4, 1e15  # numbers in this range have a prefix, such as 20k


class WindowlessFigure(Figure):
    """A figure that belongs to no window, and shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def new_figure(size: tuple[float, float], title: str = "") -> WindowlessFigure:
    """Create an empty figure of a width and height in inches, independent of the user's style."""
    if not isinstance(size, tuple | list) or len(size) != 2 or not all(0 < side < MAX_INCHES for side in size):  # noqa: PLR2004
        raise InvalidOption(f"size must be a width and a height in inches, such as (10, 6), got {size!r}.")
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = WindowlessFigure(figsize=size, dpi=110, layout=layout, facecolor=PAPER)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=LARGE, color=INK, parse_math=False)
    return figure


def style_axes(axes: Axes) -> Axes:
    """Remove the frame of axes and set their colours; return them."""
    axes.set_facecolor(PAPER)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SAND)
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=SMALL, length=2.5)
    return axes


def set_title(axes: Axes, title: str, subtitle: str = "") -> None:
    """Set a title and, on a line below it, a subtitle."""
    axes.set_title(
        title, loc="left", pad=16 if subtitle else 5, fontsize=NORMAL, color=INK, weight="bold", parse_math=False
    )
    axes.annotate(
        subtitle, (0, 1), (0, 4), "axes fraction", "offset points", fontsize=SMALL, color=FAINT, parse_math=False
    )


def label_axes(axes: Axes, x: str = "", y: str = "") -> None:
    """Set the labels of both axes."""
    axes.set_xlabel(x, fontsize=SMALL, color=FAINT, parse_math=False)
    axes.set_ylabel(y, fontsize=SMALL, color=FAINT, parse_math=False)


def format_percent_axis(axis: Any) -> None:  # noqa: ANN401
    """Write fractions on an axis as percentages."""
    axis.set_major_locator(MaxNLocator(3))
    axis.set_major_formatter(FuncFormatter(lambda fraction, _: f"{100 * fraction:g} %"))


def format_number_axis(axis: Any, *, integer: bool = False) -> None:  # noqa: ANN401
    """Write few numbers on an axis, large ones as thousands and millions."""
    axis.set_major_locator(MaxNLocator(4, integer=integer))
    if MIN_PREFIXED <= max(map(abs, axis.get_view_interval())) < MAX_PREFIXED:
        axis.set_major_formatter(EngFormatter(sep=""))


def add_footnote(figure: Figure, text: str) -> None:
    """Write a note below the figure."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=SMALL, color=FAINT, parse_math=False)


def add_legend(figure: Figure, names: Sequence[str]) -> None:
    """Name the colours of the tables above all panels."""
    handles = [Patch(color=colour) for colour in (SAND, SEA)]
    legend = figure.legend(
        handles, names, loc="outside upper right", ncols=2, frameon=False, fontsize=NORMAL, labelcolor=INK
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def shorten_line(text: object, max_characters: int = MAX_LABEL_CHARACTERS) -> str:
    """Return a text on one line, cut off if it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"
