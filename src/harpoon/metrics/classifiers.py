"""Scores by classifiers: detection of synthetic rows, and their utility for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import check_count
from harpoon.data import Floats, Schema, Table
from harpoon.exceptions import InvalidOption, InvalidTable, MissingExtra
from harpoon.metrics.arrays import category_codes, complete_column, encode_onehot, encode_ordinal, read_tables

MAX_MAGNITUDE = 1e30  # larger values overflow in single precision or when squared
MAX_CATEGORIES = 255  # per categorical feature of scikit-learn's trees
XGBOOST_OPTIONS = {"n_estimators": 200, "max_depth": 6, "learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.8}
MAX_ITERATIONS = 2000
MIN_FOLDS = 2
BINARY = 2
Classifier = tuple[list[Floats], Callable[[], Any]]  # the encoded tables, (n, features) each, and a new estimator


def detection(
    schema: Schema,
    real: object,
    synthetic: object,
    *,
    classifier: str = "xgboost",
    folds: int = 5,
    random_state: RandomState = 0,
) -> float:
    """Return how well a classifier separates synthetic from real rows: the area under the ROC curve, 0.5 if it cannot.

    The larger table is subsampled to the size of the smaller. The area is the mean over the folds of a
    cross-validation. An area well below 0.5 means that the same rows occur in both tables: a classifier that was
    trained on one of two equal rows is wrong about the other. Boosted trees read missing cells, which separate the
    tables too if they are not missing alike. A logistic regression needs complete rows.

    Args:
        schema: The columns.
        real: Real rows, preferably not those that the model was trained on.
        synthetic: Synthetic rows.
        classifier: "xgboost" (needs the extra "metrics"); "boosted", gradient-boosted trees of scikit-learn, of similar
            strength; "linear", a logistic regression, which detects little more than means and frequencies.
        folds: The number of folds.
        random_state: A seed or a NumPy generator.

    >>> import pyarrow as pa
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> real, synthetic = pa.table({"x": x[:500]}), pa.table({"x": x[500:] + 3})
    >>> f"{detection(Schema.infer(real), real, synthetic, classifier='linear'):.2f}"
    '0.99'
    """
    if classifier not in CLASSIFIERS:
        raise InvalidOption.one_of("classifier", classifier, CLASSIFIERS)
    if check_count(folds, "folds") < MIN_FOLDS:
        raise InvalidOption(f"folds must be at least {MIN_FOLDS}, got {folds}.")
    tables, rng = read_tables(schema, real, synthetic), np.random.default_rng(to_seed(check_random_state(random_state)))
    size = min(table.n_rows for table in tables)
    if size < folds:
        raise InvalidTable(f"Each table must have at least as many rows as folds, {folds}, got {size}.")
    kept = [rng.permutation(table.n_rows)[:size] for table in tables]
    encoded, make = CLASSIFIERS[classifier](schema, tables, int(rng.integers(2**31)))
    X = np.concatenate([part[rows] for part, rows in zip(encoded, kept, strict=True)])
    y = np.repeat([0, 1], size)
    # The test rows of a fold are as many, up to one, of each of the two tables.
    fold_of = np.concatenate([rng.permutation(np.arange(size) % folds) for _ in tables])
    return float(np.mean([_auc(make(), X, y, fold_of == fold) for fold in range(folds)]))


def utility(
    schema: Schema, train: object, test: object, target: str, *, score: str = "accuracy", random_state: RandomState = 0
) -> float:
    """Return how well an XGBoost classifier that was trained on synthetic rows predicts real rows.

    Args:
        schema: The columns.
        train: The rows to train on, synthetic or real; real rows give the score to compare with.
        test: Real rows to predict.
        target: The boolean or categorical column to predict from all others.
        score: "accuracy", or "auc", the area under the ROC curve (micro average for more than two categories, as in
            synthcity). The area is NaN if the target has two categories and all test rows have the same.
        random_state: A seed or a NumPy generator.

    >>> import pyarrow as pa
    >>> rows = pa.table({"x": list(range(100)), "c": ["low"] * 50 + ["high"] * 50})
    >>> utility(Schema.infer(rows, kinds={"x": "integer"}), rows, rows, "c")
    1.0
    """
    column, scores = schema[target], {"accuracy": _accuracy, "auc": _micro_auc}
    if not column.kind.discrete:
        raise InvalidOption(
            f"target must be a boolean or categorical column, got {target!r}, which is {column.kind.value}."
        )
    if score not in scores:
        raise InvalidOption.one_of("score", score, scores)
    others = Schema(tuple(other for other in schema if other.name != target))
    if not others.modelled:
        raise InvalidOption(f"target {target!r} is the only column of the schema; add a column to predict it from.")
    tables = read_tables(schema, train, test)
    (y, truth), n_categories = category_codes([complete_column(table, column) for table in tables], column)
    trained, classes = np.unique(y, return_inverse=True)
    probabilities = np.zeros((len(truth), n_categories))
    probabilities[:, trained] = 1.0
    if len(trained) > 1:
        (X, X_test), make = _xgboost(others, tables, to_seed(check_random_state(random_state)) % 2**31)
        probabilities[:, trained] = make().fit(X, classes).predict_proba(X_test)
    used = np.union1d(trained, truth)
    return scores[score](probabilities[:, used], np.searchsorted(used, truth))


def _accuracy(probabilities: Floats, truth: NDArray[np.int64]) -> float:
    return float((probabilities.argmax(axis=1) == truth).mean())


def _micro_auc(probabilities: Floats, truth: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of two categories, or the micro average of more."""
    from sklearn.metrics import roc_auc_score

    is_true = np.eye(probabilities.shape[1], dtype=np.int64)[truth]
    if probabilities.shape[1] == BINARY:
        is_true, probabilities = is_true[:, 1:], probabilities[:, 1:]
    if is_true.min() == is_true.max():
        return float("nan")
    return float(roc_auc_score(is_true.ravel(), probabilities.ravel()))


def _auc(model: Any, X: Floats, y: NDArray[np.int64], test: NDArray[np.bool_]) -> float:  # noqa: ANN401
    from sklearn.metrics import roc_auc_score

    model.fit(X[~test], y[~test])
    return float(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))


def _limit_magnitude(encoded: list[Floats]) -> list[Floats]:
    """Divide columns with values that are too large for single precision by their largest value."""
    largest = np.max([_max_observed(np.abs(part)) for part in encoded], axis=0)
    return [part / np.where(largest > MAX_MAGNITUDE, largest, 1.0) for part in encoded]


def _max_observed(encoded: Floats) -> Floats:
    """Return the largest observed value of each column of values that are not negative; 0 without any, (columns,)."""
    return np.asarray(np.fmax.reduce(encoded, axis=0, initial=0.0))


def _xgboost(schema: Schema, tables: list[Table], seed: int) -> Classifier:
    """Gradient-boosted trees of XGBoost with categorical features."""
    try:
        from xgboost import XGBClassifier
    except ImportError:
        raise MissingExtra.for_package("xgboost", "metrics", "This score") from None
    encoded, types = encode_ordinal(schema, tables)
    common = {"tree_method": "hist", "enable_categorical": True, "feature_types": types, "n_jobs": 1}
    return _limit_magnitude(encoded), lambda: XGBClassifier(**XGBOOST_OPTIONS, **common, random_state=seed)


def _boosted(schema: Schema, tables: list[Table], seed: int) -> Classifier:
    """Gradient-boosted trees of scikit-learn; columns of too many categories count as numeric."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    encoded, types = encode_ordinal(schema, tables)
    max_code = np.max([_max_observed(part) for part in encoded], axis=0)
    categorical = [kind == "c" and code < MAX_CATEGORIES for kind, code in zip(types, max_code, strict=True)]
    options = {"categorical_features": categorical, "random_state": seed}
    return _limit_magnitude(encoded), lambda: HistGradientBoostingClassifier(**options)


def _linear(schema: Schema, tables: list[Table], seed: int) -> Classifier:
    """Logistic regression on standardised numeric values and one-hot categories."""
    from sklearn.linear_model import LogisticRegression

    parts = encode_onehot(schema, tables)
    numeric = _limit_magnitude([values for values, _ in parts])
    both = np.concatenate(numeric)
    std = both.std(axis=0)
    scaled = [(values - both.mean(axis=0)) / np.where(std > 0, std, 1.0) for values in numeric]
    encoded = [np.hstack([values, part[1]]) for values, part in zip(scaled, parts, strict=True)]
    return encoded, lambda: LogisticRegression(max_iter=MAX_ITERATIONS, random_state=seed)


CLASSIFIERS: dict[str, Callable[[Schema, list[Table], int], Classifier]] = {
    "xgboost": _xgboost,
    "boosted": _boosted,
    "linear": _linear,
}
