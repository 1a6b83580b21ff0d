"""Denoising networks, and their registry `NETWORKS`."""

from harpoon.networks.build import NETWORKS, build_denoiser

__all__ = ["NETWORKS", "build_denoiser"]
