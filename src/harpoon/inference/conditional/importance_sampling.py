"""Proposals for a condition, one per disjoint branch: sequential importance sampling of the columns that it names.

The columns of a branch are sampled one after another, each from its conditional distribution given the columns before
it, restricted to the values with which the branch can still be satisfied. The probability of these values is a factor
of the importance weight of the row (Liu, Monte Carlo Strategies in Scientific Computing, 2001, chapter 3). So every row
satisfies the branch, however rare it is, and weighted rows have the distribution of the model under the condition.
Where weights differ much, rows are resampled between two columns. The other columns are sampled afterwards. Of several
such rows one is chosen by the importance weights for the order of its variables
(`harpoon.inference.conditional.order_weights`): of the more rows, the more these weights differ.

Resampled rows are not independent: some are copies of each other. The effective size and the variance of the
probability therefore count families of rows instead of rows, which are those with a common ancestor (Lee and Whiteley,
Variance estimation in the particle filter, Biometrika 105, 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harpoon._utils.rng import Stream, generator
from harpoon._utils.weighted_rows import effective_size, systematic_resample, truncate
from harpoon.conditions import BoundPredicate, Branch, columns_of, disjoint_branches, evaluate
from harpoon.conditions.binding.bound import NumberLiteral, all_of, terms
from harpoon.data import Column, Columns, Floats, Index, Mask, as_unknown, concat, n_rows, repeat_row, scatter, take
from harpoon.encoding.numeric import round_to_step
from harpoon.inference.conditional.cell_distributions import CellDistribution, CellPredictor
from harpoon.inference.conditional.order_weights import OrderWeights, can_weigh_orders
from harpoon.inference.conditional.restriction import Restriction, has_unknown
from harpoon.inference.sampling.row_sampler import RowSampler

UNSEEN_PROBABILITY = 1e-6  # of a region inside the range of a column that has no training value
UNSEEN_POINTS = 4096  # evenly spaced values that stand for such a region
MIN_PARTICLES, PARTICLES_PER_ROW, MAX_PARTICLES = 1024, 2, 2**15  # rows that are sampled at once
MAX_ROUNDS = 8  # of particles, until their effective number is that of the rows
MAX_VALUES = 2**22  # rows times cells that are held at once
CANDIDATES = (3, 6, 12)  # rows that may be sampled for each one that is chosen by the order of its variables
MAX_LOST = 0.05  # of the weights of these orders, above which more candidates are sampled


class Particles(NamedTuple):
    """Weighted rows, whose mean weight estimates the probability of a branch.

    The rows of a family descend from one row before the first resampling. They are copies of each other in the columns
    that were sampled before it, and only families are independent.
    """

    rows: Columns
    weights: Floats
    family: Index  # the number of that row, (n,)

    @property
    def family_weights(self) -> Floats:
        """The total weight of each family, (n,); 0 if no row descends from it."""
        return np.bincount(self.family, self.weights, minlength=len(self.weights)).astype(np.float64)


@dataclass
class BranchProposal:
    """Samples rows of one branch of a condition."""

    sampler: RowSampler
    base: Columns  # what all rows have in common: one row, its free cells missing
    branch: Branch
    index: int  # the number of the branch, from 1 on; it is also the number of the draw
    predictors: list[CellPredictor]  # of the columns that the branch names, in the order in which they are sampled
    weights: list[Floats] = field(default_factory=list, init=False)  # of the families of each round
    effective_size: float = field(default=0.0, init=False)  # of the chosen rows so far
    requested: int = field(default=0, init=False)  # rows so far
    order_weights: list[Floats] = field(default_factory=list, init=False)  # of the candidates so far
    candidates: int = field(default=CANDIDATES[0], init=False)  # rows that are sampled for each one that is chosen

    @property
    def probability(self) -> float:
        """An estimate of the probability of the branch."""
        of_orders = np.concatenate(self.order_weights or [np.ones(1)])
        in_first_order = float(np.mean([weights.mean() for weights in self.weights] or [1.0]))
        return in_first_order * float(truncate(of_orders, np.sqrt(len(of_orders))).mean())

    @property
    def efficiency(self) -> float:
        """The number of independent rows that each chosen row is worth."""
        of_restriction = self.effective_size / max(self.requested, 1)
        if not self.order_weights:
            return of_restriction
        effective = sum(effective_size(truncate(each, self.candidates)) for each in self.order_weights)
        return of_restriction * min(self.candidates * effective / sum(map(len, self.order_weights)), 1.0)

    @property
    def relative_variance(self) -> float:
        """The variance of `probability` relative to its square (Lee and Whiteley, 2018): families are independent."""
        both = (np.concatenate(each) for each in (self.weights, self.order_weights) if each)
        tiny = np.finfo(float).tiny
        return sum(float(each.var() / max(each.mean() ** 2, tiny) / len(each)) for each in both)

    def sample(self, start: int, count: int) -> Columns:
        """Sample rows with the numbers `start` to `start + count`."""
        if not can_weigh_orders(self.sampler):
            return self.sample_candidates(start, count)
        at_once = MAX_PARTICLES // self.candidates
        parts = [self.base] if not count else []
        for first in range(start, start + count, at_once):
            number, size = first * self.candidates, min(at_once, start + count - first) * self.candidates
            found = self.sample_candidates(number, size)
            parts.append(take(found, self.choose(self.weigh(found, number), number)))
        return take(concat(parts), slice(0, count))

    def sample_candidates(self, start: int, count: int) -> Columns:
        """Sample rows with the columns of the branch first, with the numbers `start` to `start + count`."""
        given = self.sample_restricted(start, count)
        return self.sampler.sample(given, np.arange(start, start + count), draw=self.index)

    def weigh(self, candidates: Columns, start: int) -> Floats:
        """Return the importance weights for the order of the variables, (n,); 1 if the orders cannot be weighed."""
        index, first = np.arange(start, start + n_rows(candidates)), [each.name for each in self.predictors]
        if not can_weigh_orders(self.sampler):
            return np.ones(len(index))
        weights = OrderWeights(self.sampler, self.base, first, self.index).of_rows(candidates, index)
        if not weights.any():  # no row is possible in these orders
            weights = np.ones(len(index))
        self.order_weights.append(weights)
        return weights

    def adapt(self) -> None:
        """Choose the number of candidates: the least with which truncation takes away little of the weights so far."""
        weights = np.concatenate([np.zeros(0), *self.order_weights])
        enough = (each for each in CANDIDATES if truncate(weights, each).sum() >= (1 - MAX_LOST) * weights.sum())
        self.candidates = next(enough, CANDIDATES[-1])

    def choose(self, weights: Floats, start: int) -> Index:
        """Return which candidates, of their weights, have the distribution of rows sampled in a random order.

        One of `candidates` is chosen, none of them twice. All are, if the orders cannot be weighed.
        """
        if not can_weigh_orders(self.sampler):
            return np.arange(len(weights))
        random = generator(self.sampler.seed, Stream.CANDIDATES, self.index, start)
        chosen = systematic_resample(truncate(weights, self.candidates), len(weights) // self.candidates, random)
        return random.permutation(chosen)

    def sample_restricted(self, start: int, count: int) -> Columns:
        """Sample the columns of the branch of these rows, and no others.

        Weighted rows are sampled round after round until as many are effective as are needed; then as many of them are
        chosen by their weights. A family of rows counts as one row.
        """
        random = generator(self.sampler.seed, Stream.PROPOSALS, self.index, start)
        n_particles = int(np.clip(PARTICLES_PER_ROW * count, MIN_PARTICLES, MAX_PARTICLES))
        rounds = list[Particles]()
        for _ in range(MAX_ROUNDS):
            rounds.append(self._particles(n_particles, random))
            if effective_size(np.concatenate([each.family_weights for each in rounds])) >= count:
                break
        rows, weights = concat([each.rows for each in rounds]), np.concatenate([each.weights for each in rounds])
        family = np.concatenate([each.family + number * n_particles for number, each in enumerate(rounds)])
        self.weights, self.requested = self.weights + [each.family_weights for each in rounds], self.requested + count
        if not weights.sum():
            return take(rows, slice(0, count))
        chosen = random.permutation(systematic_resample(weights, count, random))
        self.effective_size += effective_size(np.bincount(family[chosen]))
        return take(rows, chosen)

    def _particles(self, count: int, random: np.random.Generator) -> Particles:
        """Return weighted rows, which are resampled between two columns if their weights differ much."""
        rows, weights, factor, family = repeat_row(self.base, count), np.ones(count), 1.0, np.arange(count)
        for number, predictor in enumerate(self.predictors):
            rows, of_column = self._sample_column(rows, predictor, random, same=number == 0)
            weights = weights * of_column
            is_last = number == len(self.predictors) - 1
            if not is_last and 0 < effective_size(weights) < count / 2:
                factor *= weights.mean()
                ancestors = systematic_resample(weights, count, random)
                rows, weights, family = take(rows, ancestors), np.ones(count), family[ancestors]
        return Particles(rows, weights * factor, family)

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
        rows = self.sampler.model.relations.solve(rows)
        unknown = np.flatnonzero(rows[predictor.name].unknown)
        weights, uniforms = np.ones(n_rows(rows)), random.random((3, n_rows(rows)))
        chunk = max(1, MAX_VALUES // max(predictor.n_cells, 1))
        alike = _predict_one(predictor, take(rows, unknown[:1])) if same and len(unknown) else None
        for start in range(0, len(unknown), chunk):
            some = unknown[start : start + chunk]
            part = take(rows, some)
            cells = predictor.predict(part) if alike is None else alike
            filled, weights[some] = Restriction(predictor, self.branch).sample(part, cells, uniforms[:, some])
            if not weights[some].any():
                filled, weights[some] = self._sample_unseen(part, predictor, uniforms[:, some])
            rows = scatter(rows, filled, some)
        return rows, weights * self._is_satisfied(rows, predictor)

    def _is_satisfied(self, rows: Columns, predictor: CellPredictor) -> Mask:
        """Return which rows satisfy the parts of the branch that a column decides, (n,)."""
        parts = [
            part for part in self.branch.parts if predictor.name in columns_of(part) and not has_unknown(rows, part)
        ]
        return evaluate(all_of(parts), rows)

    def _ignore_row(
        self, rows: Columns, predictor: CellPredictor, random: np.random.Generator
    ) -> tuple[Columns, Floats]:
        """Sample a column as if nothing else were known, such as a number that a relation would put out of bounds."""
        blank = {name: as_unknown(cells[:1]) for name, cells in rows.items()}
        marginal, uniforms = _predict_one(predictor, blank), random.random((3, n_rows(rows)))
        found, weights = Restriction(predictor, self.branch).sample(rows, marginal, uniforms)
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
        return Restriction(predictor, self.branch).sample(
            rows, CellDistribution(p, values[None], values[None]), uniforms
        )


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
    return float(Restriction(predictor, branch).sample(base, _predict_one(predictor, base), np.full((3, 1), 0.5))[1][0])


def _predict_one(predictor: CellPredictor, row: Columns) -> CellDistribution:
    """Return the distribution of a column in one row: that of the training rows, if nothing is known."""
    marginal = predictor.marginal() if all(cells.unknown.all() for cells in row.values()) else None
    return predictor.predict(row) if marginal is None else marginal


def _values_in_range(column: Column, predicate: BoundPredicate) -> Floats:
    """Return values over the range of the column, and close to the numbers of the condition."""
    if column.minimum is None or column.maximum is None:
        return np.zeros(0)
    bounds = np.unique(
        [float(term.value) for term in terms(predicate) if isinstance(term, NumberLiteral)] or [float(column.minimum)]
    )
    step = float(column.step or 0) or (float(column.maximum) - float(column.minimum)) * 1e-6
    between = (bounds[1:] + bounds[:-1]) / 2
    evenly = np.linspace(float(column.minimum), float(column.maximum), UNSEEN_POINTS)
    values = np.unique(np.concatenate([evenly, bounds, bounds - step, bounds + step, between]))
    if column.clip:
        values = values[(values >= column.minimum) & (values <= column.maximum)]
    return values
