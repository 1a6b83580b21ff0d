"""The methods that the tables compare, by name.

A method is imported on first use, because methods need different packages.
"""

from __future__ import annotations

from importlib import import_module

from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines.base import CannotImpute, CannotSample, Method

METHODS = {
    "anchored": "harpoon_bench.baselines.presets:Anchored",
    "guided": "harpoon_bench.baselines.presets:Guided",
    "rejection": "harpoon_bench.baselines.presets:Rejection",
    "paper": "harpoon_bench.baselines.presets:Paper",
    "mean": "harpoon_bench.baselines.simple:MeanMode",
    "iterative": "harpoon_bench.baselines.sklearn_imputers:Iterative",
    "knn": "harpoon_bench.baselines.sklearn_imputers:NearestNeighbours",
    "real": "harpoon_bench.baselines.simple:RealRows",
    "trees": "harpoon_bench.baselines.sklearn_imputers:IterativeTrees",
    "diffputer": "harpoon_bench.baselines.diffputer:DiffPuter",
    "gain": "harpoon_bench.baselines.gain:Gain",
    "gain_published": "harpoon_bench.baselines.gain:GainPublished",
    "remasker": "harpoon_bench.baselines.remasker:ReMasker",
    "remasker_published": "harpoon_bench.baselines.remasker:ReMaskerPublished",
    "repaint": "harpoon_bench.baselines.repaint:RePaint",
    "aim": "harpoon_bench.baselines.external:SmartNoiseAim",
    "great": "harpoon_bench.baselines.external:Great",
    "hyperimpute": "harpoon_bench.baselines.external:HyperImpute",
    "hyperimpute_published": "harpoon_bench.baselines.external:HyperImputePublished",
    "miceforest": "harpoon_bench.baselines.external:MiceForest",
    "miracle": "harpoon_bench.baselines.external:Miracle",
    "miracle_published": "harpoon_bench.baselines.external:MiraclePublished",
    "mostlyai": "harpoon_bench.baselines.external:MostlyAi",
    "mst": "harpoon_bench.baselines.external:SmartNoiseMst",
}


__all__ = ["METHODS", "CannotImpute", "CannotSample", "Method", "make_method", "method_class"]


def make_method(name: str, *, seed: int = 0, budget: float | None = None, **options: object) -> Method:
    """Return an untrained method.

    Args:
        name: One of `METHODS`.
        seed: The seed of all its random numbers.
        budget: The most seconds of training; None: the authors' setting.
        **options: Options of the method that differ from its defaults.
    """
    return method_class(name)(seed=seed, budget=budget, **options)


def method_class(name: str) -> type[Method]:
    """Import and return the class of a method."""
    if name not in METHODS:
        raise InvalidOption.one_of("A method", name, METHODS)
    module, _, attribute = METHODS[name].partition(":")
    cls: type[Method] = getattr(import_module(module), attribute)
    return cls
