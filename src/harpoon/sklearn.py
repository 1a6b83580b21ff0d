"""Harpoon as a scikit-learn transformer.

A fitted imputer inside a pickle, a `joblib` file or a `skops` file holds the bytes of a model file
(`harpoon._utils.model_file`), which is checked when it is read.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from harpoon._utils.rng import RandomState
from harpoon.data import Floats, Schema, dataframe
from harpoon.data.survey_weights import check_weights
from harpoon.estimator import Harpoon, from_bytes, to_bytes
from harpoon.exceptions import ColumnLeftOutWarning, InvalidTable, ModelFileError
from harpoon.privacy.differential.budget import Privacy


class HarpoonImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Imputes missing cells with a Harpoon model, which `fit` trains and `transform` uses.

    It takes numeric arrays and pandas, polars or pyarrow tables with columns of any kind. An array is returned as an
    array and a table as a table, unless `set_output` is used. Rows may have weights: `fit(X, sample_weight=w)`, which
    metadata routing knows (`set_fit_request(sample_weight=True)`).

    Args:
        preset: As for `Harpoon`.
        max_time: Most seconds of training.
        max_epochs: Most passes over the table.
        random_state: A seed, a NumPy generator or a NumPy RandomState.
        device: "cpu", "cuda" or "auto".
        schema: The kinds of the columns, where they should not be inferred.
        progress: Whether to show progress bars.
        point: What `transform` fills in for a number: its "mean", "median" or "mode", as for `Harpoon.impute`.
        options: Any other options of `Harpoon`, as a dictionary. With `privacy`, `schema` must be complete, as for
            `Harpoon`; the columns of an array are called x0, x1 and so on.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> X[::5, 1] = np.nan
    >>> imputer = HarpoonImputer(max_epochs=2, options={"hidden": 16}, random_state=0)
    >>> bool(np.isnan(imputer.fit_transform(X)).any())
    False
    """

    def __init__(
        self,
        preset: str = "anchored",
        *,
        max_time: float | None = None,
        max_epochs: int | None = None,
        random_state: RandomState | np.random.RandomState = None,
        device: str = "auto",
        schema: Schema | None = None,
        progress: bool = False,
        point: str = "mean",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.preset = preset
        self.max_time = max_time
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.device = device
        self.schema = schema
        self.progress = progress
        self.point = point
        self.options = options

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:  # noqa: ANN401, ARG002
        """Train on a table with missing cells.

        Args:
            X: An array or a table.
            y: Ignored.
            sample_weight: How much each row counts, (n,), see `docs/survey-weights.md`. Rows of weight 0 are left out.
        """
        table = dataframe.read(self._table(X, reset=True))
        weights = None if sample_weight is None else _read_sample_weight(sample_weight, table.n_rows)
        if weights is not None and (weights == 0).any():
            counted = np.flatnonzero(weights)
            table, weights = table.take(counted), weights[counted]
        random_state = self.random_state
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        arguments = {name: getattr(self, name) for name in ("max_time", "max_epochs", "device", "schema", "progress")}
        options = {**arguments, "incomplete_rows": "mask", **(self.options or {})}
        model = Harpoon(self.preset, random_state=random_state, **options)
        with warnings.catch_warnings():
            if not _is_frame(X):  # the columns of an array have no names to show in a warning
                warnings.simplefilter("ignore", ColumnLeftOutWarning)
            self.model_ = model._fit_table(table, weights)
        return self

    def transform(self, X: Any) -> Any:  # noqa: ANN401
        """Fill the missing cells of a table."""
        check_is_fitted(self, "model_")
        filled = self.model_.impute(self._table(X, reset=False), point=(self.options or {}).get("point", self.point))
        return filled if _is_frame(X) else np.column_stack([column.to_numpy() for column in filled.columns])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with plain data in the place of a schema and a budget, and bytes in that of a model."""
        state = dict(super().__getstate__())
        if state["schema"] is not None:
            state["schema"] = state["schema"].to_json()
        if isinstance(privacy := (state["options"] or {}).get("privacy"), Privacy):
            state["options"] = {**state["options"], "privacy": asdict(privacy)}
        if "model_" in state:
            state["model_"] = to_bytes(state["model_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from `__getstate__`; a damaged model raises ModelFileError."""
        state = dict(state)
        if isinstance(state.get("schema"), str):
            state["schema"] = Schema.from_json(state["schema"])
        if isinstance(privacy := (state.get("options") or {}).get("privacy"), dict):
            state["options"] = {**state["options"], "privacy": Privacy(**privacy)}
        if "model_" in state:
            if not isinstance(state["model_"], bytes):
                raise ModelFileError("The model of a stored HarpoonImputer must be the bytes of a model file.")
            state["model_"] = from_bytes(state["model_"], device=state["device"], progress=state["progress"])
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Declare that missing cells and categories are valid input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = False
        tags.non_deterministic = self.random_state is None
        return tags

    def _table(self, X: Any, *, reset: bool) -> Any:  # noqa: ANN401
        """Return a table as it is and an array as a table of numbers, with feature names and counts checked."""
        if _is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        checks = {"dtype": "numeric", "ensure_all_finite": "allow-nan", "ensure_min_samples": 2 if reset else 1}
        values = validate_data(self, X, reset=reset, **checks)
        return pa.table({f"x{i}": values[:, i].astype(np.float64) for i in range(values.shape[1])})


def _read_sample_weight(sample_weight: Any, n_rows: int) -> Floats:  # noqa: ANN401
    """Return the weights of rows, (n,), of which some may be 0."""
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTable(f"sample_weight must hold one number per row, got {type(sample_weight).__name__}.") from None
    if weights.shape != (n_rows,):
        raise InvalidTable(f"sample_weight must have the shape ({n_rows},), one number per row, got {weights.shape}.")
    if not weights.any():
        raise InvalidTable("sample_weight must be positive for some rows, and every weight is zero.")
    check_weights(weights[weights != 0], "The values of sample_weight other than 0")
    return weights


def _is_frame(X: object) -> bool:
    return hasattr(X, "columns") or isinstance(X, pa.Table)
