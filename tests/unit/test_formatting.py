"""Numbers, lists and names as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon._formatting import closest_matches, format_list, format_percent, format_rounded, shorten


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


def test_closest_matches_ignore_case_and_are_ordered():
    assert closest_matches("AGEE", ["job", "wage", "Age"]) == ["Age", "wage"]
    assert closest_matches("x", ["job", "age"]) == []
    assert closest_matches("3", map(str, [30, 3])) == ["3", "30"]


def test_a_list_shows_a_few_names_and_counts_the_others():
    assert format_list(["a", 1, None]) == "'a', 1, None"
    assert format_list(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert format_list(range(7), shown=7) == "0, 1, 2, 3, 4, 5, 6"
    assert format_list([]) == "none"


def test_a_long_text_is_cut():
    assert shorten("a" * 60) == "a" * 60
    assert shorten("a" * 61) == "a" * 60 + "…"
