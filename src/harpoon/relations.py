"""The relations between numbers that a model has found, in words."""

from __future__ import annotations

import math

from torch import Tensor

from harpoon.codec import Codec
from harpoon.forms import Forms

ONE = 1e-4  # a factor as close to one as that is one


def described(forms: Forms, columns: list[int], codec: Codec) -> list[str]:
    """One line for each form, as the user would write it.

    Args:
        forms: What numbers say of others.
        columns: Which column each number is of.
        codec: Of the table.
    """
    names = [codec.columns[column].column.name for column in columns]
    deviations = [unit.deviation if (unit := codec.unit(column)) else 1.0 for column in columns]
    told = []
    for form in (forms.weights != 0).any(dim=1).nonzero()[:, 0].tolist():
        target, (signs, powers) = form // forms.each, forms.weights[form].view(2, forms.numbers)
        factor = float(forms.offsets[form]) + math.log(deviations[target])
        said = _sum(signs, names) if signs.any() else _product(powers, names, deviations, factor)
        told.append(f"{names[target]} = {said}")
    return told


def _sum(signs: Tensor, names: list[str]) -> str:
    """Numbers added or taken away, those that are added first."""
    places = sorted(signs.nonzero()[:, 0].tolist(), key=lambda place: -float(signs[place].sign()))
    said = "".join(f" {'+' if signs[place] > 0 else '-'} {names[place]}" for place in places)
    return said.removeprefix(" + ")


def _product(powers: Tensor, names: list[str], deviations: list[float], factor: float) -> str:
    """Powers of numbers, and a factor if it is not one; that is given as a logarithm, of numbers in deviations."""
    places = powers.nonzero()[:, 0].tolist()
    factor -= sum(float(powers[place]) * math.log(deviations[place]) for place in places)
    parts = [names[p] if powers[p] == 1 else f"{names[p]}^{float(powers[p]):g}" for p in places]
    return " * ".join(parts if abs(factor) < ONE else [f"{math.exp(factor):.6g}", *parts])
