"""New rows under a condition: the methods from which strategies are built (`harpoon.inference.strategies`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from harpoon._utils.rng import Stream, stream_key
from harpoon.conditions import BoundPredicate, columns_of, evaluate, negate
from harpoon.conditions.bound import Constant
from harpoon.data import Columns, as_unknown, concat, n_rows, repeat_row, scatter, take
from harpoon.inference.diagnostics import ProbabilityEstimate
from harpoon.inference.guided import N_PARTICLES, ConditionSearch, Mask
from harpoon.inference.proposals import BranchProposal, branch_proposals
from harpoon.inference.row_sampler import Complete

PILOT_ROWS = 2048  # unconditional rows from which the probability of a condition is estimated
BRANCH_PILOT_ROWS = 512  # the same for a branch
MAX_ROWS_PER_ROUND = 32_768
MAX_SAMPLED_PER_ROW = 400
MAX_BRANCH_ROWS = 100_000  # rows that rejection may sample in a branch before guidance takes over
MAX_FRUITLESS_ROWS = 4096  # rows without a single hit after which rejection gives up, in all branches together
MAX_FRUITLESS_GUIDED = N_PARTICLES  # guided rows of a round after one without a hit
MAX_GUIDED_ROUNDS = 6
GIBBS_FRACTIONS = (0.5, 0.3, 0.4, 0.2, 0.5, 0.3, 0.4, 0.2)  # fraction of the cells that each Gibbs step resamples
MAX_ESTIMATE_ROWS = 1e6  # that an estimated probability counts for: that of one column alone has no sampling error
OVERSAMPLING = 1.25  # rows sampled for each row that is expected to be kept

Proposal = Callable[[int, int], Columns]  # the number of the first row and the number of rows, to rows
BranchPilot = tuple[BranchProposal, Columns, Mask]


def is_unsatisfiable(predicate: BoundPredicate, rows: Columns) -> bool:
    """Return whether no row at all can satisfy the condition."""
    blank = {name: as_unknown(cells[:1]) for name, cells in rows.items()}
    return n_rows(blank) > 0 and bool(evaluate(negate(predicate), blank, partial=True).all())


def _estimate_by_branch(pilots: list[BranchPilot]) -> ProbabilityEstimate | None:
    """Return the probability of a condition by importance sampling: the sum over its disjoint branches."""
    probability, variance = 0.0, 0.0
    for proposal, _, hits in pilots:
        rate = max(hits.sum(), 0.5) / len(hits)
        of_branch = proposal.probability * rate
        # Of the importance weights, and of the pilot rows among which hits are counted.
        relative = proposal.relative_variance + (1 - rate) / (rate * len(hits))
        probability, variance = probability + of_branch, variance + of_branch**2 * relative
    if not probability:
        return None
    rows = probability * max(1 - probability, 0.0) / max(variance, np.finfo(float).tiny)
    return ProbabilityEstimate(min(probability, 1.0), min(rows, MAX_ESTIMATE_ROWS))


@dataclass
class ConditionalSampler(ConditionSearch):
    """Samples new rows under a condition; strategies are built from its methods."""

    pilot: Columns | None = field(default=None, init=False)  # unconditional rows, to explain why a condition is rare
    strategy: str = field(default="rejection", init=False)  # the one in use
    _unconditional: int = field(default=0, init=False)  # unconditional rows so far
    _hits: int = field(default=0, init=False)  # how many of them satisfy the condition
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
        keeps_relations: bool = True,
    ) -> Columns:
        """Sample from a proposal until n rows satisfy the condition, or the predicate of one of its branches.

        `accepted` are those of the first `sampled` rows. Without a hit it soon gives up, unless it `is_patient`. Rows
        that break a relation of all training rows do not count, unless the condition leaves no others.
        """
        predicate = self.predicate if predicate is None else predicate
        parts = [self.no_rows() if accepted is None else accepted]
        have, start = n_rows(parts[0]), sampled
        while have < n and sampled - start < MAX_SAMPLED_PER_ROW * n + PILOT_ROWS:
            acceptance = max(have, 1) / sampled if sampled else 1.0
            count = int(min(max((n - have) / acceptance * OVERSAMPLING, BRANCH_PILOT_ROWS), MAX_ROWS_PER_ROUND))
            if not have and not is_patient:
                count = min(count, MAX_FRUITLESS_ROWS - self._fruitless)
                self._fruitless += count
                if count <= 0:
                    break
            rows = self.count(propose(sampled, count))
            parts.append(take(rows, self._is_hit(predicate, rows) if keeps_relations else evaluate(predicate, rows)))
            have, sampled = have + n_rows(parts[-1]), sampled + count
        return concat(parts)

    def _is_hit(self, predicate: BoundPredicate, rows: Columns) -> Mask:
        """Return which rows satisfy a predicate and keep the relations of all training rows, (n,)."""
        return evaluate(predicate, rows) & self.sampler.keeps_relations(rows)

    def unconditional(self, start: int, count: int) -> Columns:
        """Sample `count` rows from the model, the first of which has the number `start`."""
        rows = self.sampler.sample(repeat_row(self.given, count), np.arange(start, start + count))
        self._unconditional += count
        self._hits += int(evaluate(self.predicate, rows).sum())
        return rows

    @property
    def estimate(self) -> ProbabilityEstimate | None:
        """The model's probability of the condition, by the rows so far: those of branches, or unconditional ones.

        The estimate that more unconditional rows would be needed for is the better one.
        """
        both = [] if self._by_branch is None else [self._by_branch]
        if self._unconditional:
            both.append(ProbabilityEstimate(self._hits / self._unconditional, self._unconditional))
        return max(both, key=lambda estimate: estimate.rows, default=None)

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
        pilots = []
        for proposal in branch_proposals(self.sampler, self.predicate, self.given):
            rows = self.count(proposal.sample(0, BRANCH_PILOT_ROWS))
            if proposal.probability:
                pilots.append((proposal, rows, self._is_hit(proposal.branch.predicate, rows)))
        self._by_branch = _estimate_by_branch(pilots)
        return pilots

    def sample_branch(self, n: int, proposal: BranchProposal, pilot: Columns, satisfied: Mask) -> Columns:
        """Sample rows of one branch: by rejection if that is affordable and else by guidance, then by the other."""
        rows, predicate = take(take(pilot, satisfied), slice(0, n)), proposal.branch.predicate
        is_common = bool(satisfied.any()) and n / satisfied.mean() <= MAX_BRANCH_ROWS
        # If all rows of the branch break relations, neither more of them nor guidance would help.
        is_inconsistent = not satisfied.any() and bool(evaluate(predicate, pilot).any())
        if is_inconsistent:
            found = self.reject(n, proposal.sample, rows, 0, predicate, is_patient=True, keeps_relations=False)
            return take(found, slice(0, n))
        for by_rejection in (is_common, not is_common):
            missing = n - n_rows(rows)
            if not missing:
                break
            if by_rejection:
                rows = take(self.reject(n, proposal.sample, rows, len(satisfied), predicate), slice(0, n))
            else:
                self.strategy = "guidance"
                more = self.guide(missing, proposal.sample_restricted, predicate, branch=proposal.index)
                rows = concat([rows, more])
        self._effective_size = (self._effective_size or 0.0) + min(proposal.efficiency, 1.0) * n_rows(rows)
        return rows

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
