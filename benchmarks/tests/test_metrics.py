"""Scores that the bench adds, against values worked out by hand or by other means."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from harpoon import Schema, metrics
from harpoon.exceptions import InvalidCondition
from harpoon.metrics import METRICS


@pytest.fixture(scope="module")
def pair():
    """Two tables of one law, with labels that go with the numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=400), "n": rng.integers(0, 9, 400)})
    table["c"] = np.where(table["y"] > 0, "up", rng.choice(["down", "flat"], 400))
    return table.iloc[:200].reset_index(drop=True), table.iloc[200:].reset_index(drop=True)


@pytest.mark.parametrize(
    "where", ["x > 0", "c = 'up' and n <= 4", "c in ('up', 'flat') or y < x", "not (n between 2 and 5)"]
)
def test_violations_are_counted_as_duckdb_counts_them(pair, where):
    rows, _ = pair
    connection = duckdb.connect()
    connection.register("drawn", rows)
    met = connection.execute(f"SELECT count(*) FROM drawn WHERE {where}").fetchone()[0]  # noqa: S608
    assert metrics.violation_rate(Schema.infer(rows), rows, where) == pytest.approx(1 - met / len(rows))
    assert metrics.satisfies(Schema.infer(rows), rows, where).sum() == met


def test_conditions_that_are_always_or_never_met(pair):
    rows, _ = pair
    assert metrics.violation_rate(Schema.infer(rows), rows, "n >= 0") == 0.0
    assert metrics.violation_rate(Schema.infer(rows), rows, "n > 100") == 1.0
    with pytest.raises(InvalidCondition, match="nothing"):
        metrics.violation_rate(Schema.infer(rows), rows, "nothing = 1")


def test_correlations_against_pandas(pair):
    real, drawn = pair
    schema = Schema.infer(real)
    names = ["x", "y", "n"]
    difference = (real[names].corr() - drawn[names].corr()).abs().to_numpy()[np.triu_indices(3, k=1)]
    assert metrics.correlation_similarity(schema, real, drawn) == pytest.approx(1 - difference.mean() / 2)
    assert metrics.correlation_similarity(schema, real, real) == 1.0


def test_correlations_that_cannot_be_told():
    real = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]})
    still = real.assign(y=5.0)
    schema = Schema.infer(real)
    assert np.isnan(metrics.correlation_similarity(schema, real, still))
    labels = Schema.infer(real[["c"]])
    assert np.isnan(metrics.correlation_similarity(labels, real, real))
    assert np.isnan(metrics.ks(labels, real, real))


def test_means_of_similarities(pair):
    real, drawn = pair
    schema = Schema.infer(real)
    columns = metrics.similarity(schema, real, drawn)
    assert metrics.ks(schema, real, drawn) == pytest.approx(np.mean([columns[name] for name in ("x", "y", "n")]))
    assert metrics.total_variation(schema, real, drawn) == columns["c"]


def distances(real, drawn):
    """All distances the slow way: numbers over the range of the real rows, labels one column each."""
    low, high = real[["x", "y", "n"]].min(), real[["x", "y", "n"]].max()
    points = []
    for table in (real, drawn):
        labels = np.stack([table["c"] == label for label in ("up", "down", "flat")], axis=1)
        points.append(np.hstack([((table[["x", "y", "n"]] - low) / (high - low)).to_numpy(), labels.astype(float)]))
    return [np.linalg.norm(points[0][:, None] - side[None], axis=2) for side in points]


def test_privacy_against_all_distances(pair):
    real, drawn = pair
    schema = Schema.infer(real)
    among, across = distances(real, drawn)
    np.fill_diagonal(among, np.inf)
    expected = (across.min(axis=1) < among.min(axis=1)).mean()
    assert metrics.identifiability(schema, real, drawn) == pytest.approx(expected)
    assert metrics.distance_to_closest(schema, real, drawn) == pytest.approx(np.median(across.min(axis=0)))


def test_copies_give_themselves_away(pair):
    real, _ = pair
    schema = Schema.infer(real)
    assert metrics.identifiability(schema, real, real) == 1.0
    assert metrics.distance_to_closest(schema, real, real) == 0.0


def test_every_metric_says_what_is_better_and_lies_in_its_range(pair):
    real, drawn = pair
    schema = Schema.infer(real)
    mask = np.random.default_rng(0).random(real.shape) < 0.3
    arguments = {
        "mse": (real, drawn, mask, real),
        "accuracy": (real, drawn, mask),
        "coverage": (real, (drawn, drawn), mask),
        "violation": (drawn, "x > 0"),
        "utility": (real, drawn, "c"),
        "utility_accuracy": (real, drawn, "c"),
    }
    for name, metric in METRICS.items():
        assert metric.direction in ("higher", "lower", "level"), name
        value = metric.function(schema, *arguments.get(name, (real, drawn)))
        assert metric.minimum <= value <= metric.maximum, name
        if metric.direction != "level":
            sign = 1 if metric.direction == "higher" else -1
            assert metric.best([0.2, 0.6]) == (0.6 if sign > 0 else 0.2)
