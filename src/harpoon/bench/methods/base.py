"""What every method has in common: a way to be trained, to fill holes and perhaps to draw rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import pandas as pd

from harpoon.errors import HarpoonError, InvalidOption
from harpoon.schema import Schema


class CannotDraw(HarpoonError):
    """The method fills holes and draws no rows."""


class Method(ABC):
    """A way to fill the holes of a table, trained once on another table with the same columns.

    Attributes:
        name: In commands and files.
        title: In pages.
        draws: Whether it can draw rows too.
        defaults: Its settings, with the values of its authors.
        note: What a reader of its numbers must know.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    draws: ClassVar[bool] = False
    defaults: ClassVar[dict[str, object]] = {}
    note: str = ""

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        for option in options:
            if option not in self.defaults:
                raise InvalidOption.one_of(f"An option of {self.title}", option, self.defaults)
        self.seed, self.budget = seed, budget
        self.options = {**self.defaults, **options}

    @abstractmethod
    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Learn from the training rows."""

    @abstractmethod
    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """The table without holes: known cells as they are, numbers as floats that may be off their grid."""

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """New rows, that meet a condition where the method knows how."""
        asked = f"{n} rows" if where is None else f"{n} rows with {where}"
        raise CannotDraw(f"{self.title} fills holes; it cannot draw {asked}.")
