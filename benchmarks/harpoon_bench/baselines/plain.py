"""scikit-learn's imputers, which know numbers only: numbers standardised, one column per label, and back."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harpoon.data.schema import Schema
from harpoon.metrics import masks
from harpoon_bench.baselines.base import Method, completed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A table as numbers, not a number where a cell is missing: numbers standardised, one column per label.

    Attributes:
        schema: What the columns are.
        means: Of the numbers.
        deviations: Of the numbers.
        first: Which label of a category has the first column: 0, or 1 to leave out that of the first label. Regressions
            of one column on the others want that, because with all of them each is one minus the others, which says
            nothing once all are missing.

    >>> train = pd.DataFrame({"x": [0.0, 2.0], "c": ["a", "b"]})
    >>> spread = Spread.fit(train, Schema.infer(train))
    >>> spread.numbers(train).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    >>> spread.table(np.array([[0.5, 0.2, 0.8]])).to_numpy().tolist()
    [[1.5, 'b']]
    """

    schema: Schema
    means: dict[str, float]
    deviations: dict[str, float]
    first: int = 0

    @classmethod
    def fit(cls, train: pd.DataFrame, schema: Schema, first: int = 0) -> Spread:
        """Learn means and deviations."""
        names = [column.name for column in schema.modelled if column.kind.numeric]
        means = {name: float(train[name].mean()) for name in names}
        return cls(schema, means, {name: float(train[name].std(ddof=0)) or 1.0 for name in names}, first)

    @property
    def widths(self) -> list[int]:
        """How many columns each column becomes."""
        return [
            1 if column.kind.numeric else len(column.categories or ()) - self.first for column in self.schema.modelled
        ]

    def numbers(self, table: pd.DataFrame) -> Floats:
        """The table as a matrix."""
        parts = []
        for column in self.schema.modelled:
            cells = table[column.name]
            if column.kind.numeric:
                number = cells.to_numpy(dtype=np.float64, na_value=np.nan)
                parts.append(((number - self.means[column.name]) / self.deviations[column.name])[:, None])
            else:
                labels = np.stack([cells == label for label in (column.categories or ())[self.first :]], axis=1).astype(
                    float
                )
                parts.append(np.where(cells.isna().to_numpy()[:, None], np.nan, labels))
        return np.hstack(parts)

    def table(self, X: Floats) -> pd.DataFrame:
        """Back from a matrix: of each label's numbers the largest wins."""
        columns = {}
        for column, part in zip(self.schema.modelled, np.split(X, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            if column.kind.numeric:
                values = part[:, 0] * self.deviations[column.name] + self.means[column.name]
            else:
                rest = 1.0 - part.sum(axis=1, keepdims=True)
                places = np.hstack([rest, part] if self.first else [part]).argmax(axis=1)
                values = np.array(column.categories, dtype=object)[places]
            columns[column.name] = pd.Series(values)
        return pd.DataFrame(columns)


class Plain(Method):
    """An imputer of scikit-learn."""

    first: ClassVar[int] = 0
    budgeted = False
    note = "numbers standardised, one column per label, of which the largest is filled in"

    @abstractmethod
    def imputer(self) -> Any:  # noqa: ANN401
        """The imputer, not fitted."""

    def training_rows(self, X: Floats, _table: pd.DataFrame) -> Floats:
        """What it is fitted on."""
        return X

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Fit the imputer."""
        self.spread = Spread.fit(train, schema, self.first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: its authors' number of rounds is what it gets
            self.fitted = self.imputer().fit(self.training_rows(self.spread.numbers(train), train))
        return self

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """What the imputer says, with known cells as they are."""
        answers = self.spread.table(self.fitted.transform(self.spread.numbers(holes)))
        return completed(holes, answers, self.spread.schema)


class Iterative(Plain):
    """IterativeImputer: each column by Bayesian ridge regression on the others, in rounds."""

    name, title, first = "iterative", "IterativeImputer", 1
    defaults: ClassVar[dict[str, object]] = {"max_iter": 10, "tol": 1e-3, "hidden": 0.25}
    note = (
        f"{Plain.note}, and none for the first label; fitted with a quarter of the training cells hidden, without "
        "which it does a single round"
    )

    def imputer(self) -> Any:  # noqa: ANN401
        """Bayesian ridge regressions, as by default."""
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        chosen = {name: self.options[name] for name in ("max_iter", "tol")}
        return IterativeImputer(random_state=self.seed, **chosen)

    def training_rows(self, X: Floats, table: pd.DataFrame) -> Floats:
        """Complete rows leave nothing to iterate over, so some cells of every column are hidden."""
        names = [column.name for column in self.spread.schema.modelled]
        hidden = masks.sample_mask("MCAR", table[names], float(str(self.options["hidden"])), self.seed)
        return np.where(np.repeat(hidden, self.spread.widths, axis=1), np.nan, X)


class Neighbours(Plain):
    """KNNImputer: the mean of the nearest training rows, by the cells that both have."""

    name, title = "knn", "KNNImputer"
    defaults: ClassVar[dict[str, object]] = {"n_neighbors": 5, "weights": "uniform"}

    def imputer(self) -> Any:  # noqa: ANN401
        """Five neighbours, as by default."""
        from sklearn.impute import KNNImputer

        return KNNImputer(**self.options)
