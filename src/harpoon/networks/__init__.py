"""Denoising networks, and their registry `NETWORKS`."""

from harpoon.networks.anchored import AnchoredDenoiser
from harpoon.networks.build import NETWORKS, build_denoiser
from harpoon.networks.paper import PaperDenoiser
from harpoon.networks.rank_head import ConditionalDistributions, ConditionalPredictor, flat_index

__all__ = [
    "NETWORKS",
    "AnchoredDenoiser",
    "ConditionalDistributions",
    "ConditionalPredictor",
    "PaperDenoiser",
    "build_denoiser",
    "flat_index",
]
