"""The laws of cells: what each cell of a row may be, given those that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.codec import Block
from harpoon.encodings import Shape
from harpoon.network import SMALL_START, Given
from harpoon.places import Places
from harpoon.pointers import NOWHERE, Crossing, Pointers
from harpoon.scaling import Floats

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
    """

    labels: Tensor
    slots: Tensor
    peaks: Peaks


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
        self.logits = nn.Linear(hidden, max(self.width, 1))  # torch warns of a layer that makes nothing
        self.bells = nn.Linear(hidden, max(3 * len(ranks), 1))
        self.pointers = Pointers(len(ranks), hidden, slots)

    def forward(self, h: Tensor, given: Given, asked: Tensor) -> tuple[Tensor, Peaks]:
        """The last layer of the network to slots and peaks of the ranks `asked` for, (n, ranks), rank after rank."""
        ranks = len(self.ranks)
        if not ranks:
            return h.new_zeros(0, self.slots), Peaks(*h.new_zeros(3, 0))
        row, heights = asked.T.nonzero()[:, 1], asked.sum(dim=0).tolist()
        parts = h.index_select(0, row).split_with_sizes(heights)
        weights, biases = self.logits.weight.view(ranks, self.slots, -1), self.logits.bias.view(ranks, self.slots)
        told = (functional.linear(part, *layer) for part, *layer in zip(parts, weights, biases, strict=True))
        means, known = self.means.of(given.x), self.means.of(given.known)
        logits = self.pointers(torch.cat(list(told)), h, means, known, numbered(asked))
        log_odds, place, width = self.bells(h).view(len(h), 3, ranks).permute(1, 2, 0)[:, asked.T]
        return logits, Peaks(log_odds, place, NARROWEST + functional.softplus(width))

    def compared(self, given: Given) -> Tensor:
        """How known numbers lie beside each other."""
        return self.pointers.compared(self.means.of(given.x), self.means.of(given.known))

    @torch.no_grad()
    def prepare(self, data: Given, crossing: Crossing) -> None:
        """Begin with laws that say nothing, and find the numbers that point to each other."""
        for layer in (self.logits, self.bells):
            layer.weight.mul_(SMALL_START)
            layer.bias.zero_()
        free = self.counted(data.x, data.known.to(data.x.dtype)) > 0

        def between(target: int, source: int, slots: int) -> Floats | None:
            return crossing(self.columns[target], self.columns[source], slots)

        self.pointers.prepare(self.means.of(data.x), self.ranks.of(data.x), free, between)

    def loss(self, h: Tensor, given: Given, x_0: Tensor, targets: Tensor) -> Tensor:
        """Minus the log-likelihood of the targets, (n, d), beside that of any rank, each as often as it counts."""
        counted = self.counted(x_0, targets)
        asked = counted > 0
        slots, peaks = self(h, given, asked)
        log_p = self.log_likelihood(slots, peaks, self.ranks.of(x_0).T[asked.T])
        return -(log_p * counted.T[asked.T]).sum()

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
