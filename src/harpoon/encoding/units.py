"""Units of standardised values."""

from __future__ import annotations

from typing import NamedTuple

DIMENSIONLESS = "number"  # the kind of values without a unit


class AffineUnit(NamedTuple):
    """The map from a standardised value z to the table's units: scale * (z - zero)."""

    kind: str  # values of the same kind can be compared
    scale: float  # the standard deviation of the column
    zero: float  # the standardised value of 0
    step: float  # the resolution of the column; 0: none
    additive: bool  # whether sums and differences of values are of the same kind
    nanoseconds: int = 0  # of one unit of time; 0: the values are not times
