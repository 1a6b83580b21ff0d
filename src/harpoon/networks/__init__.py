"""Denoising networks, and their registry `NETWORKS`."""

from harpoon.networks.anchored import AnchoredDenoiser, MaskingConfig
from harpoon.networks.at_max_noise import FusedMaxNoiseModel
from harpoon.networks.build import NETWORKS, build_denoiser
from harpoon.networks.paper import PaperDenoiser
from harpoon.networks.rank_head import ConditionalDistributions, ConditionalPredictor, flat_index

__all__ = [
    "NETWORKS",
    "AnchoredDenoiser",
    "ConditionalDistributions",
    "ConditionalPredictor",
    "FusedMaxNoiseModel",
    "MaskingConfig",
    "PaperDenoiser",
    "build_denoiser",
    "flat_index",
]
