"""Plots: the public name of `harpoon.report.plots`."""

from harpoon.report.plots import angles, marginals, missingness, training, what_if

__all__ = ["angles", "marginals", "missingness", "training", "what_if"]
