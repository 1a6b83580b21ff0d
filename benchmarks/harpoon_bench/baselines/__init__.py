"""Every way to fill holes that the tables compare, by name.

A method is imported when it is asked for, because each brings packages of its own.
"""

from __future__ import annotations

from importlib import import_module

from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines.base import CannotDraw, CannotFill, Method

METHODS = {
    "anchored": "harpoon_bench.baselines.own:Anchored",
    "guided": "harpoon_bench.baselines.own:Guided",
    "rejection": "harpoon_bench.baselines.own:Rejection",
    "paper": "harpoon_bench.baselines.own:Paper",
    "mean": "harpoon_bench.baselines.simple:MeanMode",
    "iterative": "harpoon_bench.baselines.plain:Iterative",
    "knn": "harpoon_bench.baselines.plain:Neighbours",
    "real": "harpoon_bench.baselines.simple:RealRows",
    "diffputer": "harpoon_bench.baselines.diffputer:DiffPuter",
    "gain": "harpoon_bench.baselines.gain:Gain",
    "remasker": "harpoon_bench.baselines.remasker:ReMasker",
    "repaint": "harpoon_bench.baselines.repaint:RePaint",
    "great": "harpoon_bench.baselines.external:Great",
    "hyperimpute": "harpoon_bench.baselines.external:HyperImpute",
    "miceforest": "harpoon_bench.baselines.external:MiceForest",
    "miracle": "harpoon_bench.baselines.external:Miracle",
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
