"""Proposals for a condition, one per disjoint branch: sequential importance sampling of the columns that it names.

The columns of a branch are sampled one after another, each from its conditional distribution given the columns before
it, restricted to the values with which the branch can still be satisfied. The probability of these values is a factor
of the importance weight of the row (Liu, Monte Carlo Strategies in Scientific Computing, 2001, chapter 3). So every row
satisfies the branch, however rare it is, and weighted rows have the distribution of the model under the condition.
Where weights differ much, rows are resampled between two columns. The other columns are sampled afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator
from harpoon.conditions import BoundPredicate, Branch, columns_of, disjoint_branches, evaluate
from harpoon.conditions.bound import AllOf, AnyOf, Compare, NumberLiteral, NumericTerm, Operation, all_of
from harpoon.data import Column, Columns, Floats, Index, as_unknown, concat, n_rows, repeat_row, scatter, take
from harpoon.encoding.numeric import round_to_step
from harpoon.inference.cell_distributions import CellDistribution, CellPredictor
from harpoon.inference.restriction import Restriction
from harpoon.inference.row_sampler import RowSampler

UNSEEN_PROBABILITY = 1e-6  # of a region inside the range of a column that has no training value
UNSEEN_POINTS = 4096  # evenly spaced values that stand for such a region
MIN_PARTICLES, PARTICLES_PER_ROW, MAX_PARTICLES = 1024, 2, 2**15  # rows that are sampled at once
MAX_ROUNDS = 8  # of particles, until their effective number is that of the rows
MAX_VALUES = 2**22  # rows times cells that are held at once
Mask = NDArray[np.bool_]


@dataclass
class BranchProposal:
    """Samples rows of one branch of a condition."""

    sampler: RowSampler
    base: Columns  # what all rows have in common: one row, its free cells missing
    branch: Branch
    index: int  # the number of the branch, from 1 on; it is also the number of the draw
    predictors: list[CellPredictor]  # of the columns that the branch names, in the order in which they are sampled
    weights: list[Floats] = field(default_factory=list, init=False)  # of each round; their mean estimates `probability`
    effective_size: float = field(default=0.0, init=False)  # of the weighted rows so far
    requested: int = field(default=0, init=False)  # rows so far

    @property
    def probability(self) -> float:
        """An estimate of the probability of the branch."""
        return float(np.mean([weights.mean() for weights in self.weights] or [1.0]))

    @property
    def efficiency(self) -> float:
        """The effective number of weighted rows for each row that was chosen from them."""
        return self.effective_size / max(self.requested, 1)

    @property
    def relative_variance(self) -> float:
        """The variance of `probability` relative to its square."""
        weights = np.concatenate(self.weights or [np.ones(1)])
        return float(weights.var() / max(weights.mean() ** 2, np.finfo(float).tiny) / len(weights))

    def sample(self, start: int, count: int) -> Columns:
        """Sample rows with the numbers `start` to `start + count`."""
        given = self.sample_restricted(start, count)
        return self.sampler.sample(given, np.arange(start, start + count), draw=self.index)

    def sample_restricted(self, start: int, count: int) -> Columns:
        """Sample the columns of the branch of these rows, and no others.

        Weighted rows are sampled round after round until as many are effective as are needed; then as many of them are
        chosen by their weights.
        """
        random = generator(self.sampler.seed, Stream.PROPOSALS, self.index, start)
        n_particles = int(np.clip(PARTICLES_PER_ROW * count, MIN_PARTICLES, MAX_PARTICLES))
        found, weights = list[Columns](), list[Floats]()
        for _ in range(MAX_ROUNDS):
            rows, of_rows = self._particles(n_particles, random)
            found.append(rows)
            weights.append(of_rows)
            if _effective_size(np.concatenate(weights)) >= count:
                break
        pooled = np.concatenate(weights)
        self.weights += weights
        self.effective_size, self.requested = self.effective_size + _effective_size(pooled), self.requested + count
        if not pooled.sum():
            return take(concat(found), slice(0, count))
        return take(concat(found), random.permutation(_systematic(pooled, count, random)))

    def _particles(self, count: int, random: np.random.Generator) -> tuple[Columns, Floats]:
        """Return weighted rows; their mean weight estimates the probability of the branch."""
        rows, weights, factor = repeat_row(self.base, count), np.ones(count), 1.0
        for number, predictor in enumerate(self.predictors):
            rows, of_column = self._sample_column(rows, predictor, random, same=number == 0)
            weights = weights * of_column
            is_last = number == len(self.predictors) - 1
            if not is_last and 0 < _effective_size(weights) < count / 2:
                factor *= weights.mean()
                rows, weights = take(rows, _systematic(weights, count, random)), np.ones(count)
        return rows, weights * factor

    def condition(self, rows: Columns, random: np.random.Generator) -> tuple[Columns, Floats]:
        """Fill the columns of the branch in given rows; return them and their importance weights, (n,).

        A row whose observed cells leave no probable value takes one that is possible in other rows.
        """
        weights, given = np.ones(n_rows(rows)), rows
        for predictor in self.predictors:
            rows, of_column = self._sample_column(rows, predictor, random)
            lost = np.flatnonzero((of_column == 0) & given[predictor.name].unknown)
            if len(lost):
                unknown = {**take(rows, lost), predictor.name: given[predictor.name][lost]}
                again, of_column[lost] = self._ignore_row(unknown, predictor, random)
                rows = scatter(rows, again, lost)
            weights *= of_column
        return rows, weights

    def _sample_column(
        self, rows: Columns, predictor: CellPredictor, random: np.random.Generator, *, same: bool = False
    ) -> tuple[Columns, Floats]:
        """Sample a column where it is unknown; return the rows and the probability of what the branch allows, (n,).

        `same`: all rows are equal.
        """
        rows = self.sampler.solve_relations(rows)
        unknown = np.flatnonzero(rows[predictor.name].unknown)
        weights, uniforms = np.ones(n_rows(rows)), random.random((3, n_rows(rows)))
        chunk = max(1, MAX_VALUES // max(predictor.n_cells, 1))
        alike = _predict_one(predictor, take(rows, unknown[:1])) if same and len(unknown) else None
        for start in range(0, len(unknown), chunk):
            some = unknown[start : start + chunk]
            part = take(rows, some)
            cells = predictor.predict(part) if alike is None else alike
            filled, weights[some] = self._restriction(predictor).sample(part, cells, uniforms[:, some])
            if not weights[some].any():
                filled, weights[some] = self._sample_unseen(part, predictor, uniforms[:, some])
            rows = scatter(rows, filled, some)
        return rows, weights * self._is_satisfied(rows, predictor)

    def _is_satisfied(self, rows: Columns, predictor: CellPredictor) -> Mask:
        """Return which rows satisfy the parts of the branch that a column decides, (n,)."""
        parts = [part for part in self.branch.parts if predictor.name in columns_of(part) and _is_known(rows, part)]
        return evaluate(all_of(parts), rows)

    def _restriction(self, predictor: CellPredictor) -> Restriction:
        return Restriction(predictor, self.branch, self.sampler.codec.schema)

    def _ignore_row(
        self, rows: Columns, predictor: CellPredictor, random: np.random.Generator
    ) -> tuple[Columns, Floats]:
        """Sample a column as if nothing else were known, such as a number that a relation would put out of bounds."""
        blank = {name: as_unknown(cells[:1]) for name, cells in rows.items()}
        marginal, uniforms = _predict_one(predictor, blank), random.random((3, n_rows(rows)))
        found, weights = self._restriction(predictor).sample(rows, marginal, uniforms)
        if not weights.any():
            found, weights = self._sample_unseen(rows, predictor, uniforms)
        return found, UNSEEN_PROBABILITY * weights * self._is_satisfied(found, predictor)

    def _sample_unseen(self, rows: Columns, predictor: CellPredictor, uniforms: Floats) -> tuple[Columns, Floats]:
        """Sample values inside the range of a column that no training row has; a column of spikes has none."""
        column, codec = predictor.codec.column, predictor.codec
        if column.kind.discrete or codec.is_few_valued:
            return rows, np.zeros(n_rows(rows))
        values = np.unique(round_to_step(_values_in_range(column, self.branch.predicate), column)).astype(np.float64)
        values = values[codec.is_possible(rows[column.name].with_values(codec.nearest_values(values)))]
        p = np.full((n_rows(rows), len(values)), UNSEEN_PROBABILITY / max(len(values), 1))
        return self._restriction(predictor).sample(rows, CellDistribution(p, values[None], values[None]), uniforms)


def branch_proposals(sampler: RowSampler, predicate: BoundPredicate, base: Columns) -> list[BranchProposal]:
    """Return a proposal for each branch of a condition that can be satisfied within the range of the table."""
    nullable = sampler.codec.nullable if sampler.missing == "as_trained" else set()
    branches = enumerate(disjoint_branches(predicate, nullable), start=1)
    return [BranchProposal(sampler, base, branch, index, _order(sampler, branch, base)) for index, branch in branches]


def _order(sampler: RowSampler, branch: Branch, base: Columns) -> list[CellPredictor]:
    """Return the columns of a branch in the order in which they are sampled.

    Columns that are restricted alone come first, and of these the ones whose restriction is the least probable. Of the
    others, those with many values come last: they have one that fits more often.
    """
    named = columns_of(branch.predicate)
    codecs = [codec for codec in sampler.codec.single_columns if codec.column.name in named]
    found = [CellPredictor.create(sampler, codec) for codec in codecs]
    predictors = [each for each in found if each is not None and base[each.name].unknown[0]]
    alone = [each for each in predictors if each.name in branch.single_columns]
    p = {each.name: _probability_alone(each, branch, base) for each in alone}
    rest = [each for each in predictors if each.name not in p]
    return [*sorted(alone, key=lambda each: p[each.name]), *sorted(rest, key=lambda each: each.n_cells)]


def _probability_alone(predictor: CellPredictor, branch: Branch, base: Columns) -> float:
    """Return the probability of what a branch allows of one column, given nothing but the common cells."""
    restriction = Restriction(predictor, branch, predictor.sampler.codec.schema)
    return float(restriction.sample(base, _predict_one(predictor, base), np.full((3, 1), 0.5))[1][0])


def _predict_one(predictor: CellPredictor, row: Columns) -> CellDistribution:
    """Return the distribution of a column in one row: that of the training rows, if nothing is known."""
    marginal = predictor.marginal() if all(cells.unknown.all() for cells in row.values()) else None
    return predictor.predict(row) if marginal is None else marginal


def _is_known(rows: Columns, predicate: BoundPredicate) -> bool:
    return not any(rows[name].unknown.any() for name in columns_of(predicate))


def _effective_size(weights: Floats) -> float:
    """Return the number of equally weighted rows that are as good as the weighted ones (Kish, 1965)."""
    total = float(weights.sum())
    return total**2 / float((weights**2).sum()) if total > 0 else 0.0


def _systematic(weights: Floats, count: int, random: np.random.Generator) -> Index:
    """Return positions of rows that are chosen in proportion to their weights, by systematic resampling."""
    cumulative = np.cumsum(weights)
    positions = (np.arange(count) + random.random()) / count
    return np.searchsorted(cumulative / cumulative[-1], positions, side="right").clip(max=len(cumulative) - 1)


def _values_in_range(column: Column, predicate: BoundPredicate) -> Floats:
    """Return values over the range of the column, and close to the numbers of the condition."""
    if column.minimum is None or column.maximum is None:
        return np.zeros(0)
    bounds = np.unique(list(_numbers(predicate)) or [float(column.minimum)])
    step = float(column.step or 0) or (float(column.maximum) - float(column.minimum)) * 1e-6
    between = (bounds[1:] + bounds[:-1]) / 2
    evenly = np.linspace(float(column.minimum), float(column.maximum), UNSEEN_POINTS)
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
