"""Whether numbers within bounds can satisfy a linear comparison beside a product that always holds.

A linear term in which the target of a product is replaced by the product is linear in each of its columns. So it is
smallest in a corner of the box that the bounds of the columns span.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions.logic.invariants import ProductInvariant
from harpoon.conditions.logic.linear_program import Bounds, Inequality, LinearTerm

MAX_COLUMNS = 8  # of which all corners are tried
ROUNDING = 1e-9  # of a term, relative to its largest part


def excludes(invariant: ProductInvariant, constraints: Iterable[Inequality], bounds: Mapping[str, Bounds]) -> bool:
    """Return whether a product leaves no numbers within bounds to one of some inequalities, or to its target.

    >>> amount = ProductInvariant("amount", ("price", "n"), 1.0, 0.0, "")
    >>> bounds = {"amount": (1.0, 500.0), "price": (1.0, 100.0), "n": (1.0, 5.0)}
    >>> is_less = Inequality(LinearTerm({"amount": 1.0, "price": -1.0}, 0.0), is_strict=True)
    >>> excludes(invariant=amount, constraints=[is_less], bounds=bounds)
    True
    >>> excludes(amount, [], bounds | {"amount": (600.0, 700.0)}), excludes(amount, [], bounds)
    (True, False)
    """
    return any(_is_never_met(one, invariant, bounds) for one in (*constraints, *_within(invariant, bounds)))


def _within(invariant: ProductInvariant, bounds: Mapping[str, Bounds]) -> Iterator[Inequality]:
    """Yield the bounds of the target as inequalities."""
    low, high = bounds[invariant.target]
    if math.isfinite(low):
        yield Inequality(LinearTerm({invariant.target: -1.0}, low))
    if math.isfinite(high):
        yield Inequality(LinearTerm({invariant.target: 1.0}, -high))


def _is_never_met(constraint: Inequality, invariant: ProductInvariant, bounds: Mapping[str, Bounds]) -> bool:
    """Return whether a term that must be at most 0 is above it in every corner of the box."""
    term, is_strict = constraint
    of_target = term.coefficients.get(invariant.target, 0.0)
    names = sorted((set(term.coefficients) | set(invariant.sources)) - {invariant.target})
    ends = [bounds.get(name, (-math.inf, math.inf)) for name in names]
    if not of_target or len(names) > MAX_COLUMNS or not np.isfinite(ends).all():
        return False
    corners = dict(zip(names, np.array(list(product(*ends))).T, strict=True))
    parts = [term.coefficients.get(name, 0.0) * corners[name] for name in names]
    parts += [of_target * invariant.evaluate(corners), np.full(2 ** len(names), term.constant)]
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    error = ROUNDING * float(np.abs(parts).max(initial=1.0))
    smallest = float(total.min()) - abs(of_target) * invariant.tolerance
    return smallest > error or (is_strict and smallest >= -error and not invariant.tolerance)
