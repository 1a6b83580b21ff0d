"""An interval contains one more draw with its probability, for any distribution of the draws."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, Kind
from harpoon.inference.imputation.prediction_intervals import attainable_coverage, interval, min_draws

NUMBER = Column("x", Kind.NUMBER, step=None, clip=False)
INTEGER = Column("n", Kind.INTEGER, step=1, clip=False)
CELLS = 10_000


def normal(rng, shape):
    return rng.normal(size=shape)


def zero_inflated(fraction):
    """Return a sampler of numbers of which a fraction is zero and none is less."""
    return lambda rng, shape: np.where(rng.random(shape) < fraction, 0.0, rng.exponential(size=shape))


def capped(rng, shape):
    """Numbers, three in ten of which are the maximum."""
    return np.minimum(rng.normal(size=shape), 0.524)


def spiked(rng, shape):
    """Numbers, half of which are the median."""
    return np.where(rng.random(shape) < 0.5, 0.0, rng.normal(size=shape))


def counts(mean):
    return lambda rng, shape: rng.poisson(mean, shape)


DISTRIBUTIONS = {
    "normal": (NUMBER, normal),
    "half are zero": (NUMBER, zero_inflated(0.5)),
    "a fifth is zero": (NUMBER, zero_inflated(0.2)),
    "nine in ten are zero": (NUMBER, zero_inflated(0.9)),
    "many are the maximum": (NUMBER, capped),
    "half are one value": (NUMBER, spiked),
    "few integers": (INTEGER, counts(1)),
    "some integers": (INTEGER, counts(5)),
    "many integers": (INTEGER, counts(300)),
}


@cache
def ends(distribution, draws, level, seed=0):
    """Return a truth, and the ends of the interval of draws from the same distribution."""
    column, sample = DISTRIBUTIONS[distribution]
    rng = np.random.default_rng(seed)
    truth, *others = sample(rng, (draws + 1, CELLS))
    return truth, *interval(np.array(others), level, column)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("draws", "level"), [(20, 0.9), (40, 0.95), (100, 0.9)])
def test_the_coverage_is_the_level(distribution, draws, level):
    truth, low, high = ends(distribution, draws, level)
    assert level - 0.015 < np.mean((low <= truth) & (truth <= high)) < level + 0.045


@pytest.mark.parametrize("distribution", ["half are zero", "a fifth is zero", "many are the maximum"])
def test_one_tail_compensates_for_a_spike_at_the_other_end(distribution):
    """Equal tails would leave the tail beyond the spike empty, and cover 95 % instead of 90."""
    truth, low, high = ends(distribution, 100, 0.9)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.9, abs=0.01)


cells = st.lists(st.integers(-4, 4), min_size=1, max_size=40)


@given(cells, st.sampled_from([0.5, 0.8, 0.9, 0.95]), st.booleans())
@settings(deadline=None)
def test_an_interval_lies_within_the_draws_and_contains_their_median(draws, level, integer):
    values = np.array(draws)[:, None] * (1 if integer else 0.5)
    low, high = (end[0] for end in interval(values, level, INTEGER if integer else NUMBER))
    ordered = np.sort(values[:, 0])
    assert ordered[0] <= low <= ordered[(len(draws) - 1) // 2]
    assert ordered[len(draws) // 2] <= high <= ordered[-1]
    assert low.dtype == high.dtype == (np.int64 if integer else np.float64)


# Integers, because the interval of two floats without any float in between cannot be interpolated.
@given(st.lists(st.integers(-(10**6), 10**6).map(float), min_size=2, max_size=40, unique=True))
@settings(deadline=None)
def test_without_ties_the_tails_are_equal_and_intervals_are_nested(draws):
    values, narrower = np.array(draws)[:, None], (np.inf, -np.inf)
    for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95):
        low, high = (end[0] for end in interval(values, level, NUMBER))
        outside = (1 - level) / 2
        assert (low, high) == pytest.approx(
            (
                min(np.quantile(values, outside, method="weibull"), np.sort(draws)[(len(draws) - 1) // 2]),
                max(np.quantile(values, 1 - outside, method="weibull"), np.sort(draws)[len(draws) // 2]),
            ),
            abs=1e-6,
        )
        assert low <= narrower[0]
        assert high >= narrower[1]
        narrower = low, high


SPIKES = {
    "nearly half are zero": (zero_inflated(0.45), 0.5),
    "some are zero": (zero_inflated(0.18), 0.8),
    "few are zero": (zero_inflated(0.09), 0.9),
    "few are at each end": (lambda rng, shape: (1.2 * rng.random(shape) - 0.1).clip(0, 1), 0.9),
}


@pytest.mark.parametrize("distribution", SPIKES)
def test_a_spike_that_an_end_leaves_out_is_compensated(distribution):
    sample, level = SPIKES[distribution]
    truth, *others = sample(np.random.default_rng(0), (101, CELLS))
    low, high = interval(np.array(others), level, NUMBER)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(level, abs=0.025)


def test_large_integers_keep_every_digit_and_do_not_overflow():
    number = 2**62 + 1
    low, high = interval(np.full((20, 1), number), 0.9, INTEGER)
    assert low.tolist() == high.tolist() == [number]
    low, high = interval(np.array([[-1.7e308], [1.7e308]] * 10), 0.9, NUMBER)
    assert (low.tolist(), high.tolist()) == ([-1.7e308], [1.7e308])


def test_min_draws_are_enough():
    assert min_draws(0.95) == 39
    low, high = interval(np.arange(39.0)[:, None], 0.95, NUMBER)
    assert (low.tolist(), high.tolist()) == ([0.0], [38.0])


def test_equal_draws_are_their_own_interval_and_too_few_draws_give_their_range():
    low, high = interval(np.full((20, 3), 7), 0.9, INTEGER)
    assert low.tolist() == high.tolist() == [7, 7, 7]
    low, high = interval(np.array([[1.5], [0.5]]), 0.9, NUMBER)
    assert (low.tolist(), high.tolist()) == ([0.5], [1.5])


def test_attainable_coverage_is_the_coverage_of_a_perfect_model():
    rng = np.random.default_rng(0)
    draws = zero_inflated(0.5)(rng, (21, CELLS))
    truth, low, high = ends("half are zero", 20, 0.9, seed=1)
    reached = np.mean((low <= truth) & (truth <= high))
    assert attainable_coverage(draws, 0.9, NUMBER) == pytest.approx(reached, abs=0.01)
    assert attainable_coverage(np.full((20, 5), 3.0), 0.9, NUMBER) == 1.0


@pytest.mark.parametrize("draws", [19, 40])
def test_ends_of_few_values_are_among_them(draws):
    """The values 0, 1, 5, 20 and 100 have a resolution of 1, and 12 is none of them."""
    few = Column("x", Kind.INTEGER, step=1, minimum=0, maximum=100, values=(0, 1, 5, 20, 100))
    sampled = np.random.default_rng(0).choice(few.values, (draws, 2000))
    for end in interval(sampled, 0.9, few):
        assert np.isin(end, few.values).all()


@given(
    origin=st.integers(-50, 50),
    spacing=st.integers(1, 12),
    steps=st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=4, max_size=40),
    decimals=st.sampled_from([0, 2]),
)
def test_ends_lie_on_the_grid_of_the_draws(origin, spacing, steps, decimals):
    kind = Kind.NUMBER if decimals else Kind.INTEGER
    column = Column("x", kind, step=10.0**-decimals if decimals else 1, clip=False)
    draws = np.round((origin + spacing * np.array(steps)) * 10.0**-decimals, decimals)
    draws = draws if decimals else draws.astype(np.int64)
    low, high = interval(draws, 0.5, column)
    for end in (low, high):
        number = np.rint(end * 10**decimals).astype(int)
        assert ((number - origin) % spacing == 0).all()
    assert (draws.min(axis=0) <= low).all()
    assert (low <= high).all()
    assert (high <= draws.max(axis=0)).all()
