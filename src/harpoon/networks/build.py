"""Networks by name: from options and a codec to a denoiser."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harpoon.config import MIN_RANK_BINS, Config
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.base import Shape
from harpoon.encoding.row_codec import Codec
from harpoon.exceptions import InvalidOption
from harpoon.networks.anchored import AnchoredDenoiser, Corruption
from harpoon.networks.paper import PaperDenoiser

MAX_TOTAL_RANK_BINS = 2**14  # of all numeric columns together


def build_denoiser(config: Config, codec: Codec) -> Denoiser:
    """Build a network for encoded rows of a codec, on the meta device: without weights, memory or random numbers."""
    with torch.device("meta"):
        return NETWORKS[config.network](config, codec).float()  # independent of torch's default dtype


def _paper(config: Config, codec: Codec) -> Denoiser:
    schedule = LinearSchedule(config.diffusion_steps, config.beta_start, config.beta_end)
    return PaperDenoiser(codec.width, _adapted(config.hidden), schedule)


def _anchored(config: Config, codec: Codec) -> Denoiser:
    corruption = Corruption(config.max_noise_fraction, config.unconditional_fraction)
    numbers = sum(block.shape is Shape.LINE for block in codec.blocks)
    bins = min(_adapted(config.rank_bins), max(MAX_TOTAL_RANK_BINS // max(numbers, 1), MIN_RANK_BINS))
    return AnchoredDenoiser(
        codec.blocks,
        hidden=_adapted(config.hidden),
        depth=config.depth,
        bins=config.input_bins,
        slots=bins,
        corruption=corruption,
        scales=codec,
    )


def _adapted(size: int | None) -> int:
    if size is None:
        raise InvalidOption("The options must be adapted to a table before a network is made.")
    return size


NETWORKS: dict[str, Callable[[Config, Codec], Denoiser]] = {"paper": _paper, "anchored": _anchored}
