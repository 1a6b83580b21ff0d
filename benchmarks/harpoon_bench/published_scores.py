"""Scores as the paper's published code computes them, to compare with its tables.

They read encoded rows, (n, d): the standardised numbers first, then a one-hot vector for each category. Sampled numbers
are as the reverse process leaves them, neither rounded nor decoded; sampled categories are the most probable ones.
`harpoon.metrics` has the scores that we recommend. These differ from them in what they measure, not only in details:
`docs/how-it-works.md` lists the differences.

The definitions are those of synthcity, which the paper uses. `benchmarks/scripts/synthcity_agreement.py` compares the
two.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon import Harpoon, Schema
from harpoon.conditions import bind, evaluate, to_predicate
from harpoon.data import ColumnArray, Floats
from harpoon.encoding.codec import PartType
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.row_view import RowView

ALPHAS = np.linspace(0.0, 1.0, 30)
FOLDS, SEED = 3, 0
REFERENCE_FRACTION = 0.8  # of the reference rows that the classifiers of `utility` predict
MAX_ITERATIONS = 10_000
BINARY = 2
METRICS = ("violation", "alpha", "utility", "ks", "detection", "detection_xgboost", "identifiability")
PREFIX = "published_"  # of their names in records


@dataclass(frozen=True)
class PublishedRows:
    """Encoded rows in the order of the published code.

    Attributes:
        x: Standardised numbers, then one-hot categories, (n, d).
        labels: The codes of the column that a classifier predicts, (n,); None without one.
        features: All other columns, with categories as codes, (n, columns).
    """

    x: Floats
    labels: NDArray[np.int64] | None
    features: Floats

    @classmethod
    def from_encoded(cls, codec: RowCodec, x: Floats, target: str | None = None) -> PublishedRows:
        """Reorder encoded rows, (n, d), and replace the features of each category by the most probable category."""
        numbers, categories, labels, features = [], [], None, []
        for part in codec.slices:
            values = x[:, part.start : part.stop]
            if part.type is not PartType.CATEGORICAL:
                numbers.append(values)
                features.append(values)
                continue
            codes = values.argmax(axis=1)
            categories.append(np.eye(part.stop - part.start)[codes])
            if part.name == target:
                labels = codes
            else:
                features.append(codes[:, None].astype(np.float64))
        return cls(np.hstack([*numbers, *categories]), labels, np.hstack(features))


def score_encoded(
    model: Harpoon, reference: object, x: Floats, where: str | None = None, target: str | None = None
) -> dict[str, float]:
    """Return all scores of sampled rows that are not decoded yet.

    Args:
        model: The model that sampled them.
        reference: The test rows that satisfy the condition, as a table.
        x: The sampled rows, (n, d), as the codec of the model encodes them.
        where: The condition.
        target: The column that a classifier predicts, for utility.
    """
    codec = model.codec_
    real = PublishedRows.from_encoded(codec, model.encode(reference).x.cpu().double().numpy(), target)
    sampled = PublishedRows.from_encoded(codec, x, target)
    scores = score_rows(real, sampled)
    if where is not None:
        scores["violation"] = violation(codec, model.schema_, x, where)
    return {PREFIX + name: scores[name] for name in METRICS if name in scores}


def score_rows(reference: PublishedRows, sampled: PublishedRows) -> dict[str, float]:
    """Return all scores that need no condition; utility only if there are labels."""
    scores = {
        "alpha": alpha_precision(reference.x, sampled.x),
        "ks": ks(reference.x, sampled.x),
        "identifiability": identifiability(reference.x, sampled.x),
        "detection": detection(reference.x, sampled.x, make_linear),
        "detection_xgboost": detection(reference.x, sampled.x, make_xgboost),
    }
    if reference.labels is not None and sampled.labels is not None:
        scores["utility"] = utility(reference.features, reference.labels, sampled.features, sampled.labels)
    return scores


def violation(codec: RowCodec, schema: Schema, x: Floats, where: str) -> float:
    """Return the fraction of encoded rows, (n, d), that violate a condition before they are decoded.

    Numbers are not rounded: an age of 49.6 violates age >= 50, although it is decoded as 50.
    """
    view, complete = RowView(codec, torch.from_numpy(x)), np.zeros(len(x), dtype=np.bool_)
    decoded = codec.decode(x)
    cells = {
        column.name: ColumnArray("float", view.soft(column.name).numpy(), complete)
        if column.kind.numeric
        else decoded[column.name]
        for column in schema.modelled
    }
    return float(1.0 - evaluate(bind(to_predicate(where), schema), cells).mean())


def ks(reference: Floats, sampled: Floats) -> float:
    """Return the mean of 1 minus the Kolmogorov–Smirnov distance over all encoded columns, categories included.

    A column of a rare category is nearly constant in both tables, so the many columns of categories raise the mean.

    >>> ks(np.array([[1.0, 0], [2, 0], [3, 1], [4, 1]]), np.array([[1.0, 0], [2, 0], [3, 0], [9, 1]]))
    0.75
    """
    from scipy.stats import ks_2samp

    pairs = zip(reference.T, sampled.T, strict=True)
    return float(np.mean([1.0 - ks_2samp(real, new, method="asymp").statistic for real, new in pairs]))


def alpha_precision(reference: Floats, sampled: Floats) -> float:
    """Return the naive α-precision score, without the last encoded column, which is taken for a label.

    Rows are scaled to the range of the reference. For each of 30 fractions α, the ball around the mean reference row
    that holds a fraction α of the reference should hold the same fraction of the sampled rows. The score is 1 minus the
    summed differences, relative to the sum of α. Where the published code raises an error, below 0, this returns 0.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
    >>> f"{alpha_precision(rows, rows):.2f}", f"{alpha_precision(rows, rows + 9):.2f}"
    ('1.00', '0.00')
    """
    real, new = reference[:, :-1], sampled[:, :-1]
    low, width = real.min(axis=0), np.ptp(real, axis=0)
    real, new = ((rows - low) / np.where(width > 0, width, 1.0) for rows in (real, new))
    centre = real.mean(axis=0)
    radii = np.quantile(np.linalg.norm(real - centre, axis=1), ALPHAS)
    inside = (np.linalg.norm(new - centre, axis=1)[:, None] <= radii).mean(axis=0)
    return float(max(0.0, 1.0 - np.abs(ALPHAS - inside).sum() / ALPHAS.sum()))


def identifiability(reference: Floats, sampled: Floats) -> float:
    """Return the fraction of reference rows with a sampled row nearer than any other reference row.

    Distances are between standardised numbers and one-hot categories, all with the same weight. The nearest other row
    is the second nearest in a search that includes the row itself, as in the published code.

    >>> identifiability(np.array([[0.0], [1], [5], [9]]), np.array([[0.5], [4.0]]))
    0.75
    """
    from sklearn.neighbors import NearestNeighbors

    others, _ = NearestNeighbors(n_neighbors=2).fit(reference).kneighbors(reference)
    nearest, _ = NearestNeighbors(n_neighbors=1).fit(sampled).kneighbors(reference)
    return float((nearest[:, 0] < others[:, 1]).mean())


def detection(reference: Floats, sampled: Floats, make: Callable[[], Any] | None = None) -> float:
    """Return the mean area under the ROC curve of a classifier that separates sampled from reference rows, 3 folds.

    Args:
        reference: Encoded reference rows, (n, d).
        sampled: Encoded sampled rows, (m, d).
        make: Returns a new classifier: `make_linear`, which the paper names and its code uses (default), or
            `make_xgboost`.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    X, y = np.concatenate([reference, sampled]), np.repeat([0, 1], [len(reference), len(sampled)])
    areas = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(X, y):
        classifier = (make or make_linear)().fit(X[train], y[train])
        areas.append(roc_auc_score(y[test], classifier.predict_proba(X[test])[:, 1]))
    return float(np.mean(areas))


def utility(
    features: Floats, labels: NDArray[np.int64], sampled_features: Floats, sampled_labels: NDArray[np.int64]
) -> float:
    """Return the mean area under the ROC curve of XGBoost that was trained on sampled rows and predicts reference rows.

    Three folds of 80 % of the reference rows are predicted. Labels are codes. More than two labels have a micro
    average. Reference rows with a label that no sampled row has are left out. A fold that then lacks one of the sampled
    labels cannot be scored by the published code, which counts it as 0.

    Args:
        features: All columns of the reference rows but the label, (n, columns).
        labels: The labels of the reference rows, (n,).
        sampled_features: All columns of the sampled rows but the label, (m, columns).
        sampled_labels: The labels of the sampled rows, (m,).
    """
    from sklearn.model_selection import StratifiedKFold, train_test_split

    known, classes = np.unique(sampled_labels, return_inverse=True)
    if len(known) < BINARY or len(labels) < BINARY * FOLDS:
        return 0.0
    stratify = labels if np.unique(labels, return_counts=True)[1].min() > 1 else None
    options = {"train_size": REFERENCE_FRACTION, "random_state": SEED, "stratify": stratify}
    kept, _ = train_test_split(np.arange(len(labels)), **options)
    features, labels = features[kept], labels[kept]
    probabilities = make_xgboost().fit(sampled_features, classes).predict_proba(features)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a label with fewer rows than folds
            tests = [test for _, test in folds.split(features, labels)]
    except ValueError:  # every label has fewer rows than folds
        return 0.0
    return float(np.mean([_micro_auc(probabilities[test], labels[test], known) for test in tests]))


def _micro_auc(probabilities: Floats, labels: NDArray[np.int64], known: NDArray[np.int64]) -> float:
    """Return the area of one fold; 0 if a known label is missing in it."""
    from sklearn.metrics import roc_auc_score

    is_known = np.isin(labels, known)
    probabilities, labels = probabilities[is_known], labels[is_known]
    if len(np.unique(labels)) != len(known):
        return 0.0
    is_true = np.eye(len(known))[np.searchsorted(known, labels)]
    if len(known) == BINARY:
        is_true, probabilities = is_true[:, 1:], probabilities[:, 1:]
    return float(roc_auc_score(is_true.ravel(), probabilities.ravel()))


def make_linear() -> Any:  # noqa: ANN401
    """Return a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=MAX_ITERATIONS, random_state=SEED)


def make_xgboost() -> Any:  # noqa: ANN401
    """Return XGBoost with its defaults; synthcity's `depth=3` is not an option of XGBoost and has no effect."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, random_state=SEED)
