"""`harpoon demo`: fit, impute and sample on a real table with missing cells, the Palmer penguins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEMO = ("harpoon demo", "harpoon demo --output somewhere --seconds 20")
CONDITION = {"species": "Gentoo", "sex": "female"}
RULES = [f"{column} = {value}" for column, value in CONDITION.items()]
ROWS = 200
X, Y = "bill_length_mm", "body_mass_g"


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="Folder to write to; files of an earlier demo are replaced.")
    ] = Path("demo-output"),
    seconds: Annotated[float, Option(help="Longest training, in seconds.", min=1.0)] = 45.0,
    seed: options.Seed = 0,
    *,
    console: Console,
) -> None:
    """Fill the missing cells of the Palmer penguins, and sample new penguins."""
    from harpoon.estimator import Harpoon

    table = load_table()
    with console.warnings_as_notes():
        model = Harpoon(max_time=seconds, random_state=seed, progress=not console.quiet).fit(table)
        filled, sampled = model.impute(table), model.sample(ROWS, given=CONDITION, missing="complete")
    output.mkdir(parents=True, exist_ok=True)
    names = {"model": "penguins.harpoon", "filled": "penguins_filled.csv", "sampled": "penguins_sampled.csv"}
    files = {what: output / name for what, name in {**names, "picture": "penguins.png"}.items()}
    model.save(files["model"])
    filled.to_csv(files["filled"], index=False)
    sampled.to_csv(files["sampled"], index=False)
    draw_picture(table, filled, sampled, files["picture"])
    missing_cells = int(table.isna().to_numpy().sum())
    console.result(
        {**files, "missing_cells": missing_cells},
        f"{missing_cells} missing cells filled:   {files['filled']}",
        f"{ROWS} rows sampled ({', '.join(RULES)}):   {files['sampled']}",
        f"Both in one picture:   {files['picture']}",
        f"The model, for harpoon serve:   {files['model']}",
    )


def load_table() -> pd.DataFrame:
    """Load the table: 344 penguins of three species, with 19 missing cells."""
    try:
        from palmerpenguins import load_penguins
    except ImportError:
        raise MissingExtra.for_package("palmerpenguins", "demo", "The demo") from None
    table: pd.DataFrame = load_penguins()
    return table


def draw_picture(table: pd.DataFrame, filled: pd.DataFrame, sampled: pd.DataFrame, path: Path) -> None:
    """Plot real, filled and sampled penguins."""
    from harpoon.plots.style import INK, SMALL, label_axes, new_figure, set_title, style_axes

    figure = new_figure((9.5, 4.4))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _plot_filled(left, table, filled)
    _plot_sampled(right, table, sampled)
    n_filled = int(table.isna().any(axis=1).sum())
    set_title(style_axes(left), "Missing cells filled", f"{n_filled} of {len(table)} penguins were incomplete")
    set_title(style_axes(right), "New rows sampled", f"where {' and '.join(RULES)}")
    label_axes(left, "bill length (mm)", "body mass (g)")
    label_axes(right, "bill length (mm)")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)
    figure.savefig(path)


def _plot_filled(axes: Axes, table: pd.DataFrame, filled: pd.DataFrame) -> None:
    """Plot complete rows as dots and filled rows as crosses, by species."""
    from harpoon.plots.style import COLOURS, INK

    incomplete = table.isna().any(axis=1)
    for species, colour in zip(sorted(table["species"].unique()), COLOURS, strict=False):
        rows, new = (part[part["species"] == species] for part in (table[~incomplete], filled[incomplete]))
        axes.scatter(rows[X], rows[Y], s=14, alpha=0.5, color=colour, linewidth=0, label=species)
        axes.scatter(new[X], new[Y], s=80, color=colour, edgecolor=INK, marker="P", zorder=3)
    axes.scatter([], [], s=80, color="white", edgecolor=INK, marker="P", label="filled row")


def _plot_sampled(axes: Axes, table: pd.DataFrame, sampled: pd.DataFrame) -> None:
    """Plot sampled rows, the real rows that satisfy the same condition, and all others."""
    from harpoon.plots.style import INK, SAND, SEA

    real = table
    for column, value in CONDITION.items():
        real = real[real[column] == value]
    axes.scatter(table[X], table[Y], s=14, color=SAND, linewidth=0, label="all penguins")
    axes.scatter(real[X], real[Y], s=40, facecolor="none", edgecolor=INK, linewidth=0.8, label="real ones")
    axes.scatter(sampled[X], sampled[Y], s=14, color=SEA, alpha=0.6, linewidth=0, label=f"{len(sampled)} sampled")
