"""Importance weights for the order in which the variables of rows were sampled.

Unconditional rows are sampled in random orders. Rows under a condition are sampled with the columns of the condition
first. A perfect model has the same distribution in every order, a trained one does not quite. The weight of a row x
that was sampled in the order o' is p_o(x) / p_o'(x), where o is the same order with the variables of the condition
back at random places. It is importance sampling on the extended space of rows and orders. Both likelihoods are
products of conditional probabilities, which differ only up to the last variable of the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from harpoon._utils.rng import Stream, row_noise, stream_key
from harpoon._utils.threads import map_batches
from harpoon.data import NO_INDEX, Columns, Floats, Index, as_unknown, concat, n_rows, take
from harpoon.encoding import EncodedRows
from harpoon.inference.sampling.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.inference.sampling.row_likelihood import RowLikelihood
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.inference.sampling.variable_order import DONE, FIRST, VariableOrder
from harpoon.inference.sampling.variables import Variables

N_ORDERS = 2  # of each row, over which its weight is averaged
MAX_LOG_RATIO = 50.0  # so that weights are finite


def can_weigh_orders(sampler: RowSampler) -> bool:
    """Return whether rows are sampled one variable at a time, from distributions that are known in every order.

    Those of timestamps are not: a timestamp is sampled among the times that its calendar parts allow. Nor are those of
    numbers that a relation constrains: a total has a density in one order, and is computed in another.
    """
    autoregressive = sampler.autoregressive
    if autoregressive is None or autoregressive.variables.timestamps:
        return False
    is_constrained = any(bool(each.any()) for each in autoregressive.model.constrained)
    return not is_constrained and len(autoregressive) <= sampler.config.ar_steps


@dataclass(frozen=True)
class OrderWeights:
    """Weighs rows that were sampled with some columns first.

    Args:
        sampler: It sampled the rows, and can weigh orders.
        base: What was known of all rows before; one row.
        first: The columns that were sampled first, in this order.
        draw: The number of the draw.
    """

    sampler: RowSampler
    base: Columns
    first: Sequence[str]
    draw: int

    def of_rows(self, rows: Columns, index: Index) -> Floats:
        """Return the importance weights of rows, (n,); `index` are their numbers."""
        size, device = self.sampler.config.sampling_batch_size, self.sampler.device
        batches, front = [slice(start, start + size) for start in range(0, n_rows(rows), size)], self._positions(rows)
        parts = map_batches(lambda batch: self._of_batch(take(rows, batch), index[batch], front), batches, device)
        self.sampler.evaluations += sum(evaluations for _, evaluations in parts)
        return np.concatenate([np.zeros(0), *(weights for weights, _ in parts)])

    @torch.no_grad()
    def _of_batch(self, rows: Columns, index: Index, front: Tensor) -> tuple[Floats, int]:
        """Return the mean weights over several random orders, (n,), and how often the network was evaluated."""
        encoded = self._encode(rows)
        orders, likelihood = (
            self._random_orders(front, index),
            RowLikelihood(self._autoregressive.model, self._variables),
        )
        known = (orders[0].priority == DONE) & ~orders[0].skipped
        null = self._variables.is_null(encoded.x)
        targets = [_until_last(order.priority.masked_fill(null, DONE), front) for order in orders]
        sampled = _in_front(orders[0].priority.where(torch.stack(targets).amin(dim=0) < DONE, DONE), front)
        log_p = likelihood.in_order(encoded, known, sampled)
        weights = torch.zeros(len(index), dtype=torch.float64, device=log_p.device)
        for target in targets:
            log_ratio = likelihood.in_order(encoded, known, target) - log_p * (target < DONE)
            weights += log_ratio.sum(dim=1).nan_to_num(nan=-torch.inf).clamp(max=MAX_LOG_RATIO).exp()
        evaluations = sum(int((order < DONE).sum()) for order in (sampled, *targets))
        return (weights / len(targets)).cpu().numpy(), evaluations

    def _random_orders(self, front: Tensor, index: Index) -> list[VariableOrder]:
        """Return orders of each row, with the variables that were first at random places among the others.

        The others have the order in which they were sampled.
        """
        sampler, variables, offset = self.sampler, self._variables, self._autoregressive.order_offset
        own = row_noise(sampler.seed, index, UNIFORMS_PER_VARIABLE, len(variables), draw=self.draw)[0]
        others = row_noise(sampler.seed, index, N_ORDERS, len(variables), draw=stream_key(Stream.ORDERS, self.draw))
        uniforms = torch.special.ndtr(torch.where(front.cpu() == NO_INDEX, own, others)).to(sampler.device)
        given, nulls = self._base[torch.zeros(len(index), dtype=torch.long)], sampler.missing == "as_trained"
        return [VariableOrder.start(variables, given, each, offset, nulls=nulls) for each in uniforms]

    def _positions(self, rows: Columns) -> Tensor:
        """Return the position of each variable among those that were sampled first, or `NO_INDEX`, (variables,).

        They are the variables that are observed in a row of which one column is known, and not null if it ever has a
        value. A missing indicator comes before its value.
        """
        variables, indicators = self._variables, set(self._variables.indicator.tolist())
        positions = torch.full((len(variables),), NO_INDEX, device=self.sampler.device)
        if not n_rows(rows) or not self.first:
            return positions
        unknown = {name: as_unknown(cells) for name, cells in rows.items()}
        with_value = [int(rows[name].is_null.argmin()) for name in self.first]
        alone = [
            take(unknown | {name: rows[name]}, slice(at, at + 1))
            for name, at in zip(self.first, with_value, strict=True)
        ]
        for observed in self._encode(concat(alone)).observed:
            found = variables.variable_of[observed].tolist()
            for variable in sorted(set(found), key=lambda each: (each not in indicators, each)):
                positions[variable] = positions.max() + 1
        return positions

    @cached_property
    def _base(self) -> EncodedRows:
        return self._encode(self.base)

    def _encode(self, rows: Columns) -> EncodedRows:
        return self.sampler.codec.to_batch(rows).to(self.sampler.device)

    @property
    def _variables(self) -> Variables:
        return self._autoregressive.variables

    @property
    def _autoregressive(self) -> AutoregressiveSampler:
        assert self.sampler.autoregressive is not None  # noqa: S101
        return self.sampler.autoregressive


def _until_last(priority: Tensor, front: Tensor) -> Tensor:
    """Return an order, (n, variables), that ends with the last of the variables with a position in front."""
    last = priority.masked_fill((front == NO_INDEX) | (priority == DONE), FIRST).amax(dim=1, keepdim=True)
    return priority.masked_fill(priority > last, DONE)


def _in_front(priority: Tensor, front: Tensor) -> Tensor:
    """Return an order, (n, variables), with the variables that have a position in front before all others."""
    return torch.where((front == NO_INDEX) | (priority == DONE), priority, front - float(len(front)))
