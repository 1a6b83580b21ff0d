"""Every way to fill holes that the tables compare, by name.

A method is imported when it is asked for, because each brings packages of its own.
"""

from __future__ import annotations

from importlib import import_module

from harpoon.bench.methods.base import CannotDraw, CannotFill, Method
from harpoon.errors import InvalidOption

METHODS = {
    "anchored": "harpoon.bench.methods.own:Anchored",
    "guided": "harpoon.bench.methods.own:Guided",
    "rejection": "harpoon.bench.methods.own:Rejection",
    "paper": "harpoon.bench.methods.own:Paper",
    "mean": "harpoon.bench.methods.simple:MeanMode",
    "iterative": "harpoon.bench.methods.plain:Iterative",
    "knn": "harpoon.bench.methods.plain:Neighbours",
    "real": "harpoon.bench.methods.simple:RealRows",
    "diffputer": "harpoon.bench.methods.diffputer:DiffPuter",
    "gain": "harpoon.bench.methods.gain:Gain",
    "remasker": "harpoon.bench.methods.remasker:ReMasker",
    "repaint": "harpoon.bench.methods.repaint:RePaint",
    "great": "harpoon.bench.methods.isolated_methods:Great",
    "hyperimpute": "harpoon.bench.methods.isolated_methods:HyperImpute",
    "miceforest": "harpoon.bench.methods.isolated_methods:MiceForest",
    "miracle": "harpoon.bench.methods.isolated_methods:Miracle",
}

__all__ = ["METHODS", "CannotDraw", "CannotFill", "Method", "kind_of", "method"]


def method(name: str, *, seed: int = 0, budget: float | None = None, **options: object) -> Method:
    """A method that has not been trained yet.

    Args:
        name: One of `METHODS`.
        seed: Of everything random in it.
        budget: Seconds of training at the most; without one, what the method's authors do.
        **options: Settings of the method that differ from its published ones.
    """
    return kind_of(name)(seed=seed, budget=budget, **options)


def kind_of(name: str) -> type[Method]:
    """The class of a method, imported now."""
    if name not in METHODS:
        raise InvalidOption.one_of("A method", name, METHODS)
    module, _, attribute = METHODS[name].partition(":")
    kind: type[Method] = getattr(import_module(module), attribute)
    return kind
