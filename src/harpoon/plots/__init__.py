"""Plots: missing cells, marginal distributions, the effect of a condition, guidance angles and the training loss.

Each function returns a matplotlib figure that belongs to no window: save it with `figure.savefig("file.png")`, or let
a notebook show it. No global state of matplotlib is changed; of a style in use only the font is taken over. Needs the
extra "plots".
"""

from harpoon.plots.figures import angles, marginals, missingness, training, what_if

__all__ = ["angles", "marginals", "missingness", "training", "what_if"]
