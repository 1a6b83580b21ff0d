"""Relations as linear functions of standardised values, and what single precision can hold of them."""

import pytest

from harpoon.encoding import AffineUnit
from harpoon.relations.relation import Relation


def unit(mean: float, deviation: float, step: float = 0.0) -> AffineUnit:
    return AffineUnit("number", deviation, -mean / deviation, step, True)


@pytest.mark.parametrize(
    ("source", "is_representable"),
    [(unit(0, 1), True), (unit(1e4, 1), True), (unit(7.3e15, 1e9), False), (unit(1e9, 1), False)],
)
def test_a_copy_of_a_column_far_from_zero_says_nothing_in_single_precision(source, is_representable):
    """Its rounding error is larger than the spread of the target, so that it would hold for any two values."""
    units = {0: unit(0, 1), 1: source}
    copy = Relation.linear(units, 0, (1,), (1.0,))
    assert copy.is_representable(units[0]) == is_representable
