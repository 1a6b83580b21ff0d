"""Every way to fill holes that the tables compare, by name.

A method is imported when it is asked for, because each brings packages of its own.
"""

from __future__ import annotations

from importlib import import_module

from harpoon.bench.methods.base import CannotDraw, Method
from harpoon.errors import InvalidOption

METHODS = {
    "great": "harpoon.bench.methods.isolated_methods:Great",
    "hyperimpute": "harpoon.bench.methods.isolated_methods:HyperImpute",
    "mean": "harpoon.bench.methods.simple:MeanMode",
    "miceforest": "harpoon.bench.methods.isolated_methods:MiceForest",
    "miracle": "harpoon.bench.methods.isolated_methods:Miracle",
}

__all__ = ["METHODS", "CannotDraw", "Method", "method"]


def method(name: str, *, seed: int = 0, budget: float | None = None, **options: object) -> Method:
    """A method that has not been trained yet.

    Args:
        name: One of `METHODS`.
        seed: Of everything random in it.
        budget: Seconds of training at the most; without one, what the method's authors do.
        **options: Settings of the method that differ from its published ones.
    """
    if name not in METHODS:
        raise InvalidOption.one_of("A method", name, METHODS)
    module, _, attribute = METHODS[name].partition(":")
    kind: type[Method] = getattr(import_module(module), attribute)
    return kind(seed=seed, budget=budget, **options)
