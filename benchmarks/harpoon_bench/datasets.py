"""The paper's eight data sets, split into training and test rows as in the paper."""

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
from harpoon_bench.cache import cache_folder, write_atomically
from harpoon_bench.download import SOURCES, DataUnavailable, checksum, download

DATA_VARIABLE = "HARPOON_DATA"
SHARED_FOLDER = Path("..", "shared", "data")  # used if it exists
TRAIN_FRACTION, SPLIT_SEED = 0.7, 1234
# The recordings behind the published numbers: b1 twice and no b3.
GESTURE_RECORDINGS = ("a1", "a2", "a3", "b1", "b1", "c1", "c3")


@dataclass(frozen=True)
class Spec:
    """The paper's choices for a data set.

    Attributes:
        drop: Columns that are not features.
        categorical: Categorical features.
        target: The column that a classifier predicts, to score utility.
        range: A condition on a numeric column.
        category: A condition on a categorical column.
    """

    drop: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    target: str | None = None
    range: str | None = None
    category: str | None = None

    def conditions(self) -> dict[str, str]:
        """Return the paper's four conditions as SQL, by kind; empty for a data set without conditions."""
        if self.range is None or self.category is None:
            return {}
        both = (self.range, self.category)
        return {"range": self.range, "category": self.category, "and": " and ".join(both), "or": " or ".join(both)}


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes:
        name: Its name in commands and files.
        table: The published table with the paper's choice of rows, including columns that are not features.
        train: 70 % of the complete rows, features only.
        test: The other complete rows, features only.
        categorical: Categorical features.
        schema: The schema of the features.
        target: The column that a classifier predicts, to score utility.
        conditions: The paper's conditions as SQL, by kind: range, category, and, or.
        sha256: The checksum of the CSV text, kept in records.
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
    """Read a data set.

    Args:
        name: One of `NAMES`.
        folder: A folder with files `<name>.csv.gz` or `<name>.csv`. The default is the folder named by `HARPOON_DATA`,
            else `../shared/data` if it exists, else the cache, to which missing data sets are downloaded.
    """
    if name not in SPECS:
        raise InvalidOption.one_of("A data set", name, NAMES)
    spec, text = SPECS[name], _text(name, folder)
    table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    if name == "gesture":
        table = pd.concat([table[table["source"] == recording] for recording in GESTURE_RECORDINGS], ignore_index=True)
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
    """Shuffle rows as the paper does, and return training and test rows."""
    order = np.arange(len(table))
    np.random.RandomState(SPLIT_SEED).shuffle(order)
    cut = int(TRAIN_FRACTION * len(table))
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return train, test


def hide_cells(table: pd.DataFrame, mask: NDArray[Any]) -> pd.DataFrame:
    """Return the table with missing cells where the mask is true.

    >>> hide_cells(pd.DataFrame({"x": [1, 2]}), np.array([[True], [False]]))["x"].tolist()
    [nan, 2.0]
    """
    return table.astype(object).mask(mask).infer_objects()


def _text(name: str, folder: str | os.PathLike[str] | None) -> str:
    """Return the CSV text of a data set, from a folder, the cache or its publisher."""
    chosen = folder or os.environ.get(DATA_VARIABLE)
    if chosen:
        return _read(_file(Path(chosen), name))
    if SHARED_FOLDER.is_dir():
        return _read(_file(SHARED_FOLDER, name))
    cached = cache_folder("data") / f"{name}.csv"
    if cached.exists():
        text = _read(cached)
        if checksum(text) == SOURCES[name].sha256:
            return text
    text = download(name)
    with write_atomically(cached) as file:
        file.write_text(text, encoding="utf-8", newline="")
    return text


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.exists():
            return path
    raise DataUnavailable(
        f"The folder {str(folder)!r} must hold {name}.csv.gz or {name}.csv, but has neither. Choose another folder "
        f"with {DATA_VARIABLE}, or choose none to download the data set."
    )


def _read(path: Path) -> str:
    """Return the text of a file, compressed or not, with unchanged line ends."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataUnavailable(
            f"{str(path)!r} cannot be read ({error}). Replace it, or choose another folder."
        ) from None


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
