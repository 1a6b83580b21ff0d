"""Copies: numbers that are exactly what others say, such as a payment of the whole bill, or a total.

A law over slots of ranks can say that a number is near another, never that it is the same. So that is an event of its
own, which the network gives a probability, as it does to a point mass: the mass here is wherever the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.networks.layers import SMALL_START
from harpoon.relations.relation import Form, Forms, Said
from harpoon.relations.search import Evidence, chosen

EACH, MOST = (3, 4), 256  # forms of one number and of two that another may be a copy of, and in all
OFTEN, FEWEST = 0.01, 20  # the share of the rows, and how many of them, in which a number is a copy
RAREST = 0.01  # as no chance is surer than that before anything is learnt
CERTAIN = 0.99  # a copy that is as likely as that is one, where a mean is asked for
FAINTEST = -1e9  # the log of a probability that is none, and still a number that can be learnt from


class Copied(NamedTuple):
    """What some numbers may be copies of.

    Attributes:
        log_p: The logarithms of the probabilities that it is none, and of each form, (any, 1 + each).
        means: What it is then, as an encoded mean, (any, each).
        forms: Which form that is, (any, each).
        sure: Whether that form says what the number is, a point mass or not: it always did, and is there, (any, each).
    """

    log_p: Tensor
    means: Tensor
    forms: Tensor
    sure: Tensor

    def first(self, rows: int) -> Copied:
        """The same of the first rows."""
        return Copied(*(part[:rows] for part in self))

    def of(self, asked: Tensor) -> Copied:
        """Those of the numbers asked for, (n, numbers), of all, number after number."""
        return Copied(*(part.transpose(0, 1)[asked.T] for part in self))


class Copies(nn.Module):
    """Which numbers may be copies, and how likely that is."""

    def __init__(self, numbers: int, hidden: int) -> None:
        super().__init__()
        self.forms = Forms(numbers, min(sum(EACH), MOST // max(numbers, 1)))
        self.chances = nn.Linear(hidden, max(len(self.forms), 1))  # torch warns of a layer that makes nothing

    def forward(self, h: Tensor, said: Said) -> Copied:
        """What the last layer of the network says of all numbers: (n, numbers, any)."""
        none, each = h.new_zeros(len(h), self.forms.numbers, 1), self.forms.each
        if not len(said.use):
            nothing = none[:, :, 1:]
            return Copied(none, nothing, nothing.long(), nothing.bool())
        chances = functional.linear(h, self.chances.weight[said.use], self.chances.bias[said.use])
        chances = self._spread(chances.masked_fill(~said.there, -torch.inf), said, -torch.inf)
        forms = torch.arange(len(self.forms), device=h.device).view(1, -1, each).expand(len(h), -1, -1)
        log_p = torch.cat([none, chances.view(len(h), -1, each)], dim=2).log_softmax(dim=2)
        sure = self.sure[forms] & log_p[:, :, 1:].isfinite()
        return Copied(log_p, self._spread(said.means, said, 0.0).view(len(h), -1, each), forms, sure)

    def expected(self, copied: Copied, otherwise: Tensor, free: Tensor) -> Tensor:
        """The mean of each number: that of one that is no copy, or what it is a copy of, by how likely that is.

        A number that may be a point mass is what a sure form says, which knows better whether it is one.

        Args:
            copied: Of all numbers.
            otherwise: The mean of a number that is no copy, (n, numbers).
            free: How likely it is to be no point mass, likewise.
        """
        share = copied.log_p[:, :, 1:].exp() * free.unsqueeze(2)
        whole = share.sum(dim=2, keepdim=True)
        share = torch.where(whole > CERTAIN, share / whole.clamp(min=CERTAIN), share)
        follows = copied.sure & (free < 1).unsqueeze(2)
        ways = follows.sum(dim=2, keepdim=True)
        share = torch.where(ways > 0, follows / ways.clamp(min=1), share)
        return otherwise + (share * (copied.means - otherwise.unsqueeze(2))).sum(dim=2)

    @property
    def sure(self) -> Tensor:
        """Which forms held in all rows but a few, (forms,)."""
        return self.forms.shares >= CERTAIN

    @property
    def bound(self) -> tuple[Tensor, Tensor]:
        """Which numbers a sure sum is for, and which a sure product, (numbers,) each."""
        sums = (self.forms.weights[:, : self.forms.numbers] != 0).any(dim=1)
        by_sums, by_products = (
            (self.sure & kind).view(self.forms.numbers, self.forms.each).any(dim=1) for kind in (sums, ~sums)
        )
        return by_sums, by_products

    def _spread(self, some: Tensor, said: Said, otherwise: float) -> Tensor:
        """Numbers of the forms that there are over all that there might be, (n, forms)."""
        return some.new_full((len(some), len(self.forms)), otherwise).index_copy(1, said.use, some)

    def log_likelihood(self, copied: Copied, means: Tensor, otherwise: Tensor) -> Tensor:
        """Of numbers, (any,), by their encoded means; `otherwise` is that of one that is no copy."""
        log_p, of_none = copied.log_p[:, 1:], copied.log_p[:, 0] + otherwise
        same = self.forms.same(copied.means, means.unsqueeze(1), copied.forms) & log_p.isfinite()
        if not same.any():
            return of_none
        as_copy = log_p.masked_fill(~same, FAINTEST).logsumexp(dim=1)
        return torch.where(same.any(dim=1), as_copy, of_none)

    def compared(self, said: Said, means: Tensor, known: Tensor) -> Tensor:
        """Which known numbers are copies of others that are known, (n, `comparisons`)."""
        if not len(said.use):
            return means.new_zeros(len(means), len(self.forms))
        same = self.forms.same(said.means, means[:, said.target], said.use) & known[:, said.target] & said.there
        return self._spread(same.to(means.dtype), said, 0.0)

    @property
    def comparisons(self) -> int:
        """How many numbers `compared` tells of a row."""
        return len(self.forms)

    @torch.no_grad()
    def prepare(self, rows: Evidence, forms: Sequence[Form]) -> None:
        """Choose the forms that numbers are often copies of."""
        exact = [form for form in forms if form.exact(rows.units[form.target])]
        said, same = rows.of(exact)
        there = said.there & rows.free[:, said.target]
        least = (OFTEN * there.sum(dim=0)).clamp(min=FEWEST)
        self.forms.keep(chosen(exact, same, there, least, EACH), rows.units)
        self.chances.weight.mul_(SMALL_START)
        self.chances.bias.zero_()
        odds = self.forms.shares.clamp(RAREST, 1 - RAREST).logit()  # before any training, as often as in the table
        self.chances.bias[: len(odds)] = odds
        said = self.forms.look(rows.means, rows.known)
        same = self.forms.same(said.means, rows.means[:, said.target], said.use)  # also where both are a point mass
        there = said.there & rows.known[:, said.target]
        shares = (same & there).sum(dim=0) / there.sum(dim=0).clamp(min=1)
        self.forms.shares[said.use] = shares.to(self.forms.shares.dtype)
