"""Drawn rows judged by what a classifier makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import check_count
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidOption, InvalidTable, MissingExtra
from harpoon.metrics.arrays import Floats, category_codes, complete_column, encode_onehot, encode_ordinal, read_tables

FURTHEST = 1e30  # beyond, single precision or squares may overflow
MAX_CATEGORIES = 255  # that scikit-learn's trees split by sets of them
TREES = {"n_estimators": 200, "max_depth": 6, "learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.8}
MOST_ITERATIONS = 2000
MIN_FOLDS = 2
TWO = 2


def detection(
    schema: Schema,
    real: object,
    synthetic: object,
    *,
    classifier: str = "xgboost",
    folds: int = 5,
    random_state: RandomState = 0,
) -> float:
    """How well a classifier tells drawn rows from real ones: the area under the ROC curve, 0.5 if it cannot.

    The larger table is cut to the size of the smaller at random, and the area is the mean over the folds of a
    cross-validation. An area well under one half says that rows stand in both tables: what was learnt from one of
    two equal rows is wrong for the other.

    Args:
        schema: What the columns are.
        real: Real rows, which the model should not have been trained on.
        drawn: Drawn rows.
        classifier: "xgboost", a strong detector (the extra "metrics"), "boosted", much the same by scikit-learn, or
            "linear", a logistic regression, which sees little more than means and shares.
        folds: Into how many parts the rows are cut.
        random_state: A seed or a NumPy generator.

    >>> import pyarrow as pa
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> real, drawn = pa.table({"x": x[:500]}), pa.table({"x": x[500:] + 3})
    >>> f"{detection(Schema.infer(real), real, drawn, classifier='linear'):.2f}"
    '0.99'
    """
    if classifier not in CLASSIFIERS:
        raise InvalidOption.one_of("classifier", classifier, CLASSIFIERS)
    if check_count(folds, "folds, the number of parts,") < MIN_FOLDS:
        raise InvalidOption(f"folds must be at least {MIN_FOLDS}, got {folds}.")
    pair, rng = read_tables(schema, real, synthetic), np.random.default_rng(to_seed(check_random_state(random_state)))
    size = min(table.n_rows for table in pair)
    if size < folds:
        raise InvalidTable(f"Each table must have at least as many rows as there are folds, {folds}, got {size}.")
    kept = [rng.permutation(table.n_rows)[:size] for table in pair]
    encoded, make = CLASSIFIERS[classifier](schema, pair, int(rng.integers(2**31)))
    X = np.concatenate([part[rows] for part, rows in zip(encoded, kept, strict=True)])
    y = np.repeat([0, 1], size)
    return float(np.mean([_area(make(), X, y, fold) for fold in _folds(size, folds, rng)]))


def utility(
    schema: Schema,
    train: object,
    test: object,
    target: str,
    *,
    score: str = "accuracy",
    random_state: RandomState = 0,
) -> float:
    """What drawn rows are good for: how well an XGBoost classifier that learnt from them does on real rows.

    Args:
        schema: What the columns are.
        train: The rows to learn from, drawn or real; real ones give the mark to reach.
        test: Real rows to be right about.
        target: The boolean or categorical column to predict from all others.
        score: "accuracy", or "auc": the area under the ROC curve, for more than two labels that of all answers "it is
            this label" together (the micro average, which is what synthcity calls utility). It is not a number where
            the test rows all have one of two labels.
        random_state: A seed or a NumPy generator.

    >>> import pyarrow as pa
    >>> rows = pa.table({"x": list(range(100)), "c": ["low"] * 50 + ["high"] * 50})
    >>> utility(Schema.infer(rows, kinds={"x": "integer"}), rows, rows, "c")
    1.0
    """
    column, scores = schema[target], {"accuracy": _accuracy, "auc": _joint_area}
    if not column.kind.discrete:
        raise InvalidOption(
            f"The target must be a boolean or categorical column, and {target!r} is {column.kind.value}."
        )
    if score not in scores:
        raise InvalidOption.one_of("score", score, scores)
    others = Schema(tuple(other for other in schema if other.name != target))
    if not others.modelled:
        raise InvalidOption(f"The target {target!r} is the only column, and there is none to predict it from.")
    pair = read_tables(schema, train, test)
    (answers, truth), labels = category_codes([complete_column(table, column) for table in pair], column)
    learnt, classes = np.unique(answers, return_inverse=True)
    probabilities = np.zeros((len(truth), labels))
    probabilities[:, learnt] = 1.0
    if len(learnt) > 1:
        (X, X_test), make = _trees(others, pair, to_seed(check_random_state(random_state)) % 2**31)
        probabilities[:, learnt] = make().fit(X, classes).predict_proba(X_test)
    used = np.union1d(learnt, truth)
    return scores[score](probabilities[:, used], np.searchsorted(used, truth))


def _accuracy(probabilities: Floats, truth: NDArray[np.int64]) -> float:
    return float((probabilities.argmax(axis=1) == truth).mean())


def _joint_area(probabilities: Floats, truth: NDArray[np.int64]) -> float:
    """The area under the ROC curve of two labels, or of each label against the others, all in one curve."""
    from sklearn.metrics import roc_auc_score

    right = np.eye(probabilities.shape[1], dtype=np.int64)[truth]
    if probabilities.shape[1] == TWO:
        right, probabilities = right[:, 1:], probabilities[:, 1:]
    if right.min() == right.max():
        return float("nan")
    return float(roc_auc_score(right.ravel(), probabilities.ravel()))


def _folds(size: int, count: int, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Which rows are judged in each fold: the same number, up to one, from each of two tables of this size."""
    parts = [rng.permutation(np.arange(size) % count) for _ in range(2)]
    return [np.concatenate(parts) == fold for fold in range(count)]


def _area(model: Any, X: Floats, y: NDArray[np.int64], judged: NDArray[np.bool_]) -> float:  # noqa: ANN401
    from sklearn.metrics import roc_auc_score

    model.fit(X[~judged], y[~judged])
    return float(roc_auc_score(y[judged], model.predict_proba(X[judged])[:, 1]))


def _shrunk(encoded: list[Floats]) -> list[Floats]:
    """The same with columns of enormous numbers brought within reach of single precision."""
    largest = np.max([np.abs(part).max(axis=0, initial=0.0) for part in encoded], axis=0)
    return [part / np.where(largest > FURTHEST, largest, 1.0) for part in encoded]


def _trees(schema: Schema, pair: list[Table], seed: int) -> tuple[list[Floats], Callable[[], Any]]:
    """Boosted trees that split labels by sets of them."""
    try:
        from xgboost import XGBClassifier
    except ImportError:
        raise MissingExtra.named("xgboost", "metrics", "This score") from None
    encoded, kinds = encode_ordinal(schema, pair)
    common = {"tree_method": "hist", "enable_categorical": True, "feature_types": kinds, "n_jobs": 1}
    return _shrunk(encoded), lambda: XGBClassifier(**TREES, **common, random_state=seed)


def _boosted(schema: Schema, pair: list[Table], seed: int) -> tuple[list[Floats], Callable[[], Any]]:
    """Boosted trees of scikit-learn; a column of more labels than they can split by sets counts as numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    encoded, kinds = encode_ordinal(schema, pair)
    most = np.max([part.max(axis=0) for part in encoded], axis=0)
    labels = [kind == "c" and top < MAX_CATEGORIES for kind, top in zip(kinds, most, strict=True)]
    return _shrunk(encoded), lambda: HistGradientBoostingClassifier(categorical_features=labels, random_state=seed)


def _linear(schema: Schema, pair: list[Table], seed: int) -> tuple[list[Floats], Callable[[], Any]]:
    """Logistic regression on standardised numbers and one column per label."""
    from sklearn.linear_model import LogisticRegression

    parts = encode_onehot(schema, pair)
    numbers = _shrunk([values for values, _ in parts])
    both = np.concatenate(numbers)
    deviation = both.std(axis=0)
    scaled = [(values - both.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0) for values in numbers]
    encoded = [np.hstack([values, part[1]]) for values, part in zip(scaled, parts, strict=True)]
    return encoded, lambda: LogisticRegression(max_iter=MOST_ITERATIONS, random_state=seed)


CLASSIFIERS: dict[str, Callable[[Schema, list[Table], int], tuple[list[Floats], Callable[[], Any]]]] = {
    "xgboost": _trees,
    "boosted": _boosted,
    "linear": _linear,
}
