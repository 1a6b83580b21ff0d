"""Units of standardised values."""

from __future__ import annotations

from typing import NamedTuple

DIMENSIONLESS = "number"  # the kind of values without a unit


class AffineUnit(NamedTuple):
    """The map from a standardised value z to the table's units: scale * (z - zero).

    Attributes:
        kind: Values of the same kind can be compared.
        scale: The standard deviation of the column.
        zero: The standardised value of 0.
        step: The resolution of the column; 0: none.
        additive: Whether sums and differences of values are of the same kind.
    """

    kind: str
    scale: float
    zero: float
    step: float
    additive: bool
