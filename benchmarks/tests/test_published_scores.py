"""Scores as published, against their definitions on small arrays."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from harpoon import Schema
from harpoon.exceptions import ColumnLeftOutWarning
from harpoon_bench import published_scores as published
from harpoon_bench.baselines import make_method

SMALL = {"hidden": 16, "max_epochs": 3, "diffusion_steps": 5, "sampling_steps": 5}


def make_rows(n, seed, shift=0.0):
    """Return encoded rows: two numbers and a category of three values."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.normal(shift, 1, (n, 2)), np.eye(3)[rng.integers(0, 3, n)]])


@pytest.fixture(scope="module")
def paper():
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {"job": rng.choice(["a", "b", "c"], 200), "age": rng.integers(20, 60, 200), "pay": rng.normal(size=200)}
    )
    train["office"] = "Delft"
    with pytest.warns(ColumnLeftOutWarning):
        return make_method("paper", seed=3, **SMALL).fit(train, Schema.infer(train)), train


def test_ks_covers_every_encoded_column():
    real, new = make_rows(300, 0), make_rows(300, 1)
    new[:, 2:] = np.eye(3)[np.zeros(300, dtype=int)]
    distances = []
    for left, right in zip(real.T, new.T, strict=True):
        points = np.union1d(left, right)
        cumulative = [np.searchsorted(np.sort(side), points, side="right") / 300 for side in (left, right)]
        distances.append(np.abs(cumulative[0] - cumulative[1]).max())
    assert published.ks(real, new) == pytest.approx(1 - np.mean(distances))


def test_alpha_ignores_the_last_column_and_units():
    real, new = make_rows(400, 0), make_rows(400, 1, shift=0.5)
    score = published.alpha_precision(real, new)
    assert 0 < score < 1
    changed = new.copy()
    changed[:, -1] = 7
    assert published.alpha_precision(real, changed) == score
    factor, shift = np.array([3.0, 0.1, 1, 1, 1]), np.array([5.0, -2, 0, 0, 0])
    assert published.alpha_precision(factor * real + shift, factor * new + shift) == pytest.approx(score)
    assert published.alpha_precision(real, real) == pytest.approx(1, abs=0.01)


def test_identifiability_counts_rows_with_a_nearer_sampled_row():
    real, new = make_rows(80, 0), make_rows(50, 1)
    others = np.linalg.norm(real[:, None] - real, axis=2) + np.diag(np.full(80, np.inf))
    nearest = np.linalg.norm(real[:, None] - new, axis=2).min(axis=1)
    assert published.identifiability(real, new) == pytest.approx((nearest < others.min(axis=1)).mean())
    assert published.identifiability(real, real) == 1.0


@pytest.mark.parametrize("make", [published.make_linear, published.make_xgboost])
def test_detection_is_a_half_for_equal_distributions(make):
    assert published.detection(make_rows(300, 0), make_rows(300, 1), make) == pytest.approx(0.5, abs=0.12)
    assert published.detection(make_rows(300, 0), make_rows(300, 1, shift=3), make) > 0.95


def test_utility_is_the_area_of_a_classifier_and_a_failure_scores_zero():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 3))
    for labels in ((features[:, 0] > 0).astype(int), np.digitize(features[:, 0], [-0.5, 0.5])):
        assert published.utility(features, labels, features, labels) > 0.98
        assert published.utility(features, labels, features, rng.permutation(labels)) < 0.8
    assert published.utility(features, labels, features, np.zeros(300, dtype=int)) == 0  # one label: nothing to learn
    rare = np.where(np.arange(300) < 3, 5, labels)  # no reference row has the label 5
    assert published.utility(features, labels, features, rare) == 0


def test_rows_are_ordered_numbers_first_with_hard_categories(paper):
    method, _ = paper
    codec = method.model.codec_
    x = np.tile([0.2, 0.5, 0.3, 1.25, -0.5], (4, 1))  # job, age, pay
    assert [part.name for part in codec.slices] == ["job", "age", "pay"]
    rows = published.PublishedRows.from_encoded(codec, x, target="job")
    assert rows.x[0].tolist() == [1.25, -0.5, 0, 1, 0]
    assert rows.labels.tolist() == [1] * 4
    assert rows.features[0].tolist() == [1.25, -0.5]


def test_violation_is_counted_before_rounding(paper):
    method, train = paper
    codec, schema = method.model.codec_, method.model.schema_
    ages = np.array([49.4, 49.6, 50.0001, 61.0])
    low, high = (encode_age(method, train, age) for age in (30, 50))  # the codec is linear
    x_age = low + (ages - 30) * (high - low) / 20
    x = np.hstack([np.eye(3)[[0, 1, 2, 0]], x_age[:, None], np.zeros((4, 1))])
    assert published.violation(codec, schema, x, "age >= 50") == 0.5  # 49.6 is decoded as 50, and violates
    assert published.violation(codec, schema, x, "job = 'a'") == 0.5
    assert published.violation(codec, schema, x, "age >= 50 or job = 'b'") == 0.25


def encode_age(method, train, age):
    """Return the encoded age of a row."""
    return float(method.model.encode(train.head(1).assign(age=age)).x[0, 3])


@pytest.mark.parametrize("where", [None, "age >= 50", "age >= 50 or job = 'b'"])
def test_the_paper_method_keeps_the_encoded_rows_of_its_sample(paper, where):
    method, train = paper
    rows = method.sample(30, where)
    info = asdict(method.model.sampling_info_)
    strategy = {} if where is None else {"strategy": "paper"}
    expected = method.model.sample(30, where=where, random_state=3, **strategy)
    pd.testing.assert_frame_equal(rows, expected)
    # Of a time, and of training rows, which the benchmark does not count.
    ignored = {"seconds": 0, "support": None, "own_grade": None}
    assert {**info, **ignored} == {**asdict(method.model.sampling_info_), **ignored}
    assert method.encoded.shape == (30, 5)
    assert set(rows["office"]) == {"Delft"}
    scores = published.score_encoded(method.model, train, method.encoded, where, "job")
    names = set(published.METRICS) - (set() if where else {"violation"})
    assert set(scores) == {published.PREFIX + name for name in names}
    assert all(0 <= score <= 1 for score in scores.values())


def test_only_the_paper_strategy_keeps_encoded_rows(paper):
    method, _ = paper
    method.options["strategy"] = "rejection"
    try:
        method.sample(5, "age >= 21")
        assert method.encoded is None
    finally:
        method.options["strategy"] = "paper"
