"""The units of numbers, and how numbers are made of others in them."""

from __future__ import annotations

from typing import NamedTuple

DIMENSIONLESS = "number"  # the unit of numbers that have none


class AffineUnit(NamedTuple):
    """How encoded means become numbers of a kind: deviation * (mean - zero).

    Attributes:
        kind: Numbers of one kind can be compared.
        deviation: Of one mean from the next.
        zero: The mean of nothing.
        step: Of the grid that numbers lie on; 0: none.
        additive: Whether sums and differences are of this kind, too.
    """

    kind: str
    scale: float
    zero: float
    step: float
    additive: bool
