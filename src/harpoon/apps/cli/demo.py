"""`harpoon demo`: fit, impute and sample on a real table with missing cells, the Palmer penguins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEMO = ("harpoon demo", "harpoon demo --output somewhere --seconds 20")
CONDITION = {"species": "Gentoo", "sex": "female"}
ROWS = 200
SECONDS = 45.0
X, Y = "bill_length_mm", "body_mass_g"


@dataclass(frozen=True)
class DemoFiles:
    """The files that the demo wrote, and the number of cells that were missing."""

    model: Path
    filled: Path
    sampled: Path
    picture: Path
    missing_cells: int


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write to; files of an earlier demo are replaced.")
    ] = Path("demo-output"),
    seconds: Annotated[float, typer.Option(help="Longest training, in seconds.", min=1.0)] = SECONDS,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Fill the missing cells of the Palmer penguins, and sample new penguins."""
    console = Console(json, quiet)
    with console.warnings_as_notes():
        files = run(output, seconds=seconds, random_state=seed, progress=console.progress)
    condition = ", ".join(f"{column} = {value}" for column, value in CONDITION.items())
    console.result(
        vars(files),
        f"{files.missing_cells} missing cells filled:   {files.filled}",
        f"{ROWS} rows sampled ({condition}):   {files.sampled}",
        f"Both in one picture:   {files.picture}",
        f"The model, for harpoon serve:   {files.model}",
    )


def load_table() -> pd.DataFrame:
    """Load the table: 344 penguins of three species, with 19 missing cells."""
    try:
        from palmerpenguins import load_penguins
    except ImportError:
        raise MissingExtra.for_package("palmerpenguins", "demo", "The demo") from None
    table: pd.DataFrame = load_penguins()
    return table


def run(folder: Path, *, seconds: float = SECONDS, random_state: int | None = 0, progress: bool = True) -> DemoFiles:
    """Fit, impute and sample, and write the model, two tables and a picture into a folder."""
    from harpoon.estimator import Harpoon

    table = load_table()
    model = Harpoon(max_time=seconds, random_state=random_state, progress=progress).fit(table)
    filled = model.impute(table)
    sampled = model.sample(ROWS, given=CONDITION)

    folder.mkdir(parents=True, exist_ok=True)
    files = DemoFiles(
        model=folder / "penguins.harpoon",
        filled=folder / "penguins_filled.csv",
        sampled=folder / "penguins_sampled.csv",
        picture=folder / "penguins.png",
        missing_cells=int(table.isna().to_numpy().sum()),
    )
    model.save(files.model)
    filled.to_csv(files.filled, index=False)
    sampled.to_csv(files.sampled, index=False)
    draw_picture(table, filled, sampled, files.picture)
    return files


def draw_picture(table: pd.DataFrame, filled: pd.DataFrame, sampled: pd.DataFrame, path: Path) -> None:
    """Plot real, filled and sampled penguins."""
    from harpoon.report.plots.style import new_figure

    figure = new_figure((9.5, 4.4))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _plot_filled(left, table, filled)
    _plot_sampled(right, table, sampled)
    figure.savefig(path)


def _plot_filled(axes: Axes, table: pd.DataFrame, filled: pd.DataFrame) -> None:
    """Plot complete rows as dots and filled rows as crosses, by species."""
    from harpoon.report.plots.style import COLOURS, INK, SMALL, label_axes, set_title, style_axes

    incomplete = table.isna().any(axis=1)
    for species, colour in zip(sorted(table["species"].unique()), COLOURS, strict=False):
        rows, new = (part[part["species"] == species] for part in (table[~incomplete], filled[incomplete]))
        axes.scatter(rows[X], rows[Y], s=14, alpha=0.5, color=colour, linewidth=0, label=species)
        axes.scatter(new[X], new[Y], s=80, color=colour, edgecolor=INK, marker="P", zorder=3)
    axes.scatter([], [], s=80, color="white", edgecolor=INK, marker="P", label="filled row")
    set_title(
        style_axes(axes), "Missing cells filled", f"{int(incomplete.sum())} of {len(table)} penguins were incomplete"
    )
    label_axes(axes, "bill length (mm)", "body mass (g)")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)


def _plot_sampled(axes: Axes, table: pd.DataFrame, sampled: pd.DataFrame) -> None:
    """Plot sampled rows, the real rows that satisfy the same condition, and all others."""
    from harpoon.report.plots.style import INK, SAND, SEA, SMALL, label_axes, set_title, style_axes

    real = table
    for column, value in CONDITION.items():
        real = real[real[column] == value]
    axes.scatter(table[X], table[Y], s=14, color=SAND, linewidth=0, label="all penguins")
    axes.scatter(real[X], real[Y], s=40, facecolor="none", edgecolor=INK, linewidth=0.8, label="real ones")
    axes.scatter(sampled[X], sampled[Y], s=14, color=SEA, alpha=0.6, linewidth=0, label=f"{len(sampled)} sampled")
    condition = " and ".join(f"{column} = {value}" for column, value in CONDITION.items())
    set_title(style_axes(axes), "New rows sampled", f"where {condition}")
    label_axes(axes, "bill length (mm)")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)
