"""What one column takes by itself: its values and how often, and which of them a condition leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator
from harpoon.conditions.bound import AllOf, AnyOf, BoundPredicate, Compare, NumberLiteral, NumericTerm, Operation
from harpoon.conditions.branches import Branch, disjoint_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.data.coercion import STORAGE
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray, Columns, n_rows, repeat_row, take
from harpoon.data.statistics import Floats
from harpoon.encoding.numeric import SpikedNumericCodec, round_to_step, to_valid_values
from harpoon.inference.row_sampler import RowSampler

MARGINAL_POINTS = 4096  # values that stand for the law of a column
UNSEEN_PROBABILITY = 1e-6  # the share of a region without any row that is still within reach


@dataclass(frozen=True)
class TruncatedMarginal:
    """Values of a numeric column with the share of each."""

    values: ColumnArray
    probabilities: Floats

    @property
    def probability(self) -> float:
        """How often the column takes one of the values."""
        return float(self.probabilities.sum())

    def sample(self, uniform: Floats) -> ColumnArray:
        """A value for each number between 0 and 1."""
        ends = np.cumsum(self.probabilities)
        return self.values[np.searchsorted(ends / ends[-1], uniform, side="right").clip(max=len(ends) - 1)]


def marginal_distribution(codec: SpikedNumericCodec, spike_shares: Floats) -> TruncatedMarginal:
    """The law of a column as the training rows had it: its point masses, and its ranks in even steps."""
    from scipy.special import ndtri

    column, masses = codec.column, np.asarray(spike_shares[1:])
    values, shares = [to_valid_values(np.array(codec.spikes), column)], [masses]
    if codec.normal_scores:
        values.append(
            to_valid_values(
                codec.normal_scores.inverse(ndtri((np.arange(MARGINAL_POINTS) + 0.5) / MARGINAL_POINTS)), column
            )
        )
        shares.append(np.full(MARGINAL_POINTS, max(1.0 - float(masses.sum()), 0.0) / MARGINAL_POINTS))
    return TruncatedMarginal(_cells(column, np.concatenate(values)), np.concatenate(shares))


def truncate(marginal: TruncatedMarginal, column: Column, bound: BoundPredicate) -> TruncatedMarginal | None:
    """The part of a law that a condition on this column alone leaves; None if nothing is within reach.

    Where no value is left, the region between the training values counts as within reach as long as it lies in the
    column's range.
    """
    met = evaluate(bound, {column.name: marginal.values}) & (marginal.probabilities > 0)
    if met.any():
        return TruncatedMarginal(marginal.values[met], marginal.probabilities[met])
    between = _cells(column, np.unique(round_to_step(_within_range(column, bound), column)))
    met = evaluate(bound, {column.name: between})
    count = int(met.sum())
    return TruncatedMarginal(between[met], np.full(count, UNSEEN_PROBABILITY / count)) if count else None


def _within_range(column: Column, bound: BoundPredicate) -> NDArray[np.float64]:
    """Values over the range of the column, and close to the numbers that a condition names."""
    if column.minimum is None or column.maximum is None:
        return np.zeros(0)
    named = np.unique(list(_numbers(bound)) or [float(column.minimum)])
    step = float(column.step or 0) or (float(column.maximum) - float(column.minimum)) * 1e-6
    middle = (named[1:] + named[:-1]) / 2
    even = np.linspace(float(column.minimum), float(column.maximum), MARGINAL_POINTS)
    values = np.unique(np.concatenate([even, named, named - step, named + step, middle]))
    if column.clip:
        values = values[(values >= column.minimum) & (values <= column.maximum)]
    return values


def _numbers(bound: BoundPredicate | NumericTerm) -> set[float]:
    """The numbers that a condition names."""
    match bound:
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


def _cells(column: Column, values: NDArray[Any]) -> ColumnArray:
    return ColumnArray(STORAGE[column.kind], values, np.zeros(len(values), dtype=np.bool_), unit=column.unit)


N_CANDIDATES = 4  # candidates for each row, where they have to be weighed


@dataclass
class BranchProposal:
    """How rows of a branch are drawn.

    `anchor` is the numeric column that the branch restricts most, with what is left of its law; `labels` are the labels
    that it leaves to categories. A category is drawn from its probabilities given what is known already, and rows are
    weighed by how likely the labels that are left are.
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
        """How likely the known columns are to be what the branch allows."""
        chance = float(np.mean(self.importance_weights)) if self.importance_weights else 1.0
        return chance * (self.restricted_number[1].probability if self.restricted_number else 1.0)

    @property
    def number_probability(self) -> float:
        """The probability of the truncated marginal; infinite if no numeric column is restricted."""
        return self.restricted_number[1].probability if self.restricted_number else np.inf

    def sample(self, start: int, count: int) -> Columns:
        """Rows of the branch from number `start` on, as far as it concerns single columns."""
        return self.sampler.sample(
            self.sample_restricted(start, count), np.arange(start, start + count), draw=self.index
        )

    def sample_restricted(self, start: int, count: int) -> Columns:
        """What is known of those rows."""
        random = generator(self.sampler.seed, Stream.PROPOSALS, self.index, start)
        weighed = len(self.categories) + (self.restricted_number is not None) > 1
        rows, weights = self.condition(repeat_row(self.base, count * (N_CANDIDATES if weighed else 1)), random)
        self.importance_weights.append(float(weights.mean()))
        if not weighed or not weights.sum():
            return take(rows, slice(0, count))
        at = (np.arange(count) + random.random()) / count
        ends = np.cumsum(weights)
        return take(rows, random.permutation(np.searchsorted(ends / ends[-1], at).clip(max=len(ends) - 1)))

    def condition(self, rows: Columns, random: np.random.Generator) -> tuple[Columns, Floats]:
        """Rows in which the way's columns are known too, and how likely their labels are."""
        rows, weights = dict(rows), np.ones(n_rows(rows))
        if self.restricted_number:
            name, law = self.restricted_number
            rows[name] = _filled(rows[name], law.sample(random.random(len(weights))).values)
        for name, allowed in self.categories.items():
            p = self._probabilities(rows, name)[:, list(allowed)]
            weights *= p.sum(axis=1)
            rows[name] = _filled(rows[name], np.array(allowed)[_sample_index(p, random.random(len(p)))])
        return rows, weights

    def _probabilities(self, rows: Columns, name: str) -> Floats:
        return np.concatenate(self.sampler.posterior_means(rows, lambda x: self.sampler.codec.expectation(x)[1][name]))


def branch_proposals(
    drawer: RowSampler, bound: BoundPredicate, base: Columns, *, ignore_given: bool = False
) -> list[BranchProposal]:
    """A way for each branch of a condition that something in the range of the table meets.

    Where something is known of the rows already, the law of a number by itself is not its law in them, and numbers are
    not drawn first; unless `whatever` is known, because nothing else has led there.
    """
    found = (
        _branch_proposal(drawer, branch, base, 1 + place, whatever=ignore_given)
        for place, branch in enumerate(disjoint_branches(bound))
    )
    return [way for way in found if way is not None]


def _branch_proposal(
    drawer: RowSampler, branch: Branch, base: Columns, place: int, *, whatever: bool
) -> BranchProposal | None:
    numbers: dict[str, TruncatedMarginal] = {}
    labels: dict[str, tuple[int, ...]] = {}
    for codec in drawer.codec.columns:
        name, asked = codec.column.name, branch.restrict_to(codec.column.name)
        if name not in branch.single_columns or not base[name].missing[0]:
            continue
        if codec.column.kind.discrete:
            cells = _every_label(len(codec.column.categories or ()), base[name])
            labels[name] = tuple(np.flatnonzero(evaluate(asked, {name: cells})).tolist())
            if not labels[name]:
                return None
        elif isinstance(codec, SpikedNumericCodec):
            left = truncate(_marginal(drawer, codec), codec.column, asked)
            if left is None:
                return None
            numbers[name] = left
    free = whatever or all(cells.missing[0] for cells in base.values())
    rarest = min(numbers, key=lambda name: numbers[name].probability, default=None) if free else None
    return BranchProposal(drawer, base, branch, place, None if rarest is None else (rarest, numbers[rarest]), labels)


def _marginal(drawer: RowSampler, codec: SpikedNumericCodec) -> TruncatedMarginal:
    """The law of a column, with the shares of its point masses over the training rows."""
    masses = [block for block in drawer.codec.slices if block.name == codec.column.name and block.is_categorical]
    mean = drawer.denoiser.mean.double().cpu().numpy()
    return marginal_distribution(codec, mean[masses[0].start : masses[0].stop] if masses else np.zeros(1))


def _filled(cells: ColumnArray, values: NDArray[Any]) -> ColumnArray:
    """The cells with values in their holes."""
    return cells.with_values(np.where(cells.missing, values, cells.values))


def _every_label(count: int, like: ColumnArray) -> ColumnArray:
    return replace(like, values=np.arange(count), missing=np.zeros(count, dtype=np.bool_))


def _sample_index(p: Floats, uniform: Floats) -> NDArray[np.int64]:
    """A place in each row of probabilities."""
    ends = np.cumsum(p, axis=1)
    place: NDArray[np.int64] = (ends <= (uniform * ends[:, -1])[:, None]).sum(axis=1).clip(max=p.shape[1] - 1)
    return place
