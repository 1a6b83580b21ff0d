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

QUANTILE_POINTS = 1024
UNIFORMS_PER_VARIABLE = (
    4  # random numbers for each piece: its place in the order, its label, its slot and its place in that
)
FIRST, DONE = -1.0, torch.inf  # places in a queue
SPIKE_TOLERANCE = 1e-5  # apart, as a share of their sizes, are means that are the same in single precision


class SampledRows(NamedTuple):
    """Encoded rows, every cell of them drawn, and which form each rank's number is a copy of, or `NOWHERE`."""

    x: Tensor
    relation_of: Tensor


class _Requested(NamedTuple):
    """Pieces that are drawn at once: in which rows, which pieces, and which laws of labels and of ranks are theirs."""

    row: Tensor
    variable: Tensor
    categories: Tensor
    rank: Tensor


@dataclass(frozen=True)
class AutoregressiveSampler:
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

    variable_of: Tensor
    follows: Tensor
    categories: Tensor
    first_category: Tensor
    ranks: Tensor
    continuous: Tensor
    standardised: Tensor
    quantile_table: Tensor
    spikes: Tensor
    scales: Tensor

    @staticmethod
    def supports(codec: RowCodec) -> bool:
        """Whether the cells of a table have laws: not if a number is no rank."""
        shapes = [{part.type for part in column.parts} for column in codec.codecs]
        return all(PartType.REGRESSION in of_column for of_column in shapes if PartType.CONTINUOUS in of_column)

    @classmethod
    def from_codec(cls, codec: RowCodec) -> AutoregressiveSampler:
        """The places of a table's cells."""
        pieces = _variables(codec.slices)
        simplexes, lines, means = ([_of_type(piece, shape) for piece in pieces] for shape in _SHAPES)
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
            variable_of=torch.tensor([row for row, piece in enumerate(pieces) for _ in range(sum(map(_width, piece)))]),
            follows=torch.tensor([columns.index(column) for column in columns]),
            categories=labels,
            first_category=_starts(simplexes),
            ranks=torch.tensor([ranked.index(row) if row in ranked else NO_INDEX for row in range(len(pieces))]),
            continuous=_starts(lines),
            standardised=places,
            quantile_table=_means(codec, places, _quantile_table(codec)),
            spikes=_means(codec, places, _spikes(codec, widest)),
            scales=_scales(codec, len(ranked)),
        )

    def __len__(self) -> int:
        """How many pieces a row has."""
        return len(self.follows)

    def to(self, device: torch.device) -> AutoregressiveSampler:
        """The same, on another device."""
        return AutoregressiveSampler(*(getattr(self, field.name).to(device) for field in fields(self)))

    @torch.no_grad()
    def sample(
        self, network: FusedMaxNoiseModel, given: EncodedRows, uniforms: Tensor, steps: int, on_step: Callable[[], None]
    ) -> SampledRows:
        """Rows with every cell drawn.

        Args:
            network: Tells the laws.
            given: What is known.
            chances: Between 0 and 1, (CHANCES, n, pieces).
            turns: At the most; with fewer than there are unknown pieces, several are drawn at once, each by itself.
            on_turn: Called after each turn, for progress.
        """
        x = given.x * given.observed
        filled = SampledRows(x, torch.full((len(x), int((self.ranks != NO_INDEX).sum())), NO_INDEX, device=x.device))
        known = torch.ones(len(x), len(self), dtype=torch.bool, device=x.device)
        known[:, self.variable_of] = given.observed
        order = uniforms[0][:, self.follows] + self._order_offset(*network.constrained)
        queue = order.masked_fill(known, DONE).argsort(dim=1, stable=True).argsort(dim=1)
        queue = queue.to(x.dtype).masked_fill_(known, DONE)
        for turn in range(steps):
            self._step(network, filled, queue, uniforms[1:], steps - turn)
            on_step()
        return filled

    def _step(
        self, network: FusedMaxNoiseModel, filled: SampledRows, queue: Tensor, chances: Tensor, turns: int
    ) -> None:
        """Draw the next pieces of each row; where nothing is known of any row, their laws are those of one row."""
        known, ranked = queue == DONE, self.ranks != NO_INDEX
        rows, alike = (~known).any(dim=1).nonzero()[:, 0], not known.any()
        if not len(rows):
            return
        read = rows[:1] if alike else rows
        told = network.predict(EncodedRows(filled.x[read], known[read].index_select(1, self.variable_of)))
        asked = self._requested(told, queue[rows], turns)
        row, piece = asked.nonzero(as_tuple=True)
        if alike:
            laws, drawn = (
                told.distributions(ranked[None, ranked]),
                _Requested(row, piece, torch.zeros_like(row), self.ranks[piece]),
            )
        else:
            laws = told.distributions(asked[:, ranked])
            drawn = _Requested(rows[row], piece, row, flat_index(asked & ranked)[row, piece])
        self._sample_requested(filled, drawn, laws, chances[:, drawn.row, piece])
        queue[rows] = queue[rows].masked_fill(asked, DONE)

    def _order_offset(self, by_sums: Tensor, by_products: Tensor) -> Tensor:
        """How much later than at random each piece comes, (pieces,): numbers that relations bind behind all others.

        They will follow from each other, so that the small ones come first. A law is as fine as its number is large: of
        a price and a total that are both a little off, the tip between them would be far off; a tip that is off by as
        much of its own size does no harm to either. In sums small is what deviates little, in products what does so
        beside its own size.
        """
        late, bound = torch.zeros(len(self), device=self.follows.device), by_sums | by_products
        scale = torch.where(by_sums, self.scales[0], self.scales[1]).masked_fill(~bound, torch.inf)
        late[self.ranks != NO_INDEX] = torch.where(bound, 1.0 + scale.argsort().argsort(), 0.0)
        return late

    def _requested(self, told: ConditionalPredictor, queue: Tensor, turns: int) -> Tensor:
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

    def _sample_requested(
        self, filled: SampledRows, drawn: _Requested, laws: ConditionalDistributions, chances: Tensor
    ) -> None:
        """Write pieces into rows."""
        x, (row, piece, *_) = filled.x, drawn
        places = self.categories[piece]
        log_p = laws.category_logits[drawn.categories[:, None], places.clamp(min=0)].masked_fill(
            places == NO_INDEX, -torch.inf
        )
        label, labelled = (
            self._determined_spikes(drawn, laws, _categorical_icdf(log_p, chances[0])),
            self.first_category[piece] != NO_INDEX,
        )
        x[row[labelled], (self.first_category[piece] + label)[labelled]] = 1.0
        free = (self.ranks[piece] != NO_INDEX) & (~labelled | (label == 0))
        fixed = (self.standardised[piece] != NO_INDEX) & ~free
        x[row[fixed], self.standardised[piece[fixed]]] = self.spikes[piece[fixed], label[fixed]].to(x.dtype)
        if free.any():
            told = laws.select_ranks(drawn.rank[free])
            self._sample_numbers(filled, row[free], piece[free], told, chances[1:, free].double())

    def _determined_spikes(self, drawn: _Requested, laws: ConditionalDistributions, label: Tensor) -> Tensor:
        """Labels; where a sure form says what a number is, the point mass that it then is, or that it is none."""
        massed = ((self.ranks != NO_INDEX) & (self.first_category != NO_INDEX))[drawn.variable].nonzero()[:, 0]
        _, means, _, sure = (told[drawn.rank[massed]] for told in laws.copies)
        if not sure.any():
            return label
        said = means.gather(1, sure.to(means.dtype).argmax(dim=1, keepdim=True))
        piece = drawn.variable[massed]
        masses = self.spikes[piece].to(said.dtype).masked_fill(self.categories[piece] == NO_INDEX, torch.inf)
        same = (masses - said).abs() <= SPIKE_TOLERANCE * (1 + said.abs())
        same[:, 0] = False  # that is no mass
        mass = torch.where(same.any(dim=1), same.to(means.dtype).argmax(dim=1), 0)
        return label.index_copy(0, massed, torch.where(sure.any(dim=1), mass, label[massed]))

    def _sample_numbers(
        self, filled: SampledRows, row: Tensor, piece: Tensor, laws: ConditionalDistributions, chances: Tensor
    ) -> None:
        """Write numbers that are no point masses into rows.

        The rank of a copy says nothing, because its number is read off its form.
        """
        x, form_of = filled
        which, left = _sample_copies(laws, chances[0])
        share = _share(laws, left, chances[1])
        x[row, self.continuous[piece]] = torch.special.ndtri(share).to(x.dtype)
        x[row, self.standardised[piece]] = self._inverse_cdf(piece, share).to(x.dtype)
        copies = (which != NO_INDEX).nonzero()[:, 0]
        row, piece, which = row[copies], piece[copies], which[copies]
        x[row, self.standardised[piece]] = laws.copies.values[copies, which].to(x.dtype)
        form_of[row, self.ranks[piece]] = laws.copies.relations[copies, which]

    def _inverse_cdf(self, piece: Tensor, share: Tensor) -> Tensor:
        """The mean of a number whose rank has such a share of the others below it."""
        height = share * QUANTILE_POINTS
        rung = height.long().clamp(max=QUANTILE_POINTS - 1)
        return torch.lerp(self.quantile_table[piece, rung], self.quantile_table[piece, rung + 1], height - rung)


def _sample_copies(laws: ConditionalDistributions, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Of which of its forms each number is a copy, or `NOWHERE`, and the chance that is left for one that is none."""
    log_p = laws.copies.log_p.double()
    return _categorical_icdf(log_p, chance) - 1, (chance / log_p[:, 0].exp().clamp(min=MIN_RANK)).clamp(max=1)


def _share(laws: ConditionalDistributions, chance: Tensor, place_in_it: Tensor) -> Tensor:
    """Ranks drawn from their laws, as the share of lower ones: in its peak, or in a slot."""
    log_odds, place, width = (told.double() for told in laws.gaussian)
    in_peak = log_odds.sigmoid()
    left = ((chance - in_peak) / (1 - in_peak).clamp(min=MIN_RANK)).clamp(min=0)
    in_slot = (_categorical_icdf(laws.bin_logits, left) + place_in_it) / laws.bin_logits.shape[1]
    bell = torch.special.ndtr(place + width * torch.special.ndtri(place_in_it))
    return torch.where(chance < in_peak, bell, in_slot).clamp(MIN_RANK, 1 - MIN_RANK)


def _categorical_icdf(log_p: Tensor, chance: Tensor) -> Tensor:
    """The place, of those that a row may take, that a chance falls on."""
    ends = log_p.softmax(dim=1).cumsum(dim=1)
    return (ends < chance[:, None].to(ends.dtype) * ends[:, -1:]).sum(dim=1)


def _variables(blocks: Sequence[ColumnSlice]) -> list[list[ColumnSlice]]:
    """The blocks of each piece."""
    pieces: list[list[ColumnSlice]] = []
    for block in blocks:
        same = bool(pieces) and pieces[-1][0].column == block.column
        if same and not (block.is_categorical and pieces[-1][-1].is_categorical):
            pieces[-1].append(block)
        else:
            pieces.append([block])
    return pieces


def _of_type(piece: list[ColumnSlice], shape: PartType) -> ColumnSlice | None:
    return next((block for block in piece if block.type is shape), None)


def _width(block: ColumnSlice | None) -> int:
    return 0 if block is None else block.stop - block.start


def _starts(blocks: Sequence[ColumnSlice | None]) -> Tensor:
    return torch.tensor([NO_INDEX if block is None else block.start for block in blocks])


def _quantile_table(codec: RowCodec) -> Floats:
    """Rows with every rank at evenly spaced shares of its bell."""
    x = _spikes(codec, 1).repeat(QUANTILE_POINTS + 1, axis=0)
    shares = np.linspace(MIN_RANK, 1 - MIN_RANK, QUANTILE_POINTS + 1)
    x[:, [block.start for block in codec.slices if block.type is PartType.CONTINUOUS]] = ndtri(shares)[:, None]
    return x


def _spikes(codec: RowCodec, most: int) -> Floats:
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
