"""Numbers as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon._text import format_percent, format_rounded


@given(st.floats(0, 1, exclude_max=True), st.integers(2, 5))
def test_less_than_everything_is_never_100_percent(fraction, digits):
    assert float(format_percent(fraction, digits).removesuffix(" %")) < 100


def test_everything_is_100_percent():
    assert format_percent(1.0) == format_percent(1.0, digits=2) == "100 %"


@given(st.floats(-9e8, 9e8), st.integers(3, 6))
def test_numbers_are_rounded_and_have_no_exponent_if_large(value, digits):
    text = format_rounded(value, digits)
    rounding = 0.51 if abs(value) > 1 else 0
    assert float(text.replace(",", "")) == pytest.approx(value, rel=6 * 10.0**-digits, abs=rounding)
    assert "e+" not in text
