"""The laws of cells: what each cell of a row may be, given those that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.data.column_array import NOWHERE
from harpoon.encoding.base import Block, Shape
from harpoon.encoding.batch import Given
from harpoon.networks.copy_head import CERTAIN, Copied, Copies
from harpoon.networks.layers import SMALL_START, Linear, Places
from harpoon.networks.pointer_head import Pointed, Pointers
from harpoon.relations.relation import Said, Scales
from harpoon.relations.search import ROWS, Evidence, found

NARROWEST = 1e-3  # a peak, on the scale of ranks


class Peaks(NamedTuple):
    """Bells on the scale of ranks: what is known more closely than a slot is wide."""

    log_odds: Tensor
    place: Tensor
    width: Tensor


class Laws(NamedTuple):
    """Logarithms of probabilities, up to a constant.

    Attributes:
        labels: Of the labels of all categories and of all point masses, (n, labels).
        slots: Of the slots that a rank is in if its number is no point mass, (ranks asked for, slots).
        peaks: How likely the rank is to be near one place instead, which place and how near, (ranks asked for,) each.
        copies: How likely the number is to be the same as another instead, of as many.
    """

    labels: Tensor
    slots: Tensor
    peaks: Peaks
    copies: Copied

    def of_ranks(self, which: Tensor) -> Laws:
        """The laws of some of the ranks asked for."""
        peaks, copies = ([told[which] for told in part] for part in (self.peaks, self.copies))
        return Laws(self.labels, self.slots[which], Peaks(*peaks), Copied(*copies))


class Looked(NamedTuple):
    """What is known of the numbers of rows, (n, numbers), and what that says of others."""

    means: Tensor
    known: Tensor
    pointed: Pointed
    copied: Said

    def first(self, rows: int) -> Looked:
        """The same of the first rows."""
        return Looked(self.means[:rows], self.known[:rows], self.pointed.first(rows), self.copied.first(rows))


class Reading(NamedTuple):
    """What the network makes of rows where there is only noise, before any law of a rank is asked for.

    Attributes:
        labels: The logarithms of the probabilities of all labels, (n, labels).
        h: The last layer.
        looked: What is known of the numbers.
        copied: What all numbers may be copies of.
        told_by: Tells the laws of ranks.
    """

    labels: Tensor
    h: Tensor
    looked: Looked
    copied: Copied
    told_by: RankLaws

    def laws(self, asked: Tensor) -> Laws:
        """The law of each cell; of ranks, the laws of those `asked` for, (n, ranks)."""
        return Laws(self.labels, *self.told_by(self.h, self.looked, self.copied, asked))

    def settled(self) -> Tensor:
        """Which numbers follow from known ones, all but surely, (n, ranks)."""
        return self.copied.log_p[:, :, 0] < math.log(1 - CERTAIN)


class RankLaws(nn.Module):
    """A head that tells the law of every rank as a histogram over `slots` slots, equally likely beforehand.

    A rank is drawn from the whole of its bell, so the slots need not be learnt from the table: the k-th of K holds the
    ranks whose share of lower ones is between k / K and (k + 1) / K. Nothing is asked of the rank of a point mass.

    Where other cells all but determine a number, slots are too wide. So the histogram is mixed with a bell that may be
    as narrow as it likes.
    """

    def __init__(self, blocks: Sequence[Block], hidden: int, slots: int) -> None:
        super().__init__()
        means = {block.column: block.start for block in blocks if block.shape is Shape.MEAN}
        ranks = [block for block in blocks if block.shape is Shape.LINE and block.column in means]
        no_mass = {block.column: block.start for block in blocks if block.simplex}
        self.slots = slots
        self.columns = [block.column for block in ranks]
        self.ranks = Places([block.start for block in ranks])
        self.means = Places([means[column] for column in self.columns])
        self.massed = Places([row for row, block in enumerate(ranks) if block.column in no_mass])
        self.no_mass = Places([no_mass[block.column] for block in ranks if block.column in no_mass])
        self.width = len(ranks) * slots
        self.logits = Linear(hidden, max(self.width, 1))  # torch warns of a layer that makes nothing
        self.bells = nn.Linear(hidden, max(3 * len(ranks), 1))
        self.pointers = Pointers(len(ranks), hidden, slots)
        self.copies = Copies(len(ranks), hidden)

    def look(self, given: Given) -> Looked:
        """What can be said of the numbers before any network has looked at them."""
        means, known = self.means.of(given.x), self.means.of(given.observed)
        return Looked(means, known, self.pointers.look(means, known), self.copies.forms.look(means, known))

    def copied(self, h: Tensor, looked: Looked) -> Copied:
        """The last layer of the network to what all numbers may be copies of, (n, ranks, any)."""
        copied: Copied = self.copies(h, looked.copied)
        return copied

    def forward(self, h: Tensor, looked: Looked, copied: Copied, asked: Tensor) -> tuple[Tensor, Peaks, Copied]:
        """The last layer of the network to the laws of the ranks `asked` for, (n, ranks), rank after rank."""
        ranks = len(self.ranks)
        if not ranks:
            return h.new_zeros(0, self.slots), Peaks(*h.new_zeros(3, 0)), copied.of(asked)
        logits = self.pointers(self._slots(h, asked), h, looked.pointed, numbered(asked))
        log_odds, place, width = self.bells(h).view(len(h), 3, ranks).permute(1, 2, 0)[:, asked.T]
        return logits, Peaks(log_odds, place, NARROWEST + functional.softplus(width)), copied.of(asked)

    def _slots(self, h: Tensor, asked: Tensor) -> Tensor:
        """What the last layer says of the slots of the ranks `asked` for, rank after rank."""
        ranks, (rank, row) = len(self.ranks), asked.T.nonzero(as_tuple=True)
        if self.training:  # most are asked for, and one product is faster than one for each rank
            all_of_them: Tensor = self.logits(h)
            return all_of_them.view(-1, self.slots).index_select(0, row * ranks + rank)
        parts = h.index_select(0, row).split_with_sizes(asked.sum(dim=0).tolist())
        weights, biases = self.logits.weight.view(ranks, self.slots, -1), self.logits.bias.view(ranks, self.slots)
        return torch.cat([functional.linear(part, *layer) for part, *layer in zip(parts, weights, biases, strict=True)])

    @property
    def comparisons(self) -> int:
        """How many numbers `compared` tells of a row."""
        return self.pointers.comparisons + self.copies.comparisons

    def expected(self, copied: Copied, means: Tensor, free: Tensor) -> Tensor:
        """The means of all numbers, (n, ranks), by what the network expects of those that are no copies.

        How likely each is to be no point mass, of those that have some, is `free`, (n, massed).
        """
        if not copied.means.shape[2]:
            return means
        everywhere = torch.ones_like(means).index_copy(1, self.massed.index.to(means.device), free)
        return self.copies.expected(copied, means, everywhere)

    def compared(self, looked: Looked) -> Tensor:
        """How known numbers lie beside each other, (n, `comparisons`)."""
        near = self.pointers.compared(looked.pointed, looked.known)
        return torch.cat([near, self.copies.compared(looked.copied, looked.means, looked.known)], dim=1)

    @torch.no_grad()
    def prepare(self, data: Given, scales: Scales) -> None:
        """Begin with laws that say nothing, and find the numbers that point to each other or are the same."""
        for layer in (self.logits, self.bells):
            layer.weight.mul_(SMALL_START)
            layer.bias.zero_()
        data = data[:: max(1, len(data.x) // ROWS)]
        means, known = self.means.of(data.x), self.means.of(data.observed)
        free = self.counted(data.x, data.observed.to(data.x.dtype)) > 0
        units = {place: unit for place, column in enumerate(self.columns) if (unit := scales.unit(column))}
        ends = np.reshape([scales.ends(column, self.slots) for column in self.columns], self.pointers.ends.shape)
        rows = Evidence(means, known, free, units)
        forms = found(rows, self.ranks.of(data.x))
        self.pointers.prepare(rows, forms, torch.from_numpy(ends).to(means.dtype))
        self.copies.prepare(rows, forms)

    def loss(self, h: Tensor, looked: Looked, copied: Copied, x_0: Tensor, targets: Tensor) -> Tensor:
        """Minus the log-likelihood of the targets, (n, d), beside that of any rank, each as often as it counts."""
        counted = self.counted(x_0, targets)
        asked = counted > 0
        slots, peaks, copied = self(h, looked, copied, asked)
        log_p = self.log_likelihood(slots, peaks, self.ranks.of(x_0).T[asked.T])
        log_p = self.copies.log_likelihood(copied, self.means.of(x_0).T[asked.T], log_p)
        return -(log_p * counted.T[asked.T]).sum()

    def check(self) -> None:
        """Refuse what would make laws of no numbers."""
        self.pointers.forms.check()
        self.copies.forms.check()

    def counted(self, x_0: Tensor, targets: Tensor) -> Tensor:
        """How much each rank counts, (n, ranks): as much as it does as a target, and that of a point mass nothing."""
        of_ranks, massed = self.ranks.of(targets), self.massed.index.to(targets.device)
        return of_ranks.index_copy(1, massed, self.massed.of(of_ranks) * self.no_mass.of(x_0))

    def log_likelihood(self, slots: Tensor, peaks: Peaks, rank: Tensor) -> Tensor:
        """Of ranks, (any,), beside that of a standard normal number."""
        slot = (torch.special.ndtr(rank) * self.slots).long().clamp(max=self.slots - 1)
        in_slot = slots.log_softmax(dim=1).gather(1, slot.unsqueeze(1)).squeeze(1) + math.log(self.slots)
        in_peak = (rank**2 - ((rank - peaks.place) / peaks.width) ** 2) / 2 - peaks.width.log()
        shares = functional.logsigmoid(-peaks.log_odds), functional.logsigmoid(peaks.log_odds)
        return torch.logaddexp(shares[0] + in_slot, shares[1] + in_peak)


def numbered(asked: Tensor) -> Tensor:
    """The place of each that is asked for, column after column, or `NOWHERE`."""
    return (asked.T.flatten().cumsum(dim=0) - 1).view_as(asked.T).T.masked_fill(~asked, NOWHERE)
