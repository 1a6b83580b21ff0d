"""The paper's eight data sets: read, split into training and test rows as in the paper, and with holes."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidOption
from harpoon_bench.cache import cache, whole
from harpoon_bench.download import SOURCES, DataUnavailable, checksum, published

FOLDER = "HARPOON_DATA"
NEARBY = Path("..", "shared", "data")
TRAIN_SHARE, SPLIT_SEED = 0.7, 1234
# The published numbers were made with this list of recordings: b1 twice and no b3.
GESTURE = ("a1", "a2", "a3", "b1", "b1", "c1", "c3")


@dataclass(frozen=True)
class Spec:
    """What the paper does with a data set.

    Attributes:
        drop: Columns that are no features.
        categorical: Features that are labels.
        target: What a classifier predicts to see how useful rows are.
        range: A condition on a number.
        category: A condition on a label.
    """

    drop: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    target: str | None = None
    range: str | None = None
    category: str | None = None

    def conditions(self) -> dict[str, str]:
        """The paper's four conditions, or none."""
        if self.range is None or self.category is None:
            return {}
        both = (self.range, self.category)
        return {"range": self.range, "category": self.category, "and": " and ".join(both), "or": " or ".join(both)}


@dataclass(frozen=True)
class Dataset:
    """A data set, ready for a comparison.

    Attributes:
        name: In commands and files.
        table: As published, with the paper's choice of rows, and with what are no features.
        train: 70 % of the complete rows, features only.
        test: The other rows.
        categorical: Features that are labels.
        schema: What the features are.
        target: What a classifier predicts to see how useful rows are.
        conditions: The paper's conditions as SQL, by kind: range, category, and, or.
        sha256: Of the text that was read, so that a record can say what its numbers come from.
    """

    name: str
    table: pd.DataFrame = field(repr=False)
    train: pd.DataFrame = field(repr=False)
    test: pd.DataFrame = field(repr=False)
    categorical: tuple[str, ...]
    schema: Schema = field(repr=False)
    target: str | None
    conditions: dict[str, str]
    sha256: str


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """A data set by name.

    Args:
        name: One of `NAMES`.
        folder: Of files `<name>.csv.gz` or `<name>.csv`. Without one: the folder that `HARPOON_DATA` names, else
            `../shared/data` where it is there, else the user's cache, into which it is downloaded if need be.
    """
    if name not in SPECS:
        raise InvalidOption.one_of("A data set", name, NAMES)
    spec, text = SPECS[name], _text(name, folder)
    table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    if name == "gesture":
        table = pd.concat([table[table["source"] == recording] for recording in GESTURE], ignore_index=True)
    train, test = split(table.dropna().drop(columns=list(spec.drop)))
    return Dataset(
        name=name,
        table=table,
        train=train,
        test=test,
        categorical=spec.categorical,
        schema=Schema.infer(train, kinds=dict.fromkeys(spec.categorical, "category")),
        target=spec.target,
        conditions=spec.conditions(),
        sha256=checksum(text),
    )


def split(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows, as the paper shuffles them."""
    order = np.arange(len(table))
    np.random.RandomState(SPLIT_SEED).shuffle(order)
    cut = int(TRAIN_SHARE * len(table))
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return train, test


def with_holes(table: pd.DataFrame, mask: NDArray[Any]) -> pd.DataFrame:
    """The table without the cells where the mask is true.

    >>> with_holes(pd.DataFrame({"x": [1, 2]}), np.array([[True], [False]]))["x"].tolist()
    [nan, 2.0]
    """
    return table.astype(object).mask(mask).infer_objects()


def _text(name: str, folder: str | os.PathLike[str] | None) -> str:
    """The CSV text of a data set, from the first place that should have it."""
    given = folder or os.environ.get(FOLDER)
    if given:
        return _read(_file(Path(given), name))
    if NEARBY.is_dir():
        return _read(_file(NEARBY, name))
    kept = cache("data") / f"{name}.csv"
    if kept.exists():
        text = _read(kept)
        if checksum(text) == SOURCES[name].sha256:
            return text
    text = published(name)
    with whole(kept) as file:
        file.write_text(text, encoding="utf-8", newline="")
    return text


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.exists():
            return path
    raise DataUnavailable(
        f"The folder {str(folder)!r} must hold {name}.csv.gz or {name}.csv and has neither. Give another with --data "
        f"or {FOLDER}, or leave both out to download the data set."
    )


def _read(path: Path) -> str:
    """The text of a file, compressed or not, with its line ends as they are."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataUnavailable(f"{str(path)!r} cannot be read ({error}). Replace it, or give another folder.") from None


SPECS = {
    "adult": Spec(
        drop=("income",),
        categorical=(
            "workclass",
            "education",
            "marital-status",
            "occupation",
            "relationship",
            "race",
            "sex",
            "native-country",
        ),
        target="sex",
        range="age >= 50",
        category="workclass = 'State-gov'",
    ),
    "default": Spec(
        drop=("default payment next month",),
        categorical=("SEX", "EDUCATION", "MARRIAGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
        target="MARRIAGE",
        range="AGE >= 50",
        category="EDUCATION = 3",
    ),
    "shoppers": Spec(
        drop=("Revenue",),
        categorical=("Month", "OperatingSystems", "Browser", "Region", "TrafficType", "VisitorType", "Weekend"),
        target="OperatingSystems",
        range="Administrative >= 4",
        category="VisitorType = 'New_Visitor'",
    ),
    "gesture": Spec(drop=("Phase", "source")),
    "magic": Spec(drop=("class",)),
    "letter": Spec(drop=("lettr",)),
    "bean": Spec(drop=("Class",)),
    "california": Spec(drop=("ocean_proximity",)),
}
NAMES = tuple(SPECS)
