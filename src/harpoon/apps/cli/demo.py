"""The main job on a real table: the Palmer penguins, with their real holes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harpoon.estimator import Harpoon
from harpoon.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

from typing import Annotated

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console

CONDITION = {"species": "Gentoo", "sex": "female"}
ROWS = 200
SECONDS = 45
X, Y = "bill_length_mm", "body_mass_g"


@dataclass(frozen=True)
class DemoFiles:
    """What the demo wrote, and how much it filled."""

    model: Path
    filled: Path
    drawn: Path
    picture: Path
    holes: int


def penguins() -> pd.DataFrame:
    """344 penguins of three species; 19 cells are missing."""
    try:
        from palmerpenguins import load_penguins
    except ImportError:
        raise MissingExtra.named("palmerpenguins", "demo", "The demo") from None
    table: pd.DataFrame = load_penguins()
    return table


def run(folder: Path, *, seconds: float = SECONDS, random_state: int | None = 0, progress: bool = True) -> DemoFiles:
    """Fit, fill, draw, and write the model, the two tables and one picture into a folder."""
    table = penguins()
    model = Harpoon(max_time=seconds, random_state=random_state, progress=progress).fit(table)
    filled = model.impute(table)
    drawn = model.sample(ROWS, given=CONDITION)

    folder.mkdir(parents=True, exist_ok=True)
    outcome = DemoFiles(
        model=folder / "penguins.harpoon",
        filled=folder / "penguins_filled.csv",
        drawn=folder / "penguins_drawn.csv",
        picture=folder / "penguins.png",
        holes=int(table.isna().to_numpy().sum()),
    )
    model.save(outcome.model)
    filled.to_csv(outcome.filled, index=False)
    drawn.to_csv(outcome.drawn, index=False)
    draw_picture(table, filled, drawn, outcome.picture)
    return outcome


def draw_picture(table: pd.DataFrame, filled: pd.DataFrame, drawn: pd.DataFrame, path: Path) -> None:
    """Real penguins, filled ones and drawn ones in one plot."""
    from harpoon.report.plots.style import new_figure

    figure = new_figure((9.5, 4.4))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _draw_filled(left, table, filled)
    _draw_drawn(right, table, drawn)
    figure.savefig(path)


def _draw_filled(axes: Axes, table: pd.DataFrame, filled: pd.DataFrame) -> None:
    """Complete penguins as dots, and those that had a hole as crosses, by species."""
    from harpoon.report.plots.style import COLOURS, INK, SMALL, label_axes, set_title, style_axes

    incomplete = table.isna().any(axis=1)
    for species, colour in zip(sorted(table["species"].unique()), COLOURS, strict=False):
        rows, new = (part[part["species"] == species] for part in (table[~incomplete], filled[incomplete]))
        axes.scatter(rows[X], rows[Y], s=14, alpha=0.5, color=colour, linewidth=0, label=species)
        axes.scatter(new[X], new[Y], s=80, color=colour, edgecolor=INK, marker="P", zorder=3)
    axes.scatter([], [], s=80, color="white", edgecolor=INK, marker="P", label="filled row")
    set_title(style_axes(axes), "Holes filled", f"{int(incomplete.sum())} of {len(table)} penguins had a hole")
    label_axes(axes, "bill length (mm)", "body mass (g)")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)


def _draw_drawn(axes: Axes, table: pd.DataFrame, drawn: pd.DataFrame) -> None:
    """Drawn penguins among the real ones that are like them, and all others."""
    from harpoon.report.plots.style import INK, SAND, SEA, SMALL, label_axes, set_title, style_axes

    real = table
    for column, value in CONDITION.items():
        real = real[real[column] == value]
    axes.scatter(table[X], table[Y], s=14, color=SAND, linewidth=0, label="all penguins")
    axes.scatter(real[X], real[Y], s=40, facecolor="none", edgecolor=INK, linewidth=0.8, label="real ones")
    axes.scatter(drawn[X], drawn[Y], s=14, color=SEA, alpha=0.6, linewidth=0, label=f"{len(drawn)} drawn")
    words = " and ".join(f"{column} = {value}" for column, value in CONDITION.items())
    set_title(style_axes(axes), "New rows drawn", f"where {words}")
    label_axes(axes, "bill length (mm)")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)


DEMO = ("harpoon demo", "harpoon demo --output somewhere --seconds 20")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write to; what an earlier demo wrote is replaced.")
    ] = Path("demo-output"),
    seconds: Annotated[float, typer.Option(help="Seconds of training at the most.", min=1.0)] = 45.0,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Fill the holes of the Palmer penguins and draw new ones."""
    talk = Console(json, quiet)
    with talk.notes():
        outcome = run(output, seconds=seconds, random_state=seed, progress=talk.progress)
    words = ", ".join(f"{column} = {value}" for column, value in CONDITION.items())
    talk.answer(
        vars(outcome),
        f"{outcome.holes} missing cells filled:   {outcome.filled}",
        f"{ROWS} rows drawn ({words}):   {outcome.drawn}",
        f"Both in one picture:   {outcome.picture}",
        f"The model, to ask it more (harpoon serve):   {outcome.model}",
    )
