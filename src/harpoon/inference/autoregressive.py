"""Cells drawn in turn: each from its law given the cells that are known and those drawn before it.

That is the reverse of a noise that takes cells wholly, one after the other. It makes no error but those of the laws: no
step has to guess at several cells at once. Every row has an order of its own, at random, because laws that were learnt
do not agree perfectly, and an error that all rows share is seen. Only numbers that relations bind are drawn by their
size, and where they follow from known ones at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from harpoon.data.column_array import NO_INDEX
from harpoon.data.statistics import Floats
from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.encoding.batch import MIN_RANK, EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.networks.at_max_noise import FusedMaxNoiseModel
from harpoon.networks.rank_head import ConditionalDistributions, ConditionalPredictor, flat_index

RUNGS = 1024
CHANCES = 4  # random numbers for each piece: its place in the order, its label, its slot and its place in that
FIRST, DONE = -1.0, torch.inf  # places in a queue
SAME_MASS = 1e-5  # apart, as a share of their sizes, are means that are the same in single precision


class Filled(NamedTuple):
    """Encoded rows, every cell of them drawn, and which form each rank's number is a copy of, or `NOWHERE`."""

    x: Tensor
    form_of: Tensor


class _Asked(NamedTuple):
    """Pieces that are drawn at once: in which rows, which pieces, and which laws of labels and of ranks are theirs."""

    row: Tensor
    piece: Tensor
    labels: Tensor
    rank: Tensor


@dataclass(frozen=True)
class Turns:
    """Where the pieces of a row stand among laws and encoded numbers.

    A piece is what is drawn at once: a cell, or half of a label that has two parts, of which the member comes right
    after its group. The tensors have one row per piece, and `NOWHERE` for what it lacks.

    Attributes:
        piece_of: Which piece each encoded number belongs to, (d,).
        after: The piece that it comes right after; itself, if there is none, (pieces,).
        labels: The places of its labels among all labels, (pieces, most labels).
        first: The encoded place of its first label, (pieces,).
        ranks: The place of its rank among all ranks, (pieces,).
        lines: The encoded place of its rank, (pieces,).
        means: The encoded place of its mean, (pieces,).
        ladder: Its mean at evenly spaced ranks, (pieces, RUNGS + 1).
        masses: Its mean at each of its point masses, behind one for none of them, (pieces, most labels).
        scales: How much numbers that have ranks deviate, and how much beside their size, (2, ranks).
    """

    piece_of: Tensor
    after: Tensor
    labels: Tensor
    first: Tensor
    ranks: Tensor
    lines: Tensor
    means: Tensor
    ladder: Tensor
    masses: Tensor
    scales: Tensor

    @staticmethod
    def suit(codec: RowCodec) -> bool:
        """Whether the cells of a table have laws: not if a number is no rank."""
        shapes = [{part.type for part in column.parts} for column in codec.columns]
        return all(PartType.REGRESSION in of_column for of_column in shapes if PartType.CONTINUOUS in of_column)

    @classmethod
    def of(cls, codec: RowCodec) -> Turns:
        """The places of a table's cells."""
        pieces = _pieces(codec.slices)
        simplexes, lines, means = ([_of_shape(piece, shape) for piece in pieces] for shape in _SHAPES)
        widest = max(map(_width, simplexes), default=1)
        labels, label = torch.full((len(pieces), widest), NO_INDEX), 0
        for row, block in enumerate(simplexes):
            labels[row, : _width(block)] = torch.arange(label, label + _width(block))
            label += _width(block)
            if means[row] and not lines[row]:
                labels[row, 0] = NO_INDEX  # of such a number there is nothing but masses
        ranked = [row for row, line in enumerate(lines) if line]
        columns = [piece[0].column for piece in pieces]
        places = _starts(means)
        return cls(
            piece_of=torch.tensor([row for row, piece in enumerate(pieces) for _ in range(sum(map(_width, piece)))]),
            after=torch.tensor([columns.index(column) for column in columns]),
            labels=labels,
            first=_starts(simplexes),
            ranks=torch.tensor([ranked.index(row) if row in ranked else NO_INDEX for row in range(len(pieces))]),
            lines=_starts(lines),
            means=places,
            ladder=_means(codec, places, _rungs(codec)),
            masses=_means(codec, places, _masses(codec, widest)),
            scales=_scales(codec, len(ranked)),
        )

    def __len__(self) -> int:
        """How many pieces a row has."""
        return len(self.after)

    def to(self, device: torch.device) -> Turns:
        """The same, on another device."""
        return Turns(*(getattr(self, field.name).to(device) for field in fields(self)))

    @torch.no_grad()
    def drawn(
        self, network: FusedMaxNoiseModel, given: EncodedRows, chances: Tensor, turns: int, on_turn: Callable[[], None]
    ) -> Filled:
        """Rows with every cell drawn.

        Args:
            network: Tells the laws.
            given: What is known.
            chances: Between 0 and 1, (CHANCES, n, pieces).
            turns: At the most; with fewer than there are unknown pieces, several are drawn at once, each by itself.
            on_turn: Called after each turn, for progress.
        """
        x = given.x * given.observed
        filled = Filled(x, torch.full((len(x), int((self.ranks != NO_INDEX).sum())), NO_INDEX, device=x.device))
        known = torch.ones(len(x), len(self), dtype=torch.bool, device=x.device)
        known[:, self.piece_of] = given.observed
        order = chances[0][:, self.after] + self._lateness(*network.constrained)
        queue = order.masked_fill(known, DONE).argsort(dim=1, stable=True).argsort(dim=1)
        queue = queue.to(x.dtype).masked_fill_(known, DONE)
        for turn in range(turns):
            self._turn(network, filled, queue, chances[1:], turns - turn)
            on_turn()
        return filled

    def _turn(self, network: FusedMaxNoiseModel, filled: Filled, queue: Tensor, chances: Tensor, turns: int) -> None:
        """Draw the next pieces of each row; where nothing is known of any row, their laws are those of one row."""
        known, ranked = queue == DONE, self.ranks != NO_INDEX
        rows, alike = (~known).any(dim=1).nonzero()[:, 0], not known.any()
        if not len(rows):
            return
        read = rows[:1] if alike else rows
        told = network.predict(EncodedRows(filled.x[read], known[read].index_select(1, self.piece_of)))
        asked = self._asked(told, queue[rows], turns)
        row, piece = asked.nonzero(as_tuple=True)
        if alike:
            laws, drawn = told.distributions(ranked[None, ranked]), _Asked(row, piece, torch.zeros_like(row), self.ranks[piece])
        else:
            laws = told.distributions(asked[:, ranked])
            drawn = _Asked(rows[row], piece, row, flat_index(asked & ranked)[row, piece])
        self._draw(filled, drawn, laws, chances[:, drawn.row, piece])
        queue[rows] = queue[rows].masked_fill(asked, DONE)

    def _lateness(self, by_sums: Tensor, by_products: Tensor) -> Tensor:
        """How much later than at random each piece comes, (pieces,): numbers that relations bind behind all others.

        They will follow from each other, so that the small ones come first. A law is as fine as its number is large: of
        a price and a total that are both a little off, the tip between them would be far off; a tip that is off by as
        much of its own size does no harm to either. In sums small is what deviates little, in products what does so
        beside its own size.
        """
        late, bound = torch.zeros(len(self), device=self.after.device), by_sums | by_products
        scale = torch.where(by_sums, self.scales[0], self.scales[1]).masked_fill(~bound, torch.inf)
        late[self.ranks != NO_INDEX] = torch.where(bound, 1.0 + scale.argsort().argsort(), 0.0)
        return late

    def _asked(self, told: ConditionalPredictor, queue: Tensor, turns: int) -> Tensor:
        """Which pieces of rows are drawn next, (n, pieces), by their places in a queue, if so many turns are left.

        What follows from known cells is drawn before anything else: later, numbers that are drawn in the meantime might
        say otherwise.
        """
        waiting, settled = queue < DONE, torch.zeros_like(queue, dtype=torch.bool)
        if turns == 1:
            return waiting
        settled[:, self.ranks != NO_INDEX] = told.determined()
        queue = queue.masked_fill(settled & waiting, FIRST)
        at_once = (waiting.sum(dim=1, keepdim=True) + turns - 1).div(turns, rounding_mode="floor")
        return waiting & (queue <= queue.sort(dim=1).values.gather(1, at_once - 1))

    def _draw(self, filled: Filled, drawn: _Asked, laws: ConditionalDistributions, chances: Tensor) -> None:
        """Write pieces into rows."""
        x, (row, piece, *_) = filled.x, drawn
        places = self.labels[piece]
        log_p = laws.category_logits[drawn.labels[:, None], places.clamp(min=0)].masked_fill(places == NO_INDEX, -torch.inf)
        label, labelled = self._told(drawn, laws, _chosen(log_p, chances[0])), self.first[piece] != NO_INDEX
        x[row[labelled], (self.first[piece] + label)[labelled]] = 1.0
        free = (self.ranks[piece] != NO_INDEX) & (~labelled | (label == 0))
        fixed = (self.means[piece] != NO_INDEX) & ~free
        x[row[fixed], self.means[piece[fixed]]] = self.masses[piece[fixed], label[fixed]].to(x.dtype)
        if free.any():
            told = laws.select_ranks(drawn.rank[free])
            self._draw_numbers(filled, row[free], piece[free], told, chances[1:, free].double())

    def _told(self, drawn: _Asked, laws: ConditionalDistributions, label: Tensor) -> Tensor:
        """Labels; where a sure form says what a number is, the point mass that it then is, or that it is none."""
        massed = ((self.ranks != NO_INDEX) & (self.first != NO_INDEX))[drawn.piece].nonzero()[:, 0]
        _, means, _, sure = (told[drawn.rank[massed]] for told in laws.copies)
        if not sure.any():
            return label
        said = means.gather(1, sure.to(means.dtype).argmax(dim=1, keepdim=True))
        piece = drawn.piece[massed]
        masses = self.masses[piece].to(said.dtype).masked_fill(self.labels[piece] == NO_INDEX, torch.inf)
        same = (masses - said).abs() <= SAME_MASS * (1 + said.abs())
        same[:, 0] = False  # that is no mass
        mass = torch.where(same.any(dim=1), same.to(means.dtype).argmax(dim=1), 0)
        return label.index_copy(0, massed, torch.where(sure.any(dim=1), mass, label[massed]))

    def _draw_numbers(self, filled: Filled, row: Tensor, piece: Tensor, laws: ConditionalDistributions, chances: Tensor) -> None:
        """Write numbers that are no point masses into rows.

        The rank of a copy says nothing, because its number is read off its form.
        """
        x, form_of = filled
        which, left = _copied(laws, chances[0])
        share = _share(laws, left, chances[1])
        x[row, self.lines[piece]] = torch.special.ndtri(share).to(x.dtype)
        x[row, self.means[piece]] = self._climbed(piece, share).to(x.dtype)
        copies = (which != NO_INDEX).nonzero()[:, 0]
        row, piece, which = row[copies], piece[copies], which[copies]
        x[row, self.means[piece]] = laws.copies.values[copies, which].to(x.dtype)
        form_of[row, self.ranks[piece]] = laws.copies.relations[copies, which]

    def _climbed(self, piece: Tensor, share: Tensor) -> Tensor:
        """The mean of a number whose rank has such a share of the others below it."""
        height = share * RUNGS
        rung = height.long().clamp(max=RUNGS - 1)
        return torch.lerp(self.ladder[piece, rung], self.ladder[piece, rung + 1], height - rung)


def _copied(laws: ConditionalDistributions, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Of which of its forms each number is a copy, or `NOWHERE`, and the chance that is left for one that is none."""
    log_p = laws.copies.log_p.double()
    return _chosen(log_p, chance) - 1, (chance / log_p[:, 0].exp().clamp(min=MIN_RANK)).clamp(max=1)


def _share(laws: ConditionalDistributions, chance: Tensor, place_in_it: Tensor) -> Tensor:
    """Ranks drawn from their laws, as the share of lower ones: in its peak, or in a slot."""
    log_odds, place, width = (told.double() for told in laws.gaussian)
    in_peak = log_odds.sigmoid()
    left = ((chance - in_peak) / (1 - in_peak).clamp(min=MIN_RANK)).clamp(min=0)
    in_slot = (_chosen(laws.bin_logits, left) + place_in_it) / laws.bin_logits.shape[1]
    bell = torch.special.ndtr(place + width * torch.special.ndtri(place_in_it))
    return torch.where(chance < in_peak, bell, in_slot).clamp(MIN_RANK, 1 - MIN_RANK)


def _chosen(log_p: Tensor, chance: Tensor) -> Tensor:
    """The place, of those that a row may take, that a chance falls on."""
    ends = log_p.softmax(dim=1).cumsum(dim=1)
    return (ends < chance[:, None].to(ends.dtype) * ends[:, -1:]).sum(dim=1)


def _pieces(blocks: Sequence[ColumnSlice]) -> list[list[ColumnSlice]]:
    """The blocks of each piece."""
    pieces: list[list[ColumnSlice]] = []
    for block in blocks:
        same = bool(pieces) and pieces[-1][0].column == block.column
        if same and not (block.is_categorical and pieces[-1][-1].is_categorical):
            pieces[-1].append(block)
        else:
            pieces.append([block])
    return pieces


def _of_shape(piece: list[ColumnSlice], shape: PartType) -> ColumnSlice | None:
    return next((block for block in piece if block.type is shape), None)


def _width(block: ColumnSlice | None) -> int:
    return 0 if block is None else block.stop - block.start


def _starts(blocks: Sequence[ColumnSlice | None]) -> Tensor:
    return torch.tensor([NO_INDEX if block is None else block.start for block in blocks])


def _rungs(codec: RowCodec) -> Floats:
    """Rows with every rank at evenly spaced shares of its bell."""
    x = _masses(codec, 1).repeat(RUNGS + 1, axis=0)
    shares = np.linspace(MIN_RANK, 1 - MIN_RANK, RUNGS + 1)
    x[:, [block.start for block in codec.slices if block.type is PartType.CONTINUOUS]] = ndtri(shares)[:, None]
    return x


def _masses(codec: RowCodec, most: int) -> Floats:
    """Rows with every label, each in its turn, or the first where there are not so many."""
    x, label = np.zeros((most, codec.width)), np.arange(most)
    for block in codec.slices:
        if block.is_categorical:
            x[label, block.start + np.where(label < _width(block), label, 0)] = 1.0
    return x


def _scales(codec: RowCodec, ranks: int) -> Tensor:
    """How much numbers deviate, in the units of the table and beside their size."""
    scales = torch.zeros(2, ranks)
    for place, unit in codec.units.items():
        scales[:, place] = torch.tensor([unit.scale, 1 / max(abs(unit.zero), MIN_RANK)])
    return scales


def _means(codec: RowCodec, places: Tensor, x: Floats) -> Tensor:
    """The means of encoded rows that say their rank or their mass, (pieces, rows)."""
    found = torch.from_numpy(codec.encode(codec.decode(x)))
    return torch.where(places[:, None] == NO_INDEX, 0.0, found[:, places.clamp(min=0)].T)


_SHAPES = (PartType.CATEGORICAL, PartType.CONTINUOUS, PartType.REGRESSION)
