"""The units of numbers, and how numbers are made of others in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PLAIN = "number"  # the unit of numbers that have none


class Unit(NamedTuple):
    """How encoded means become numbers of a kind: deviation * (mean - zero).

    Attributes:
        kind: Numbers of one kind can be compared.
        deviation: Of one mean from the next.
        zero: The mean of nothing.
        step: Of the grid that numbers lie on; 0: none.
        additive: Whether sums and differences are of this kind, too.
    """

    kind: str
    deviation: float
    zero: float
    step: float
    additive: bool


class Recipe(NamedTuple):
    """A form in the units of the table: a sum with the signs of its sources, or a product with powers and a factor."""

    sources: tuple[int, ...]
    weights: tuple[float, ...]
    factor: float | None

    def made(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """What it makes of the values of its sources."""
        if self.factor is None:
            return sum((sign * value for sign, value in self._with(values, int)), start=np.zeros((), dtype=np.int64))
        with np.errstate(all="ignore"):  # a source may have been rounded to nothing: whoever asked looks for numbers
            parts = [np.power(value.astype(np.float64), power) for power, value in self._with(values, float)]
            product: NDArray[Any] = self.factor * np.prod(parts, axis=0)
            return product

    def _with(self, values: Sequence[NDArray[Any]], kind: type) -> Iterator[tuple[Any, NDArray[Any]]]:
        return ((kind(weight), values[source]) for source, weight in zip(self.sources, self.weights, strict=True))
