"""Pointers: numbers of one unit that are often near each other, such as a bill and its payment.

How a number lies beside another is the same wherever the other is, which a network would have to learn anew for each of
its values. A pointer is told where the known number stands on the scale of the unknown one, and shapes the law around
that place; the network only says how much of each shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.network import SMALL_START
from harpoon.scaling import Floats

Crossing = Callable[[int, int, int], Floats | None]
PER_NUMBER, MOST_POINTERS = 3, 64
REACHES = (1.5, 6.0, 24.0)  # of the shapes, in slots
SHAPES = 1 + 2 * len(REACHES)
CANDIDATES, ROWS = 8, 4096  # of each number, and rows to tell them by
CLEARLY = 0.02  # nearer than by chance, as a share of the rows
NOWHERE = -1


def incomparable(_target: int, _source: int, _slots: int) -> None:
    """No number can be told on another's scale."""


class Pointers(nn.Module):
    """Which numbers point to which, and what they make of the law."""

    target: Tensor
    source: Tensor
    own_edges: Tensor
    edges: Tensor
    useful: Tensor

    def __init__(self, numbers: int, hidden: int, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.count = min(numbers * (numbers - 1), PER_NUMBER * numbers, MOST_POINTERS)
        self.register_buffer("target", torch.zeros(self.count, dtype=torch.long))
        self.register_buffer("source", torch.zeros(self.count, dtype=torch.long))
        self.register_buffer("own_edges", torch.zeros(self.count, slots - 1))
        self.register_buffer("edges", torch.zeros(self.count, slots - 1))
        self.register_buffer("useful", torch.zeros(self.count, dtype=torch.bool))
        self.gates = nn.Linear(hidden, max(self.count * SHAPES, 1))  # torch warns of a layer that makes nothing

    def forward(self, logits: Tensor, h: Tensor, means: Tensor, known: Tensor, at: Tensor) -> Tensor:
        """Logits, (any, slots), with what known numbers say of others.

        The others are (n, numbers), and `at` says which logits are whose, or `NOWHERE`.
        """
        use, target, source = self._in_use()
        row, pointer = (known[:, source] & (at[:, target] != NOWHERE)).nonzero(as_tuple=True)
        if not len(row):
            return logits
        slot = _slots(self.edges[use], means[:, source])
        weight = self.gates.weight.view(self.count, SHAPES, -1)[use].flatten(0, 1)
        bias = self.gates.bias.view(self.count, SHAPES)[use].flatten()
        gates = functional.linear(h, weight, bias).view(len(h), len(use), SHAPES)
        whose, order = at[row, target[pointer]].sort()
        row, pointer = row[order], pointer[order]
        shapes = SHAPES * slot[row, pointer].unsqueeze(1) + torch.arange(SHAPES, device=h.device)
        starts = SHAPES * torch.searchsorted(whose, torch.arange(len(logits), device=h.device))
        return logits + functional.embedding_bag(  # a sum of shapes for each of the logits, none of them written down
            shapes.flatten(),
            _shapes(self.slots, h.device),
            starts,
            mode="sum",
            per_sample_weights=gates[row, pointer].flatten(),
        )

    @torch.no_grad()
    def compared(self, means: Tensor, known: Tensor) -> Tensor:
        """How known numbers lie beside each other, (n, `comparisons`): whether they are the same, and how far apart."""
        told = means.new_zeros(len(means), self.count, 1 + len(REACHES))
        use, target, source = self._in_use()
        if len(use):
            own, other = _slots(self.own_edges[use], means[:, target]), _slots(self.edges[use], means[:, source])
            off = (own - other).to(means.dtype)
            both = known[:, target] & known[:, source]
            said = torch.stack([(off == 0).to(means.dtype), *(torch.tanh(off / reach) for reach in REACHES)], dim=2)
            told[:, use] = said * both.unsqueeze(2)
        return told.flatten(1)

    def _in_use(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pointers that are of use, where they lead to and where from."""
        use = self.useful.nonzero()[:, 0]
        return use, self.target[use], self.source[use]

    @property
    def comparisons(self) -> int:
        """How many numbers `compared` tells of a row."""
        return self.count * (1 + len(REACHES))

    @torch.no_grad()
    def prepare(self, means: Tensor, ranks: Tensor, known: Tensor, crossing: Crossing) -> None:
        """Find the numbers that are near each other more often than by chance; all are (n, numbers)."""
        for buffer in self.buffers():
            buffer.zero_()
        self.gates.weight.mul_(SMALL_START)
        self.gates.bias.zero_()
        if not self.count:
            return
        means, ranks, known = (part[:: max(1, len(part) // ROWS)] for part in (means, ranks, known))
        slot = torch.special.ndtr(ranks) * self.slots
        found = []
        for target, source in _candidates(ranks, known):
            ends, own_ends = (_ends(crossing(target, other, self.slots), means) for other in (source, target))
            both = known[:, target] & known[:, source]
            if ends is not None and own_ends is not None and both.any():
                at = torch.searchsorted(ends, means[both, source].contiguous())
                found.append((_nearer(at, slot[both, target].long()), target, source, ends, own_ends))
        found.sort(key=lambda one: -one[0])
        for place, (nearer, target, source, ends, own_ends) in enumerate(found[: self.count]):
            self.target[place], self.source[place] = target, source
            self.edges[place], self.own_edges[place] = ends, own_ends
            self.useful[place] = nearer > CLEARLY

    def check(self, numbers: int) -> None:
        """Refuse pointers from or to numbers that there are not."""
        for ends in (self.target, self.source):
            if ((ends < 0) | (ends >= numbers)).any():
                raise ValueError(f"a pointer leads to none of the {numbers} numbers")


def _ends(edges: Floats | None, like: Tensor) -> Tensor | None:
    """Edges as a tensor, unless there are none or one scale is too large for the other."""
    ends = None if edges is None else torch.from_numpy(edges).to(like.dtype)
    return ends if ends is not None and ends.isfinite().all() else None


def _nearer(at: Tensor, own: Tensor) -> float:
    """How much more often two places are the same or side by side than by chance, as a share of the rows."""
    near, chance = ((at - other).abs() <= 1 for other in (own, own.roll(len(own) // 2)))
    return float(near.double().mean() - chance.double().mean())


@cache
def _shapes(slots: int, device: torch.device) -> Tensor:
    """What can be said of each slot from each place, (slots * SHAPES, slots): the same, below and above, how far."""
    places = torch.arange(slots, device=device, dtype=torch.float32)
    off = places[None] - places[:, None]
    fades = [torch.exp(-off.abs() / reach) * side for reach in REACHES for side in (off <= 0, off >= 0)]
    return torch.stack([(off == 0).float(), *fades], dim=1).flatten(0, 1)


def _slots(edges: Tensor, values: Tensor) -> Tensor:
    """Between which edges each value lies: (pointers, slots - 1) and (n, pointers) to (n, pointers)."""
    return torch.searchsorted(edges, values.T.contiguous()).T


def _candidates(ranks: Tensor, known: Tensor) -> list[tuple[int, int]]:
    """Pairs of numbers that go together, some for each."""
    there = known.double()
    x = ranks.double() * there
    together = (x.T @ x / (there.T @ there).clamp(min=1)).abs()
    together.fill_diagonal_(-1.0)
    closest = together.argsort(dim=1, descending=True, stable=True)[:, : min(CANDIDATES, len(together) - 1)]
    return [(target, source) for target, sources in enumerate(closest.tolist()) for source in sources]
