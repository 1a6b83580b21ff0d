"""The main job on a real table: the Palmer penguins, with their real holes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harpoon.errors import MissingExtra
from harpoon.model import Harpoon

if TYPE_CHECKING:
    import pandas as pd

CONDITION = {"species": "Gentoo", "sex": "female"}
ROWS = 200
SECONDS = 45


@dataclass(frozen=True)
class Outcome:
    """What the demo wrote, and how much it filled."""

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


def run(folder: Path, *, seconds: float = SECONDS, random_state: int | None = 0, progress: bool = True) -> Outcome:
    """Fit, fill, draw, and write the two tables and one picture into a folder."""
    table = penguins()
    model = Harpoon(max_time=seconds, random_state=random_state, progress=progress).fit(table)
    filled = model.impute(table)
    drawn = model.sample(ROWS, given=CONDITION)

    folder.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(
        filled=folder / "penguins_filled.csv",
        drawn=folder / "penguins_drawn.csv",
        picture=folder / "penguins.png",
        holes=int(table.isna().to_numpy().sum()),
    )
    filled.to_csv(outcome.filled, index=False)
    drawn.to_csv(outcome.drawn, index=False)
    draw_picture(table, filled, drawn, outcome.picture)
    return outcome


def draw_picture(table: pd.DataFrame, filled: pd.DataFrame, drawn: pd.DataFrame, path: Path) -> None:
    """Real penguins, filled ones and drawn ones in one plot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    colours = dict(zip(sorted(table["species"].unique()), ("#1b9e77", "#d95f02", "#7570b3"), strict=True))
    incomplete = table.isna().any(axis=1)
    for species, colour in colours.items():
        rows = table[(table["species"] == species) & ~incomplete]
        left.scatter(rows["bill_length_mm"], rows["body_mass_g"], s=14, alpha=0.5, color=colour, label=species)
        right.scatter(rows["bill_length_mm"], rows["body_mass_g"], s=14, alpha=0.12, color=colour)
        new = filled[incomplete & (filled["species"] == species)]
        left.scatter(
            new["bill_length_mm"], new["body_mass_g"], s=80, color=colour, edgecolor="black", marker="P", zorder=3
        )
    left.scatter([], [], s=80, color="white", edgecolor="black", marker="P", label="filled row")
    left.set(title="Holes filled", xlabel="bill length (mm)", ylabel="body mass (g)")
    left.legend(frameon=False)

    real = table
    for column, value in CONDITION.items():
        real = real[real[column] == value]
    words = " and ".join(f"{column} = {value}" for column, value in CONDITION.items())
    right.scatter(
        drawn["bill_length_mm"], drawn["body_mass_g"], s=14, color="black", alpha=0.6, label=f"{len(drawn)} drawn"
    )
    right.scatter(
        real["bill_length_mm"], real["body_mass_g"], s=40, facecolor="none", edgecolor="#7570b3", label="real ones"
    )
    right.set(title=f"Drawn where {words}", xlabel="bill length (mm)")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)
