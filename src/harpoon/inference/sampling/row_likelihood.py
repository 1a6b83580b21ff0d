"""The likelihood of complete rows, variable by variable in any order (Uria et al., 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.data import NO_INDEX
from harpoon.encoding import EncodedRows
from harpoon.inference.sampling.autoregressive import exclude
from harpoon.inference.sampling.variable_order import DONE
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.one_step_prediction import FusedMaxNoiseModel


@dataclass(frozen=True)
class RowLikelihood:
    """The log likelihood of encoded rows under the conditional distributions of a model."""

    model: FusedMaxNoiseModel
    variables: Variables

    def in_order(self, rows: EncodedRows, known: Tensor, order: Tensor) -> Tensor:
        """Return the log likelihood of each variable given those before it in an order, (n, variables).

        `known` are the variables that are given from the start, (n, variables). The variables are taken in ascending
        order, (n, variables); those at `DONE` are not, and count 0.
        """
        log_p, known = torch.zeros(order.shape, dtype=torch.float64, device=order.device), known.clone()
        for variable, place in zip(order.argsort(dim=1).T, order.sort(dim=1).values.T, strict=True):
            row = (place < DONE).nonzero()[:, 0]
            if not len(row):
                break
            target = variable[row]
            log_p[row, target] = self.of_variable(rows[row], known[row], target)
            known[row, target] = True
        return log_p

    def of_variable(self, rows: EncodedRows, known: Tensor, target: Tensor) -> Tensor:
        """Return the log likelihood of one variable of each row, (n,), given the known ones, (n, variables)."""
        observed = rows.observed & known.index_select(1, self.variables.variable_of)
        given = EncodedRows(rows.x * observed, observed)
        predictor = self.model.predict(given)
        category, log_p = self._of_category(predictor.category_logits.dense(), rows.x, given.x, target)
        rank = self.variables.ranks[target]
        number = ((rank != NO_INDEX) & (category <= 0)).nonzero()[:, 0]
        if not len(number):
            return log_p
        requested = torch.zeros(len(target), len(predictor.head.columns), dtype=torch.bool, device=target.device)
        requested[number, rank[number]] = True
        row = requested.T.nonzero()[:, 1]  # the order in which distributions are returned
        z, value = (rows.x[row, at[target[row]]] for at in (self.variables.continuous, self.variables.standardised))
        density = predictor.head.log_density(predictor.distributions(requested), z, value)
        return log_p.index_add(0, row, density.double())

    def _of_category(self, logits: Tensor, x: Tensor, given: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the category of the target in each row, or `NO_INDEX`, and its log probability, (n,) each."""
        positions, first = self.variables.categories[target], self.variables.first_category[target]
        if not positions.shape[1]:
            return first, x.new_zeros(len(x), dtype=torch.float64)
        logits = logits.gather(1, positions.clamp(min=0)).double().masked_fill(positions == NO_INDEX, -torch.inf)
        excluded = self.model.excluded_categories(given)
        if excluded is not None:
            logits = exclude(logits, excluded.gather(1, positions.clamp(min=0)).bool())
        width = torch.arange(positions.shape[1], device=x.device)
        one_hot = x.gather(1, (first.clamp(min=0)[:, None] + width).clamp(max=x.shape[1] - 1))
        category = one_hot.masked_fill(positions == NO_INDEX, -1.0).argmax(dim=1)
        log_p = logits.log_softmax(dim=1).gather(1, category[:, None])[:, 0]
        has_categories = first != NO_INDEX
        return category.where(has_categories, first), log_p.where(has_categories, 0.0)
