"""Conditional distributions of each cell given the observed cells.

Notation: n rows, C numeric columns that have a normal score ("rank"), K bins, m requested cells. The requested cells of
a mask (n, C) are always listed column by column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.data import NO_INDEX, Columns, take
from harpoon.encoding import ColumnSlice, EncodedRows, PartType, RowCodec
from harpoon.networks.gaussian_baseline import LinearPrediction
from harpoon.networks.heads.category_logits import CategoryLogits
from harpoon.networks.heads.copy_head import COPY_CERTAIN_PROBABILITY, MAX_RELATIONS, CopyDistribution, CopyHead
from harpoon.networks.heads.pointer_head import PointerHead
from harpoon.networks.layers import OUTPUT_INIT_SCALE, ColumnIndex, Linear
from harpoon.relations import MAX_SEARCH_ROWS, RelationBank, RelationData, RelationValues, search_relations

MIN_GAUSSIAN_STD = 1e-3  # of a normal score
BASELINE_LOG_ODDS = 3.0  # initial, of the Gaussian against the histogram
MAX_DENSE_GAUSSIANS = 32  # columns whose Gaussians are computed together, even if few are requested
MAX_FEW_VALUED_RELATIONS = 4  # of a column with few values


class GaussianComponent(NamedTuple):
    """One Gaussian per requested cell on the scale of normal scores, (m,) each."""

    log_odds: Tensor  # of the Gaussian against the histogram
    mean: Tensor
    std: Tensor


class DeterminedValues(NamedTuple):
    """What relations say of the F numeric columns with few values, (n, F) each."""

    known: Tensor  # whether a relation determines the value
    values: Tensor  # the standardised value


class ConstrainedNumbers(NamedTuple):
    """What relations say of the order of numeric columns: of C with a normal score, then of F, (C + F,) each."""

    by_sums: Tensor  # whether a sum determines it
    by_products: Tensor  # whether a product does
    sources: Tensor  # whether it determines others itself


class HeadOutputs(NamedTuple):
    """What a rank head predicts of m requested cells."""

    bin_logits: Tensor  # (m, K)
    gaussian: GaussianComponent
    copies: CopyDistribution


class ConditionalDistributions(NamedTuple):
    """The distribution of each cell given the observed cells.

    Categories, spikes included, have logits. The normal score of a value that is not a spike has
    logits of its bins, (m, K), mixed with a Gaussian, (m,) each. The value may be a copy instead, (m, ...).
    Numbers with few values may be determined, (n, F).
    """

    category_logits: CategoryLogits
    bin_logits: Tensor
    gaussian: GaussianComponent
    copies: CopyDistribution
    few_valued: DeterminedValues

    def select_ranks(self, index: Tensor) -> ConditionalDistributions:
        """Return the distributions of some of the requested cells."""
        gaussian = GaussianComponent(*(parameter[index] for parameter in self.gaussian))
        return self._replace(bin_logits=self.bin_logits[index], gaussian=gaussian, copies=self.copies.take(index))


class RelationInputs(NamedTuple):
    """What relations predict from the observed values, for each head, and how the observed values compare with it."""

    pointers: RelationValues  # with bins as values
    copies: RelationValues
    features: Tensor  # (n, n_relation_features)


class ConditionalPredictor(NamedTuple):
    """One forward pass at the largest noise level, from which distributions are computed on request.

    Categories are those of n rows, the last hidden layer h is (n, hidden), copy distributions are (n, C, ...).
    """

    category_logits: CategoryLogits
    h: Tensor
    pointers: RelationValues
    copies: CopyDistribution
    baseline: LinearPrediction
    head: RankHead
    few_valued: DeterminedValues

    def distributions(self, requested: Tensor) -> ConditionalDistributions:
        """Return the distributions of all categories and of the requested normal scores, a mask (n, C)."""
        bin_logits, gaussian, copies = self.head(self.h, self.pointers, self.copies, self.baseline, requested)
        return ConditionalDistributions(self.category_logits, bin_logits, gaussian, copies, self.few_valued)

    def condition_copies(self) -> ConditionalPredictor:
        """Return the predictor given that values with certain relations are copies, as sampled ones are."""
        return self._replace(copies=self.copies.condition())

    def determined(self) -> Tensor:
        """Return which values are almost certainly copies of observed ones, (n, C)."""
        return self.copies.log_p[:, :, 0] < math.log(1 - COPY_CERTAIN_PROBABILITY)


class RankHead(nn.Module):
    """Predict p(z_j | observed) for each numeric column as a histogram, mixed with one Gaussian.

    z_j is the normal score of column j. The histogram has `n_bins` equiprobable bins of the standard normal: bin k has
    the scores with Φ(z) between k / K and (k + 1) / K. The Gaussian may be narrower than a bin, for values that other
    cells almost determine. A spike has no normal score; its probability is that of a category.
    """

    def __init__(self, slices: Sequence[ColumnSlice], hidden: int, n_bins: int) -> None:
        super().__init__()
        standardised = {part.column: part.start for part in slices if part.type is PartType.REGRESSION}
        ranks = [part for part in slices if part.type is PartType.CONTINUOUS and part.column in standardised]
        not_spike = {part.column: part.start for part in slices if part.is_categorical}  # the first category: no spike
        self.n_bins = n_bins
        self.columns = [part.column for part in ranks]
        self.ranks = ColumnIndex([part.start for part in ranks])
        self.standardised = ColumnIndex([standardised[column] for column in self.columns])
        self.spiked = ColumnIndex([i for i, part in enumerate(ranks) if part.column in not_spike])
        self.not_spike = ColumnIndex([not_spike[part.column] for part in ranks if part.column in not_spike])
        ranked = {part.column for part in slices if part.type is PartType.CONTINUOUS}
        few_valued = [start for column, start in standardised.items() if column not in ranked]
        self.few_valued_columns = [column for column in standardised if column not in ranked]
        self.few_valued = ColumnIndex(few_valued)
        self.quantities = ColumnIndex([*self.standardised.positions, *few_valued])
        self.total_bins = len(ranks) * n_bins
        self.histogram = Linear(hidden, max(self.total_bins, 1))  # torch warns of layers without outputs
        self.gaussian = nn.Linear(hidden, max(3 * len(ranks), 1))
        self.pointers = PointerHead(len(ranks), hidden, n_bins, len(self.quantities))
        self.copies = CopyHead(len(ranks), hidden, len(self.quantities))
        per_column = min(MAX_FEW_VALUED_RELATIONS, MAX_RELATIONS // max(len(few_valued), 1))
        self.few_valued_relations = RelationBank(
            len(few_valued), per_column, n_sources=len(self.quantities), first=len(ranks)
        )
        self.n_relation_features = self.pointers.n_relation_features + len(self.copies.relations)

    def relation_inputs(self, given: EncodedRows) -> RelationInputs:
        """Evaluate all relations on the observed cells."""
        values = self.quantities.select(given.x), self.quantities.select(given.observed)
        pointers, copies = self.pointers.predict(*values), self.copies.relations.predict(*values)
        near = self.pointers.relation_features(pointers, *values)
        equal = self.copies.relation_features(copies, *values)
        return RelationInputs(pointers, copies, torch.cat([near, equal], dim=1))

    @property
    def has_relations(self) -> bool:
        """Whether any relation is stored."""
        banks = self.pointers.relations, self.copies.relations, self.few_valued_relations
        return any(len(bank.stored) for bank in banks)

    @property
    def used_relation_features(self) -> Tensor:
        """The relation features that are not always 0, (k,)."""
        pointers, copies = self.pointers.relations, self.copies.relations
        per_relation = torch.arange(self.pointers.n_relation_features // max(len(pointers), 1))
        near = pointers.stored.cpu()[:, None] * len(per_relation) + per_relation
        return torch.cat([near.flatten(), self.pointers.n_relation_features + copies.stored.cpu()])

    def determined_values(self, given: EncodedRows) -> DeterminedValues:
        """Return which values of columns with few values follow from the observed cells."""
        known = torch.zeros(len(given.x), len(self.few_valued), dtype=torch.bool, device=given.x.device)
        values = given.x.new_zeros(known.shape)
        if len(self.few_valued_relations.stored):
            predicted = self.few_valued_relations.predict(
                self.quantities.select(given.x), self.quantities.select(given.observed)
            )
            for index, column in enumerate((predicted.target - len(self.ranks)).tolist()):
                new = predicted.observed[:, index] & ~known[:, column]
                values[:, column] = torch.where(new, predicted.values[:, index], values[:, column])
                known[:, column] |= new
        return DeterminedValues(known, values)

    @property
    def constrained(self) -> ConstrainedNumbers:
        """Whether relations determine each numeric column, and whether it determines others."""
        banks = (self.copies.relations, self.copies.deterministic), (self.few_valued_relations, None)
        by_sums, by_products, sources = [], [], []
        for bank, deterministic in banks:
            shape = bank.n_columns, bank.per_column
            is_product = bank.is_product.view(shape)
            holds = (bank.fractions > 0 if deterministic is None else deterministic).view(shape)
            by_sums.append((holds & ~is_product).any(dim=1))
            by_products.append((holds & is_product).any(dim=1))
            sources.append((bank.weights[holds.flatten()] != 0).any(dim=0).view(2, bank.n_sources).any(dim=0))
        return ConstrainedNumbers(torch.cat(by_sums), torch.cat(by_products), sources[0] | sources[1])

    def forward(
        self,
        h: Tensor,
        pointers: RelationValues,
        copies: CopyDistribution,
        baseline: LinearPrediction,
        requested: Tensor,
    ) -> HeadOutputs:
        """Return bin logits, Gaussians and copy distributions of the requested cells.

        They are computed from the last hidden layer, (n, hidden), and the copy distributions of all numeric columns.
        The Gaussian is relative to the baseline. `requested` is a mask (n, C).
        """
        n_ranks, copies = len(self.ranks), copies.select(requested)
        if not n_ranks:
            return HeadOutputs(h.new_zeros(0, self.n_bins), GaussianComponent(*h.new_zeros(3, 0)), copies)
        logits = self.pointers(self._bin_logits(h, requested), h, pointers, flat_index(requested))
        log_odds, mean, width = self._gaussians(h, requested)
        mean, width = mean + baseline.rank_mean.T[requested.T], width + baseline.rank_width.T[requested.T]
        gaussian = GaussianComponent(log_odds, mean, MIN_GAUSSIAN_STD + functional.softplus(width))
        return HeadOutputs(logits, gaussian, copies)

    def _bin_logits(self, h: Tensor, requested: Tensor) -> Tensor:
        """Return the logits of the output layer for the requested cells, (m, K)."""
        n_ranks, (column, row) = len(self.ranks), requested.T.nonzero(as_tuple=True)
        if self.training:  # most cells are requested, and one product is faster than one per column
            logits: Tensor = self.histogram(h)
            return logits.view(-1, self.n_bins).index_select(0, row * n_ranks + column)
        weights = self.histogram.weight.view(n_ranks, self.n_bins, -1)
        biases = self.histogram.bias.view(n_ranks, self.n_bins)
        return _linear_by_column(h, row, requested, weights, biases)

    def _gaussians(self, h: Tensor, requested: Tensor) -> Tensor:
        """Return the three outputs for the Gaussians of the requested cells, (3, m)."""
        n_ranks = len(self.ranks)
        if self.training or n_ranks <= MAX_DENSE_GAUSSIANS:
            of_all: Tensor = self.gaussian(h)
            return of_all.view(len(h), 3, n_ranks).permute(1, 2, 0)[:, requested.T]
        row = requested.T.nonzero()[:, 1]
        weights = self.gaussian.weight.view(3, n_ranks, -1).transpose(0, 1)
        return _linear_by_column(h, row, requested, weights, self.gaussian.bias.view(3, n_ranks).T).T

    @torch.no_grad()
    def initialize(
        self, data: EncodedRows, codec: RowCodec, cells: Columns | None, *, has_baseline: bool, search: bool = True
    ) -> None:
        """Start with almost uniform histograms, and search relations in evenly spaced training rows.

        `cells` are the same rows before they were encoded. With a baseline, the Gaussian starts at it, with more weight
        than the histogram. Without `search` there are no relations.
        """
        for layer in (self.histogram, self.gaussian, self.pointers.gates, self.copies.logits):
            layer.weight.mul_(OUTPUT_INIT_SCALE)
            layer.bias.zero_()
        if has_baseline:
            self.gaussian.weight.zero_()
            self.gaussian.bias[: len(self.ranks)] = BASELINE_LOG_ODDS
        some = slice(None, None, max(1, len(data.x) // MAX_SEARCH_ROWS))
        data = data[some]
        edges = [codec.bin_edges(column, self.n_bins) for column in self.columns]
        bin_edges = torch.from_numpy(np.reshape(edges, self.pointers.bin_edges.shape)).to(data.x.dtype)
        rows = self._relation_data(data, codec, None if cells is None else take(cells, some))
        relations = search_relations(rows, self.ranks.select(data.x)) if search else []
        candidates = [relation for relation in relations if relation.target < rows.n_ranked]
        self.pointers.initialize(rows, candidates, bin_edges)
        self.copies.initialize(rows, candidates)
        few_valued = ((each, each.fraction or 0.0) for each in relations if each.target >= rows.n_ranked)
        self.few_valued_relations.store(few_valued, rows.units)

    def _relation_data(self, data: EncodedRows, codec: RowCodec, cells: Columns | None) -> RelationData:
        """Return rows in which relations are searched."""
        standardised, observed = self.quantities.select(data.x), self.quantities.select(data.observed)
        not_spike = self.target_weights(data.x, data.observed.to(data.x.dtype)) > 0
        if cells is None:
            return RelationData(standardised, observed, not_spike, {}, standardised.double())
        exact = torch.from_numpy(codec.quantity_values(cells))
        return RelationData(standardised, observed, not_spike, codec.units, exact)

    def loss(
        self,
        h: Tensor,
        pointers: RelationValues,
        copies: CopyDistribution,
        baseline: LinearPrediction,
        *,
        x_0: Tensor,
        targets: Tensor,
    ) -> Tensor:
        """Return the weighted negative log likelihood of the target cells, relative to the standard normal.

        h, (n, hidden), pointers, copies and the baseline are inputs of `forward`. `targets` are the weights of the
        dimensions of the clean rows x_0 as targets, both (n, d); 0 if not a target.
        """
        weights = self.target_weights(x_0, targets)
        requested = weights > 0
        bin_logits, gaussian, copies = self(h, pointers, copies, baseline, requested)
        log_p = self.log_likelihood(bin_logits, gaussian, self.ranks.select(x_0).T[requested.T])
        log_p = self.copies.log_likelihood(copies, self.standardised.select(x_0).T[requested.T], log_p)
        return -(log_p * weights.T[requested.T]).sum()

    def target_weights(self, x_0: Tensor, targets: Tensor) -> Tensor:
        """Return the weight of each normal score as a target, (n, C): that of its dimension, or 0 for a spike."""
        weights = self.ranks.select(targets)
        return self.spiked.replace(weights, self.spiked.select(weights) * self.not_spike.select(x_0))

    def log_likelihood(self, bin_logits: Tensor, gaussian: GaussianComponent, z: Tensor) -> Tensor:
        """Return the log density of normal scores, (m,), minus that of the standard normal."""
        z_bin = (torch.special.ndtr(z) * self.n_bins).long().clamp(max=self.n_bins - 1)
        log_bin = bin_logits.log_softmax(dim=1).gather(1, z_bin.unsqueeze(1)).squeeze(1) + math.log(self.n_bins)
        log_gaussian = (z**2 - ((z - gaussian.mean) / gaussian.std) ** 2) / 2 - gaussian.std.log()
        log_weights = functional.logsigmoid(-gaussian.log_odds), functional.logsigmoid(gaussian.log_odds)
        return torch.logaddexp(log_weights[0] + log_bin, log_weights[1] + log_gaussian)

    def log_density(self, distributions: ConditionalDistributions, z: Tensor, standardised: Tensor) -> Tensor:
        """Return the log likelihood of numbers relative to the standard normal, (m,); both encodings are (m,)."""
        log_p = self.log_likelihood(distributions.bin_logits, distributions.gaussian, z)
        return self.copies.log_likelihood(distributions.copies, standardised, log_p)

    def score(
        self, distributions: ConditionalDistributions, z: Tensor, standardised: Tensor, uniform: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the log likelihood of numbers relative to the standard normal, and their cumulative probability, (m,).

        A number that may be a copy has a jump there; `uniform` chooses the height, so that a perfect model gives
        uniform probabilities.
        """
        _, bin_logits, gaussian, copies, _ = distributions
        p = copies.log_p.exp()
        at = self.copies.relations.matches(copies.values, standardised.unsqueeze(1), copies.relations)
        below = (copies.values < standardised.unsqueeze(1)) & ~at
        below_and_part = ((below + at * uniform.unsqueeze(1)) * p[:, 1:]).sum(dim=1)
        cumulative = p[:, 0] * self.cumulative(bin_logits, gaussian, z) + below_and_part
        return self.log_density(distributions, z, standardised), cumulative

    def cumulative(self, bin_logits: Tensor, gaussian: GaussianComponent, z: Tensor) -> Tensor:
        """Return the cumulative probability of normal scores, (m,)."""
        position = torch.special.ndtr(z) * self.n_bins
        z_bin = position.long().clamp(max=self.n_bins - 1).unsqueeze(1)
        p = bin_logits.softmax(dim=1)
        inside = p.gather(1, z_bin).squeeze(1)
        in_bins = p.cumsum(dim=1).gather(1, z_bin).squeeze(1) - inside * (1 - position + z_bin.squeeze(1))
        in_gaussian = torch.special.ndtr((z - gaussian.mean) / gaussian.std)
        return torch.lerp(in_bins, in_gaussian, gaussian.log_odds.sigmoid())


def _linear_by_column(h: Tensor, row: Tensor, requested: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """Return the outputs of the layer of each requested cell's column, (m, k).

    Args:
        h: The last hidden layer, (n, hidden).
        row: The row of each requested cell, (m,).
        requested: A mask of the requested cells, (n, C).
        weights: Of each column, (C, k, hidden).
        biases: Of each column, (C, k).
    """
    parts = h.index_select(0, row).split_with_sizes(requested.sum(dim=0).tolist())
    outputs = (
        functional.linear(part, weights[column], biases[column]) for column, part in enumerate(parts) if len(part)
    )
    return torch.cat([h.new_zeros(0, biases.shape[1]), *outputs])


def flat_index(requested: Tensor) -> Tensor:
    """Return the position of each requested cell in the list column by column, (n, C); `NO_INDEX` elsewhere."""
    return (requested.T.flatten().cumsum(dim=0) - 1).view_as(requested.T).T.masked_fill(~requested, NO_INDEX)
