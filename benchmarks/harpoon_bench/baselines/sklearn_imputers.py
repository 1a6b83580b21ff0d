"""scikit-learn's imputers, on standardised numbers and one-hot categories."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harpoon import Schema
from harpoon.metrics import masks
from harpoon_bench.baselines.base import Method, fill_missing

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MatrixCodec:
    """Codec between a table and a matrix of standardised numbers and one-hot categories; missing cells are NaN.

    Attributes:
        schema: The schema of the table.
        means: The mean of each numeric column.
        stds: The standard deviation of each numeric column.
        first_category: 0: a column for each category; 1: none for the first category. Regressions of each column on the
            others need 1, because all one-hot columns of a category sum to one.

    >>> train = pd.DataFrame({"x": [0.0, 2.0], "c": ["a", "b"]})
    >>> codec = MatrixCodec.fit(train, Schema.infer(train))
    >>> codec.encode(train).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    >>> codec.decode(np.array([[0.5, 0.2, 0.8]])).to_numpy().tolist()
    [[1.5, 'b']]
    """

    schema: Schema
    means: dict[str, float]
    stds: dict[str, float]
    first_category: int = 0

    @classmethod
    def fit(cls, train: pd.DataFrame, schema: Schema, first_category: int = 0) -> MatrixCodec:
        """Compute means and standard deviations."""
        names = [column.name for column in schema.modelled if column.kind.numeric]
        means = {name: float(train[name].mean()) for name in names}
        return cls(schema, means, {name: float(train[name].std(ddof=0)) or 1.0 for name in names}, first_category)

    @property
    def widths(self) -> list[int]:
        """The number of matrix columns of each column."""
        return [
            1 if column.kind.numeric else len(column.categories or ()) - self.first_category
            for column in self.schema.modelled
        ]

    def encode(self, table: pd.DataFrame) -> Floats:
        """Return the table as a matrix."""
        parts = []
        for column in self.schema.modelled:
            cells = table[column.name]
            if column.kind.numeric:
                number = cells.to_numpy(dtype=np.float64, na_value=np.nan)
                parts.append(((number - self.means[column.name]) / self.stds[column.name])[:, None])
            else:
                categories = (column.categories or ())[self.first_category :]
                onehot = np.stack([cells == category for category in categories], axis=1).astype(float)
                parts.append(np.where(cells.isna().to_numpy()[:, None], np.nan, onehot))
        return np.hstack(parts)

    def decode(self, X: Floats) -> pd.DataFrame:
        """Return the table of a matrix; a category is the one with the largest value."""
        columns = {}
        for column, part in zip(self.schema.modelled, np.split(X, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            if column.kind.numeric:
                values = part[:, 0] * self.stds[column.name] + self.means[column.name]
            else:
                first = 1.0 - part.sum(axis=1, keepdims=True)
                index = np.hstack([first, part] if self.first_category else [part]).argmax(axis=1)
                values = np.array(column.categories, dtype=object)[index]
            columns[column.name] = pd.Series(values)
        return pd.DataFrame(columns)


class SklearnMethod(Method):
    """An imputer of scikit-learn."""

    first_category: ClassVar[int] = 0
    uses_budget = False
    note = "standardised numbers and one-hot categories; the category with the largest value is taken"

    @abstractmethod
    def make_imputer(self) -> Any:  # noqa: ANN401
        """Return the imputer, not fitted."""

    def training_matrix(self, X: Floats, _table: pd.DataFrame) -> Floats:
        """Return the matrix on which the imputer is fitted."""
        return X

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Fit the imputer."""
        self.codec = MatrixCodec.fit(train, schema, self.first_category)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the default number of rounds need not converge
            self.imputer = self.make_imputer().fit(self.training_matrix(self.codec.encode(train), train))
        return self

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in the values of the imputer."""
        values = self.codec.decode(self.imputer.transform(self.codec.encode(incomplete)))
        return fill_missing(incomplete, values, self.codec.schema)


class Iterative(SklearnMethod):
    """IterativeImputer: rounds of Bayesian ridge regressions of each column on the others."""

    name, title, first_category = "iterative", "IterativeImputer", 1
    defaults: ClassVar[dict[str, object]] = {"max_iter": 10, "tol": 1e-3, "hidden_fraction": 0.25}
    note = (
        "standardised numbers and one-hot categories without the first; the category with the largest value is taken; "
        "fitted with a quarter of the training cells hidden, because on complete rows it stops after one round"
    )

    def make_imputer(self) -> Any:  # noqa: ANN401
        """Return an IterativeImputer with its default regressions."""
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        options = {name: self.options[name] for name in ("max_iter", "tol")}
        return IterativeImputer(random_state=self.seed, **options)

    def training_matrix(self, X: Floats, table: pd.DataFrame) -> Floats:
        """Hide cells of every column: on complete rows there is nothing to iterate."""
        names = [column.name for column in self.codec.schema.modelled]
        hidden = masks.sample_mask("MCAR", table[names], float(str(self.options["hidden_fraction"])), self.seed)
        return np.where(np.repeat(hidden, self.codec.widths, axis=1), np.nan, X)


class IterativeTrees(Iterative):
    """IterativeImputer with random forests, like missForest (Stekhoven and Bühlmann, 2012)."""

    name, title, first_category = "trees", "IterativeImputer with random forests", 0
    defaults: ClassVar[dict[str, object]] = {"max_iter": 5, "tol": 1e-3, "hidden_fraction": 0.25, "trees": 50}
    note = (
        "random forests of each column on the others; standardised numbers and one-hot categories; the category with "
        "the largest value is taken; fitted with a quarter of the training cells hidden"
    )

    def make_imputer(self) -> Any:  # noqa: ANN401
        """Return an IterativeImputer with random forests."""
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(int(str(self.options["trees"])), max_features=1 / 3, random_state=self.seed)
        return super().make_imputer().set_params(estimator=forest, skip_complete=True)


class NearestNeighbours(SklearnMethod):
    """KNNImputer: the mean of the nearest training rows."""

    name, title = "knn", "KNNImputer"
    defaults: ClassVar[dict[str, object]] = {"n_neighbors": 5, "weights": "uniform"}

    def make_imputer(self) -> Any:  # noqa: ANN401
        """Return a KNNImputer."""
        from sklearn.impute import KNNImputer

        return KNNImputer(**self.options)
