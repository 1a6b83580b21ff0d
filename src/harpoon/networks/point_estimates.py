"""Medians and modes of the predicted distributions of numbers: from one evaluation of the network, without draws.

The distribution of a number given the observed cells is a mixture of point masses, which are spikes and values that
relations give, and of a density over normal scores, which is a histogram and a Gaussian (`rank_head`). A median is a
quantile of the whole mixture, computed to double precision.

Notation: m cells of one column, K bins, A point masses.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn import functional

from harpoon.data import NO_INDEX, Floats
from harpoon.encoding import PartType, RowCodec
from harpoon.encoding.codec import ColumnCodec
from harpoon.encoding.encoded_rows import MIN_RANK
from harpoon.networks.heads.rank_head import ConditionalDistributions, ConditionalPredictor, RankHead

BISECTIONS = 50  # of the interval of ranks, which is then as narrow as double precision allows


class PointEstimates(NamedTuple):
    """Encoded rows in double precision, (n, d), and the relation that gives each number, or `NO_INDEX`, (n, C)."""

    x: Tensor
    relation_of: Tensor


class RankMixture(NamedTuple):
    """The distribution of the rank of m numbers that are no point masses: a histogram mixed with a Gaussian."""

    cumulative: Tensor  # of the histogram at its K + 1 edges, (m, K + 1)
    weight: Tensor  # of the Gaussian, (m, 1)
    mean: Tensor  # of the Gaussian, as a normal score, (m, 1)
    std: Tensor

    @classmethod
    def from_distributions(cls, distributions: ConditionalDistributions) -> RankMixture:
        """Return the mixture of predicted distributions, in double precision."""
        log_odds, mean, std = (parameter.double().unsqueeze(1) for parameter in distributions.gaussian)
        p = distributions.bin_logits.double().softmax(dim=1)
        return cls(functional.pad(p.cumsum(dim=1), (1, 0)), log_odds.sigmoid(), mean, std)

    def take(self, rows: slice) -> RankMixture:
        """Return the distributions of some cells."""
        return RankMixture(*(part[rows] for part in self))

    def cdf(self, ranks: Tensor) -> Tensor:
        """Return the probability below ranks in [0, 1], (m, k)."""
        n_bins = self.cumulative.shape[1] - 1
        position = ranks * n_bins
        left = position.long().clamp(max=n_bins - 1)
        in_bins = torch.lerp(self.cumulative.gather(1, left), self.cumulative.gather(1, left + 1), position - left)
        return torch.lerp(in_bins, torch.special.ndtr((torch.special.ndtri(ranks) - self.mean) / self.std), self.weight)

    def quantile(self, probability: Tensor) -> Tensor:
        """Return the rank below which a number lies with a probability, (m,) to (m,)."""
        low = torch.full_like(probability, MIN_RANK)
        high = 1 - low
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            is_below = self.cdf(middle.unsqueeze(1)).squeeze(1) < probability
            low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
        return (low + high) / 2


class PointMasses(NamedTuple):
    """The point masses of m cells in ascending order, (m, A) each. The first ones of `order` are the spikes."""

    p: Tensor
    below: Tensor  # the rank below which all smaller values of the density lie
    up_to: Tensor  # the same with the values that are equal to the point mass
    order: Tensor  # the number of each before sorting


class Choice(NamedTuple):
    """What each of m cells is estimated by: a point mass, by its number before sorting, or `NO_INDEX`; else a rank."""

    point_mass: Tensor
    rank: Tensor


class FewValuedSpikes(NamedTuple):
    """Where a number whose values are all spikes lies in encoded rows."""

    categories: slice  # of the spikes, after one for no spike
    standardised: int  # the dimension of its standardised value
    values: Tensor  # the standardised values of the spikes, (spikes,)


class _ValueBins(NamedTuple):
    """Bins of one column that decode to different values at its resolution, for the mode."""

    first: Tensor  # the first bin of each, (cells,)
    last: Tensor  # the bin after its last, (cells,)
    width: Tensor  # in units of the table, (cells,)
    share: Tensor  # of the probability of a cell that its most probable value has, (cells,)


class PointEstimator:
    """Medians and modes of the numbers of a table.

    Args:
        codec: The codec of the encoded rows.
        head: Predicts the distributions of its numbers.
    """

    def __init__(self, codec: RowCodec, head: RankHead) -> None:
        self.codec, self.codecs, self.n_bins = codec, codec.numeric, head.n_bins
        parts: list[dict[PartType, slice]] = [{} for _ in codec.codecs]
        for part in codec.slices:
            parts[part.column][part.type] = slice(part.start, part.stop)
        self.ranked, self.few_valued = (
            [parts[at] for at in columns] for columns in (head.columns, head.few_valued_columns)
        )
        self.spikes = [_spike_values(each) for each in self.codecs]
        few_valued = codec.quantities[len(codec.numeric) :]
        self.few_valued_spikes = [
            FewValuedSpikes(of_column[PartType.CATEGORICAL], of_column[PartType.REGRESSION].start, _spike_values(each))
            for of_column, each in zip(self.few_valued, few_valued, strict=True)
        ]

    @cached_property
    def value_bins(self) -> list[_ValueBins]:
        """The values of each column that its mode is searched among."""
        return _find_value_bins(self.codec, self.n_bins)

    def estimate(self, x: Tensor, unobserved: Tensor, predictor: ConditionalPredictor, point: str) -> PointEstimates:
        """Replace the expectations of unobserved numbers by medians or modes.

        Args:
            x: Expectations, (n, d).
            unobserved: Whether a dimension is not observed, (n, d).
            predictor: Of the same rows.
            point: "median" or "mode".
        """
        x = x.double()
        relation_of = torch.full((len(x), len(self.ranked)), NO_INDEX, device=x.device)
        requested = unobserved[:, [parts[PartType.CONTINUOUS].start for parts in self.ranked]]
        distributions = predictor.distributions(requested)
        mixture, stop = RankMixture.from_distributions(distributions), 0
        for number in range(len(self.ranked)):
            rows = requested[:, number].nonzero()[:, 0]
            start, stop = stop, stop + len(rows)
            if len(rows):
                of_column = distributions.select_ranks(torch.arange(start, stop, device=x.device))
                ranks = mixture.take(slice(start, stop))
                relation = self._estimate_column(rows, number, x=x, of=of_column, mixture=ranks, point=point)
                relation_of[rows, number] = relation
        for part in (parts[PartType.CATEGORICAL] for parts in self.few_valued if point == "median"):
            rows = unobserved[:, part.start].nonzero()[:, 0]
            x[rows, part] = _nearness_to_median(x[rows, part])
        return PointEstimates(x, relation_of)

    def _estimate_column(
        self, rows: Tensor, number: int, *, x: Tensor, of: ConditionalDistributions, mixture: RankMixture, point: str
    ) -> Tensor:
        """Write the estimates of some rows of a column into x, (n, d), and return their relations, (m,)."""
        parts, copies, spikes = self.ranked[number], of.copies, self.spikes[number].to(x.device)
        p_spike = x[rows, parts[PartType.CATEGORICAL]] if len(spikes) else x.new_ones(len(rows), 1)
        p_copy = copies.log_p.double().exp()
        determined = copies.deterministic.any(dim=1, keepdim=True)  # such a relation determines the spike, too
        p_copy = torch.where(determined, functional.pad(copies.deterministic.double(), (1, 0)), p_copy)
        p_spike = torch.where(determined, functional.one_hot(torch.zeros_like(rows), p_spike.shape[1]), p_spike)
        p = torch.cat([p_spike[:, 1:], p_spike[:, :1] * p_copy[:, 1:]], dim=1)
        values = torch.cat([spikes.expand(len(rows), -1), copies.values.double()], dim=1)
        masses = _point_masses(self.codecs[number], p, values)
        density = (p_spike[:, :1] * p_copy[:, :1]).squeeze(1)
        if point == "median":
            choice = _median(mixture, density, masses)
        else:
            choice = _mode(mixture, density, masses, self.value_bins[number])
        is_copy = choice.point_mass >= len(spikes)
        if len(spikes):
            spike = torch.where(is_copy | (choice.point_mass == NO_INDEX), 0, 1 + choice.point_mass)
            x[rows, parts[PartType.CATEGORICAL]] = functional.one_hot(spike, 1 + len(spikes)).to(x.dtype)
        x[rows, parts[PartType.CONTINUOUS].start] = torch.special.ndtri(choice.rank)
        if not copies.values.shape[1]:
            return torch.full_like(rows, NO_INDEX)
        relation = (choice.point_mass - len(spikes)).clamp(min=0).unsqueeze(1)
        return torch.where(is_copy, copies.relations.gather(1, relation).squeeze(1), NO_INDEX)


def _spike_values(codec: ColumnCodec) -> Tensor:
    """Return the standardised values of the spikes of a column, (spikes,)."""
    *others, last = codec.parts
    if last.type is not PartType.CATEGORICAL:
        return torch.zeros(0, dtype=torch.float64)
    features = np.hstack([np.zeros((last.width - 1, len(others))), np.eye(last.width)[1:]])
    return torch.from_numpy(codec.encode(codec.decode(features))[:, 0])


def _point_masses(codec: ColumnCodec, p: Tensor, values: Tensor) -> PointMasses:
    """Return the point masses of a column in ascending order, with the ranks at which they lie."""
    values, order = values.sort(dim=1, stable=True)
    ranks = codec.standardised_ranks(values.cpu().numpy().ravel())
    below, up_to = (torch.from_numpy(rank).view(values.shape).to(p).clamp(MIN_RANK, 1 - MIN_RANK) for rank in ranks)
    return PointMasses(p.gather(1, order), below, up_to, order)


def _median(mixture: RankMixture, density: Tensor, masses: PointMasses) -> Choice:
    """Return the median: the point mass at which the distribution passes one half, else a value of the density."""
    half = (density + masses.p.sum(dim=1)).unsqueeze(1) / 2
    sums = masses.p.cumsum(dim=1)
    below = density.unsqueeze(1) * mixture.cdf(masses.below) + sums - masses.p
    up_to = density.unsqueeze(1) * mixture.cdf(masses.up_to) + sums
    passes = (below < half) & (half <= up_to) & (masses.p > 0)
    first = functional.pad(passes, (0, 1), value=True).to(masses.p.dtype).argmax(dim=1, keepdim=True)
    number = functional.pad(masses.order, (0, 1), value=NO_INDEX).gather(1, first).squeeze(1)
    smaller = (masses.p * (up_to < half)).sum(dim=1)
    rest = (half.squeeze(1) - smaller) / density.clamp(min=MIN_RANK)
    return Choice(number, mixture.quantile(rest.clamp(0, 1)))


def _mode(mixture: RankMixture, density: Tensor, masses: PointMasses, cells: _ValueBins) -> Choice:
    """Return the most probable value: a point mass, or the middle of the densest cell if that has more."""
    first, last, width, share = (part.to(density.device) for part in cells)
    edges = torch.linspace(0, 1, int(last[-1]) + 1, dtype=density.dtype, device=density.device)
    at_edges = mixture.cdf(edges.clamp(MIN_RANK, 1 - MIN_RANK).expand(len(density), -1))
    low, high = at_edges[:, first], at_edges[:, last]
    best = ((high - low) / width).argmax(dim=1, keepdim=True)
    low, high = (end.gather(1, best).squeeze(1) for end in (low, high))
    p_best = density * (high - low) * share[best.squeeze(1)]
    p, at = functional.pad(masses.p, (0, 1), value=-1.0).max(dim=1)  # there may be no point mass
    number = functional.pad(masses.order, (0, 1), value=NO_INDEX).gather(1, at.unsqueeze(1)).squeeze(1)
    return Choice(torch.where(p >= p_best, number, NO_INDEX), mixture.quantile((low + high) / 2))


def _nearness_to_median(p: Tensor) -> Tensor:
    """Return scores of the values of a column with few values, (m, 1 + values): the highest is at the median.

    The lowest value at which the cumulative probability reaches one half is a median. If other cells exclude it, the
    next best value is the one nearest to it in rank.
    """
    values = p[:, 1:]
    cumulative = values.cumsum(dim=1)
    median = (cumulative < cumulative[:, -1:] / 2).sum(dim=1, keepdim=True)
    distance = (torch.arange(values.shape[1], device=p.device) - median).abs()
    return functional.pad(1 - distance / (1 + values.shape[1]), (1, 0)).to(p.dtype)


def _find_value_bins(codec: RowCodec, n_bins: int) -> list[_ValueBins]:
    """Return the cells of each column with a normal score.

    Bins in the middle of one value belong together. A cell is at least as wide as the resolution of its column: two
    edges on the same value would make it infinitely dense.
    """
    edges, centres = np.linspace(0, 1, n_bins + 1), (np.arange(n_bins) + 0.5) / n_bins
    at_edges, at_centres = (_values_at(codec, ranks) for ranks in (edges, centres))
    found = []
    for each, edge, centre in zip(codec.numeric, at_edges, at_centres, strict=True):
        first = np.flatnonzero(np.append(True, np.diff(centre) != 0))
        last = np.append(first[1:], n_bins)
        width, step = edge[last] - edge[first], float(each.column.step or each.column.kind.integral)
        positive = width[width > 0]
        at_least = step or (positive.min() if len(positive) else 1.0)
        width = np.maximum(width, at_least)
        share = step / width if step else np.ones_like(width)
        found.append(_ValueBins(*map(torch.from_numpy, (first, last, width, share))))
    return found


def _values_at(codec: RowCodec, ranks: Floats) -> list[Floats]:
    """Return the values of each column with a normal score at ranks, in units of the table."""
    x = np.zeros((len(ranks), codec.width))
    for part in codec.slices:
        if part.type is PartType.CONTINUOUS:
            x[:, part.start] = ndtri(ranks.clip(MIN_RANK, 1 - MIN_RANK))
        elif part.is_categorical:
            x[:, part.start] = 1.0  # no spike
    rows = codec.decode(x, calendar=False) | codec.decode_elapsed_times(x)
    return [rows[each.column.name].values.astype(np.float64) for each in codec.numeric]
