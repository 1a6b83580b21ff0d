"""The invariants that every row of a model keeps: labels that occur together, sums, and products."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from harpoon.conditions.logic.invariants import Invariants, LabelAxis, LabelInvariant, ProductInvariant, SumInvariant
from harpoon.encoding import RowCodec
from harpoon.inference.sampling.fitted_relations import FittedRelations
from harpoon.relations import Exclusions, Formula, describe_dependency
from harpoon.relations.formula import HALF_STEP


def find_invariants(relations: FittedRelations) -> Invariants:
    """Return the invariants of a model; none if its network does not keep any."""
    exclusions, codec = relations.exclusions, relations.codec
    pairs = () if exclusions is None else tuple(_label_invariants(exclusions))
    sums = tuple(_sum_invariant(codec, one) for one in relations.exact_sums())
    return Invariants(pairs, sums, tuple(_product_invariant(codec, one) for one in relations.exact_products()))


def _label_invariants(exclusions: Exclusions) -> list[LabelInvariant]:
    """Return an invariant for each two columns with a dependency, or with labels that imply or exclude each other."""
    determined, implied, excluded = (
        pairs.cpu().numpy() for pairs in (exclusions.determined, exclusions.implied, exclusions.excluded)
    )
    invariants = []
    for name, pairs in (("determined", determined), ("implied", implied), ("excluded", excluded)):
        is_dependency = name != "excluded"
        for a, b in np.unique(pairs[:, [0, 2]], axis=0).tolist():
            left, right = exclusions.variables[a], exclusions.variables[b]
            labels = pairs[(pairs[:, 0] == a) & (pairs[:, 2] == b)]
            possible = np.ones((len(left.features), len(right.features)), dtype=np.bool_)
            if is_dependency:
                possible[labels[:, 1]] = False
            possible[labels[:, 1], labels[:, 3]] = is_dependency
            text = describe_dependency(left.name, right.name).partition(" (")[0]
            for one, other in product(left.values.items(), right.values.items()):
                words = (
                    text
                    if name == "determined"
                    else f"no training row has these values of {one[0]} and {other[0]} together, though chance would"
                )
                invariants.append(LabelInvariant(LabelAxis(*one), LabelAxis(*other), possible, words))
    return invariants


def _sum_invariant(codec: RowCodec, formula: Formula) -> SumInvariant:
    """Return a sum in the units of the table. It is exact unless it has to be rounded to the resolution of its target.

    A number whose resolution is not known is computed from the others, so that it is exact, too.
    """
    units, target = codec.units, formula.target
    names, step = codec.quantity_names, units[target].step
    terms = [*zip(formula.weights, (units[source].step for source in formula.sources), strict=True)]
    parts = [formula.constant, *(weight * of_source for weight, of_source in terms)]
    is_exact = not step or (all(of_source for _, of_source in terms) and _are_multiples(parts, step))
    sources = dict(zip((names[source] for source in formula.sources), formula.weights, strict=True))
    is_hidden = not codec.hidden_quantities.isdisjoint(formula.columns)  # the range says it all
    text = "" if is_hidden else f"{names[target]} = {formula.describe(names)} in every training row"
    return SumInvariant(names[target], sources, formula.constant, 0.0 if is_exact else HALF_STEP * step, text)


def _product_invariant(codec: RowCodec, formula: Formula) -> ProductInvariant:
    """Return a product in the units of the table. It is exact if it is a multiple of the resolution of its target."""
    units, target = codec.units, formula.target
    names, step = codec.quantity_names, units[target].step
    factor = 1.0 if formula.factor is None else formula.factor
    of_sources = [units[source].step for source in formula.sources]
    is_exact = formula.is_exact and all(of_sources) and _are_multiples([math.prod(of_sources)], step)
    text = f"{names[target]} = {formula.describe(names)} in every training row"
    sources = tuple(names[source] for source in formula.sources)
    return ProductInvariant(names[target], sources, factor, 0.0 if is_exact else HALF_STEP * step, text)


def _are_multiples(numbers: list[float], step: float) -> bool:
    """Return whether numbers are multiples of a step, up to rounding."""
    steps = np.array(numbers) / step
    return bool(np.allclose(steps, np.round(steps), rtol=0, atol=1e-9))
