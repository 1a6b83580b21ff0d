"""Trained models that scripts share: trained once, kept in a folder outside the repository."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import harpoon
from harpoon_bench.datasets import load


def trained(data: Path, name: str, minutes: float, models: Path, seed: int = 0) -> harpoon.Harpoon:
    """The default preset on the training rows of a data set: read from `<models>/<name>.harpoon`, or trained and kept.

    A model that is there is taken as it is, whatever its budget was: its own settings are what scripts record.
    """
    dataset = load(name, data)
    return fitted(dataset.train, dataset.schema, minutes, _path(models, name, seed), seed)


def fitted(train: pd.DataFrame, schema: harpoon.Schema, minutes: float, path: Path, seed: int = 0) -> harpoon.Harpoon:
    """The default preset on these rows, read from the path if it is there."""
    if path.exists():
        return harpoon.load(path, progress=False)
    model = harpoon.Harpoon(schema=schema, max_time=60 * minutes, random_state=seed, progress=False).fit(train)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model


def _path(models: Path, name: str, seed: int) -> Path:
    return models / (f"{name}.harpoon" if seed == 0 else f"{name}-{seed}.harpoon")
