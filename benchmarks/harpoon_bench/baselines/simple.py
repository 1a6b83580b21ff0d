"""What one would do without a model, and what no model can be expected to beat."""

from __future__ import annotations

from typing import Self

import pandas as pd

from harpoon.data.schema import Schema
from harpoon.exceptions import InfeasibleCondition
from harpoon.metrics import satisfies
from harpoon_bench.baselines.base import CannotFill, Method


class MeanMode(Method):
    """The mean of a number and the most frequent label of a category, whatever else the row says."""

    name, title, budgeted = "mean", "mean and mode", False

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Learn one value per column."""
        self.fills = {
            column.name: train[column.name].mean() if column.kind.numeric else train[column.name].mode().iloc[0]
            for column in schema.modelled
        }
        return self

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """The same value in every hole of a column."""
        return holes.fillna(self.fills)


class RealRows(Method):
    """Training rows as they are: the ceiling of drawn ones, because no model is nearer to the test rows than these."""

    name, title, draws = "real", "real training rows", True
    budgeted, ceiling = False, True

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Keep the rows."""
        self.train, self.schema = train, schema
        return self

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """Not what it is for."""
        raise CannotFill(f"{self.title} are drawn; they cannot fill the holes of {len(holes)} rows.")

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Rows that meet the condition, each at most once as long as there are enough of them."""
        rows = self.train if where is None else self.train[satisfies(self.schema, self.train, where)]
        if rows.empty:
            raise InfeasibleCondition(f"No training row has {where}.")
        return rows.sample(n, replace=len(rows) < n, random_state=self.seed, ignore_index=True)
