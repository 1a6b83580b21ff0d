"""The relations between numbers that a model has found, in words."""

from __future__ import annotations

import json

from harpoon.codec import Codec
from harpoon.forms import Forms
from harpoon.units import Recipe


def described(forms: Forms, codec: Codec) -> list[str]:
    """One line for each form, as the user would write it, with the share of the rows in which it holds."""
    names = [_quoted(number.column.name) for number in codec.ranked]
    return [
        f"{names[form // forms.each]} = {_written(recipe, names)} ({_share(float(forms.shares[form]))})"
        for form, recipe in forms.recipes(codec.units).items()
    ]


def _written(recipe: Recipe, names: list[str]) -> str:
    parts = [(names[source], weight) for source, weight in zip(recipe.sources, recipe.weights, strict=True)]
    if recipe.factor is None:
        parts.sort(key=lambda part: -part[1])  # those that are added come first
        return "".join(f" {'+' if sign > 0 else '-'} {name}" for name, sign in parts).removeprefix(" + ")
    powers = [name if power == 1 else f"{name}^{power:g}" for name, power in parts]
    return " * ".join(powers if recipe.factor == 1 else [f"{recipe.factor:.6g}", *powers])


def _quoted(name: str) -> str:
    """A name as it is, or in quotes where it could be taken for something else."""
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _share(share: float) -> str:
    """In per cent; what is not always so is never called that."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.3g} %"
