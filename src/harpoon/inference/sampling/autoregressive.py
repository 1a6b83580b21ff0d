"""Any-order autoregressive sampling of cells (Uria et al., 2014; Hoogeboom et al., 2022).

Cells are sampled one at a time, each conditioned on the observed and the already sampled ones. This is the reverse of
an absorbing-state diffusion. Its only errors are those of the conditional distributions: no step has to guess several
cells at once. Every row has a random order of its own, because the learnt conditionals are not perfectly consistent,
and an error that all rows share is easy to detect. Two exceptions: numbers that a relation constrains are sampled after
all others, small before large; numbers that are determined by the cells so far are sampled first.

A column with missing training cells has a missing indicator, a variable of its own. Its value is sampled after the
indicator, and only in rows whose indicator says that there is one. A timestamp is sampled after its calendar parts and
has them; one that a relation determines comes first, and determines its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.data import NO_INDEX
from harpoon.encoding import EncodedRows, PartType, RowCodec
from harpoon.inference.sampling.determined_values import (
    Requested,
    SampledRows,
    copy_timestamps,
    determined_categories,
    determined_spikes,
    exclude_copies,
)
from harpoon.inference.sampling.inverse_cdf import categorical_icdf, sample_copies, sample_group, sample_probability
from harpoon.inference.sampling.variable_order import DONE, VariableOrder, order_offset, steps_within
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.heads.rank_head import ConditionalDistributions, flat_index
from harpoon.networks.incremental_prediction import CellwisePredictor
from harpoon.networks.one_step_prediction import FusedMaxNoiseModel

UNIFORMS_PER_VARIABLE = 4  # for the order, the category or component, the bin, and the position inside the bin


class Sampling(NamedTuple):
    """Rows that are being sampled. They and their order are updated in place."""

    predictor: CellwisePredictor
    rows: SampledRows
    order: VariableOrder


@dataclass(frozen=True)
class AutoregressiveSampler:
    """Samples encoded rows variable by variable, from the conditional distributions of a model."""

    model: FusedMaxNoiseModel
    variables: Variables  # on the device of the model

    @staticmethod
    def supports(codec: RowCodec) -> bool:
        """Return whether every continuous part of a table is a normal score with a standardised value."""
        types = [{part.type for part in column.parts} for column in codec.codecs]
        return all(PartType.REGRESSION in of_column for of_column in types if PartType.CONTINUOUS in of_column)

    def __len__(self) -> int:
        """The number of variables of a row."""
        return len(self.variables)

    @cached_property
    def order_offset(self) -> Tensor:
        """How much later than at random each variable is sampled, (variables,)."""
        return order_offset(self.variables, *self.model.constrained)

    @cached_property
    def _excludable(self) -> Tensor | None:
        """The variables of which a category may be excluded, (variables,); None: there are none."""
        positions, excludable = self.variables.categories, self.model.excludable
        if self.variables.timestamps:
            return positions.amax(dim=1) != NO_INDEX
        if excludable is None:
            return None
        return (excludable[positions.clamp(min=0)] & (positions != NO_INDEX)).any(dim=1)

    @torch.no_grad()
    def sample(
        self,
        given: EncodedRows,
        uniforms: Tensor,
        steps: int,
        on_step: Callable[[], None],
        *,
        nulls: bool = False,
    ) -> SampledRows:
        """Sample every unobserved cell.

        Args:
            given: The observed cells, (n, d).
            uniforms: Uniform random numbers, (UNIFORMS_PER_VARIABLE, n, variables).
            steps: At most; with fewer steps than unobserved variables, several are sampled per step, independently.
            on_step: Called after each step, for progress.
            nulls: Whether missing indicators are sampled, too. Otherwise they stay unknown, and every value is sampled.
        """
        x = given.x * given.observed
        n_ranked = int(self.variables.is_ranked.sum())
        rows = SampledRows(x, torch.full((len(x), n_ranked), NO_INDEX, device=x.device))
        order = VariableOrder.start(self.variables, given, uniforms[0], self.order_offset, nulls=nulls)
        sampling = Sampling(self.model.predict_cellwise(len(x)), rows, order)
        for step in range(steps):
            self._step(sampling, uniforms[1:], steps - step)
            on_step()
        return rows

    def _step(self, sampling: Sampling, uniforms: Tensor, steps_left: int) -> None:
        """Sample the next variables of each row. Rows without any observed cell share the prediction of one row."""
        variables, rows, order = self.variables, sampling.rows, sampling.order
        done = order.priority == DONE
        observed, ranked = done & ~order.skipped, variables.is_ranked
        unfinished, is_shared = (~done).any(dim=1).nonzero()[:, 0], not observed.any()
        if not len(unfinished):
            return
        inputs = unfinished[:1] if is_shared else unfinished
        predictor = sampling.predictor.predict(rows.x, observed.index_select(1, variables.variable_of), inputs)
        mask = order.next(predictor, unfinished, steps_left)
        before = order.not_copied[unfinished]
        if variables.timestamps and not is_shared:
            x, uniform = rows.x[unfinished], uniforms[1, unfinished]
            order.not_copied[unfinished], predictor = copy_timestamps(
                variables, predictor, x, mask, not_copied=before, uniform=uniform
            )
        row, variable = mask.nonzero(as_tuple=True)
        of_timestamp = functional.pad(before, (0, 1))[row, variables.timestamp_number[variable]]
        if is_shared:
            distributions = predictor.distributions(ranked[None, ranked])
            requested = Requested(row, variable, torch.zeros_like(row), variables.ranks[variable], of_timestamp)
        else:
            distributions = predictor.distributions(mask[:, ranked])
            rank_row = flat_index(mask & ranked)[row, variable]
            requested = Requested(unfinished[row], variable, row, rank_row, of_timestamp)
        self._write(sampling, requested, distributions, uniforms[:, requested.row, variable])
        order.advance(unfinished, mask, rows.x)

    def _write(
        self, sampling: Sampling, requested: Requested, distributions: ConditionalDistributions, uniforms: Tensor
    ) -> None:
        """Sample the requested variables, those of one row one after another where they may exclude each other."""
        variables, rows = self.variables, sampling.rows
        at_once = self._excludable is None and not variables.has_nulls
        for part in steps_within(variables, rows.x, requested.row, requested.variable, at_once=at_once):
            written = Requested(*(item[part] for item in requested))
            excluded = self._excluded(rows, written)
            self._sample_requested(rows, written, distributions, excluded, uniforms[:, part])

    def _excluded(self, rows: SampledRows, requested: Requested) -> Tensor | None:
        """Return which categories of the requested variables cannot occur, (m, most categories); None: all can."""
        if self._excludable is None:
            return None
        index = self._excludable[requested.variable].nonzero()[:, 0]
        excluded = self._excluded_categories(rows.x[requested.row[index]])
        if excluded is None or not len(index):
            return None
        positions = self.variables.categories[requested.variable]
        of_requested = torch.zeros(positions.shape, dtype=torch.bool, device=positions.device)
        of_requested[index] = excluded.gather(1, positions[index].clamp(min=0))
        return of_requested

    def _excluded_categories(self, x: Tensor) -> Tensor | None:
        """Return which categories cannot occur beside those of encoded rows, (n, categories); None: all can."""
        excluded, variables = self.model.excluded_categories(x), self.variables
        for each in variables.timestamps:
            impossible = each.impossible_parts(x, None if excluded is None else excluded[:, each.joint_categories])
            if excluded is None and len(each.joint):
                excluded = torch.zeros(len(x), int(variables.categories.max()) + 1, dtype=torch.bool, device=x.device)
            if excluded is not None:
                excluded[:, each.joint_categories] |= impossible
        return excluded

    def _sample_requested(
        self,
        rows: SampledRows,
        requested: Requested,
        distributions: ConditionalDistributions,
        excluded: Tensor | None,
        uniforms: Tensor,
    ) -> None:
        """Sample the requested variables and write them into the rows."""
        variables, x, (row, variable, *_) = self.variables, rows.x, requested
        has_categories = variables.first_category[variable] != NO_INDEX
        index, category = has_categories.nonzero()[:, 0], torch.zeros_like(variable)
        if len(index):
            logits = distributions.category_logits.at(
                requested.category_row[index], variables.categories[variable[index]]
            )
            if excluded is not None:
                logits = exclude(logits, excluded[index])
            category[index] = categorical_icdf(logits, uniforms[0, index])
        category = determined_spikes(variables, rows, requested, distributions, category)
        category = determined_categories(variables, requested, distributions, category)
        x[row[has_categories], (variables.first_category[variable] + category)[has_categories]] = 1.0
        is_continuous = (variables.ranks[variable] != NO_INDEX) & (~has_categories | (category == 0))
        is_spike = (variables.standardised[variable] != NO_INDEX) & ~is_continuous
        spike = variables.spikes[variable[is_spike], category[is_spike]].to(x.dtype)
        x[row[is_spike], variables.standardised[variable[is_spike]]] = spike
        if is_continuous.any():
            selected = distributions.select_ranks(requested.rank_row[is_continuous])
            of_numbers = Requested(*(item[is_continuous] for item in requested))
            selected = exclude_copies(variables, x, of_numbers, selected)
            uniforms = uniforms[1:, is_continuous].double()
            self._sample_numbers(rows, row[is_continuous], variable[is_continuous], selected, uniforms)
        for each in variables.timestamps:
            written = row[variable == each.variable]
            if len(written):
                each.write(x, written, rows.relation_of[written, variables.ranks[each.variable]] != NO_INDEX)

    def _sample_numbers(
        self,
        rows: SampledRows,
        row: Tensor,
        variable: Tensor,
        distributions: ConditionalDistributions,
        uniforms: Tensor,
    ) -> None:
        """Sample numbers that are not spikes and write them into the rows."""
        variables, (x, relation_of) = self.variables, rows
        copy, remainder = sample_copies(distributions, uniforms[0])
        probability = sample_probability(distributions, remainder, uniforms[1])
        for each in variables.timestamps:
            index = (variable == each.variable).nonzero()[:, 0]
            group = each.groups.of_rows(x[row[index]])
            index, group = index[group != NO_INDEX], group[group != NO_INDEX]
            if len(index):
                of_timestamp = distributions.select_ranks(index)
                in_group, is_likely = sample_group(
                    of_timestamp, each.groups, group, remainder[index], uniforms[1, index]
                )
                probability[index] = torch.where(is_likely, in_group, probability[index])
        value = variables.inverse_cdf(variable, probability)
        copied = (copy != NO_INDEX).nonzero()[:, 0]
        copy = copy[copied]
        value[copied] = distributions.copies.values[copied, copy].to(value.dtype)
        probability[copied] = variables.cdf(variable[copied], value[copied]).to(probability.dtype)
        x[row, variables.continuous[variable]] = torch.special.ndtri(probability).to(x.dtype)
        x[row, variables.standardised[variable]] = value.to(x.dtype)
        relation_of[row[copied], variables.ranks[variable[copied]]] = distributions.copies.relations[copied, copy]


def exclude(logits: Tensor, excluded: Tensor) -> Tensor:
    """Remove excluded categories; all stay where every one is excluded, in rows unlike any training row."""
    remaining = logits.masked_fill(excluded, -torch.inf)
    return torch.where((remaining > -torch.inf).any(dim=1, keepdim=True), remaining, logits)
