"""What every method has in common: a way to be trained, to fill holes and perhaps to draw rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd

from harpoon.data.column import Kind
from harpoon.data.schema import Schema
from harpoon.exceptions import HarpoonError, InvalidOption


class CannotDraw(HarpoonError):
    """The method fills holes and draws no rows."""


class CannotFill(HarpoonError):
    """The method draws rows and fills no holes."""


class Method(ABC):
    """A way to fill the holes of a table, trained once on another table with the same columns.

    Attributes:
        name: In commands and files.
        title: In pages.
        draws: Whether it can draw rows too.
        defaults: Its settings, with the values of its authors.
        later: Those of its settings that only matter once it is trained.
        trained_as: The method whose training is the same, where there is one.
        keeps: Whether what it has learnt is all in its attributes, and can be kept in a file.
        budgeted: Whether a budget means something to it.
        ceiling: Whether it shows what could be reached, and competes with nobody.
        note: What a reader of its numbers must know.
        checkpoint: A file in which a long training may keep its state, to go on after it was ended.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    draws: ClassVar[bool] = False
    defaults: ClassVar[dict[str, object]] = {}
    later: ClassVar[tuple[str, ...]] = ()
    trained_as: ClassVar[str | None] = None
    keeps: ClassVar[bool] = True
    budgeted: ClassVar[bool] = True
    ceiling: ClassVar[bool] = False
    note: str = ""
    checkpoint: Path | None = None

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        for option in options:
            if option not in self.defaults:
                raise InvalidOption.one_of(f"An option of {self.title}", option, self.defaults)
        self.seed, self.budget = seed, budget
        self.options = {**self.defaults, **options}

    def facts(self) -> dict[str, object]:
        """What a record of its numbers should say of the training and of the last answer."""
        return {}

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


def completed(holes: pd.DataFrame, answers: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table with answers in its holes: numbers as floats, labels as they are.

    >>> holes = pd.DataFrame({"x": [1, None], "c": [None, "b"]})
    >>> answers = pd.DataFrame({"x": [8.5, 9.5], "c": ["a", "a"]})
    >>> completed(holes, answers, Schema.infer(pd.DataFrame({"x": [1, 2], "c": ["a", "b"]}))).to_numpy().tolist()
    [[1.0, 'a'], [9.5, 'b']]
    """
    table = holes.copy()
    for column in schema:
        cells = holes[column.name]
        if column.kind is Kind.CONSTANT:
            table[column.name] = cells.fillna((column.categories or (None,))[0])
        if not column.kind.modelled:
            continue
        found = answers[column.name].set_axis(holes.index)
        if column.kind.numeric:
            table[column.name] = cells.astype(np.float64).fillna(found.astype(np.float64))
        else:
            table[column.name] = cells.astype(object).where(cells.notna(), found.astype(object)).infer_objects()
    return table
