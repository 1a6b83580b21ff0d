"""Networks by name: build a denoiser from options and a codec."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harpoon.config import MIN_RANK_BINS, Config
from harpoon.diffusion import Denoiser, LinearSchedule
from harpoon.encoding import PartType, RowCodec
from harpoon.exceptions import InvalidOption
from harpoon.networks.anchored_denoiser import AnchoredDenoiser
from harpoon.networks.paper_denoiser import PaperDenoiser

MAX_TOTAL_RANK_BINS = 2**14  # of all numeric columns together


def build_denoiser(config: Config, codec: RowCodec) -> Denoiser:
    """Build a network for encoded rows of a codec, on the meta device: without weights, memory or random numbers."""
    with torch.device("meta"):
        return NETWORKS[config.network](config, codec).float()  # independent of torch's default dtype


def _paper(config: Config, codec: RowCodec) -> Denoiser:
    schedule = LinearSchedule(config.diffusion_steps, config.beta_start, config.beta_end)
    return PaperDenoiser(codec.width, _adapted(config.hidden, "hidden"), schedule, config.time_embedding)


def _anchored(config: Config, codec: RowCodec) -> Denoiser:
    n_numeric = sum(part.type is PartType.CONTINUOUS for part in codec.slices)
    max_bins = max(MAX_TOTAL_RANK_BINS // max(n_numeric, 1), MIN_RANK_BINS)
    return AnchoredDenoiser(
        codec,
        hidden=_adapted(config.hidden, "hidden"),
        depth=config.depth,
        input_bins=config.input_bins,
        rank_bins=min(_adapted(config.rank_bins, "rank_bins"), max_bins),
        max_noise_fraction=config.max_noise_fraction,
        unconditional_fraction=config.unconditional_fraction,
        gaussian_baseline=bool(config.gaussian_baseline),
        min_rows=config.min_rows,
    )


def _adapted(size: int | None, name: str) -> int:
    if size is None:
        raise InvalidOption(f"{name} must be chosen before a network is built, got None. Call `Config.adapt` first.")
    return size


NETWORKS: dict[str, Callable[[Config, RowCodec], Denoiser]] = {"paper": _paper, "anchored": _anchored}
