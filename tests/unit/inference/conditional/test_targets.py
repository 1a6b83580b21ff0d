"""Targets: tilted pools against closed forms, and the language of targets."""

import numpy as np
import pytest
from scipy import stats

from harpoon import InfeasibleCondition, InvalidCondition, InvalidOption
from harpoon.data import Column, ColumnArray, Kind, Schema, n_rows
from harpoon.inference.conditional.aggregates import AGGREGATES, parse_targets
from harpoon.inference.conditional.targets import MAX_POOL, MIN_POOL, POOL_FACTOR, Pool, sample_targets, tilt
from harpoon.inference.diagnostics.sampling_info import SamplingInfo

SCHEMA = Schema(
    (
        Column("x", Kind.NUMBER),
        Column("y", Kind.NUMBER),
        Column("k", Kind.INTEGER),
        Column("c", Kind.CATEGORY, categories=("a", "b")),
        Column("day", Kind.DATE),
    )
)
N = 2000
MIN_P = 1e-3  # of a test of the right distribution


def cells(storage, values, missing=None, categories=()):
    missing = np.zeros(len(values), dtype=np.bool_) if missing is None else missing
    return ColumnArray(storage, np.where(missing, 0, values), missing, categories)


def sample(count, start, least=0):
    """Rows of a known distribution: c is b with probability 0.3; x is N(1, 1) for b and N(-1, 1) for a."""
    rng = np.random.default_rng([7, start])
    c = (rng.random(count) < 0.3).astype(np.int64)
    rows = {
        "x": cells("float", rng.normal(2 * c - 1, 1)),
        "y": cells("float", rng.normal(0, 1, count)),
        "k": cells("integer", rng.poisson(3, count), rng.random(count) < 0.2),
        "c": cells("category", c, None, ("a", "b")),
        "day": cells("date", rng.integers(0, 100, count)),
    }
    return rows, SamplingInfo("unconditional", count, count, None, 0.0, 1, count, 0.0)


def choose(targets, n=N, **options):
    options = {"seed": 0, "return_closest": False, **options}
    return sample_targets(sample, parse_targets(targets, SCHEMA), n, **options)


def test_a_tilted_gaussian_is_shifted_and_keeps_its_variance():
    rows, info = choose({"mean(y)": 0.5})
    assert stats.kstest(rows["y"].values, stats.norm(0.5, 1).cdf).pvalue > MIN_P
    assert rows["y"].values.std() == pytest.approx(1, abs=0.06)
    # The effective size of the tilt by exp(y / 2) is exp(-1 / 4) of the rows.
    pool = Pool(sample(100_000, 0)[0], parse_targets({"mean(y)": 0.5}, SCHEMA), N)
    assert tilt(pool).effective_size == pytest.approx(100_000 * np.exp(-0.25), rel=0.02)
    assert info.effective_size == N
    assert len(np.unique(rows["y"].values)) == N


def test_a_tilted_share_keeps_the_distribution_of_the_rest():
    rows, info = choose({"share(c = 'b')": 0.7})
    assert info.targets == {"share(c = 'b')": 0.7}
    x, c = rows["x"].values, rows["c"].values
    assert stats.kstest(x, lambda v: 0.7 * stats.norm.cdf(v, 1) + 0.3 * stats.norm.cdf(v, -1)).pvalue > MIN_P
    assert stats.kstest(x[c == 0], stats.norm(-1, 1).cdf).pvalue > MIN_P
    assert stats.kstest(rows["y"].values, stats.norm.cdf).pvalue > MIN_P


def test_a_tilted_variance_is_that_of_a_wider_gaussian():
    rows, _ = choose({"std(y)": 1.2})
    assert stats.kstest(rows["y"].values, stats.norm(0, 1.2).cdf).pvalue > MIN_P


def test_a_tilted_correlation_is_that_of_a_bivariate_gaussian():
    rows, _ = choose({"corr(y, x - y)": -0.3, "corr(x, y)": (0.4, 0.02)})
    assert np.corrcoef(rows["x"].values, rows["y"].values)[0, 1] == pytest.approx(0.4, abs=0.02)
    assert (
        stats.kstest(rows["y"].values, stats.norm(rows["y"].values.mean(), rows["y"].values.std()).cdf).pvalue > MIN_P
    )


def test_a_conditional_mean_is_a_case():
    rows, _ = choose({"mean(case when k > 3 then y end)": (0.4, 0.001)})
    selected = (rows["k"].values > 3) & ~rows["k"].missing
    assert rows["y"].values[selected].mean() == pytest.approx(0.4, abs=0.0011)
    assert stats.kstest(rows["y"].values[~selected], stats.norm.cdf).pvalue > MIN_P


@pytest.mark.parametrize("n", [1, 7, 101])
def test_few_rows_meet_what_they_can_express(n):
    rows, _ = choose({"share(c = 'b')": 0.5, "mean(day - DATE '1970-01-01')": (50, 30)}, n)
    assert abs(rows["c"].values.mean() - 0.5) <= 0.5 / n + 1e-9


def test_missing_cells_are_ignored():
    rows, info = choose({"mean(k)": 4.0})
    assert rows["k"].observed.mean() == pytest.approx(info.targets["mean(k)"])
    assert rows["k"].observed.mean() == pytest.approx(4.0, abs=0.01 * np.sqrt(3) * 1.05)
    assert rows["k"].missing.mean() == pytest.approx(0.2, abs=0.05)  # as in the pool


def test_the_pool_grows_while_its_rows_are_worth_too_few():
    assert choose({"mean(y)": 0.1}, 10)[1].sampled == MIN_POOL
    assert choose({"mean(y)": 0.1}, 1000)[1].sampled == POOL_FACTOR * 1000
    info = choose({"mean(y)": 2.7}, 200)[1]
    assert MIN_POOL < info.sampled <= MAX_POOL
    assert info.effective_size > 100


def test_the_seed_decides_which_rows_are_chosen():
    first, second, other = (choose({"mean(y)": 0.3}, 50, seed=seed)[0]["y"].values for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"mean(x)": 100}, r"mean\(x\) = 100 cannot be met: in .* sampled rows it can be from -\d"),
        ({"std(y)": 50}, r"it can be from 0 to \d"),
        ({"mean(y)": 0, "mean(y + 0)": 1}, "cannot be met together: .* come no nearer than"),
        ({"mean(ln(-1 - k))": 1}, "is missing in all"),
        ({"corr(x, 0 * y)": 0.1}, "needs values that differ"),
        ({"mean(y)": (0.1, 0)}, r"the nearest have mean\(y\) = 0.\d* \(target 0.1, tolerance 0\)"),
    ],
)
def test_targets_out_of_reach_say_how_far_the_pool_goes(targets, message):
    with pytest.raises(InfeasibleCondition, match=message):
        choose(targets, 100)


def test_a_standard_deviation_needs_two_rows():
    with pytest.raises(InfeasibleCondition, match="not defined for 1 row"):
        choose({"std(y)": 1}, 1)


def test_rows_are_repeated_only_where_the_pool_has_too_few_like_them():
    rows, info = choose({"mean(y)": 3.6}, 100)
    assert rows["y"].values.mean() == pytest.approx(3.6, abs=0.011)
    assert info.effective_size < 50
    assert len(np.unique(rows["y"].values)) >= info.effective_size


def test_the_closest_rows_are_returned_on_request():
    rows, info = choose({"mean(y)": (0.1, 0)}, 100, return_closest=True)
    assert n_rows(rows) == 100
    assert info.targets["mean(y)"] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        ({"median(x)": 1}, InvalidCondition, "median"),
        ({"x": 1}, InvalidCondition, "cannot be read"),
        ({"mean(x) + mean(y)": 1}, InvalidCondition, "In the target"),
        ({"mean(z)": 1}, InvalidCondition, "no column 'z'"),
        ({"mean(c)": 1}, InvalidCondition, "category"),
        ({"mean(day)": 1}, InvalidCondition, "year"),
        ({"corr(x)": 0}, InvalidCondition, "2 values"),
        ({"mean(x, y)": 0}, InvalidCondition, "1 value,"),
        ({"share(x)": 0.5}, InvalidCondition, "share"),
        ({"mean(case when x > 0 then null end)": 0.5}, InvalidCondition, "no value"),
        ({"share(x > 0)": 1.5}, InvalidOption, "from 0 to 1"),
        ({"corr(x, y)": -2}, InvalidOption, "from -1 to 1"),
        ({"mean(x)": "much"}, InvalidOption, "needs a number"),
        ({"mean(x)": True}, InvalidOption, "needs a number"),
        ({"mean(x)": (1, -1)}, InvalidOption, "at least 0"),
        ({"mean(x)": float("nan")}, InvalidOption, "needs a number"),
        ({}, InvalidOption, "mapping"),
        (["mean(x)"], InvalidOption, "mapping"),
    ],
)
def test_invalid_targets_are_named(targets, error, message):
    with pytest.raises(error, match=message):
        parse_targets(targets, SCHEMA)


def test_an_unknown_function_names_the_known_ones():
    with pytest.raises(InvalidCondition) as caught:
        parse_targets({"sum(x)": 1}, SCHEMA)
    assert all(name in str(caught.value) for name in AGGREGATES)
