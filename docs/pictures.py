"""Make the pictures of the README and of the docs: python docs/pictures.py (about a minute of training)."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import harpoon
from harpoon import plots
from harpoon.apps.cli.demo import load_table

ASSETS = Path(__file__).parent / "assets"
WHERE = "body_mass_g >= 5000"
HIDDEN = 0.3


def main() -> None:
    """Train on the penguins, and draw."""
    table = load_table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", harpoon.ColumnLeftOutWarning)
        model = harpoon.Harpoon(max_time=60, random_state=0).fit(table)
    hidden = np.random.default_rng(0).random(table.shape) < np.linspace(0, HIDDEN, table.shape[1])
    pictures = {
        "what-if": plots.what_if(table, model.sample(1000, where=WHERE), where=WHERE, names=("real", "synthetic")),
        "marginals": plots.marginals(table, model.sample(1000)),
        "missingness": plots.missingness(table.mask(hidden)),
        "training": plots.training(model),
        "angles": plots.angles(model, table),
    }
    for name, figure in pictures.items():
        figure.savefig(ASSETS / f"{name}.png", dpi=100, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
