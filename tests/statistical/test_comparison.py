"""The tests of nested models keep their level."""

import pytest

from tests.support.null_model import null_p_value


@pytest.mark.parametrize("method", ["D1", "D4"])
def test_a_term_without_effect_is_rejected_as_often_as_the_level_says(method):
    rejected = sum(null_p_value(seed, method) < 0.1 for seed in range(300))
    assert 15 <= rejected <= 47  # binomial(300, 0.1): 30 with a standard deviation of 5
