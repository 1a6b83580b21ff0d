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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn import functional

from harpoon.data import NANOSECONDS, NO_INDEX, Floats
from harpoon.encoding import ColumnSlice, EncodedRows, PartType, RowCodec
from harpoon.encoding.batch import MIN_RANK
from harpoon.encoding.missingness import NULL
from harpoon.inference.timestamps import RankGroups, SampledTimestamp
from harpoon.networks.point_estimates import PointEstimates
from harpoon.networks.rank_head import ConditionalDistributions, ConditionalPredictor, flat_index
from harpoon.relations import Exclusions, RelationBank

QUANTILE_POINTS = 1024
UNIFORMS_PER_VARIABLE = 4  # for the order, the category or component, the bin, and the position inside the bin
FIRST, DONE = -1.0, torch.inf  # priorities
MAX_SPIKE_DISTANCE = 0.25  # of the smallest distance of two spikes, from the spike that a relation gives
MIN_MONTH_PROBABILITY = 0.1  # of the times of the sampled month, below which month and time contradict each other
SPIKE_TOLERANCE = 1e-5  # relative difference below which two standardised values are equal in single precision


class DistributionModel(Protocol):
    """A network at maximal noise that predicts the conditional distribution of every cell."""

    @property
    def relations(self) -> RelationBank:
        """The relations between numeric columns."""

    @property
    def few_valued_relations(self) -> RelationBank:
        """The relations that determine numeric columns with few values."""

    @property
    def constrained(self) -> tuple[Tensor, Tensor]:
        """Which numbers a sum constrains, and which a product, (quantities,) each."""

    @property
    def n_rank_bins(self) -> int:
        """Bins of all histograms together."""

    def excluded_categories(self, x: Tensor) -> Tensor | None:
        """Return which categories cannot occur beside those of encoded rows, (n, categories); None: all can."""

    def structurally_missing(self, given: EncodedRows) -> Tensor:
        """Return which missing indicators the observed categories force to be null, (n, indicators)."""

    @property
    def exclusions(self) -> Exclusions:
        """The labels that exclude or determine each other."""

    def is_possible(self, given: EncodedRows) -> Tensor:
        """Return which rows have no observed categories that exclude each other, (n,)."""

    def resolve(self, x: Tensor, given: EncodedRows, *, is_mean: bool) -> Tensor:
        """Return rows, (n, d), whose unobserved labels agree with each other and with the observed ones."""

    def point_estimates(self, given: EncodedRows, point: str) -> PointEstimates:
        """Return the "median" or the "mode" of each number, and the expectations of all else."""

    def predict(self, given: EncodedRows) -> ConditionalPredictor:
        """Return the conditional distributions of the unobserved cells given the observed ones."""


class SampledRows(NamedTuple):
    """Encoded rows, (n, d), and the relation that each number is a copy of, or `NO_INDEX`, (n, ranks)."""

    x: Tensor
    relation_of: Tensor


class _Order(NamedTuple):
    """The order of the variables of each row."""

    priority: Tensor  # (n, variables); the lowest is sampled next, `DONE` never
    skipped: Tensor  # variables that are neither observed nor sampled, (n, variables)
    not_copied: Tensor  # timestamps of which it is decided that they are no copies, (n, timestamps)
    constrained: Tensor  # variables that a relation constrains, (variables,)


class _Requested(NamedTuple):
    """Variables that are sampled in one step, and the rows of their predicted distributions, (m,) each."""

    row: Tensor
    variable: Tensor
    category_row: Tensor
    rank_row: Tensor
    not_copied: Tensor


@dataclass(frozen=True)
class AutoregressiveSampler:
    """Samples encoded rows variable by variable.

    A variable is what is sampled in one step: a cell, or one level of a hierarchical category (its group, and right
    after it the member). The tensors have one row per variable, and `NO_INDEX` for what a variable does not have.
    """

    variable_of: Tensor  # the variable of each encoded dimension, (d,)
    follows: Tensor  # the first variable of its column, after which it is sampled; it may be itself, (variables,)
    categories: Tensor  # the positions of its categories among all categories, (variables, most categories)
    first_category: Tensor  # the encoded position of its first category, (variables,)
    ranks: Tensor  # its position among all normal scores, (variables,)
    quantities: (
        Tensor  # its position among `RowCodec.quantities`, of which the normal scores are the first, (variables,)
    )
    continuous: Tensor  # the encoded position of its normal score, (variables,)
    standardised: Tensor  # the encoded position of its standardised value, (variables,)
    quantile_table: Tensor  # its standardised value at evenly spaced probabilities, (variables, QUANTILE_POINTS + 1)
    spikes: Tensor  # its standardised value at each spike, after one entry for no spike, (variables, most categories)
    scales: Tensor  # the scale of each number, and the scale relative to its size, (2, quantities)
    indicator: Tensor  # the variable that is its missing indicator, (variables,)
    null_category: Tensor  # the encoded position of the category of that indicator that says "null", (variables,)
    timestamp: Tensor  # of a calendar part: the variable of its timestamp, (variables,)
    timestamp_number: Tensor  # of a timestamp: its position in `timestamps`, (variables,)
    timestamps: tuple[SampledTimestamp, ...]  # the timestamps with calendar parts

    @staticmethod
    def supports(codec: RowCodec) -> bool:
        """Return whether every continuous part of a table is a normal score with a standardised value."""
        types = [{part.type for part in column.parts} for column in codec.codecs]
        return all(PartType.REGRESSION in of_column for of_column in types if PartType.CONTINUOUS in of_column)

    @classmethod
    def from_codec(cls, codec: RowCodec) -> AutoregressiveSampler:
        """Return the sampler for encoded rows of a codec."""
        variables = _variables(codec.slices)
        categorical, continuous, regression = (
            [next((slice_ for slice_ in slices if slice_.type is kind), None) for slices in variables]
            for kind in (PartType.CATEGORICAL, PartType.CONTINUOUS, PartType.REGRESSION)
        )
        most = max(map(_width, categorical), default=1)
        categories, start = torch.full((len(variables), most), NO_INDEX), 0
        for row, slice_ in enumerate(categorical):
            categories[row, : _width(slice_)] = torch.arange(start, start + _width(slice_))
            start += _width(slice_)
            if regression[row] and not continuous[row]:
                categories[row, 0] = NO_INDEX  # a column of spikes alone always has one of them
        ranked = [row for row, slice_ in enumerate(continuous) if slice_]
        few_valued = [row for row, slice_ in enumerate(regression) if slice_ and not continuous[row]]
        columns = [slices[0].column for slices in variables]
        indicators = [codec.indicator_of.get(column, NO_INDEX) for column in columns]
        first_dimension = {slices[0].column: slices[0].start for slices in reversed(variables)}
        standardised = _starts(regression)
        timestamps = tuple(SampledTimestamp.from_codec(codec, each, columns) for each in codec.timestamps)
        number_of = {each.variable: number for number, each in enumerate(timestamps)}
        timestamp_of = {part: each.variable for each in timestamps for part in each.part_variables}
        widths = torch.tensor([sum(map(_width, slices)) for slices in variables], dtype=torch.long)
        return cls(
            variable_of=torch.arange(len(variables)).repeat_interleave(widths),
            follows=torch.tensor([columns.index(column) for column in columns]),
            categories=categories,
            first_category=_starts(categorical),
            ranks=_positions(ranked, len(variables)),
            quantities=_positions([*ranked, *few_valued], len(variables)),
            continuous=_starts(continuous),
            standardised=standardised,
            quantile_table=_standardised_values(codec, standardised, _rows_at_quantiles(codec)),
            spikes=_standardised_values(codec, standardised, _rows_at_categories(codec, most)),
            scales=_scales(codec),
            indicator=torch.tensor([columns.index(at) if at != NO_INDEX else at for at in indicators]),
            null_category=torch.tensor([first_dimension[at] + NULL if at != NO_INDEX else at for at in indicators]),
            timestamp=torch.tensor([timestamp_of.get(row, NO_INDEX) for row in range(len(variables))]),
            timestamp_number=torch.tensor([number_of.get(row, NO_INDEX) for row in range(len(variables))]),
            timestamps=timestamps,
        )

    def __len__(self) -> int:
        """The number of variables of a row."""
        return len(self.follows)

    def to(self, device: torch.device) -> AutoregressiveSampler:
        """Return a copy on another device."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "timestamps"}
        timestamps = tuple(each.to(device) for each in self.timestamps)
        return replace(self, timestamps=timestamps, **{name: tensor.to(device) for name, tensor in tensors.items()})

    @torch.no_grad()
    def sample(
        self,
        model: DistributionModel,
        given: EncodedRows,
        uniforms: Tensor,
        steps: int,
        on_step: Callable[[], None],
        *,
        nulls: bool = False,
    ) -> SampledRows:
        """Sample every unobserved cell.

        Args:
            model: Predicts the conditional distributions.
            given: The observed cells, (n, d).
            uniforms: Uniform random numbers, (UNIFORMS_PER_VARIABLE, n, variables).
            steps: At most; with fewer steps than unobserved variables, several are sampled per step, independently.
            on_step: Called after each step, for progress.
            nulls: Whether missing indicators are sampled, too. Otherwise they stay unknown, and every value is sampled.
        """
        x = given.x * given.observed
        rows = SampledRows(x, torch.full((len(x), int((self.ranks != NO_INDEX).sum())), NO_INDEX, device=x.device))
        observed = torch.ones(len(x), len(self), dtype=torch.bool, device=x.device)
        observed[:, self.variable_of] = given.observed
        skipped = self._is_null(x)
        if not nulls:
            is_indicator = torch.zeros(len(self), dtype=torch.bool, device=x.device)
            is_indicator[self.indicator[self.indicator != NO_INDEX]] = True
            skipped |= is_indicator & ~observed
        order = self._order(uniforms[0], model)
        done = observed | skipped
        priority = order.masked_fill(done, DONE).argsort(dim=1, stable=True).argsort(dim=1)
        priority = priority.to(x.dtype).masked_fill_(done, DONE)
        not_copied = torch.zeros(len(x), len(self.timestamps), dtype=torch.bool, device=x.device)
        constrained = self._order_offset(*model.constrained) > 0
        for step in range(steps):
            self._step(model, rows, _Order(priority, skipped, not_copied, constrained), uniforms[1:], steps - step)
            on_step()
        return rows

    def _order(self, uniforms: Tensor, model: DistributionModel) -> Tensor:
        """Return numbers by which the variables of each row are sorted, (n, variables)."""
        order = uniforms[:, self.follows] + self._order_offset(*model.constrained)
        order = torch.where(self.indicator == NO_INDEX, order, order.maximum(order[:, self.indicator.clamp(min=0)]))
        for each in self.timestamps:
            order[:, each.variable] = order[:, [each.variable, *each.part_variables]].amax(dim=1)
        return order

    def _is_null(self, x: Tensor) -> Tensor:
        """Return which variables have no value because their indicator says so, (n, variables)."""
        return (self.null_category != NO_INDEX) & (x[:, self.null_category.clamp(min=0)] > 0)

    def _step(
        self, model: DistributionModel, rows: SampledRows, order: _Order, uniforms: Tensor, steps_left: int
    ) -> None:
        """Sample the next variables of each row. Rows without any observed cell share the prediction of one row.

        Rows and order are updated in place.
        """
        priority, skipped, not_copied, constrained = order
        done, ranked = priority == DONE, self.ranks != NO_INDEX
        observed = done & ~skipped
        unfinished, is_shared = (~done).any(dim=1).nonzero()[:, 0], not observed.any()
        if not len(unfinished):
            return
        inputs = unfinished[:1] if is_shared else unfinished
        predictor = model.predict(EncodedRows(rows.x[inputs], observed[inputs].index_select(1, self.variable_of)))
        mask = self._next_variables(predictor, priority[unfinished], steps_left, constrained)
        before = not_copied[unfinished]
        if self.timestamps and not is_shared:
            x, uniform = rows.x[unfinished], uniforms[1, unfinished]
            not_copied[unfinished], predictor = self._copy_timestamps(predictor, x, mask, before, uniform)
        row, variable = mask.nonzero(as_tuple=True)
        of_timestamp = functional.pad(before, (0, 1))[row, self.timestamp_number[variable]]
        if is_shared:
            distributions = predictor.distributions(ranked[None, ranked])
            requested = _Requested(row, variable, torch.zeros_like(row), self.ranks[variable], of_timestamp)
        else:
            distributions = predictor.distributions(mask[:, ranked])
            rank_row = flat_index(mask & ranked)[row, variable]
            requested = _Requested(unfinished[row], variable, row, rank_row, of_timestamp)
        uniforms = uniforms[:, requested.row, variable]
        is_free = not self.timestamps and bool((self.indicator == NO_INDEX).all())
        at_once = is_free and model.excluded_categories(rows.x[:1]) is None
        for part in self._steps_within(rows.x, requested, at_once=at_once):
            written = _Requested(*(item[part] for item in requested))
            excluded = self._excluded_categories(model, rows.x)
            self._sample_requested(rows, written, distributions, excluded, uniforms[:, part])
        mask |= (self.timestamp != NO_INDEX) & mask[:, self.timestamp.clamp(min=0)]  # a timestamp determines its parts
        priority[unfinished] = priority[unfinished].masked_fill(mask, DONE)
        skipped |= self._is_null(rows.x)
        priority.masked_fill_(skipped, DONE)

    def _copy_timestamps(
        self, predictor: ConditionalPredictor, x: Tensor, mask: Tensor, not_copied: Tensor, uniform: Tensor
    ) -> tuple[Tensor, ConditionalPredictor]:
        """Decide whether timestamps are copies before their parts are sampled, which would have to agree by chance.

        A timestamp that is a copy is requested in place of its part: `mask`, (n, variables), is changed in place.

        Returns:
            Of which timestamps it is decided that they are no copies, (n, timestamps), and the predictor, in which
            their parts have the probabilities of parts of timestamps that are no copies.
        """
        not_copied, copies = not_copied.clone(), predictor.copies
        log_p, values, deterministic = copies.log_p, copies.values, copies.deterministic
        for number, each in enumerate(self.timestamps if values.shape[2] else ()):
            rank, parts = self.ranks[each.variable], list(each.part_variables)
            excluded = ~each.has_parts(x, values[:, rank]) & ~deterministic[:, rank]
            of_copies = _exclude_copies(log_p[:, rank], excluded)
            is_open = mask[:, parts].any(dim=1) & ~mask[:, each.variable] & ~not_copied[:, number]
            is_open &= (of_copies[:, 1:] > -torch.inf).any(dim=1)
            is_copy = is_open & (uniform[:, each.variable] > of_copies[:, 0].exp())
            mask[:, parts] &= ~is_copy[:, None]
            mask[:, each.variable] |= is_copy
            not_copied[:, number] |= is_open & ~is_copy
            of_copies = of_copies[:, 1:].exp() * not_copied[:, number, None]
            for variable, codes in zip(parts, each.part_codes(values[:, rank]), strict=True):
                positions = self.categories[variable][self.categories[variable] != NO_INDEX]
                p = predictor.category_logits[:, positions].softmax(dim=1).scatter_add(1, codes, -of_copies)
                logits = predictor.category_logits.index_copy(1, positions, p.clamp(min=MIN_RANK).log())
                predictor = predictor._replace(category_logits=logits)
        return not_copied, predictor

    def _excluded_categories(self, model: DistributionModel, x: Tensor) -> Tensor | None:
        """Return which categories cannot occur beside those of encoded rows, (n, categories); None: all can."""
        excluded = model.excluded_categories(x)
        for each in self.timestamps:
            impossible = each.impossible_parts(x)
            if excluded is None and len(each.joint):
                excluded = torch.zeros(len(x), int(self.categories.max()) + 1, dtype=torch.bool, device=x.device)
            if excluded is not None:
                excluded[:, each.joint_categories] |= impossible
        return excluded

    def _steps_within(self, x: Tensor, requested: _Requested, *, at_once: bool) -> Iterator[Tensor]:
        """Yield which requested variables are written into the rows next, (m,): of each row one, indicators first.

        So no two categories of a row are written that exclude each other, although their distributions were predicted
        together. A value that then is null is not written at all. `at_once`: neither can happen.
        """
        per_row = requested.row.bincount()
        per_row = per_row[per_row > 0]
        if at_once or per_row.max() == 1:
            yield torch.ones_like(requested.row, dtype=torch.bool)
            return
        first = (per_row.cumsum(dim=0) - per_row).repeat_interleave(per_row)
        position = torch.arange(len(first), device=first.device) - first
        for number in range(int(per_row.max())):
            yield (position == number) & ~self._is_null(x)[requested.row, requested.variable]

    def _order_offset(self, by_sums: Tensor, by_products: Tensor) -> Tensor:
        """Return how much later than at random each variable is sampled, (variables,).

        Numbers that relations constrain come last, and small ones first among them: the error of a distribution is
        proportional to the size of its number. A price and a total that are both slightly wrong make a tip between
        them that is very wrong; a tip that is slightly wrong harms neither. The size is the scale in sums, and the
        scale relative to the value in products.
        """
        offset, constrained = torch.zeros(len(self), device=self.follows.device), by_sums | by_products
        scale = torch.where(by_sums, self.scales[0], self.scales[1]).masked_fill(~constrained, torch.inf)
        late, numeric = torch.where(constrained, 1.0 + scale.argsort().argsort(), 0.0), self.quantities != NO_INDEX
        offset[numeric] = late[self.quantities[numeric]]
        return torch.where(self.timestamp == NO_INDEX, offset, offset[self.timestamp.clamp(min=0)])

    @property
    def _is_few_valued(self) -> Tensor:
        """Which variables are numbers whose values are all spikes, (variables,)."""
        return (self.quantities != NO_INDEX) & (self.ranks == NO_INDEX)

    def _next_variables(
        self, predictor: ConditionalPredictor, priority: Tensor, steps_left: int, constrained: Tensor
    ) -> Tensor:
        """Return which variables are sampled next, (n, variables), by priority.

        Variables that the observed cells determine come first: numbers that are sampled in between could contradict
        them. With fewer steps than variables, those that a relation constrains, (variables,), have a step each, as far
        as there are enough.
        """
        waiting, determined = priority < DONE, torch.zeros_like(priority, dtype=torch.bool)
        if steps_left == 1:
            return waiting
        determined[:, self.ranks != NO_INDEX] = predictor.determined()
        determined[:, self._is_few_valued] = predictor.few_valued.known
        waits_for_indicator = (self.indicator != NO_INDEX) & waiting[:, self.indicator.clamp(min=0)]
        priority = priority.masked_fill(determined & waiting & ~waits_for_indicator, FIRST)
        n_late = (waiting & constrained).sum(dim=1, keepdim=True)
        n_early = waiting.sum(dim=1, keepdim=True) - n_late
        steps_early = (steps_left - n_late).clamp(min=1)
        per_step = torch.where(
            n_early > 0,
            (n_early + steps_early - 1).div(steps_early, rounding_mode="floor"),
            (n_late + steps_left - 1).div(steps_left, rounding_mode="floor"),
        )
        return waiting & (priority <= priority.sort(dim=1).values.gather(1, per_step - 1))

    def _sample_requested(
        self,
        rows: SampledRows,
        requested: _Requested,
        distributions: ConditionalDistributions,
        excluded: Tensor | None,
        uniforms: Tensor,
    ) -> None:
        """Sample the requested variables and write them into the rows."""
        x, (row, variable, *_) = rows.x, requested
        positions = self.categories[variable]
        logits = distributions.category_logits[requested.category_row[:, None], positions.clamp(min=0)]
        logits = logits.masked_fill(positions == NO_INDEX, -torch.inf)
        if excluded is not None:
            logits = _exclude(logits, excluded[row[:, None], positions.clamp(min=0)])
        category = self._determined_spikes(rows, requested, distributions, _categorical_icdf(logits, uniforms[0]))
        category = self._determined_categories(requested, distributions, category)
        has_categories = self.first_category[variable] != NO_INDEX
        x[row[has_categories], (self.first_category[variable] + category)[has_categories]] = 1.0
        is_continuous = (self.ranks[variable] != NO_INDEX) & (~has_categories | (category == 0))
        is_spike = (self.standardised[variable] != NO_INDEX) & ~is_continuous
        spike = self.spikes[variable[is_spike], category[is_spike]].to(x.dtype)
        x[row[is_spike], self.standardised[variable[is_spike]]] = spike
        if is_continuous.any():
            selected = distributions.select_ranks(requested.rank_row[is_continuous])
            selected = self._exclude_copies(x, requested, is_continuous, selected)
            uniforms = uniforms[1:, is_continuous].double()
            self._sample_numbers(rows, row[is_continuous], variable[is_continuous], selected, uniforms)
        for each in self.timestamps:
            written = row[variable == each.variable]
            if len(written):
                each.write(x, written, rows.relation_of[written, self.ranks[each.variable]] != NO_INDEX)

    def _determined_spikes(
        self, rows: SampledRows, requested: _Requested, distributions: ConditionalDistributions, category: Tensor
    ) -> Tensor:
        """Return the categories; for a number that a deterministic relation gives, the spike it equals, or none."""
        has_spikes = (self.ranks != NO_INDEX) & (self.first_category != NO_INDEX)
        spiked = has_spikes[requested.variable].nonzero()[:, 0]
        copies = distributions.copies.take(requested.rank_row[spiked])
        if not copies.deterministic.any():
            return category
        relation = copies.deterministic.to(copies.values.dtype).argmax(dim=1, keepdim=True)
        value, variable = copies.values.gather(1, relation), requested.variable[spiked]
        equal = (self._spikes(variable, value) - value).abs() <= SPIKE_TOLERANCE * (1 + value.abs())
        spike = torch.where(equal.any(dim=1), equal.to(value.dtype).argmax(dim=1), 0)
        determined = copies.deterministic.any(dim=1)
        at = (determined & (spike > 0)).nonzero()[:, 0]  # the formula decides between a spike and its neighbours
        index = copies.relations.gather(1, relation)[at, 0]
        rows.relation_of[requested.row[spiked[at]], self.ranks[variable[at]]] = index
        return category.index_copy(0, spiked, torch.where(determined, spike, category[spiked]))

    def _determined_categories(
        self, requested: _Requested, distributions: ConditionalDistributions, category: Tensor
    ) -> Tensor:
        """Return the categories; for a number with few values that a relation determines, the spike it is next to.

        A value that is not close to any of them contradicts the relation, and its category stays.
        """
        known, values = distributions.few_valued
        if not known.any():
            return category
        few = self._is_few_valued[requested.variable].nonzero()[:, 0]
        variable = requested.variable[few]
        position = self.quantities[variable] - int((self.ranks != NO_INDEX).sum())
        value = values[requested.category_row[few], position].unsqueeze(1)
        spikes = self._spikes(variable, value)
        distance, spike = (spikes - value).abs().min(dim=1)
        gap = spikes.sort(dim=1).values.diff(dim=1).nan_to_num(nan=torch.inf).amin(dim=1)
        determined = known[requested.category_row[few], position] & (distance <= MAX_SPIKE_DISTANCE * gap)
        return category.index_copy(0, few, torch.where(determined, spike, category[few]))

    def _spikes(self, variable: Tensor, like: Tensor) -> Tensor:
        """Return the standardised values of the spikes of variables; infinite where there is none, (m, categories)."""
        spikes = self.spikes[variable].to(like.dtype).masked_fill(self.categories[variable] == NO_INDEX, torch.inf)
        spikes[:, 0] = torch.inf  # the entry for no spike
        return spikes

    def _sample_numbers(
        self,
        rows: SampledRows,
        row: Tensor,
        variable: Tensor,
        distributions: ConditionalDistributions,
        uniforms: Tensor,
    ) -> None:
        """Sample numbers that are not spikes and write them into the rows.

        The normal score of a copy is arbitrary, because its value is computed from the relation.
        """
        x, relation_of = rows
        copy, remainder = _sample_copies(distributions, uniforms[0])
        probability = _sample_probability(distributions, remainder, uniforms[1])
        for each in self.timestamps:
            index = (variable == each.variable).nonzero()[:, 0]
            group = each.groups.of_rows(x[row[index]])
            index, group = index[group != NO_INDEX], group[group != NO_INDEX]
            if len(index):
                of_timestamp = distributions.select_ranks(index)
                in_group, is_likely = _sample_group(
                    of_timestamp, each.groups, group, remainder[index], uniforms[1, index]
                )
                probability[index] = torch.where(is_likely, in_group, probability[index])
        x[row, self.continuous[variable]] = torch.special.ndtri(probability).to(x.dtype)
        x[row, self.standardised[variable]] = self._inverse_cdf(variable, probability).to(x.dtype)
        copied = (copy != NO_INDEX).nonzero()[:, 0]
        row, variable, copy = row[copied], variable[copied], copy[copied]
        x[row, self.standardised[variable]] = distributions.copies.values[copied, copy].to(x.dtype)
        relation_of[row, self.ranks[variable]] = distributions.copies.relations[copied, copy]

    def _exclude_copies(
        self, x: Tensor, requested: _Requested, is_continuous: Tensor, distributions: ConditionalDistributions
    ) -> ConditionalDistributions:
        """Exclude timestamps that would be copies without the parts of their rows, or are decided to be none."""
        copies = distributions.copies
        log_p, values, deterministic = copies.log_p, copies.values, copies.deterministic
        if not self.timestamps or not values.shape[1]:
            return distributions
        row, variable, not_copied = (
            item[is_continuous] for item in (requested.row, requested.variable, requested.not_copied)
        )
        excluded = torch.zeros_like(deterministic)
        for each in self.timestamps:
            index = (variable == each.variable).nonzero()[:, 0]
            excluded[index] = ~each.has_parts(x[row[index]], values[index]) | not_copied[index, None]
        return distributions._replace(copies=copies._replace(log_p=_exclude_copies(log_p, excluded & ~deterministic)))

    def _inverse_cdf(self, variable: Tensor, probability: Tensor) -> Tensor:
        """Return the standardised value below which a variable lies with this probability."""
        position = probability * QUANTILE_POINTS
        point = position.long().clamp(max=QUANTILE_POINTS - 1)
        table = self.quantile_table
        return torch.lerp(table[variable, point], table[variable, point + 1], position - point)


def _sample_copies(distributions: ConditionalDistributions, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return which relation each number is a copy of, or `NO_INDEX`, and a uniform number for those that are not."""
    log_p = distributions.copies.log_p.double()
    return _categorical_icdf(log_p, uniform) - 1, (uniform / log_p[:, 0].exp().clamp(min=MIN_RANK)).clamp(max=1)


def _sample_probability(distributions: ConditionalDistributions, uniform: Tensor, position: Tensor) -> Tensor:
    """Sample from the mixture of Gaussian and histogram, as a cumulative probability of the standard normal."""
    log_odds, mean, std = (parameter.double() for parameter in distributions.gaussian)
    weight = log_odds.sigmoid()
    remainder = ((uniform - weight) / (1 - weight).clamp(min=MIN_RANK)).clamp(min=0)
    in_bin = (_categorical_icdf(distributions.bin_logits, remainder) + position) / distributions.bin_logits.shape[1]
    in_gaussian = torch.special.ndtr(mean + std * torch.special.ndtri(position))
    return torch.where(uniform < weight, in_gaussian, in_bin).clamp(MIN_RANK, 1 - MIN_RANK)


def _sample_group(
    distributions: ConditionalDistributions, groups: RankGroups, group: Tensor, uniform: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Sample from the same mixture, restricted to the times of a group of each row, (n,).

    Also returns whether the month of the group is likely at all, (n,): the network may predict parts and times that
    contradict each other, and then a time near the likely ones is better than one of another year.
    """
    log_odds, mean, std = (parameter.double()[:, None] for parameter in distributions.gaussian)
    weight, n_bins, intervals = log_odds.sigmoid(), distributions.bin_logits.shape[1], groups.intervals[group]
    ranks = intervals.flatten(1)
    cumulative = functional.pad(distributions.bin_logits.double().softmax(dim=1).cumsum(dim=1), (1, 0))
    left = (ranks * n_bins).long().clamp(max=n_bins - 1)
    in_bins = torch.lerp(cumulative.gather(1, left), cumulative.gather(1, left + 1), ranks * n_bins - left)
    in_gaussian = torch.special.ndtr((torch.special.ndtri(ranks) - mean) / std)
    of_bins, of_gaussian = (ends.view_as(intervals).diff(dim=2)[..., 0].clamp(min=0) for ends in (in_bins, in_gaussian))
    is_likely = (weight * of_gaussian + (1 - weight) * of_bins).sum(dim=1) > MIN_MONTH_PROBABILITY * groups.share[group]
    mass = weight * of_gaussian + (1 - weight) * of_bins * groups.density(n_bins)[group]
    mass = mass + MIN_RANK * intervals.diff(dim=2)[..., 0]  # where the mixture has none
    chosen = _categorical_icdf(mass.log(), uniform)[:, None, None].expand(-1, 1, 2)
    low, high = intervals.gather(1, chosen)[:, 0].T
    return torch.lerp(low, high, position).clamp(MIN_RANK, 1 - MIN_RANK), is_likely


def _exclude_copies(log_p: Tensor, excluded: Tensor) -> Tensor:
    """Exclude copies, (n, k), from the log probabilities of no copy and of each copy, (n, 1 + k)."""
    return log_p.masked_fill(functional.pad(excluded, (1, 0)), -torch.inf).log_softmax(dim=1)


def _exclude(logits: Tensor, excluded: Tensor) -> Tensor:
    """Remove excluded categories; all stay where every one is excluded, in rows unlike any training row."""
    remaining = logits.masked_fill(excluded, -torch.inf)
    return torch.where((remaining > -torch.inf).any(dim=1, keepdim=True), remaining, logits)


def _categorical_icdf(logits: Tensor, uniform: Tensor) -> Tensor:
    """Return the category of each row at a uniform random number, (n, categories) and (n,) to (n,)."""
    cumulative = logits.softmax(dim=1).cumsum(dim=1)
    return (cumulative < uniform[:, None].to(cumulative.dtype) * cumulative[:, -1:]).sum(dim=1)


def _variables(slices: Sequence[ColumnSlice]) -> list[list[ColumnSlice]]:
    """Return the slices of each variable."""
    variables: list[list[ColumnSlice]] = []
    for slice_ in slices:
        same_column = bool(variables) and variables[-1][0].column == slice_.column
        if same_column and not (slice_.is_categorical and variables[-1][-1].is_categorical):
            variables[-1].append(slice_)
        else:
            variables.append([slice_])
    return variables


def _width(slice_: ColumnSlice | None) -> int:
    return 0 if slice_ is None else slice_.stop - slice_.start


def _positions(rows: Sequence[int], n: int) -> Tensor:
    """Return the position of each of n numbers in a list, or `NO_INDEX`, (n,)."""
    positions = torch.full((n,), NO_INDEX)
    positions[list(rows)] = torch.arange(len(rows))
    return positions


def _starts(slices: Sequence[ColumnSlice | None]) -> Tensor:
    return torch.tensor([NO_INDEX if slice_ is None else slice_.start for slice_ in slices])


def _rows_at_quantiles(codec: RowCodec) -> Floats:
    """Return encoded rows with every normal score at evenly spaced probabilities, (QUANTILE_POINTS + 1, d)."""
    x = _rows_at_categories(codec, 1).repeat(QUANTILE_POINTS + 1, axis=0)
    scores = [slice_.start for slice_ in codec.slices if slice_.type is PartType.CONTINUOUS]
    x[:, scores] = ndtri(np.linspace(MIN_RANK, 1 - MIN_RANK, QUANTILE_POINTS + 1))[:, None]
    return x


def _rows_at_categories(codec: RowCodec, count: int) -> Floats:
    """Return encoded rows with each category in turn, or the first where a column has fewer, (count, d)."""
    x, category = np.zeros((count, codec.width)), np.arange(count)
    for slice_ in codec.slices:
        if slice_.is_categorical:
            x[category, slice_.start + np.where(category < _width(slice_), category, 0)] = 1.0
    return x


def _scales(codec: RowCodec) -> Tensor:
    """Return the scale of each number in units of the table, and relative to its size, (2, quantities).

    Times and durations are in seconds.
    """
    scales = torch.zeros(2, len(codec.quantities))
    for index, unit in codec.units.items():
        seconds = unit.nanoseconds / NANOSECONDS["s"] if unit.nanoseconds else 1.0
        scales[:, index] = torch.tensor([unit.scale * seconds, 1 / max(abs(unit.zero), MIN_RANK)])
    return scales


def _standardised_values(codec: RowCodec, positions: Tensor, x: Floats) -> Tensor:
    """Return the standardised values that encoded rows decode to, (variables, n)."""
    values = torch.from_numpy(codec.encode(codec.decode(x, calendar=False)))
    return torch.where(positions[:, None] == NO_INDEX, 0.0, values[:, positions.clamp(min=0)].T)
