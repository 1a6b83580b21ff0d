"""What one would do without a model."""

from __future__ import annotations

from typing import Self

import pandas as pd

from harpoon.bench.methods.base import Method
from harpoon.schema import Schema


class MeanMode(Method):
    """The mean of a number and the most frequent label of a category, whatever else the row says."""

    name, title = "mean", "mean and mode"

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
