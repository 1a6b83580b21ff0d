"""New rows under a condition: the methods from which `harpoon.inference.conditional.strategies` are built."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harpoon._utils.rng import Stream, stream_key
from harpoon.conditions import BoundPredicate, columns_of, evaluate, negate
from harpoon.conditions.binding.bound import Constant
from harpoon.data import Columns, Floats, Mask, as_unknown, concat, n_rows, repeat_row, scatter, take
from harpoon.exceptions import ExtrapolationWarning, warn
from harpoon.inference.conditional.condition_search import N_PARTICLES, ConditionSearch
from harpoon.inference.conditional.importance_sampling import BranchProposal, branch_proposals
from harpoon.inference.diagnostics.probability_intervals import share_interval
from harpoon.inference.diagnostics.sampling_info import ProbabilityEstimate
from harpoon.inference.sampling.row_sampler import Complete
from harpoon.relations import breaks_calendar

PILOT_ROWS = 2048  # unconditional rows from which the probability of a condition is estimated
MIN_HITS = 20  # pilot rows that satisfy a condition; with fewer, its branches are sampled too
BRANCH_PILOT_ROWS = 516  # candidates of a branch, for its probability: a multiple of each number of candidates
MAX_PILOT_ROUNDS = 8  # of these, if the condition has several branches
MAX_PILOT_VARIANCE = 0.05**2  # of the probability of one of several branches, relative to its square
MIN_BRANCH_SHARE = 0.01  # of the probability of a condition, for a branch whose pilot rows are weighted
MIN_ROWS_PER_ROUND, MAX_ROWS_PER_ROUND = 171, 32_768
MAX_SAMPLED_PER_ROW = 400
MAX_BRANCH_ROWS = 100_000  # rows that rejection may sample in a branch before guidance takes over
MAX_FRUITLESS_ROWS = 4096  # rows without a single hit after which rejection gives up, in all branches together
MAX_FRUITLESS_GUIDED = N_PARTICLES  # guided rows of a round after one without a hit
MAX_GUIDED_ROUNDS = 6
GIBBS_FRACTIONS = (0.5, 0.3, 0.4, 0.2, 0.5, 0.3, 0.4, 0.2)  # fraction of the cells that each Gibbs step resamples
MAX_ESTIMATE_ROWS = 1e6  # that an estimated probability counts for: that of one column alone has no sampling error
OVERSAMPLING = 1.25  # rows sampled for each row that is expected to be kept

Proposal = Callable[[int, int], Columns]  # the number of the first row and the number of rows, to rows


class BranchPilot(NamedTuple):
    """The first rows of a branch."""

    proposal: BranchProposal
    rows: Columns
    hits: Mask  # which rows are in the branch, (n,)
    rate: float  # fraction of candidates in the branch; not quite 0 or 1, of which few candidates are no proof
    n_candidates: int

    @classmethod
    def of(cls, proposal: BranchProposal, rows: Columns, hits: Mask, weights: Floats | None = None) -> BranchPilot:
        """Return rows as the pilot of their branch; by weights, some of them are chosen."""
        counted = np.ones(len(hits)) if weights is None else weights
        rate = float((counted @ hits + 0.5 * counted.mean()) / (counted.sum() + counted.mean()))
        chosen = slice(None) if weights is None else proposal.choose(weights, 0)
        return cls(proposal, take(rows, chosen), hits[chosen], rate, len(counted))

    @property
    def probability(self) -> float:
        """The probability of the branch."""
        return self.proposal.probability * self.rate


def is_unsatisfiable(predicate: BoundPredicate, rows: Columns) -> bool:
    """Return whether no row at all can satisfy the condition."""
    blank = {name: as_unknown(cells[:1]) for name, cells in rows.items()}
    return n_rows(blank) > 0 and bool(evaluate(negate(predicate), blank, partial=True).all())


def _estimate_by_branch(pilots: list[BranchPilot]) -> ProbabilityEstimate | None:
    """Return the probability of a condition by importance sampling: the sum over its disjoint branches."""
    probability, variance = 0.0, 0.0
    for pilot in pilots:
        # Of the importance weights, and of the pilot rows among which hits are counted.
        relative = pilot.proposal.relative_variance + (1 - pilot.rate) / (pilot.rate * pilot.n_candidates)
        probability, variance = probability + pilot.probability, variance + pilot.probability**2 * relative
    if not probability:
        return None
    rows = probability * max(1 - probability, 0.0) / max(variance, np.finfo(float).tiny)
    return ProbabilityEstimate(min(probability, 1.0), min(rows, MAX_ESTIMATE_ROWS))


@dataclass
class ConditionalSampler(ConditionSearch):
    """Samples new rows under a condition; strategies are built from its methods."""

    pilot: Columns | None = field(default=None, init=False)  # unconditional rows, to explain why a condition is rare
    strategy: str = field(default="rejection", init=False)  # the one in use
    broken_relations: set[str] = field(default_factory=set, init=False)  # by all rows of a branch
    _unconditional: int = field(default=0, init=False)  # pilot rows so far: the first unconditional ones
    _hits: int = field(default=0, init=False)  # how many of them satisfy the condition
    _pilots: list[BranchPilot] | None = field(default=None, init=False)  # of all branches
    _by_branch: ProbabilityEstimate | None = field(default=None, init=False)
    _fruitless: int = field(default=0, init=False)  # rows that rejection sampled before its first hit
    _effective_size: float | None = field(default=None, init=False)  # of the rows of all branches so far

    def reject(
        self,
        n: int,
        propose: Proposal,
        accepted: Columns | None = None,
        sampled: int = 0,
        predicate: BoundPredicate | None = None,
        *,
        is_patient: bool = False,
        seen_times: bool = True,
    ) -> Columns:
        """Sample from a proposal until n rows satisfy the condition, or the predicate of one of its branches.

        `accepted` are those of the first `sampled` rows. Without a hit it soon gives up, unless it `is_patient`. Rows
        that break a relation of all training rows do not count. Nor do rows with a time between two timestamps that no
        training row has, unless `seen_times` is False.
        """
        predicate = self.predicate if predicate is None else predicate
        parts = [self.no_rows() if accepted is None else accepted]
        have, start = n_rows(parts[0]), sampled
        while have < n and sampled - start < MAX_SAMPLED_PER_ROW * n + PILOT_ROWS:
            acceptance = max(have, 1) / sampled if sampled else 1.0
            count = int(min(max((n - have) / acceptance * OVERSAMPLING, MIN_ROWS_PER_ROUND), MAX_ROWS_PER_ROUND))
            if not have and not is_patient:
                count = min(count, MAX_FRUITLESS_ROWS - self._fruitless)
                self._fruitless += count
                if count <= 0:
                    break
            rows = self.count(propose(sampled, count))
            parts.append(take(rows, self._is_hit(predicate, rows, seen_times=seen_times)))
            have, sampled = have + n_rows(parts[-1]), sampled + count
        return concat(parts)

    def _is_hit(self, predicate: BoundPredicate, rows: Columns, *, seen_times: bool = True) -> Mask:
        """Return which rows satisfy a predicate and keep the relations of all training rows, (n,)."""
        relations, satisfied = self.sampler.model.relations, evaluate(predicate, rows)
        kept = satisfied & ~relations.violated_by(rows)
        return kept & ~relations.unseen_times(rows) if seen_times else kept

    def unconditional(self, start: int, count: int) -> Columns:
        """Sample `count` rows from the model, the first of which has the number `start`."""
        rows = self.sampler.sample(repeat_row(self.given, count), np.arange(start, start + count))
        pilot = take(rows, slice(0, max(PILOT_ROWS - start, 0)))
        self._unconditional += n_rows(pilot)
        self._hits += int(evaluate(self.predicate, pilot).sum())
        return rows

    def sample_pilot(self) -> tuple[Columns, Mask]:
        """Sample the pilot rows, which every strategy shares, and return them and which satisfy the condition."""
        self.pilot = self.count(self.unconditional(0, PILOT_ROWS))
        satisfied = evaluate(self.predicate, self.pilot)
        if satisfied.sum() < MIN_HITS and self.can_condition:
            self.branch_pilots()
        return self.pilot, satisfied

    @property
    def estimate(self) -> ProbabilityEstimate | None:
        """The model's probability of the condition, by the first unconditional rows, and by those of branches.

        It is the same in `sample` and `feasibility` with the same seed, for any number of rows. If few of the first
        rows satisfy the condition, the estimate that more unconditional rows would be needed for is the better one. It
        is 0 if no row satisfies the condition.

        Branches sample the columns of the condition first. What a relation with other columns says of them, such as the
        range of their difference, does not count there. So an estimate that the unconditional rows contradict is moved
        to the end of their 95 % interval.
        """
        in_branches = any(pilot.hits.any() for pilot in self._pilots or [])
        plain = ProbabilityEstimate(self._hits / max(self._unconditional, 1), self._unconditional)
        if plain.rows and not self._hits and not in_branches:
            return plain
        if self._by_branch is None or (plain.rows and self._hits >= MIN_HITS):
            return plain if plain.rows else None
        low, high = share_interval(plain.probability, plain.rows, math.inf)
        if low <= self._by_branch.probability <= high:
            return max(self._by_branch, plain, key=lambda estimate: estimate.rows)
        return ProbabilityEstimate(min(max(self._by_branch.probability, low), high), plain.rows)

    @property
    def effective_size(self) -> float | None:
        """How many independent rows those of the branches are worth; None with other strategies."""
        return self._effective_size if self.strategy == "conditioning" else None

    def count(self, rows: Columns) -> Columns:
        """Add a round of rows to the diagnostics and return them."""
        self.sampled, self.rounds = self.sampled + n_rows(rows), self.rounds + 1
        return rows

    def no_rows(self) -> Columns:
        """Return no rows."""
        return repeat_row(self.given, 0)

    def branch_pilots(self) -> list[BranchPilot]:
        """Return the satisfiable branches, with pilot rows of each and which of them are in the branch.

        A row of another branch does not count, although it satisfies the condition: it would be counted twice.
        """
        if self._pilots is None:
            self._pilots = self._sample_branch_pilots()
            self._by_branch = _estimate_by_branch(self._pilots)
        return self._pilots

    def _sample_branch_pilots(self) -> list[BranchPilot]:
        """Sample pilot rows of each branch. Those of probable branches are weighted for the order of their columns."""
        pilots = list[BranchPilot]()
        for proposal in branch_proposals(self.sampler, self.predicate, self.given):
            rows = self.count(proposal.sample_candidates(0, BRANCH_PILOT_ROWS))
            if proposal.probability:
                pilots.append(BranchPilot.of(proposal, rows, self._is_hit(proposal.branch.predicate, rows)))
        total, rounds = sum(pilot.probability for pilot in pilots), 1 if len(pilots) == 1 else MAX_PILOT_ROUNDS
        return [
            self._weigh_pilot(pilot, rounds) if pilot.probability >= MIN_BRANCH_SHARE * total else pilot
            for pilot in pilots
        ]

    def _weigh_pilot(self, pilot: BranchPilot, rounds: int) -> BranchPilot:
        """Choose rows by their weights, from so many more candidates that the probability of the branch is known."""
        proposal, parts, weights = pilot.proposal, [pilot.rows], [pilot.proposal.weigh(pilot.rows, 0)]
        while len(parts) < rounds and proposal.relative_variance > MAX_PILOT_VARIANCE:
            start = len(parts) * BRANCH_PILOT_ROWS
            parts.append(self.count(proposal.sample_candidates(start, BRANCH_PILOT_ROWS)))
            weights.append(proposal.weigh(parts[-1], start))
        proposal.adapt()
        rows = concat(parts)
        return BranchPilot.of(proposal, rows, self._is_hit(proposal.branch.predicate, rows), np.concatenate(weights))

    def sample_branch(self, n: int, branch: BranchPilot) -> Columns:
        """Sample rows of one branch: by rejection if that is affordable and else by guidance, then by the other."""
        proposal, pilot, satisfied = branch.proposal, branch.rows, branch.hits
        rows, predicate = take(take(pilot, satisfied), slice(0, n)), proposal.branch.predicate
        is_common = bool(satisfied.any()) and n / satisfied.mean() <= MAX_BRANCH_ROWS
        of_branch = take(pilot, evaluate(predicate, pilot))
        if n_rows(of_branch) and not satisfied.any():  # all contradict the training rows: guidance would not help
            if breaks_calendar(of_branch, self.sampler.codec).all():  # no timestamp has such a month, or such a date
                return self._keep_relations(of_branch)
            found = take(self.reject(n, proposal.sample, rows, len(satisfied), predicate), slice(0, n))
            return found if n_rows(found) else self._extrapolate(n, proposal, of_branch)
        for by_rejection in (is_common, not is_common):
            missing = n - n_rows(rows)
            if not missing:
                break
            if by_rejection:
                rows = take(self.reject(n, proposal.sample, rows, len(satisfied), predicate), slice(0, n))
            else:
                self.strategy = "guidance"
                more = self.guide(missing, proposal.sample_restricted, predicate, branch=proposal.index)
                rows = concat([rows, self._keep_relations(more)])
        self._effective_size = (self._effective_size or 0.0) + proposal.efficiency * n_rows(rows)
        return rows

    def _extrapolate(self, n: int, proposal: BranchProposal, rows: Columns) -> Columns:
        """Return rows that keep relations, with times between timestamps that no training row has, and warn of them."""
        kept = self._keep_relations(rows)
        if not n_rows(kept):
            return kept
        predicate = proposal.branch.predicate
        found = self.reject(n, proposal.sample, predicate=predicate, is_patient=True, seen_times=False)
        found = take(found, slice(0, n))
        message = (
            f"Extrapolation: {n_rows(found):,} rows have a time between two timestamps that no training row has. No "
            "row that satisfies the condition was found with another time. Restrict fewer of its columns."
        )
        warn(ExtrapolationWarning(message))
        return found

    def _keep_relations(self, rows: Columns) -> Columns:
        """Return the rows that keep the relations of all training rows; without any, note which ones they break."""
        kept = take(rows, ~self.sampler.model.relations.violated_by(rows))
        if n_rows(rows) and not n_rows(kept):
            self.broken_relations |= self.sampler.model.relations.name_violated(rows)
        return kept

    def guide(self, n: int, given: Proposal, predicate: BoundPredicate, *, branch: int = 0) -> Columns:
        """Guide rows, with a larger scale in each round, until n satisfy the condition; then decorrelate them.

        Args:
            n: The number of rows.
            given: Gives partial rows, whose missing cells are sampled.
            predicate: The condition that guides, or one of its branches.
            branch: The number of the branch, on which the noise depends; 0: the whole condition.
        """
        found, start, is_loss_only = self.no_rows(), 0, self.predicate == Constant(truth=True)

        def attempt(sample: Complete) -> Mask | None:
            nonlocal found, start
            missing = n - n_rows(found)
            if missing <= 0:
                return None
            count = n if is_loss_only else int(np.ceil(missing * OVERSAMPLING / N_PARTICLES)) * N_PARTICLES
            if start and not n_rows(found):
                count = min(count, MAX_FRUITLESS_GUIDED)
            index = np.arange(start, start + count)
            rows = self.count(sample(given(start, count), index, draw=stream_key(Stream.GUIDED, branch)))
            satisfied = evaluate(predicate, rows)
            if self.loss is None:
                satisfied &= self.sampler.is_possible(rows, repeat_row(self.given, n_rows(rows)))
            found, start = concat([found, take(rows, satisfied)]), start + count
            return satisfied

        self.guide_rounds(predicate, attempt, MAX_GUIDED_ROUNDS)
        found = take(found, slice(0, n))
        if not self.can_condition or not n_rows(found):
            return found
        return self._gibbs_steps(self._resample_unconstrained(found, branch), branch)

    def _resample_unconstrained(self, rows: Columns, branch: int) -> Columns:
        """Resample the columns that the condition does not name, conditioned on the others."""
        named, draw = columns_of(self.predicate), stream_key(Stream.UNCONSTRAINED, branch)
        given = {
            name: as_unknown(cells) if name not in named and self.given[name].unknown[0] else cells
            for name, cells in rows.items()
        }
        return self._accept(rows, self.sampler.sample(given, np.arange(n_rows(rows)), draw=draw))

    def _gibbs_steps(self, rows: Columns, branch: int) -> Columns:
        """Resample some cells of each row several times, keeping what satisfies the condition.

        Copies of a particle drift apart, and the distribution approaches that of the model under the condition.
        """
        given, index = repeat_row(self.given, n_rows(rows)), np.arange(n_rows(rows))
        for step, fraction in enumerate(GIBBS_FRACTIONS):
            draw = stream_key(Stream.GIBBS, branch) + step
            rows = self._accept(rows, self.sampler.gibbs_step(rows, given, index, fraction=fraction, draw=draw))
        return rows

    def _accept(self, rows: Columns, resampled: Columns) -> Columns:
        """Replace each row by its resampled one, if that satisfies the condition."""
        satisfied = np.flatnonzero(evaluate(self.predicate, self.count(resampled)))
        return scatter(rows, take(resampled, satisfied), satisfied)
