"""Copy head: the probability that a value equals a relation of observed values (x = y, x = y + z - 1, x = c·yᵃ·zᵇ).

A histogram over bins can predict that a value is near another one, never that both are equal. So equality is an event
of its own with a probability of its own, like a spike whose position depends on the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.relations import Relation, RelationBank, RelationData, RelationValues, select_relations

MAX_RELATIONS_PER_COLUMN = (3, 4)  # with one source, and with several
MAX_RELATIONS = 256  # of all columns together
MIN_COPY_FRACTION, MIN_COPY_ROWS = 0.01, 20  # of the rows in which a relation must hold
MIN_STANDARD_ERRORS = 5.0  # (Poisson) by which a relation must hold in more rows than by chance: many are tried
MAX_CHANCE_FRACTION = 0.5  # of the rows: what holds in more of them is no coincidence
INITIAL_PROBABILITY_MARGIN = 0.01  # initial copy probabilities are clipped to [0.01, 0.99]
COPY_CERTAIN_PROBABILITY = 0.99  # from here on a copy counts as certain
MIN_LOG_PROBABILITY = -1e9  # finite, so that gradients are defined


class CopyDistribution(NamedTuple):
    """Probabilities that values are copies; k is the largest number of relations of a column.

    `log_p`, (..., 1 + k), are the log probabilities of no copy, and of a copy by each relation. The others are
    (..., k). A deterministic relation held in practically all training rows and can be evaluated: it determines the
    value, spike or not. One that held in all of them without exception is certain.
    """

    log_p: Tensor
    values: Tensor  # the standardised value that each relation predicts
    relations: Tensor  # the index of each relation in the `RelationBank`
    deterministic: Tensor
    certain: Tensor

    def condition(self) -> CopyDistribution:
        """Return the distributions given that a value with a certain relation is a copy of it."""
        excluded = functional.pad(~self.certain, (1, 0), value=True) & self.certain.any(dim=-1, keepdim=True)
        return self._replace(log_p=self.log_p.masked_fill(excluded, -torch.inf).log_softmax(dim=-1))

    def take(self, rows: slice | Tensor) -> CopyDistribution:
        """Return the distributions of some rows."""
        return CopyDistribution(*(part[rows] for part in self))

    def select(self, requested: Tensor) -> CopyDistribution:
        """Return the distributions of the requested cells of (n, columns), column by column: (m, ...)."""
        return CopyDistribution(*(part.transpose(0, 1)[requested.T] for part in self))


class CopyHead(nn.Module):
    """Predicts the probability of each relation from the last hidden layer."""

    def __init__(self, n_columns: int, hidden: int, n_sources: int | None = None) -> None:
        super().__init__()
        per_column = min(sum(MAX_RELATIONS_PER_COLUMN), MAX_RELATIONS // max(n_columns, 1))
        self.relations = RelationBank(n_columns, per_column, n_sources=n_sources)
        self.logits = nn.Linear(hidden, max(len(self.relations), 1))  # torch warns of layers without outputs

    def forward(self, h: Tensor, predicted: RelationValues) -> CopyDistribution:
        """Return the copy distributions of all numeric columns, (n, columns, ...), from h, (n, hidden)."""
        no_copy, per_column = h.new_zeros(len(h), self.relations.n_columns, 1), self.relations.per_column
        used = predicted.relation_index
        if not len(used):
            empty = no_copy[:, :, 1:]
            return CopyDistribution(no_copy, empty, empty.long(), empty.bool(), empty.bool())
        logits = functional.linear(h, self.logits.weight[used], self.logits.bias[used])
        logits = self._scatter(logits.masked_fill(~predicted.observed, -torch.inf), predicted, -torch.inf)
        logits = logits.view(len(h), self.relations.n_columns, per_column)
        log_p = torch.cat([no_copy, logits], dim=2).log_softmax(dim=2)
        relations = torch.arange(len(self.relations), device=h.device).view(1, -1, per_column).expand(len(h), -1, -1)
        applies = log_p[:, :, 1:].isfinite()
        deterministic = self.deterministic[relations] & applies
        certain = (self.relations.fractions == 1)[relations] & applies
        expanded = predicted.values.expand(len(h), -1)  # one empty row may stand for all rows
        values = self._scatter(expanded, predicted, 0.0).view(len(h), self.relations.n_columns, per_column)
        return CopyDistribution(log_p, values, relations, deterministic, certain)

    def posterior_mean(self, copies: CopyDistribution, no_copy_mean: Tensor, not_spike: Tensor) -> Tensor:
        """Return the mean of each value over copy and no copy, (n, columns).

        A value that may be a spike takes the value of a deterministic relation, which also determines the spike.
        `not_spike` is the probability that the value is not a spike, (n, columns).
        """
        p = copies.log_p[:, :, 1:].exp() * not_spike.unsqueeze(2)
        total = p.sum(dim=2, keepdim=True)
        p = torch.where(total > COPY_CERTAIN_PROBABILITY, p / total.clamp(min=COPY_CERTAIN_PROBABILITY), p)
        determined = copies.deterministic & (not_spike < 1).unsqueeze(2)
        n_relations = determined.sum(dim=2, keepdim=True)
        p = torch.where(n_relations > 0, determined / n_relations.clamp(min=1), p)
        return no_copy_mean + (p * (copies.values - no_copy_mean.unsqueeze(2))).sum(dim=2)

    @property
    def deterministic(self) -> Tensor:
        """Whether each relation held in practically all training rows, (relations,)."""
        return self.relations.fractions >= COPY_CERTAIN_PROBABILITY

    def _scatter(self, values: Tensor, predicted: RelationValues, fill: float) -> Tensor:
        """Write values of the relations in use, (n, used), into the columns of all relations, (n, relations)."""
        return values.new_full((len(values), len(self.relations)), fill).index_copy(1, predicted.relation_index, values)

    def log_likelihood(self, copies: CopyDistribution, standardised: Tensor, no_copy: Tensor) -> Tensor:
        """Return the log likelihood of standardised values, (m,); `no_copy` is that of values that are no copy."""
        log_p, log_p_no_copy = copies.log_p[:, 1:], copies.log_p[:, 0] + no_copy
        matches = self.relations.matches(copies.values, standardised.unsqueeze(1), copies.relations) & log_p.isfinite()
        if not matches.any():
            return log_p_no_copy
        log_p_copy = log_p.masked_fill(~matches, MIN_LOG_PROBABILITY).logsumexp(dim=1)
        return torch.where(matches.any(dim=1), log_p_copy, log_p_no_copy)

    def relation_features(self, predicted: RelationValues, standardised: Tensor, observed: Tensor) -> Tensor:
        """Return 1 where an observed value equals a relation of observed values, else 0, (n, relations)."""
        if not len(predicted.relation_index):
            return standardised.new_zeros(len(standardised), len(self.relations))
        matches = self.relations.matches(predicted.values, standardised[:, predicted.target], predicted.relation_index)
        matches &= observed[:, predicted.target] & predicted.observed
        return self._scatter(matches.to(standardised.dtype), predicted, 0.0)

    @torch.no_grad()
    def initialize(self, rows: RelationData, candidates: Sequence[Relation]) -> None:
        """Store the relations that hold often and beyond chance, with initial probabilities as in the training rows."""
        exact = [each for each in candidates if each.is_judged or each.is_representable(rows.units[each.target])]
        exact = [each for each, carried in zip(exact, rows.is_carried(exact).tolist(), strict=True) if not carried]
        predicted, matches = rows.evaluate(exact)
        applicable = predicted.observed & rows.not_spike[:, predicted.target]
        min_rows = (MIN_COPY_FRACTION * applicable.sum(dim=0)).clamp(min=MIN_COPY_ROWS)
        chance = rows.chance_rows(exact)
        is_judged = matches.sum(dim=0) < MAX_CHANCE_FRACTION * applicable.sum(dim=0)
        min_rows = torch.maximum(min_rows, is_judged * (chance + MIN_STANDARD_ERRORS * chance.sqrt()))
        selected = select_relations(exact, matches, applicable, min_rows, MAX_RELATIONS_PER_COLUMN)
        stored = self.relations.store(selected, rows.units)
        margin = INITIAL_PROBABILITY_MARGIN
        log_odds = self.relations.fractions.clamp(margin, 1 - margin).logit()
        self.logits.bias[: len(log_odds)] = log_odds
        self._fit_fractions(rows)
        for index, relation in stored.items():
            if relation.fraction is not None:
                self.relations.fractions[index] = relation.fraction

    def _fit_fractions(self, rows: RelationData) -> None:
        """Set the fraction of rows in which each relation holds, including rows where both sides are spikes."""
        predicted = self.relations.predict(rows.values, rows.observed)
        matches = self.relations.matches(predicted.values, rows.values[:, predicted.target], predicted.relation_index)
        applicable = predicted.observed & rows.observed[:, predicted.target]
        fractions = (matches & applicable).sum(dim=0) / applicable.sum(dim=0).clamp(min=1)
        self.relations.fractions[predicted.relation_index] = fractions.to(self.relations.fractions.dtype)
