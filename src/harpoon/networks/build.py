"""Networks by name: from options and a codec to a denoiser."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harpoon.config import MIN_RANK_BINS, Config
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.base import PartType
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidOption
from harpoon.networks.anchored import AnchoredDenoiser, MaskingConfig
from harpoon.networks.paper import PaperDenoiser

MAX_TOTAL_RANK_BINS = 2**14  # of all numeric columns together


def build_denoiser(config: Config, codec: RowCodec) -> Denoiser:
    """Build a network for encoded rows of a codec, on the meta device: without weights, memory or random numbers."""
    with torch.device("meta"):
        return NETWORKS[config.network](config, codec).float()  # independent of torch's default dtype


def _paper(config: Config, codec: RowCodec) -> Denoiser:
    schedule = LinearSchedule(config.diffusion_steps, config.beta_start, config.beta_end)
    return PaperDenoiser(codec.width, _adapted(config.hidden), schedule)


def _anchored(config: Config, codec: RowCodec) -> Denoiser:
    corruption = MaskingConfig(config.max_noise_fraction, config.unconditional_fraction)
    numbers = sum(block.type is PartType.CONTINUOUS for block in codec.slices)
    bins = min(_adapted(config.rank_bins), max(MAX_TOTAL_RANK_BINS // max(numbers, 1), MIN_RANK_BINS))
    return AnchoredDenoiser(
        codec.slices,
        hidden=_adapted(config.hidden),
        depth=config.depth,
        input_bins=config.input_bins,
        rank_bins=bins,
        masking=corruption,
        scales=codec,
    )


def _adapted(size: int | None) -> int:
    if size is None:
        raise InvalidOption("The options must be adapted to a table before a network is made.")
    return size


NETWORKS: dict[str, Callable[[Config, RowCodec], Denoiser]] = {"paper": _paper, "anchored": _anchored}
