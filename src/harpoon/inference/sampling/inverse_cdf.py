"""Inverse distribution functions: the value of a predicted distribution at a uniform random number."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.encoding.encoded_rows import MIN_RANK
from harpoon.inference.sampling.timestamps import RankGroups
from harpoon.networks.heads.rank_head import ConditionalDistributions

MIN_MONTH_PROBABILITY = 0.1  # of the times of the sampled month, below which month and time contradict each other


def categorical_icdf(logits: Tensor, uniform: Tensor) -> Tensor:
    """Return the category of each row at a uniform random number, (n, categories) and (n,) to (n,)."""
    cumulative = logits.softmax(dim=1).cumsum(dim=1)
    return (cumulative < uniform[:, None].to(cumulative.dtype) * cumulative[:, -1:]).sum(dim=1)


def sample_copies(distributions: ConditionalDistributions, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return which relation each number is a copy of, or `NO_INDEX`, and a uniform number for those that are not."""
    log_p = distributions.copies.log_p.double()
    return categorical_icdf(log_p, uniform) - 1, (uniform / log_p[:, 0].exp().clamp(min=MIN_RANK)).clamp(max=1)


def sample_probability(distributions: ConditionalDistributions, uniform: Tensor, position: Tensor) -> Tensor:
    """Sample from the mixture of Gaussian and histogram, as a cumulative probability of the standard normal."""
    log_odds, mean, std = (parameter.double() for parameter in distributions.gaussian)
    weight = log_odds.sigmoid()
    remainder = ((uniform - weight) / (1 - weight).clamp(min=MIN_RANK)).clamp(min=0)
    in_bin = (categorical_icdf(distributions.bin_logits, remainder) + position) / distributions.bin_logits.shape[1]
    in_gaussian = torch.special.ndtr(mean + std * torch.special.ndtri(position))
    return torch.where(uniform < weight, in_gaussian, in_bin).clamp(MIN_RANK, 1 - MIN_RANK)


def sample_group(
    distributions: ConditionalDistributions, groups: RankGroups, group: Tensor, uniform: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Sample from the same mixture, restricted to the times of a group of each row, (n,).

    Also returns whether the month of the group is likely at all, (n,): the network may predict parts and times that
    contradict each other, and then a time near the likely ones is better than one of another year.
    """
    log_odds, mean, std = (parameter.double()[:, None] for parameter in distributions.gaussian)
    weight, n_bins, intervals = log_odds.sigmoid(), distributions.bin_logits.shape[1], groups.intervals[group]
    ranks = intervals.flatten(1)
    cumulative = functional.pad(distributions.bin_logits.double().softmax(dim=1).cumsum(dim=1), (1, 0))
    left = (ranks * n_bins).long().clamp(max=n_bins - 1)
    in_bins = torch.lerp(cumulative.gather(1, left), cumulative.gather(1, left + 1), ranks * n_bins - left)
    in_gaussian = torch.special.ndtr((torch.special.ndtri(ranks) - mean) / std)
    of_bins, of_gaussian = (ends.view_as(intervals).diff(dim=2)[..., 0].clamp(min=0) for ends in (in_bins, in_gaussian))
    is_likely = (weight * of_gaussian + (1 - weight) * of_bins).sum(dim=1) > MIN_MONTH_PROBABILITY * groups.share[group]
    mass = weight * of_gaussian + (1 - weight) * of_bins * groups.density(n_bins)[group]
    mass = mass + MIN_RANK * intervals.diff(dim=2)[..., 0]  # where the mixture has none
    chosen = categorical_icdf(mass.log(), uniform)[:, None, None].expand(-1, 1, 2)
    low, high = intervals.gather(1, chosen)[:, 0].T
    return torch.lerp(low, high, position).clamp(MIN_RANK, 1 - MIN_RANK), is_likely
