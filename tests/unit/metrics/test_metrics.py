"""Scores against values computed by hand or by other packages."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from harpoon import Schema, metrics
from harpoon.exceptions import InvalidCondition
from harpoon.metrics import METRICS


@pytest.fixture(scope="module")
def pair():
    """Two tables of one distribution, with categories that depend on the numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=400), "n": rng.integers(0, 9, 400)})
    table["c"] = np.where(table["y"] > 0, "up", rng.choice(["down", "flat"], 400))
    return table.iloc[:200].reset_index(drop=True), table.iloc[200:].reset_index(drop=True)


@pytest.mark.parametrize(
    "where", ["x > 0", "c = 'up' and n <= 4", "c in ('up', 'flat') or y < x", "not (n between 2 and 5)"]
)
def test_violation_rate_equals_duckdb(pair, where):
    rows, _ = pair
    connection = duckdb.connect()
    connection.register("sampled", rows)
    n_satisfied = connection.execute(f"SELECT count(*) FROM sampled WHERE {where}").fetchone()[0]  # noqa: S608
    assert metrics.violation_rate(Schema.infer(rows), rows, where) == pytest.approx(1 - n_satisfied / len(rows))
    assert metrics.satisfies(Schema.infer(rows), rows, where).sum() == n_satisfied


def test_conditions_that_always_or_never_hold(pair):
    rows, _ = pair
    assert metrics.violation_rate(Schema.infer(rows), rows, "n >= 0") == 0.0
    assert metrics.violation_rate(Schema.infer(rows), rows, "n > 100") == 1.0
    with pytest.raises(InvalidCondition, match="nothing"):
        metrics.violation_rate(Schema.infer(rows), rows, "nothing = 1")


def test_correlation_similarity_equals_pandas(pair):
    real, synthetic = pair
    schema = Schema.infer(real)
    names = ["x", "y", "n"]
    difference = (real[names].corr() - synthetic[names].corr()).abs().to_numpy()[np.triu_indices(3, k=1)]
    assert metrics.correlation_similarity(schema, real, synthetic) == pytest.approx(1 - difference.mean() / 2)
    assert metrics.correlation_similarity(schema, real, real) == 1.0


def test_undefined_scores_are_nan():
    real = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]})
    constant = real.assign(y=5.0)
    schema = Schema.infer(real)
    assert np.isnan(metrics.correlation_similarity(schema, real, constant))
    categorical = Schema.infer(real[["c"]])
    assert np.isnan(metrics.correlation_similarity(categorical, real, real))
    assert np.isnan(metrics.ks(categorical, real, real))


def test_ks_and_total_variation_are_means_of_columns(pair):
    real, synthetic = pair
    schema = Schema.infer(real)
    columns = metrics.similarity(schema, real, synthetic)
    assert metrics.ks(schema, real, synthetic) == pytest.approx(np.mean([columns[name] for name in ("x", "y", "n")]))
    assert metrics.total_variation(schema, real, synthetic) == columns["c"]


def distances(real, synthetic):
    """Return all distances, with numbers scaled by the range of the real rows and one-hot categories."""
    low, high = real[["x", "y", "n"]].min(), real[["x", "y", "n"]].max()
    points = []
    for table in (real, synthetic):
        onehot = np.stack([table["c"] == category for category in ("up", "down", "flat")], axis=1)
        points.append(np.hstack([((table[["x", "y", "n"]] - low) / (high - low)).to_numpy(), onehot.astype(float)]))
    return [np.linalg.norm(points[0][:, None] - side[None], axis=2) for side in points]


def test_privacy_scores_equal_brute_force(pair):
    real, synthetic = pair
    schema = Schema.infer(real)
    among, across = distances(real, synthetic)
    np.fill_diagonal(among, np.inf)
    expected = (across.min(axis=1) < among.min(axis=1)).mean()
    assert metrics.identifiability(schema, real, synthetic) == pytest.approx(expected)
    assert metrics.distance_to_closest(schema, real, synthetic) == pytest.approx(np.median(across.min(axis=0)))


def test_copies_are_identified(pair):
    real, _ = pair
    schema = Schema.infer(real)
    assert metrics.identifiability(schema, real, real) == 1.0
    assert metrics.distance_to_closest(schema, real, real) == 0.0


def test_every_metric_is_in_its_range(pair):
    real, synthetic = pair
    schema = Schema.infer(real)
    mask = np.random.default_rng(0).random(real.shape) < 0.3
    arguments = {
        "mse": (real, synthetic, mask, real),
        "accuracy": (real, synthetic, mask),
        "coverage": (real, (synthetic, synthetic), mask),
        "violation": (synthetic, "x > 0"),
        "utility": (real, synthetic, "c"),
        "utility_accuracy": (real, synthetic, "c"),
    }
    for name, metric in METRICS.items():
        assert metric.direction in ("higher", "lower", "level"), name
        value = metric.function(schema, *arguments.get(name, (real, synthetic)))
        assert metric.minimum <= value <= metric.maximum, name
        if metric.direction != "level":
            sign = 1 if metric.direction == "higher" else -1
            assert metric.best([0.2, 0.6]) == (0.6 if sign > 0 else 0.2)
