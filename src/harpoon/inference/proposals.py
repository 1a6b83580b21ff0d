"""Proposals for a condition, one per disjoint branch.

The columns that a branch restricts alone are sampled from their truncated marginals, and the rest of the row is
conditioned on them. So most proposed rows satisfy the branch, however rare it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator
from harpoon.conditions import BoundPredicate, Branch, assume_complete, disjoint_branches, evaluate
from harpoon.conditions.bound import AllOf, AnyOf, Compare, NumberLiteral, NumericTerm, Operation
from harpoon.conditions.branches import UNSATISFIABLE
from harpoon.data import Column, ColumnArray, Columns, Floats, n_rows, repeat_row, take
from harpoon.encoding import ColumnCodec, numeric_cells
from harpoon.encoding.numeric import round_to_step
from harpoon.inference.row_sampler import RowSampler

MARGINAL_POINTS = 4096  # values that represent the continuous part of a marginal
UNSEEN_PROBABILITY = 1e-6  # of a region inside the range of a column that has no training value
N_CANDIDATES = 4  # candidates per row for importance resampling


@dataclass(frozen=True)
class TruncatedMarginal:
    """Values of a numeric column and their probabilities, (k,) each; they sum to less than 1 after truncation."""

    values: ColumnArray
    probabilities: Floats

    @property
    def probability(self) -> float:
        """The probability of all values together."""
        return float(self.probabilities.sum())

    def sample(self, uniform: Floats) -> ColumnArray:
        """Return a value for each uniform random number."""
        return self.values[_inverse_cdf(self.probabilities, uniform)]


def truncate(marginal: TruncatedMarginal, codec: ColumnCodec, predicate: BoundPredicate) -> TruncatedMarginal | None:
    """Restrict a marginal to a condition on this column alone; None if it has no valid value.

    If no training value satisfies the condition, values between them do, as long as they are in the column's range. But
    a number with few values has no others, and a timestamp stays on the grid of its calendar.
    """
    column = codec.column
    satisfied = evaluate(predicate, {column.name: marginal.values}) & (marginal.probabilities > 0)
    if satisfied.any():
        return TruncatedMarginal(marginal.values[satisfied], marginal.probabilities[satisfied])
    if codec.is_few_valued:
        return None
    unseen = numeric_cells(np.unique(round_to_step(_values_in_range(column, predicate), column)), column)
    satisfied = evaluate(predicate, {column.name: unseen}) & codec.is_possible(unseen)
    count = int(satisfied.sum())
    return TruncatedMarginal(unseen[satisfied], np.full(count, UNSEEN_PROBABILITY / count)) if count else None


@dataclass
class BranchProposal:
    """Samples rows of one branch of a condition.

    A numeric column is sampled from its truncated marginal. Categories are sampled from their conditional
    probabilities, and the probability of the allowed ones is an importance weight.
    """

    sampler: RowSampler
    base: Columns  # what all rows have in common: one row, its free cells missing
    branch: Branch
    index: int  # the number of the branch, from 1 on; it is also the number of the draw
    restricted_number: tuple[str, TruncatedMarginal] | None  # the numeric column that the branch restricts most
    categories: dict[str, NDArray[np.int64]]  # the allowed ones of each categorical column that the branch restricts
    nulls: list[str]  # columns that the branch requires to be null
    other_numbers: dict[str, TruncatedMarginal] = field(default_factory=dict)  # that the branch restricts, too
    weights: list[Floats] = field(default_factory=list, init=False)  # importance weights of each round of sampling

    @property
    def number_probability(self) -> float:
        """The probability of the truncated marginal; 1 if no numeric column is restricted."""
        return self.restricted_number[1].probability if self.restricted_number else 1.0

    @property
    def probability(self) -> float:
        """An estimate of the probability that the restricted columns have allowed values."""
        return float(np.mean([weights.mean() for weights in self.weights] or [1.0])) * self.number_probability

    @property
    def relative_variance(self) -> float:
        """The variance of `probability` relative to its square."""
        weights = np.concatenate(self.weights or [np.ones(1)])
        return float(weights.var() / max(weights.mean() ** 2, np.finfo(float).tiny) / len(weights))

    def sample(self, start: int, count: int) -> Columns:
        """Sample rows with the numbers `start` to `start + count`; terms of several columns may be violated."""
        given = self.sample_restricted(start, count)
        return self.sampler.sample(given, np.arange(start, start + count), draw=self.index)

    def sample_restricted(self, start: int, count: int) -> Columns:
        """Sample the restricted columns of these rows alone."""
        random = generator(self.sampler.seed, Stream.PROPOSALS, self.index, start)
        is_weighted = len(self.categories) + len(self.nulls) + (self.restricted_number is not None) > 1
        rows, weights = self.condition(repeat_row(self.base, count * (N_CANDIDATES if is_weighted else 1)), random)
        self.weights.append(weights)
        if not is_weighted or not weights.sum():
            return take(rows, slice(0, count))
        positions = (np.arange(count) + random.random()) / count  # systematic resampling
        return take(rows, random.permutation(_inverse_cdf(weights, positions)))

    def condition(
        self, rows: Columns, random: np.random.Generator, *, rarer_than: float = 0.0
    ) -> tuple[Columns, Floats]:
        """Fill the restricted columns of rows; return the rows and their importance weights, (n,).

        Other restricted numbers are filled, too, if their truncated marginal has less probability than `rarer_than`.
        """
        rows, weights = dict(rows), np.ones(n_rows(rows))
        if self.restricted_number:
            name, marginal = self.restricted_number
            weights *= self._null_probability(rows, name, null=False)
            rows[name] = _fill(rows[name], marginal.sample(random.random(len(weights))).values)
        for name, marginal in self.other_numbers.items():
            if marginal.probability < rarer_than:
                rows[name] = _fill(rows[name], marginal.sample(random.random(len(weights))).values)
        for name in self.nulls:
            weights *= self._null_probability(rows, name, null=True)
            rows[name] = rows[name].with_null(rows[name].unknown)
        for name, allowed in self.categories.items():
            weights *= self._null_probability(rows, name, null=False)
            p = self._probabilities(rows, name)[:, allowed]
            weights *= p.sum(axis=1)
            rows[name] = _fill(rows[name], allowed[_sample_index(p, random.random(len(p)))])
        return rows, weights

    def _null_probability(self, rows: Columns, name: str, *, null: bool) -> Floats:
        """Return the probability that the cells of a column are null, or that they have values, (n,)."""
        codec, is_certain = self.sampler.codec, self.sampler.missing != "as_trained"
        if is_certain or name not in codec.nullable:
            return np.full(n_rows(rows), 0.0 if null else 1.0)
        p = np.concatenate(self.sampler.posterior_means(rows, lambda x: codec.null_probabilities(x)[name]))
        return p if null else 1 - p

    def _probabilities(self, rows: Columns, name: str) -> Floats:
        """Return the conditional probabilities of the categories of a column, (n, categories)."""
        return np.concatenate(self.sampler.posterior_means(rows, lambda x: self.sampler.codec.expectation(x)[1][name]))


def branch_proposals(
    sampler: RowSampler, predicate: BoundPredicate, base: Columns, *, ignore_given: bool = False
) -> list[BranchProposal]:
    """Return a proposal for each branch of a condition that can be satisfied within the range of the table.

    With given cells, the marginal of a number is not its conditional distribution, and numbers are not sampled first;
    except with `ignore_given`, for conditions that nothing else satisfies.
    """
    nullable = sampler.codec.nullable if sampler.missing == "as_trained" else set()
    branches = enumerate(disjoint_branches(predicate, nullable), start=1)
    proposals = (_proposal(sampler, branch, base, index, ignore_given=ignore_given) for index, branch in branches)
    return [proposal for proposal in proposals if proposal is not None]


def _proposal(
    sampler: RowSampler, branch: Branch, base: Columns, index: int, *, ignore_given: bool
) -> BranchProposal | None:
    numbers: dict[str, TruncatedMarginal] = {}
    categories: dict[str, NDArray[np.int64]] = {}
    nulls: list[str] = []
    for codec in sampler.codec.single_columns:
        name, term = codec.column.name, branch.restrict_to(codec.column.name)
        if name not in branch.single_columns or not base[name].unknown[0]:
            continue
        if bool(evaluate(term, {name: base[name]})[0]):  # a missing cell satisfies it, and perhaps some values do
            if assume_complete(term) == UNSATISFIABLE:
                nulls.append(name)
        elif codec.column.kind.discrete:
            every_category = base[name].with_values(np.arange(len(codec.column.categories or ())))
            categories[name] = np.flatnonzero(evaluate(term, {name: every_category}))
            if not len(categories[name]):
                return None
        elif (marginal := _marginal(sampler, codec)) is not None:
            truncated = truncate(marginal, codec, term)
            if truncated is None:
                return None
            numbers[name] = truncated
    is_free = ignore_given or all(cells.unknown[0] for cells in base.values())
    rarest = min(numbers, key=lambda name: numbers[name].probability, default=None) if is_free else None
    restricted = None if rarest is None else (rarest, numbers[rarest])
    others = {name: marginal for name, marginal in numbers.items() if is_free and name != rarest}
    return BranchProposal(sampler, base, branch, index, restricted, categories, nulls, others)


def _marginal(sampler: RowSampler, codec: ColumnCodec) -> TruncatedMarginal | None:
    """Return the marginal distribution of a column, with the fractions of its spikes in the training rows."""
    index = sampler.codec.codecs.index(codec)
    spikes = [part for part in sampler.codec.slices if part.column == index and part.is_categorical]
    mean = sampler.denoiser.mean.double().cpu().numpy()
    fractions = mean[spikes[0].start : spikes[0].stop] if spikes else np.zeros(1)
    marginal = codec.marginal(fractions, MARGINAL_POINTS)
    return None if marginal is None else TruncatedMarginal(*marginal)


def _values_in_range(column: Column, predicate: BoundPredicate) -> NDArray[np.float64]:
    """Return values over the range of the column, and close to the numbers of the condition."""
    if column.minimum is None or column.maximum is None:
        return np.zeros(0)
    bounds = np.unique(list(_numbers(predicate)) or [float(column.minimum)])
    step = float(column.step or 0) or (float(column.maximum) - float(column.minimum)) * 1e-6
    between = (bounds[1:] + bounds[:-1]) / 2
    evenly = np.linspace(float(column.minimum), float(column.maximum), MARGINAL_POINTS)
    values = np.unique(np.concatenate([evenly, bounds, bounds - step, bounds + step, between]))
    if column.clip:
        values = values[(values >= column.minimum) & (values <= column.maximum)]
    return values


def _numbers(node: BoundPredicate | NumericTerm) -> set[float]:
    """Return the numbers in a condition."""
    match node:
        case NumberLiteral(value):
            return {float(value)}
        case Compare(_, left, right):
            return _numbers(left) | _numbers(right)
        case AllOf(parts) | AnyOf(parts) | Operation(_, parts):
            return set().union(*map(_numbers, parts))
    return set()


def _fill(cells: ColumnArray, values: NDArray[Any]) -> ColumnArray:
    """Return the cells with values in the missing ones."""
    return cells.with_values(np.where(cells.missing, values, cells.values))


def _inverse_cdf(weights: Floats, uniform: Floats) -> NDArray[np.int64]:
    """Return an index for each uniform number by unnormalised probabilities, (k,) and (n,) to (n,)."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative / cumulative[-1], uniform, side="right").clip(max=len(cumulative) - 1)


def _sample_index(p: Floats, uniform: Floats) -> NDArray[np.int64]:
    """Return an index for each row of unnormalised probabilities, (n, k) to (n,)."""
    cumulative = np.cumsum(p, axis=1)
    index: NDArray[np.int64] = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1)
    return index.clip(max=p.shape[1] - 1)
