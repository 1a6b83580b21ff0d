"""Proposals for a condition, one per disjoint branch.

The columns that a branch restricts alone are sampled from their truncated marginals, and the rest of the row is
conditioned on them. So most proposed rows satisfy the branch, however rare it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator
from harpoon.conditions.bound import AllOf, AnyOf, BoundPredicate, Compare, NumberLiteral, NumericTerm, Operation
from harpoon.conditions.branches import Branch, disjoint_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray, Columns, n_rows, repeat_row, take
from harpoon.data.statistics import Floats
from harpoon.encoding.base import ColumnCodec
from harpoon.encoding.numeric import numeric_cells, round_to_step
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
        cumulative = np.cumsum(self.probabilities)
        index = np.searchsorted(cumulative / cumulative[-1], uniform, side="right")
        return self.values[index.clip(max=len(cumulative) - 1)]


def truncate(marginal: TruncatedMarginal, column: Column, predicate: BoundPredicate) -> TruncatedMarginal | None:
    """Restrict a marginal to a condition on this column alone; None if it has no valid value.

    If no training value satisfies the condition, values between them do, as long as they are in the column's range.
    """
    satisfied = evaluate(predicate, {column.name: marginal.values}) & (marginal.probabilities > 0)
    if satisfied.any():
        return TruncatedMarginal(marginal.values[satisfied], marginal.probabilities[satisfied])
    unseen = numeric_cells(np.unique(round_to_step(_values_in_range(column, predicate), column)), column)
    satisfied = evaluate(predicate, {column.name: unseen})
    count = int(satisfied.sum())
    return TruncatedMarginal(unseen[satisfied], np.full(count, UNSEEN_PROBABILITY / count)) if count else None


@dataclass
class BranchProposal:
    """Samples rows of one branch.

    Attributes:
        sampler: Samples the rest of each row.
        base: What all rows have in common: one row, its free cells missing.
        branch: The branch.
        index: The number of the branch, from 1 on; it is also the number of the draw.
        restricted_number: The numeric column that the branch restricts most, and its truncated marginal.
        categories: The allowed categories of each categorical column that the branch restricts. They are sampled from
            their conditional probabilities, and the probability of the allowed ones is an importance weight.
        importance_weights: The mean weight of each round of sampling.
    """

    sampler: RowSampler
    base: Columns
    branch: Branch
    index: int
    restricted_number: tuple[str, TruncatedMarginal] | None
    categories: dict[str, tuple[int, ...]]
    importance_weights: list[float] = field(default_factory=list, init=False)

    @property
    def probability(self) -> float:
        """An estimate of the probability that the restricted columns have allowed values."""
        weight = float(np.mean(self.importance_weights)) if self.importance_weights else 1.0
        return weight * (self.restricted_number[1].probability if self.restricted_number else 1.0)

    @property
    def number_probability(self) -> float:
        """The probability of the truncated marginal; infinite if no numeric column is restricted."""
        return self.restricted_number[1].probability if self.restricted_number else np.inf

    def sample(self, start: int, count: int) -> Columns:
        """Sample rows with the numbers `start` to `start + count`; terms of several columns may be violated."""
        given = self.sample_restricted(start, count)
        return self.sampler.sample(given, np.arange(start, start + count), draw=self.index)

    def sample_restricted(self, start: int, count: int) -> Columns:
        """Sample the restricted columns of these rows alone."""
        random = generator(self.sampler.seed, Stream.PROPOSALS, self.index, start)
        is_weighted = len(self.categories) + (self.restricted_number is not None) > 1
        rows, weights = self.condition(repeat_row(self.base, count * (N_CANDIDATES if is_weighted else 1)), random)
        self.importance_weights.append(float(weights.mean()))
        if not is_weighted or not weights.sum():
            return take(rows, slice(0, count))
        positions = (np.arange(count) + random.random()) / count  # systematic resampling
        cumulative = np.cumsum(weights)
        index = np.searchsorted(cumulative / cumulative[-1], positions).clip(max=len(cumulative) - 1)
        return take(rows, random.permutation(index))

    def condition(self, rows: Columns, random: np.random.Generator) -> tuple[Columns, Floats]:
        """Fill the restricted columns of rows; return the rows and their importance weights, (n,)."""
        rows, weights = dict(rows), np.ones(n_rows(rows))
        if self.restricted_number:
            name, marginal = self.restricted_number
            rows[name] = _fill(rows[name], marginal.sample(random.random(len(weights))).values)
        for name, allowed in self.categories.items():
            p = self._probabilities(rows, name)[:, list(allowed)]
            weights *= p.sum(axis=1)
            rows[name] = _fill(rows[name], np.array(allowed)[_sample_index(p, random.random(len(p)))])
        return rows, weights

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
    branches = enumerate(disjoint_branches(predicate), start=1)
    proposals = (_proposal(sampler, branch, base, index, ignore_given=ignore_given) for index, branch in branches)
    return [proposal for proposal in proposals if proposal is not None]


def _proposal(
    sampler: RowSampler, branch: Branch, base: Columns, index: int, *, ignore_given: bool
) -> BranchProposal | None:
    numbers: dict[str, TruncatedMarginal] = {}
    categories: dict[str, tuple[int, ...]] = {}
    for codec in sampler.codec.single_columns:
        name, term = codec.column.name, branch.restrict_to(codec.column.name)
        if name not in branch.single_columns or not base[name].missing[0]:
            continue
        if codec.column.kind.discrete:
            every = _every_category(len(codec.column.categories or ()), base[name])
            categories[name] = tuple(np.flatnonzero(evaluate(term, {name: every})).tolist())
            if not categories[name]:
                return None
        elif (marginal := _marginal(sampler, codec)) is not None:
            truncated = truncate(marginal, codec.column, term)
            if truncated is None:
                return None
            numbers[name] = truncated
    is_free = ignore_given or all(cells.missing[0] for cells in base.values())
    rarest = min(numbers, key=lambda name: numbers[name].probability, default=None) if is_free else None
    restricted = None if rarest is None else (rarest, numbers[rarest])
    return BranchProposal(sampler, base, branch, index, restricted, categories)


def _marginal(sampler: RowSampler, codec: ColumnCodec) -> TruncatedMarginal | None:
    """Return the marginal distribution of a column, with the fractions of its spikes in the training rows."""
    spikes = [part for part in sampler.codec.slices if part.name == codec.column.name and part.is_categorical]
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
        case AllOf(parts) | AnyOf(parts):
            return set().union(*map(_numbers, parts))
        case Compare(_, left, right):
            return _numbers(left) | _numbers(right)
        case Operation(_, operands):
            return set().union(*map(_numbers, operands))
        case _:
            return set()


def _fill(cells: ColumnArray, values: NDArray[Any]) -> ColumnArray:
    """Return the cells with values in the missing ones."""
    return cells.with_values(np.where(cells.missing, values, cells.values))


def _every_category(count: int, like: ColumnArray) -> ColumnArray:
    return replace(like, values=np.arange(count), missing=np.zeros(count, dtype=np.bool_))


def _sample_index(p: Floats, uniform: Floats) -> NDArray[np.int64]:
    """Return an index for each row of unnormalised probabilities, (n, k) to (n,)."""
    cumulative = np.cumsum(p, axis=1)
    index: NDArray[np.int64] = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1)
    return index.clip(max=p.shape[1] - 1)
