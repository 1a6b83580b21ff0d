"""Intervals of probabilities, shares and means contain the error of the training sample."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, t

from harpoon.conditions import bind, to_predicate
from harpoon.data import count_columns, dataframe, read_columns
from harpoon.data.contingency import ContingencyTables
from harpoon.data.schema import Schema
from harpoon.inference.diagnostics.conditional_counts import ConditionalCounts
from harpoon.inference.diagnostics.probability_intervals import (
    mean_interval,
    mean_under_condition,
    probability_interval,
    share_interval,
    share_under_condition,
)
from harpoon.inference.diagnostics.support import Support

shares = st.floats(0, 1)
counts = st.integers(1, 10**6)


def make_support(counted, given_rows, *, is_counted=True):
    return Support(given_rows, given_rows, counted, None, float(given_rows), counted, is_counted)


@pytest.mark.parametrize(("hits", "rows"), [(1, 100), (37, 100), (99, 100), (500, 10_000)])
def test_the_interval_of_a_count_is_that_of_jeffreys_posterior(hits, rows):
    posterior = beta(hits + 0.5, rows - hits + 0.5)
    assert share_interval(hits / rows, math.inf, rows) == pytest.approx((posterior.ppf(0.025), posterior.ppf(0.975)))


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.97])
def test_jeffreys_interval_covers_about_95_per_cent_of_all_samples(p):
    """Exactly, over all outcomes of the binomial distribution."""
    hits = np.arange(301)
    ends = np.array([share_interval(k / 300, math.inf, 300) for k in hits])
    coverage = binom.pmf(hits, 300, p)[(ends[:, 0] <= p) & (p <= ends[:, 1])].sum()
    assert 0.92 <= coverage <= 0.98


@given(shares, counts, counts)
def test_more_rows_narrow_an_interval_and_it_contains_the_share(share, sampled, training):
    low, high = share_interval(share, sampled, training)
    assert 0 <= low <= share <= high <= 1
    narrow = share_interval(share, sampled, 10 * training)
    assert narrow[1] - narrow[0] <= high - low + 1e-12


@given(shares, counts, st.integers(1, 10**5), st.data())
def test_the_interval_of_a_probability_contains_that_of_the_training_count(share, sampled, rows, data):
    counted = data.draw(st.integers(0, rows))
    low, high = probability_interval(share, sampled, make_support(counted, rows))
    own = share_interval(counted / rows, math.inf, rows)
    assert low <= min(own[0], share)
    assert high >= max(own[1], share)


@given(st.integers(1, 10**5), st.integers(1, 10**5), st.floats(0.01, 1e4), st.booleans(), st.data())
def test_an_end_never_equals_an_estimate_between_0_and_1(hits, misses, weight, is_counted, data):
    """Also where the model is far from the counts, and where rows have weights."""
    share, sampled = hits / (hits + misses), (hits + misses) * weight
    rows = data.draw(st.integers(1, 10**5))
    counted, percent = data.draw(st.integers(0, rows)), data.draw(st.integers(0, 100))
    training = ConditionalCounts(np.array([0.0, 1.0]), np.array([percent, 100 - percent], dtype=float))
    for low, high in (
        share_interval(share, sampled, rows),
        probability_interval(share, sampled, make_support(counted, rows, is_counted=is_counted)),
        share_under_condition(share, sampled, training, 0.0),
    ):
        assert 0 <= low < share < high <= 1


@pytest.mark.parametrize("rows", [10, 300, 10_000])
def test_no_hit_leaves_the_bound_that_five_per_cent_of_samples_would_miss(rows):
    """The exact one-sided bound solves (1 - p)^n = 0.05; it is about 3 / n (the rule of three)."""
    low, high = share_interval(0.0, math.inf, rows)
    assert low == 0
    assert binom.pmf(0, rows, high) == pytest.approx(0.05)
    assert 1 - np.array(share_interval(1.0, math.inf, rows)) == pytest.approx([high, 0])


def test_more_sampled_rows_do_not_hide_the_error_of_the_training_sample():
    low, high = probability_interval(0.2, 1e9, make_support(69, 344))
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.2 * 0.8 / 344), rel=0.05)


def test_a_product_of_counts_is_no_count():
    """The interval then contains the posterior around the estimate of the model, too."""
    counted, product = (probability_interval(0.3, 1e9, make_support(60, 300, is_counted=one)) for one in (True, False))
    assert 0.3 < counted[1] < 0.31  # an end at the estimate would look certain
    assert product[1] == pytest.approx(share_interval(0.3, 1e9, 300)[1])


def test_without_training_rows_everything_is_possible():
    low, high = share_under_condition(0.5, 100, ConditionalCounts.from_cells(np.zeros(0)), 0)
    assert low == 0
    assert high > 0.99
    assert mean_under_condition(1.0, 0.1, ConditionalCounts.from_cells(np.zeros(1))) is None


def test_the_interval_of_a_mean_is_that_of_student():
    values = np.random.default_rng(0).normal(size=40)
    scipy_ends = t.interval(0.95, 39, values.mean(), values.std(ddof=1) / np.sqrt(40))
    assert mean_interval(values.mean(), values.std(), 40) == pytest.approx(scipy_ends)
    low, high = mean_under_condition(5.0, 0.02, ConditionalCounts.from_cells(values))
    assert low == pytest.approx(scipy_ends[0])
    assert high == pytest.approx(5.005)  # the model differs from the training rows, and the interval shows it


@pytest.fixture(scope="module")
def counted():
    rng = np.random.default_rng(1)
    x = rng.normal(size=2000)
    kind = np.where(rng.random(2000) < 1 / (1 + np.exp(-x)), "high", "low")
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=2000), "kind": kind})
    schema = Schema.infer(table)
    rows = read_columns(dataframe.read(table), schema)
    tables = ContingencyTables.fit(schema, count_columns(dataframe.read(table)), 2000, rows, rows).suppress()
    return table, schema, tables


def test_counts_of_the_model_file_tell_the_distribution_under_bounds_on_one_column(counted):
    table, schema, tables = counted
    met = table[table["x"] > 1]
    predicate = bind(to_predicate("x > 1"), schema)
    kind = ConditionalCounts.from_tables(tables, predicate, "kind")
    code = schema["kind"].categories.index("high")
    assert kind.total == pytest.approx(len(met), rel=0.05)
    assert kind.share(code) == pytest.approx((met["kind"] == "high").mean(), abs=0.03)
    for name in ("x", "y"):
        mean, deviation = ConditionalCounts.from_tables(tables, predicate, name).moments()
        assert mean == pytest.approx(met[name].mean(), abs=0.1)
        assert deviation == pytest.approx(met[name].std(), rel=0.15)
    both = bind(to_predicate("x > 1 and kind = 'high'"), schema)
    assert ConditionalCounts.from_tables(tables, both, "y") is None


def test_suppressed_counts_add_their_error_to_the_interval_of_a_mean():
    """Of small tables: most cells of a pair of columns are suppressed, and the interval still covers the truth."""
    covered = {"with": 0, "without": 0}
    repeats, rows = 120, 300
    for seed in range(repeats):
        rng = np.random.default_rng((5, seed))
        x = rng.normal(size=rows)
        table = dataframe.read(pd.DataFrame({"x": x, "y": x + rng.normal(size=rows)}))
        schema = Schema.infer(table)
        cells = read_columns(table, schema)
        tables = ContingencyTables.fit(schema, count_columns(table), rows, cells, cells).suppress()
        found = ConditionalCounts.from_tables(tables, bind(to_predicate("x > 0"), schema), "y")
        for name, error in (("with", found.counting_error()), ("without", 0.0)):
            low, high = mean_interval(*found.moments(), found.total, error)
            covered[name] += low <= math.sqrt(2 / math.pi) <= high
    assert covered["without"] < covered["with"]
    assert 0.9 <= covered["with"] / repeats <= 1.0
