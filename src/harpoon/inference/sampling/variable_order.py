"""The order in which the variables of a row are sampled.

Every row has a random order of its own. Numbers that a relation constrains come after all others, small before large;
numbers that the cells so far determine come first. A value comes after its missing indicator, and a timestamp after its
calendar parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from harpoon.data import NO_INDEX
from harpoon.encoding import EncodedRows
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.heads.rank_head import ConditionalPredictor

FIRST, DONE = -1.0, torch.inf  # priorities
AFTER = 1e-6  # by which one variable comes later than another


class VariableOrder(NamedTuple):
    """The order of the variables of each row."""

    variables: Variables
    priority: Tensor  # (n, variables); the lowest is sampled next, `DONE` never
    skipped: Tensor  # variables that are neither observed nor sampled, (n, variables)
    constrained: Tensor  # variables that a relation constrains, (variables,)
    not_copied: Tensor  # timestamps of which it is decided that they are no copies, (n, timestamps)

    @classmethod
    def start(
        cls,
        variables: Variables,
        given: EncodedRows,
        uniforms: Tensor,
        offset: Tensor,
        *,
        nulls: bool,
    ) -> VariableOrder:
        """Return a random order of the unobserved variables.

        Args:
            variables: The variables.
            given: The observed cells, (n, d).
            uniforms: Uniform random numbers, (n, variables).
            offset: How much later than at random each variable is sampled, (variables,); see `order_offset`.
            nulls: Whether missing indicators are sampled, too.
        """
        x = given.x * given.observed
        observed = torch.ones(len(x), len(variables), dtype=torch.bool, device=x.device)
        observed[:, variables.variable_of] = given.observed
        skipped = variables.is_null(x)
        if not nulls:
            is_indicator = torch.zeros(len(variables), dtype=torch.bool, device=x.device)
            is_indicator[variables.indicator[variables.indicator != NO_INDEX]] = True
            skipped |= is_indicator & ~observed
        done, order = observed | skipped, _random_order(variables, uniforms, offset)
        priority = order.masked_fill(done, DONE).argsort(dim=1, stable=True).argsort(dim=1)
        priority = priority.to(x.dtype).masked_fill_(done, DONE)
        not_copied = torch.zeros(len(x), len(variables.timestamps), dtype=torch.bool, device=x.device)
        return cls(variables, priority, skipped, offset > 0, not_copied)

    def next(self, predictor: ConditionalPredictor, rows: Tensor, steps_left: int) -> Tensor:
        """Return which variables of some rows, (m,), are sampled next, (m, variables)."""
        return next_variables(self.variables, predictor, self.priority[rows], steps_left, self.constrained)

    def advance(self, rows: Tensor, sampled: Tensor, x: Tensor) -> None:
        """Mark variables of some rows, (m, variables), as sampled; those that are null in x, (n, d), are skipped."""
        parts = self.variables.timestamp  # a timestamp determines its parts
        sampled = sampled | ((parts != NO_INDEX) & sampled[:, parts.clamp(min=0)])
        self.priority[rows] = self.priority[rows].masked_fill(sampled, DONE)
        self.skipped.logical_or_(self.variables.is_null(x))
        self.priority.masked_fill_(self.skipped, DONE)


def _random_order(variables: Variables, uniforms: Tensor, offset: Tensor) -> Tensor:
    """Return numbers by which the variables of each row are sorted, (n, variables)."""
    order = uniforms[:, variables.follows] + offset
    indicator = variables.indicator
    order = torch.where(indicator == NO_INDEX, order, order.maximum(order[:, indicator.clamp(min=0)]))
    for column, part in variables.calendar_columns.tolist():  # what it says is sampled with the other parts
        order[:, column] = torch.maximum(order[:, column], order[:, part])
    for each in variables.timestamps:
        order[:, each.variable] = order[:, [each.variable, *each.part_variables]].amax(dim=1)
    for each in variables.timestamps:  # a date comes after the time that has it, which determines it
        for date in each.dates:
            order[:, list(date.variables)] = order[:, [each.variable]] + AFTER
    return order


def order_offset(variables: Variables, by_sums: Tensor, by_products: Tensor, sources: Tensor) -> Tensor:
    """Return how much later than at random each variable is sampled, (variables,).

    Numbers that relations constrain come last. In sums, coarse ones come first among them, because the last one is
    computed and need not lie on a coarse grid. Of equally fine ones, small ones come first: the error of a distribution
    is proportional to the size of its number. A price and a total that are both slightly wrong make a tip between them
    that is very wrong; a tip that is slightly wrong harms neither. In products the scale relative to the value
    decides. Those that determine no other number, such as minutes that are rounded, come at the very end: they are
    computed.
    """
    offset, constrained = torch.zeros(len(variables), device=variables.follows.device), by_sums | by_products
    scale = torch.where(by_sums, variables.scales[0], variables.scales[1]).masked_fill(~constrained, torch.inf)
    rank = scale.argsort().argsort() + len(scale) * ~sources
    late, numeric = torch.where(constrained, 1.0 + rank, 0.0), variables.quantities != NO_INDEX
    offset[numeric] = late[variables.quantities[numeric]]
    return torch.where(variables.timestamp == NO_INDEX, offset, offset[variables.timestamp.clamp(min=0)])


def next_variables(
    variables: Variables, predictor: ConditionalPredictor, priority: Tensor, steps_left: int, constrained: Tensor
) -> Tensor:
    """Return which variables are sampled next, (n, variables), by priority.

    Variables that the observed cells determine come first: numbers that are sampled in between could contradict
    them. With fewer steps than variables, those that a relation constrains, (variables,), have a step each, as far
    as there are enough.
    """
    waiting, determined = priority < DONE, torch.zeros_like(priority, dtype=torch.bool)
    if steps_left == 1:
        return waiting
    determined[:, variables.is_ranked] = predictor.determined()
    determined[:, variables.is_few_valued] = predictor.few_valued.known
    waits_for_indicator = (variables.indicator != NO_INDEX) & waiting[:, variables.indicator.clamp(min=0)]
    priority = priority.masked_fill(determined & waiting & ~waits_for_indicator, FIRST)
    n_late = (waiting & constrained).sum(dim=1, keepdim=True)
    n_early = waiting.sum(dim=1, keepdim=True) - n_late
    steps_early = (steps_left - n_late).clamp(min=1)
    per_step = torch.where(
        n_early > 0,
        (n_early + steps_early - 1).div(steps_early, rounding_mode="floor"),
        (n_late + steps_left - 1).div(steps_left, rounding_mode="floor"),
    )
    lowest = priority.topk(int(per_step.max()), dim=1, largest=False).values
    return waiting & (priority <= lowest.gather(1, per_step - 1))


def steps_within(variables: Variables, x: Tensor, row: Tensor, variable: Tensor, *, at_once: bool) -> Iterator[Tensor]:
    """Yield which requested variables are written into the rows next, (m,): of each row one, indicators first.

    So no two categories of a row are written that exclude each other, although their distributions were predicted
    together. A value that then is null is not written at all. `at_once`: neither can happen.
    """
    per_row = row.bincount()
    per_row = per_row[per_row > 0]
    if at_once or per_row.max() == 1:
        yield torch.ones_like(row, dtype=torch.bool)
        return
    first = (per_row.cumsum(dim=0) - per_row).repeat_interleave(per_row)
    position = torch.arange(len(first), device=first.device) - first
    for number in range(int(per_row.max())):
        yield (position == number) & ~variables.is_null(x)[row, variable]
