"""The laws of cells: what each cell of a row may be, given those that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.data.column_array import NO_INDEX
from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.copy_head import COPY_CERTAIN_PROBABILITY, CopyDistribution, CopyHead
from harpoon.networks.layers import OUTPUT_INIT_SCALE, ColumnIndex, Linear
from harpoon.networks.pointer_head import PointerHead, PointerTargets
from harpoon.relations.relation import ColumnScales, RelationValues
from harpoon.relations.search import ROWS, RelationData, search_relations

MIN_GAUSSIAN_WIDTH = 1e-3  # a peak, on the scale of ranks


class GaussianComponent(NamedTuple):
    """Bells on the scale of ranks: what is known more closely than a slot is wide."""

    log_odds: Tensor
    mean: Tensor
    std: Tensor


class ConditionalDistributions(NamedTuple):
    """Logarithms of probabilities, up to a constant.

    Attributes:
        labels: Of the labels of all categories and of all point masses, (n, labels).
        slots: Of the slots that a rank is in if its number is no point mass, (ranks asked for, slots).
        peaks: How likely the rank is to be near one place instead, which place and how near, (ranks asked for,) each.
        copies: How likely the number is to be the same as another instead, of as many.
    """

    category_logits: Tensor
    bin_logits: Tensor
    gaussian: GaussianComponent
    copies: CopyDistribution

    def select_ranks(self, which: Tensor) -> ConditionalDistributions:
        """The laws of some of the ranks asked for."""
        peaks, copies = ([told[which] for told in part] for part in (self.gaussian, self.copies))
        return ConditionalDistributions(
            self.category_logits, self.bin_logits[which], GaussianComponent(*peaks), CopyDistribution(*copies)
        )


class RelationInputs(NamedTuple):
    """What is known of the numbers of rows, (n, numbers), and what that says of others."""

    standardised: Tensor
    observed: Tensor
    pointers: PointerTargets
    copies: RelationValues

    def first(self, rows: int) -> RelationInputs:
        """The same of the first rows."""
        return RelationInputs(
            self.standardised[:rows], self.observed[:rows], self.pointers.first(rows), self.copies.first(rows)
        )


class ConditionalPredictor(NamedTuple):
    """What the network makes of rows where there is only noise, before any law of a rank is asked for.

    Attributes:
        labels: The logarithms of the probabilities of all labels, (n, labels).
        h: The last layer.
        looked: What is known of the numbers.
        copied: What all numbers may be copies of.
        told_by: Tells the laws of ranks.
    """

    category_logits: Tensor
    h: Tensor
    relation_inputs: RelationInputs
    copies: CopyDistribution
    head: RankHead

    def distributions(self, asked: Tensor) -> ConditionalDistributions:
        """The law of each cell; of ranks, the laws of those `asked` for, (n, ranks)."""
        return ConditionalDistributions(
            self.category_logits, *self.head(self.h, self.relation_inputs, self.copies, asked)
        )

    def determined(self) -> Tensor:
        """Which numbers follow from known ones, all but surely, (n, ranks)."""
        return self.copies.log_p[:, :, 0] < math.log(1 - COPY_CERTAIN_PROBABILITY)


class RankHead(nn.Module):
    """A head that tells the law of every rank as a histogram over `slots` slots, equally likely beforehand.

    A rank is drawn from the whole of its bell, so the slots need not be learnt from the table: the k-th of K holds the
    ranks whose share of lower ones is between k / K and (k + 1) / K. Nothing is asked of the rank of a point mass.

    Where other cells all but determine a number, slots are too wide. So the histogram is mixed with a bell that may be
    as narrow as it likes.
    """

    def __init__(self, slices: Sequence[ColumnSlice], hidden: int, n_bins: int) -> None:
        super().__init__()
        means = {block.column: block.start for block in slices if block.type is PartType.REGRESSION}
        ranks = [block for block in slices if block.type is PartType.CONTINUOUS and block.column in means]
        no_mass = {block.column: block.start for block in slices if block.is_categorical}
        self.slots = n_bins
        self.columns = [block.column for block in ranks]
        self.ranks = ColumnIndex([block.start for block in ranks])
        self.means = ColumnIndex([means[column] for column in self.columns])
        self.massed = ColumnIndex([row for row, block in enumerate(ranks) if block.column in no_mass])
        self.no_mass = ColumnIndex([no_mass[block.column] for block in ranks if block.column in no_mass])
        self.width = len(ranks) * n_bins
        self.logits = Linear(hidden, max(self.width, 1))  # torch warns of a layer that makes nothing
        self.bells = nn.Linear(hidden, max(3 * len(ranks), 1))
        self.pointers = PointerHead(len(ranks), hidden, n_bins)
        self.copies = CopyHead(len(ranks), hidden)

    def relation_inputs(self, given: EncodedRows) -> RelationInputs:
        """What can be said of the numbers before any network has looked at them."""
        means, known = self.means.select(given.x), self.means.select(given.observed)
        return RelationInputs(
            means, known, self.pointers.predict(means, known), self.copies.relations.predict(means, known)
        )

    def copy_distribution(self, h: Tensor, looked: RelationInputs) -> CopyDistribution:
        """The last layer of the network to what all numbers may be copies of, (n, ranks, any)."""
        copied: CopyDistribution = self.copies(h, looked.copies)
        return copied

    def forward(
        self, h: Tensor, looked: RelationInputs, copied: CopyDistribution, asked: Tensor
    ) -> tuple[Tensor, GaussianComponent, CopyDistribution]:
        """The last layer of the network to the laws of the ranks `asked` for, (n, ranks), rank after rank."""
        ranks = len(self.ranks)
        if not ranks:
            return h.new_zeros(0, self.slots), GaussianComponent(*h.new_zeros(3, 0)), copied.select(asked)
        logits = self.pointers(self._bin_logits(h, asked), h, looked.pointers, flat_index(asked))
        log_odds, place, width = self.bells(h).view(len(h), 3, ranks).permute(1, 2, 0)[:, asked.T]
        return (
            logits,
            GaussianComponent(log_odds, place, MIN_GAUSSIAN_WIDTH + functional.softplus(width)),
            copied.select(asked),
        )

    def _bin_logits(self, h: Tensor, asked: Tensor) -> Tensor:
        """What the last layer says of the slots of the ranks `asked` for, rank after rank."""
        ranks, (rank, row) = len(self.ranks), asked.T.nonzero(as_tuple=True)
        if self.training:  # most are asked for, and one product is faster than one for each rank
            all_of_them: Tensor = self.logits(h)
            return all_of_them.view(-1, self.slots).index_select(0, row * ranks + rank)
        parts = h.index_select(0, row).split_with_sizes(asked.sum(dim=0).tolist())
        weights, biases = self.logits.weight.view(ranks, self.slots, -1), self.logits.bias.view(ranks, self.slots)
        return torch.cat([functional.linear(part, *layer) for part, *layer in zip(parts, weights, biases, strict=True)])

    @property
    def n_relation_features(self) -> int:
        """How many numbers `compared` tells of a row."""
        return self.pointers.n_relation_features + self.copies.n_relation_features

    def posterior_mean(self, copied: CopyDistribution, means: Tensor, free: Tensor) -> Tensor:
        """The means of all numbers, (n, ranks), by what the network expects of those that are no copies.

        How likely each is to be no point mass, of those that have some, is `free`, (n, massed).
        """
        if not copied.values.shape[2]:
            return means
        everywhere = torch.ones_like(means).index_copy(1, self.massed.index.to(means.device), free)
        return self.copies.posterior_mean(copied, means, everywhere)

    def relation_features(self, looked: RelationInputs) -> Tensor:
        """How known numbers lie beside each other, (n, `comparisons`)."""
        near = self.pointers.relation_features(looked.pointers, looked.observed)
        return torch.cat(
            [near, self.copies.relation_features(looked.copies, looked.standardised, looked.observed)], dim=1
        )

    @torch.no_grad()
    def initialize(self, data: EncodedRows, scales: ColumnScales) -> None:
        """Begin with laws that say nothing, and find the numbers that point to each other or are the same."""
        for layer in (self.logits, self.bells):
            layer.weight.mul_(OUTPUT_INIT_SCALE)
            layer.bias.zero_()
        data = data[:: max(1, len(data.x) // ROWS)]
        means, known = self.means.select(data.x), self.means.select(data.observed)
        free = self.target_weights(data.x, data.observed.to(data.x.dtype)) > 0
        units = {place: unit for place, column in enumerate(self.columns) if (unit := scales.unit(column))}
        ends = np.reshape(
            [scales.bin_edges(column, self.slots) for column in self.columns], self.pointers.bin_edges.shape
        )
        rows = RelationData(means, known, free, units)
        forms = search_relations(rows, self.ranks.select(data.x))
        self.pointers.initialize(rows, forms, torch.from_numpy(ends).to(means.dtype))
        self.copies.initialize(rows, forms)

    def loss(self, h: Tensor, looked: RelationInputs, copied: CopyDistribution, x_0: Tensor, targets: Tensor) -> Tensor:
        """Minus the log-likelihood of the targets, (n, d), beside that of any rank, each as often as it counts."""
        counted = self.target_weights(x_0, targets)
        asked = counted > 0
        slots, peaks, copied = self(h, looked, copied, asked)
        log_p = self.log_likelihood(slots, peaks, self.ranks.select(x_0).T[asked.T])
        log_p = self.copies.log_likelihood(copied, self.means.select(x_0).T[asked.T], log_p)
        return -(log_p * counted.T[asked.T]).sum()

    def validate_state(self) -> None:
        """Refuse what would make laws of no numbers."""
        self.pointers.forms.validate_state()
        self.copies.relations.validate_state()

    def target_weights(self, x_0: Tensor, targets: Tensor) -> Tensor:
        """How much each rank counts, (n, ranks): as much as it does as a target, and that of a point mass nothing."""
        of_ranks, massed = self.ranks.select(targets), self.massed.index.to(targets.device)
        return of_ranks.index_copy(1, massed, self.massed.select(of_ranks) * self.no_mass.select(x_0))

    def log_likelihood(self, slots: Tensor, peaks: GaussianComponent, rank: Tensor) -> Tensor:
        """Of ranks, (any,), beside that of a standard normal number."""
        slot = (torch.special.ndtr(rank) * self.slots).long().clamp(max=self.slots - 1)
        in_slot = slots.log_softmax(dim=1).gather(1, slot.unsqueeze(1)).squeeze(1) + math.log(self.slots)
        in_peak = (rank**2 - ((rank - peaks.mean) / peaks.std) ** 2) / 2 - peaks.std.log()
        shares = functional.logsigmoid(-peaks.log_odds), functional.logsigmoid(peaks.log_odds)
        return torch.logaddexp(shares[0] + in_slot, shares[1] + in_peak)


def flat_index(asked: Tensor) -> Tensor:
    """The place of each that is asked for, column after column, or `NOWHERE`."""
    return (asked.T.flatten().cumsum(dim=0) - 1).view_as(asked.T).T.masked_fill(~asked, NO_INDEX)
