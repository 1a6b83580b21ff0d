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

from harpoon.networks.layers import OUTPUT_INIT_SCALE
from harpoon.relations.relation import Relation, RelationBank, RelationValues
from harpoon.relations.search import RelationData, select_relations

MAX_RELATIONS_PER_COLUMN, MAX_COLUMNS = (
    (3, 4),
    256,
)  # forms of one number and of two that another may be a copy of, and in all
OFTEN, FEWEST = 0.01, 20  # the share of the rows, and how many of them, in which a number is a copy
INITIAL_PROBABILITY_MARGIN = 0.01  # as no chance is surer than that before anything is learnt
COPY_CERTAIN_PROBABILITY = 0.99  # a copy that is as likely as that is one, where a mean is asked for
MIN_LOG_PROBABILITY = -1e9  # the log of a probability that is none, and still a number that can be learnt from


class CopyDistribution(NamedTuple):
    """What some numbers may be copies of.

    Attributes:
        log_p: The logarithms of the probabilities that it is none, and of each form, (any, 1 + each).
        means: What it is then, as an encoded mean, (any, each).
        forms: Which form that is, (any, each).
        sure: Whether that form says what the number is, a point mass or not: it always did, and is there, (any, each).
    """

    log_p: Tensor
    values: Tensor
    relations: Tensor
    deterministic: Tensor

    def first(self, rows: int) -> CopyDistribution:
        """The same of the first rows."""
        return CopyDistribution(*(part[:rows] for part in self))

    def select(self, asked: Tensor) -> CopyDistribution:
        """Those of the numbers asked for, (n, numbers), of all, number after number."""
        return CopyDistribution(*(part.transpose(0, 1)[asked.T] for part in self))


class CopyHead(nn.Module):
    """Which numbers may be copies, and how likely that is."""

    def __init__(self, numbers: int, hidden: int) -> None:
        super().__init__()
        self.relations = RelationBank(numbers, min(sum(MAX_RELATIONS_PER_COLUMN), MAX_COLUMNS // max(numbers, 1)))
        self.chances = nn.Linear(hidden, max(len(self.relations), 1))  # torch warns of a layer that makes nothing

    def forward(self, h: Tensor, said: RelationValues) -> CopyDistribution:
        """What the last layer of the network says of all numbers: (n, numbers, any)."""
        none, each = h.new_zeros(len(h), self.relations.numbers, 1), self.relations.each
        if not len(said.use):
            nothing = none[:, :, 1:]
            return CopyDistribution(none, nothing, nothing.long(), nothing.bool())
        chances = functional.linear(h, self.chances.weight[said.use], self.chances.bias[said.use])
        chances = self._scatter(chances.masked_fill(~said.observed, -torch.inf), said, -torch.inf)
        forms = torch.arange(len(self.relations), device=h.device).view(1, -1, each).expand(len(h), -1, -1)
        log_p = torch.cat([none, chances.view(len(h), -1, each)], dim=2).log_softmax(dim=2)
        sure = self.deterministic[forms] & log_p[:, :, 1:].isfinite()
        return CopyDistribution(log_p, self._scatter(said.values, said, 0.0).view(len(h), -1, each), forms, sure)

    def posterior_mean(self, copied: CopyDistribution, otherwise: Tensor, free: Tensor) -> Tensor:
        """The mean of each number: that of one that is no copy, or what it is a copy of, by how likely that is.

        A number that may be a point mass is what a sure form says, which knows better whether it is one.

        Args:
            copied: Of all numbers.
            otherwise: The mean of a number that is no copy, (n, numbers).
            free: How likely it is to be no point mass, likewise.
        """
        share = copied.log_p[:, :, 1:].exp() * free.unsqueeze(2)
        whole = share.sum(dim=2, keepdim=True)
        share = torch.where(whole > COPY_CERTAIN_PROBABILITY, share / whole.clamp(min=COPY_CERTAIN_PROBABILITY), share)
        follows = copied.deterministic & (free < 1).unsqueeze(2)
        ways = follows.sum(dim=2, keepdim=True)
        share = torch.where(ways > 0, follows / ways.clamp(min=1), share)
        return otherwise + (share * (copied.values - otherwise.unsqueeze(2))).sum(dim=2)

    @property
    def deterministic(self) -> Tensor:
        """Which forms held in all rows but a few, (forms,)."""
        return self.relations.fractions >= COPY_CERTAIN_PROBABILITY

    @property
    def constrained(self) -> tuple[Tensor, Tensor]:
        """Which numbers a sure sum is for, and which a sure product, (numbers,) each."""
        sums = (self.relations.weights[:, : self.relations.numbers] != 0).any(dim=1)
        by_sums, by_products = (
            (self.deterministic & kind).view(self.relations.numbers, self.relations.each).any(dim=1)
            for kind in (sums, ~sums)
        )
        return by_sums, by_products

    def _scatter(self, some: Tensor, said: RelationValues, otherwise: float) -> Tensor:
        """Numbers of the forms that there are over all that there might be, (n, forms)."""
        return some.new_full((len(some), len(self.relations)), otherwise).index_copy(1, said.use, some)

    def log_likelihood(self, copied: CopyDistribution, means: Tensor, otherwise: Tensor) -> Tensor:
        """Of numbers, (any,), by their encoded means; `otherwise` is that of one that is no copy."""
        log_p, of_none = copied.log_p[:, 1:], copied.log_p[:, 0] + otherwise
        same = self.relations.matches(copied.values, means.unsqueeze(1), copied.relations) & log_p.isfinite()
        if not same.any():
            return of_none
        as_copy = log_p.masked_fill(~same, MIN_LOG_PROBABILITY).logsumexp(dim=1)
        return torch.where(same.any(dim=1), as_copy, of_none)

    def relation_features(self, said: RelationValues, means: Tensor, known: Tensor) -> Tensor:
        """Which known numbers are copies of others that are known, (n, `comparisons`)."""
        if not len(said.use):
            return means.new_zeros(len(means), len(self.relations))
        same = (
            self.relations.matches(said.values, means[:, said.target], said.use) & known[:, said.target] & said.observed
        )
        return self._scatter(same.to(means.dtype), said, 0.0)

    @property
    def n_relation_features(self) -> int:
        """How many numbers `compared` tells of a row."""
        return len(self.relations)

    @torch.no_grad()
    def initialize(self, rows: RelationData, forms: Sequence[Relation]) -> None:
        """Choose the forms that numbers are often copies of."""
        exact = [form for form in forms if form.is_representable(rows.units[form.target])]
        said, same = rows.of(exact)
        there = said.observed & rows.free[:, said.target]
        least = (OFTEN * there.sum(dim=0)).clamp(min=FEWEST)
        self.relations.store(select_relations(exact, same, there, least, MAX_RELATIONS_PER_COLUMN), rows.units)
        self.chances.weight.mul_(OUTPUT_INIT_SCALE)
        self.chances.bias.zero_()
        odds = self.relations.fractions.clamp(
            INITIAL_PROBABILITY_MARGIN, 1 - INITIAL_PROBABILITY_MARGIN
        ).logit()  # before any training, as often as in the table
        self.chances.bias[: len(odds)] = odds
        said = self.relations.predict(rows.means, rows.known)
        same = self.relations.matches(
            said.values, rows.means[:, said.target], said.use
        )  # also where both are a point mass
        there = said.observed & rows.known[:, said.target]
        shares = (same & there).sum(dim=0) / there.sum(dim=0).clamp(min=1)
        self.relations.fractions[said.use] = shares.to(self.relations.fractions.dtype)
