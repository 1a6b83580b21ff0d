"""The interface of all methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd

from harpoon import Kind, Schema
from harpoon.exceptions import HarpoonError, InvalidOption

PUBLISHED_SETTINGS = "settings of the paper's code"  # in titles


class CannotSample(HarpoonError):
    """The method imputes only, or cannot sample under conditions."""


class CannotImpute(HarpoonError):
    """The method samples only."""


class Method(ABC):
    """A method that is trained on a table and imputes tables with the same columns.

    Attributes:
        name: Its name in commands and files.
        title: Its name in pages.
        can_sample: Whether it also samples new rows.
        defaults: Its options, with the values of its authors.
        sampling_options: The options that do not change its training.
        shares_training_with: The name of a method with the same training.
        picklable: Whether its attributes hold all that it has learnt.
        uses_budget: Whether the budget changes its training.
        is_ceiling: Whether it is a reference, not a competitor.
        note: A remark that readers of its scores need.
        checkpoint: A file from which a long training can be resumed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    can_sample: ClassVar[bool] = False
    defaults: ClassVar[dict[str, object]] = {}
    sampling_options: ClassVar[tuple[str, ...]] = ()
    shares_training_with: ClassVar[str | None] = None
    picklable: ClassVar[bool] = True
    uses_budget: ClassVar[bool] = True
    is_ceiling: ClassVar[bool] = False
    note: str = ""
    checkpoint: Path | None = None

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        for option in options:
            if option not in self.defaults:
                raise InvalidOption.one_of(f"An option of {self.title}", option, self.defaults)
        self.seed, self.budget = seed, budget
        self.options = {**self.defaults, **options}

    def facts(self) -> dict[str, object]:
        """Return facts about the training and the last answer, for the record."""
        return {}

    @abstractmethod
    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train on complete rows."""

    @abstractmethod
    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Return the table with filled cells. Observed cells stay; imputed numbers are floats of any resolution."""

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Sample n rows, under a condition if the method supports it."""
        rows = f"{n} rows" if where is None else f"{n} rows with {where}"
        raise CannotSample(f"{self.title} only imputes; it cannot sample {rows}.")

    def sample_like(self, reference: pd.DataFrame, where: str | None = None) -> pd.DataFrame:
        """Sample as many rows as the reference has; only an option may let a method look at its rows."""
        return self.sample(len(reference), where)


def fill_missing(incomplete: pd.DataFrame, values: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return the table with missing cells taken from `values`: numbers as floats, categories unchanged.

    >>> incomplete = pd.DataFrame({"x": [1, None], "c": [None, "b"]})
    >>> values = pd.DataFrame({"x": [8.5, 9.5], "c": ["a", "a"]})
    >>> schema = Schema.infer(pd.DataFrame({"x": [1, 2], "c": ["a", "b"]}))
    >>> fill_missing(incomplete, values, schema).to_numpy().tolist()
    [[1.0, 'a'], [9.5, 'b']]
    """
    table = incomplete.copy()
    for column in schema:
        cells = incomplete[column.name]
        if column.kind is Kind.CONSTANT:
            table[column.name] = cells.fillna((column.categories or (None,))[0])
        if not column.kind.modelled:
            continue
        filled = values[column.name].set_axis(incomplete.index)
        if column.kind.numeric:
            table[column.name] = cells.astype(np.float64).fillna(filled.astype(np.float64))
        else:
            table[column.name] = cells.astype(object).where(cells.notna(), filled.astype(object)).infer_objects()
    return table
