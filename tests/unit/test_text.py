"""Numbers as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon._text import format_percent, format_rounded


@given(st.floats(0, 1, exclude_max=True), st.integers(2, 5))
def test_less_than_everything_is_never_100_percent(fraction, digits):
    assert float(format_percent(fraction, digits).removesuffix(" %")) < 100


def test_everything_is_100_percent():
    assert format_percent(1.0) == format_percent(1.0, digits=2).replace("1e+02", "100") == "100 %"


@given(st.floats(-1e9, 1e9), st.integers(3, 6))
def test_numbers_are_rounded_and_never_in_exponents_of_ten_above_one(value, digits):
    text = format_rounded(value, digits)
    assert float(text.replace(",", "")) == pytest.approx(
        value, rel=10.0**-digits * 6, abs=0.51 if abs(value) > 1 else 0
    )
    assert "e+0" not in text or abs(value) >= 1e9
