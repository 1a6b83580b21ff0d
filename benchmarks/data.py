"""The paper's eight data sets: read, split into training and test rows, and with holes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import harpoon

NAMES = ("adult", "default", "shoppers", "gesture", "magic", "letter", "bean", "california")
GESTURE = ("a1", "a2", "a3", "b1", "b1", "c1", "c3")  # the paper's list of files: b1 twice, no b3


def protocol(folder: Path) -> dict[str, Any]:
    """What the paper does with each data set."""
    found: dict[str, Any] = json.loads((folder / "protocol.json").read_text())
    return found


def read(folder: Path, name: str) -> pd.DataFrame:
    """The file as it is; a cell is missing only where it is empty."""
    return pd.read_csv(folder / f"{name}.csv.gz", keep_default_na=False, na_values=[""])


def load(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Training rows, test rows and the names of the categorical columns, by the paper's protocol."""
    spec = protocol(folder)["datasets"][name]
    table = read(folder, name)
    if name == "gesture":
        table = pd.concat([table[table["source"] == source] for source in GESTURE])
    table = table.dropna().reset_index(drop=True).drop(columns=spec["drop"])
    order = np.arange(len(table))
    np.random.RandomState(1234).shuffle(order)
    cut = int(0.7 * len(table))
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return train, test, spec["categorical"]


def schema_of(train: pd.DataFrame, categorical: list[str]) -> harpoon.Schema:
    """The schema that every script uses."""
    return harpoon.Schema.infer(train, kinds=dict.fromkeys(categorical, "category"))


def with_holes(table: pd.DataFrame, mask: np.ndarray[Any, Any]) -> pd.DataFrame:
    """The table without the cells where the mask is true."""
    return table.astype(object).mask(mask).infer_objects()
