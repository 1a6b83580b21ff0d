"""Intervals hold what they say, whatever the law of the draws: judged by one more draw of the same law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, Kind
from harpoon.inference.intervals import attainable_coverage, interval

NUMBER = Column("x", Kind.NUMBER, step=None, clip=False)
WHOLE = Column("n", Kind.INTEGER, step=1, clip=False)
CELLS = 20_000


def normal(rng, shape):
    return rng.normal(size=shape)


def masses(share):
    """Numbers of which a share is zero and none is less."""
    return lambda rng, shape: np.where(rng.random(shape) < share, 0.0, rng.exponential(size=shape))


def capped(rng, shape):
    """Numbers of which three in ten are the largest."""
    return np.minimum(rng.normal(size=shape), 0.524)


def copied(rng, shape):
    """Numbers of which half are one value in their midst."""
    return np.where(rng.random(shape) < 0.5, 0.0, rng.normal(size=shape))


def counts(mean):
    return lambda rng, shape: rng.poisson(mean, shape)


LAWS = {
    "normal": (NUMBER, normal),
    "half are zero": (NUMBER, masses(0.5)),
    "a fifth is zero": (NUMBER, masses(0.2)),
    "nine in ten are zero": (NUMBER, masses(0.9)),
    "many are the largest": (NUMBER, capped),
    "half are one value": (NUMBER, copied),
    "few whole numbers": (WHOLE, counts(1)),
    "some whole numbers": (WHOLE, counts(5)),
    "many whole numbers": (WHOLE, counts(300)),
}


def ends(law, draws, level, seed=0):
    """A truth, and the interval of draws from the same law."""
    column, drawn = LAWS[law]
    rng = np.random.default_rng(seed)
    truth, *others = drawn(rng, (draws + 1, CELLS))
    return truth, *interval(np.array(others), level, column)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("draws", "level"), [(20, 0.9), (40, 0.95), (100, 0.9)])
def test_an_interval_holds_what_it_says(law, draws, level):
    truth, low, high = ends(law, draws, level)
    assert level - 0.015 < np.mean((low <= truth) & (truth <= high)) < level + 0.045


@pytest.mark.parametrize("law", ["half are zero", "a fifth is zero", "many are the largest"])
def test_what_the_tail_beyond_a_mass_may_not_have_the_other_takes(law):
    """Equal tails would leave the tail beyond the mass empty, and hold 95 % and not 90."""
    truth, low, high = ends(law, 100, 0.9)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.9, abs=0.01)


cells = st.lists(st.integers(-4, 4), min_size=1, max_size=40)


@given(cells, st.sampled_from([0.5, 0.8, 0.9, 0.95]), st.booleans())
@settings(deadline=None)
def test_an_interval_lies_among_the_draws_and_holds_their_middle(drawn, level, whole):
    values = np.array(drawn)[:, None] * (1 if whole else 0.5)
    low, high = (end[0] for end in interval(values, level, WHOLE if whole else NUMBER))
    ordered = np.sort(values[:, 0])
    assert ordered[0] <= low <= ordered[(len(drawn) - 1) // 2]
    assert ordered[len(drawn) // 2] <= high <= ordered[-1]
    assert low.dtype == high.dtype == (np.int64 if whole else np.float64)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True))
@settings(deadline=None)
def test_where_no_draws_agree_tails_are_equal_and_a_surer_interval_holds_the_less_sure_one(drawn):
    values, narrower = np.array(drawn)[:, None], (np.inf, -np.inf)
    for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95):
        low, high = (end[0] for end in interval(values, level, NUMBER))
        outside = (1 - level) / 2
        assert (low, high) == pytest.approx(
            (
                min(np.quantile(values, outside, method="weibull"), np.sort(drawn)[(len(drawn) - 1) // 2]),
                max(np.quantile(values, 1 - outside, method="weibull"), np.sort(drawn)[len(drawn) // 2]),
            ),
            abs=1e-6,
        )
        assert low <= narrower[0]
        assert high >= narrower[1]
        narrower = low, high


MASSES = {
    "nearly half are zero": (masses(0.45), 0.5),
    "some are zero": (masses(0.18), 0.8),
    "few are zero": (masses(0.09), 0.9),
    "few are at each end": (lambda rng, shape: (1.2 * rng.random(shape) - 0.1).clip(0, 1), 0.9),
}


@pytest.mark.parametrize("law", MASSES)
def test_a_mass_that_an_end_leaves_out_is_made_up_for(law):
    drawn, level = MASSES[law]
    truth, *others = drawn(np.random.default_rng(0), (101, CELLS))
    low, high = interval(np.array(others), level, NUMBER)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(level, abs=0.025)


def test_large_whole_numbers_that_agree_keep_every_digit_and_far_ones_do_not_overflow():
    number = 2**62 + 1
    low, high = interval(np.full((20, 1), number), 0.9, WHOLE)
    assert low.tolist() == high.tolist() == [number]
    low, high = interval(np.array([[-1.7e308], [1.7e308]] * 10), 0.9, NUMBER)
    assert (low.tolist(), high.tolist()) == ([-1.7e308], [1.7e308])


def test_as_many_draws_as_a_level_takes_are_enough():
    low, high = interval(np.arange(39.0)[:, None], 0.95, NUMBER)
    assert (low.tolist(), high.tolist()) == ([0.0], [38.0])


def test_draws_that_agree_are_their_own_interval_and_too_few_draws_give_all_that_there_is():
    low, high = interval(np.full((20, 3), 7), 0.9, WHOLE)
    assert low.tolist() == high.tolist() == [7, 7, 7]
    low, high = interval(np.array([[1.5], [0.5]]), 0.9, NUMBER)
    assert (low.tolist(), high.tolist()) == ([0.5], [1.5])


def test_attainable_is_what_truths_of_the_law_of_the_draws_reach():
    rng = np.random.default_rng(0)
    drawn = masses(0.5)(rng, (21, CELLS))
    truth, low, high = ends("half are zero", 20, 0.9, seed=1)
    reached = np.mean((low <= truth) & (truth <= high))
    assert attainable_coverage(drawn, 0.9, NUMBER) == pytest.approx(reached, abs=0.01)
    assert attainable_coverage(np.full((20, 5), 3.0), 0.9, NUMBER) == 1.0
