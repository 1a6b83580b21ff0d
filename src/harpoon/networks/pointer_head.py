"""Pointers: what known numbers say of another that is often near it, such as a bill of its payment.

How a number lies beside another is the same wherever the other is, which a network would have to learn anew for each of
its values. A pointer is told where a form of known numbers stands on the scale of the unknown one, and shapes the law
around that place; the network only says how much of each shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.data.column_array import NO_INDEX
from harpoon.networks.layers import OUTPUT_INIT_SCALE, Linear, linear
from harpoon.relations.relation import Relation, RelationBank, RelationValues
from harpoon.relations.search import RelationData, select_relations

MAX_RELATIONS_PER_COLUMN, MAX_COLUMNS = (3, 2), 256  # pointers to a number, of one and of two others, and in all
REACHES = (1.5, 6.0, 24.0)  # of the shapes, in slots
N_KERNELS = 1 + 2 * len(REACHES)
CLEARLY = 0.02  # nearer than by chance, as a share of the rows


class PointerTargets(NamedTuple):
    """Where pointers lead to in rows: what is said, in which slot that is, and in which the number is, (n, forms)."""

    values: RelationValues
    bin: Tensor
    own: Tensor

    def first(self, rows: int) -> PointerTargets:
        """The same of the first rows."""
        return PointerTargets(self.values.first(rows), self.bin[:rows], self.own[:rows])


class PointerHead(nn.Module):
    """Which numbers point to which, and what they make of the law."""

    bin_edges: Tensor

    def __init__(self, numbers: int, hidden: int, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.forms = RelationBank(numbers, min(sum(MAX_RELATIONS_PER_COLUMN), MAX_COLUMNS // max(numbers, 1)))
        self.register_buffer("bin_edges", torch.zeros(numbers, slots - 1))
        self.gates = Linear(hidden, max(len(self.forms) * N_KERNELS, 1))  # torch warns of a layer that makes nothing

    def predict(self, means: Tensor, known: Tensor) -> PointerTargets:
        """Where pointers lead to, and how far from there the known numbers are; both are (n, numbers)."""
        said = self.forms.predict(means, known)
        if not len(said.use):
            return PointerTargets(said, said.use, said.use)
        return PointerTargets(
            said,
            _bin_index(self.bin_edges[said.target], said.values),
            _bin_index(self.bin_edges, means)[:, said.target],
        )

    def forward(self, logits: Tensor, h: Tensor, pointed: PointerTargets, row_index: Tensor) -> Tensor:
        """Logits, (any, slots), with what known numbers say of others; `at` says which are whose, or `NOWHERE`."""
        use, target, there, _ = pointed.values
        row, pointer = (there & (row_index[:, target] != NO_INDEX)).nonzero(as_tuple=True)
        if not len(row):
            return logits
        weight = self.gates.weight.view(len(self.forms), N_KERNELS, -1)[use].flatten(0, 1)
        bias = self.gates.bias.view(len(self.forms), N_KERNELS)[use].flatten()
        gates = linear(h, weight, bias, reduced_precision=self.training).view(len(h), len(use), N_KERNELS)
        whose, order = row_index[row, target[pointer]].sort()
        row, pointer = row[order], pointer[order]
        shapes = N_KERNELS * pointed.bin[row, pointer].unsqueeze(1) + torch.arange(N_KERNELS, device=h.device)
        starts = N_KERNELS * torch.searchsorted(whose, torch.arange(len(logits), device=h.device))
        return logits + functional.embedding_bag(  # a sum of shapes for each of the logits, none of them written down
            shapes.flatten(),
            _kernels(self.slots, h.device),
            starts,
            mode="sum",
            per_sample_weights=gates[row, pointer].flatten(),
        )

    def relation_features(self, pointed: PointerTargets, known: Tensor) -> Tensor:
        """How known numbers lie beside each other, (n, `comparisons`): whether they are the same, and how far apart."""
        told = known.new_zeros(len(known), len(self.forms), 1 + len(REACHES), dtype=self.bin_edges.dtype)
        use, target, there, _ = pointed.values
        if len(use):
            off = (pointed.own - pointed.bin).to(told.dtype)
            said = torch.stack([(off == 0).to(told.dtype), *(torch.tanh(off / reach) for reach in REACHES)], dim=2)
            told[:, use] = said * (known[:, target] & there).unsqueeze(2)
        return told.flatten(1)

    @property
    def n_relation_features(self) -> int:
        """How many numbers `compared` tells of a row."""
        return len(self.forms) * (1 + len(REACHES))

    @torch.no_grad()
    def initialize(self, rows: RelationData, forms: Sequence[Relation], ends: Tensor) -> None:
        """Choose the forms that numbers are near to more often than by chance.

        Args:
            rows: To tell by.
            forms: To choose from.
            ends: Of each number's slots, (numbers, slots - 1).
        """
        self.gates.weight.mul_(OUTPUT_INIT_SCALE)
        self.gates.bias.zero_()
        self.bin_edges.copy_(ends)
        said, _ = rows.of(forms)
        own, slot = (
            _bin_index(self.bin_edges, rows.means)[:, said.target],
            _bin_index(self.bin_edges[said.target], said.values),
        )
        of_others = own.roll(len(own) // 2, dims=0)
        there = said.observed & rows.free[:, said.target]
        near, by_chance = (there & ((slot - other).abs() <= 1) for other in (own, of_others))
        least = by_chance.sum(dim=0) + CLEARLY * len(own)
        self.forms.store(select_relations(forms, near, there, least, MAX_RELATIONS_PER_COLUMN), rows.units)


@cache
def _kernels(slots: int, device: torch.device) -> Tensor:
    """What can be said of each slot from each place, (slots * SHAPES, slots): the same, below and above, how far."""
    places = torch.arange(slots, device=device, dtype=torch.float32)
    off = places[None] - places[:, None]
    fades = [torch.exp(-off.abs() / reach) * side for reach in REACHES for side in (off <= 0, off >= 0)]
    return torch.stack([(off == 0).float(), *fades], dim=1).flatten(0, 1)


def _bin_index(edges: Tensor, values: Tensor) -> Tensor:
    """Between which edges each value lies: (pointers, slots - 1) and (n, pointers) to (n, pointers)."""
    return torch.searchsorted(edges, values.T.contiguous()).T
