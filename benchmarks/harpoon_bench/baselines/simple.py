"""Baselines without a model: mean and mode, and real rows."""

from __future__ import annotations

from typing import Self

import pandas as pd

from harpoon import Schema
from harpoon.exceptions import InfeasibleCondition
from harpoon.metrics import satisfies
from harpoon_bench.baselines.base import CannotImpute, Method


class MeanMode(Method):
    """The mean of a numeric column and the most frequent category of a categorical one."""

    name, title, uses_budget = "mean", "mean and mode", False

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Compute one value per column."""
        self.values = {
            column.name: train[column.name].mean() if column.kind.numeric else train[column.name].mode().iloc[0]
            for column in schema.modelled
        }
        return self

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in the value of each column."""
        return incomplete.fillna(self.values)


class RealRows(Method):
    """Real training rows: a ceiling of sampled rows."""

    name, title, can_sample = "real", "real training rows", True
    uses_budget, is_ceiling = False, True

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Keep the rows."""
        self.train, self.schema = train, schema
        return self

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Raise CannotImpute."""
        raise CannotImpute(f"{self.title} cannot impute {len(incomplete)} rows; they can only be sampled.")

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Sample rows that satisfy the condition, without replacement if there are enough of them."""
        rows = self.train if where is None else self.train[satisfies(self.schema, self.train, where)]
        if rows.empty:
            raise InfeasibleCondition(f"No training row has {where}.")
        return rows.sample(n, replace=len(rows) < n, random_state=self.seed, ignore_index=True)
