"""Paper to draw on: figures that belong to no window, their colours and their plain axes. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from harpoon.exceptions import InvalidOption, MissingExtra

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
except ImportError:
    raise MissingExtra.named("matplotlib", "plots", "Drawing") from None


INK, FAINT, PAPER = "#1f2933", "#6b7785", "white"
SAND, SEA = "#c3ccd6", "#0072b2"  # what there was, and what came out
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # of Okabe and Ito, for every eye
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("white to blue", ["#edf1f5", SEA])
SMALL, NORMAL, LARGE = 8.0, 9.5, 12.0
LONGEST = 20
LARGEST = 500  # inches
LARGE_NUMBER, ASTRONOMIC = 1e4, 1e15


class Picture(Figure):
    """A figure that belongs to no window, and shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        page = BytesIO()
        self.savefig(page, format="png")
        return page.getvalue()


def picture(size: tuple[float, float], title: str = "") -> Picture:
    """An empty figure of so many inches, whatever the user's style is."""
    if not isinstance(size, tuple | list) or len(size) != 2 or not all(0 < side < LARGEST for side in size):  # noqa: PLR2004
        raise InvalidOption(f"size must be a width and a height in inches, such as (10, 6), got {size!r}.")
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = Picture(figsize=size, dpi=110, layout=layout, facecolor=PAPER)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=LARGE, color=INK, parse_math=False)
    return figure


def tidied(axes: Axes) -> Axes:
    """The same axes, without what distracts."""
    axes.set_facecolor(PAPER)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SAND)
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=SMALL, length=2.5)
    return axes


def headed(axes: Axes, title: str, aside: str = "") -> None:
    """A title and, on a line of its own, a few words more."""
    axes.set_title(
        title, loc="left", pad=16 if aside else 5, fontsize=NORMAL, color=INK, weight="bold", parse_math=False
    )
    axes.annotate(
        aside, (0, 1), (0, 4), "axes fraction", "offset points", fontsize=SMALL, color=FAINT, parse_math=False
    )


def labelled(axes: Axes, x: str = "", y: str = "") -> None:
    """What the axes count."""
    axes.set_xlabel(x, fontsize=SMALL, color=FAINT, parse_math=False)
    axes.set_ylabel(y, fontsize=SMALL, color=FAINT, parse_math=False)


def in_percent(axis: Any, ticks: int = 3) -> None:  # noqa: ANN401
    """Shares on an axis, written as percentages."""
    axis.set_major_locator(MaxNLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def in_numbers(axis: Any, ticks: int = 4, *, whole: bool = False) -> None:  # noqa: ANN401
    """Few numbers on an axis, large ones as thousands and millions."""
    axis.set_major_locator(MaxNLocator(ticks, integer=whole))
    if LARGE_NUMBER <= max(map(abs, axis.get_view_interval())) < ASTRONOMIC:
        axis.set_major_formatter(EngFormatter(sep=""))


def footnote(figure: Figure, words: str) -> None:
    """What is not in the picture, below it."""
    figure.supxlabel(words, x=0.01, ha="left", fontsize=SMALL, color=FAINT, parse_math=False)


def legend(figure: Figure, names: Sequence[str], colours: Sequence[str] = (SAND, SEA)) -> None:
    """Which colour is which table, above everything."""
    handles = [Patch(color=colour) for colour in colours]
    made = figure.legend(
        handles, names, loc="outside upper right", ncols=len(handles), frameon=False, fontsize=NORMAL, labelcolor=INK
    )
    for text in made.get_texts():
        text.set_parse_math(False)


def short(text: object, longest: int = LONGEST) -> str:
    """A name that fits beside an axis, on one line."""
    words = " ".join(str(text).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"
