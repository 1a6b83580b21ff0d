"""Sampling under a condition: the methods from which strategies are built (`harpoon.inference.strategies`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, stream_key
from harpoon.conditions.bound import BoundPredicate, Constant, columns_of
from harpoon.conditions.evaluate import evaluate
from harpoon.data.column_array import ColumnArray, Columns, concat, n_rows, repeat_row, scatter, take
from harpoon.encoding.batch import Penalty
from harpoon.exceptions import SamplingFailed
from harpoon.inference.completion import is_unsatisfiable
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.guided import N_PARTICLES, GuidedSampler
from harpoon.inference.proposals import BranchProposal, branch_proposals
from harpoon.inference.row_sampler import RowSampler

PILOT_ROWS = 2048  # unconditional rows from which the probability of a condition is estimated
BRANCH_PILOT_ROWS = 512  # the same for a branch
MAX_ROWS_PER_ROUND = 32_768
MAX_SAMPLED_PER_ROW = 400
MAX_BRANCH_ROWS = 100_000  # rows that rejection may sample in a branch before guidance takes over
MAX_GUIDED_ROUNDS = 6
GIBBS_FRACTIONS = (0.5, 0.3, 0.4, 0.2, 0.5, 0.3, 0.4, 0.2)  # fraction of the cells that each Gibbs step resamples
OVERSAMPLING = 1.25  # rows sampled for each row that is expected to be kept

Proposal = Callable[[int, int], Columns]  # the number of the first row and the number of rows, to rows
Strategy = Callable[["ConditionalSampler", int], Columns]
BranchPilot = tuple[BranchProposal, Columns, NDArray[np.bool_]]


@dataclass
class ConditionalSampler:
    """Samples rows under a condition; strategies are built from its methods.

    Attributes:
        sampler: Samples rows.
        predicate: The condition.
        base: What all rows have in common: one row, its free cells missing.
        loss: A penalty besides the condition.
        sampled: Rows sampled so far.
        rounds: Rounds of sampling so far.
        guided: Guided rows of the first round, and how many of them violate the condition.
        pilot: Unconditional rows, kept to explain why a condition is rare.
        strategy: The strategy in use.
    """

    sampler: RowSampler
    predicate: BoundPredicate
    base: Columns
    loss: Penalty | None = None
    sampled: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    guided: list[int] = field(default_factory=lambda: [0, 0], init=False)
    pilot: Columns | None = field(default=None, init=False)
    strategy: str = field(default="rejection", init=False)

    def sample(self, n: int, name: str, strategy: Strategy) -> tuple[Columns, SamplingInfo]:
        """Run a strategy; return at most n rows, which all satisfy the condition (not for "paper"), and diagnostics."""
        started, evaluations = perf_counter(), self.sampler.evaluations
        rows = self.no_rows()
        if not is_unsatisfiable(self.predicate, self.base):
            self.strategy = name
            rows = take(strategy(self, n), slice(0, n))
        count = n_rows(rows)
        info = SamplingInfo(
            strategy=self.strategy,
            rows=count,
            sampled=self.sampled,
            guided_violations=self.guided[1] / self.guided[0] if self.guided[0] else None,
            violations=1 - float(evaluate(self.predicate, rows).mean()) if count else 0.0,
            rounds=self.rounds,
            evaluations=self.sampler.evaluations - evaluations,
            seconds=perf_counter() - started,
        )
        return rows, info

    def probability(self) -> float:
        """Estimate the probability of the condition branch by branch, for one that unconditional rows hardly meet."""
        pilots = self.branch_pilots()
        return float(sum(proposal.probability * float(satisfied.mean()) for proposal, _, satisfied in pilots))

    def reject(self, n: int, propose: Proposal, accepted: Columns | None = None, sampled: int = 0) -> Columns:
        """Sample from a proposal until n rows satisfy the condition."""
        parts = [self.no_rows() if accepted is None else accepted]
        have, start = n_rows(parts[0]), sampled
        while have < n and sampled - start < MAX_SAMPLED_PER_ROW * n + PILOT_ROWS:
            acceptance = max(have, 1) / sampled if sampled else 1.0
            count = int(min(max((n - have) / acceptance * OVERSAMPLING, BRANCH_PILOT_ROWS), MAX_ROWS_PER_ROUND))
            rows = propose(sampled, count)
            parts.append(take(rows, evaluate(self.predicate, rows)))
            have, sampled = have + n_rows(parts[-1]), sampled + count
        return concat(parts)

    def unconditional(self, start: int, count: int) -> Columns:
        """Sample rows from the model."""
        return self.count(self.sampler.sample(repeat_row(self.base, count), np.arange(start, start + count)))

    def count(self, rows: Columns) -> Columns:
        """Add rows to the diagnostics and return them."""
        self.sampled, self.rounds = self.sampled + n_rows(rows), self.rounds + 1
        return rows

    def no_rows(self) -> Columns:
        """Return no rows."""
        return repeat_row(self.base, 0)

    def branch_pilots(self) -> list[BranchPilot]:
        """Return the satisfiable branches, with pilot rows of each and which of them satisfy the condition."""
        pilots = []
        for proposal in branch_proposals(self.sampler, self.predicate, self.base):
            rows = self.count(proposal.sample(0, BRANCH_PILOT_ROWS))
            pilots.append((proposal, rows, evaluate(self.predicate, rows)))
        return pilots

    def sample_branch(self, n: int, proposal: BranchProposal, pilot: Columns, satisfied: NDArray[np.bool_]) -> Columns:
        """Sample rows of one branch: by rejection if that is affordable and else by guidance, then by the other."""
        rows = take(take(pilot, satisfied), slice(0, n))
        is_common = bool(satisfied.any()) and n / satisfied.mean() <= MAX_BRANCH_ROWS
        for by_rejection in (is_common, not is_common):
            if n_rows(rows) >= n:
                break
            if by_rejection:
                rows = self.reject(n, self._counted(proposal), rows, len(satisfied))
            else:
                self.strategy = "guidance"
                missing = n - n_rows(rows)
                more = self.guide(missing, proposal.sample_restricted, proposal.branch.predicate, branch=proposal.index)
                rows = concat([rows, more])
        return take(rows, slice(0, n))

    def ignore_given(self, n: int) -> Columns:
        """Sample restricted columns from marginals that ignore the given cells, where nothing else succeeds."""
        if all(cells.missing[0] for cells in self.base.values()):
            return self.no_rows()
        proposals = branch_proposals(self.sampler, self.predicate, self.base, ignore_given=True)
        parts = [self.reject(-(-n // len(proposals)), self._counted(proposal)) for proposal in proposals]
        return concat(parts) if parts else self.no_rows()

    def guide(self, n: int, given: Proposal, predicate: BoundPredicate, *, branch: int = 0) -> Columns:
        """Guide rows, with a larger scale in each round, until n satisfy the condition; then decorrelate them.

        Args:
            n: The number of rows.
            given: The cells that are decided beforehand.
            predicate: The condition that guides.
            branch: The number of the branch, on which the noise depends; 0: the whole condition.
        """
        guided = GuidedSampler.from_sampler(self.sampler, predicate, self.loss)
        parts, have, sampled = [self.no_rows()], 0, 0
        for attempt, sample in enumerate(guided.rounds(MAX_GUIDED_ROUNDS)):
            count = n if self._is_loss_only() else _whole_groups((n - have) * OVERSAMPLING)
            index = np.arange(sampled, sampled + count)
            try:
                rows = self.count(sample(given(sampled, count), index, draw=stream_key(Stream.GUIDED, branch)))
            except SamplingFailed:
                if attempt == 0:
                    raise
                break  # the scale is too large for this model
            satisfied = evaluate(self.predicate, rows)
            if attempt == 0:
                self.guided = [self.guided[0] + len(satisfied), self.guided[1] + int((~satisfied).sum())]
            parts.append(take(rows, satisfied))
            have, sampled = have + int(satisfied.sum()), sampled + count
            if have >= n:
                break
        self.sampler.evaluations += guided.sampler.evaluations
        found = take(concat(parts), slice(0, n))
        if self.loss is not None or not self.sampler.denoiser.is_conditional or not n_rows(found):
            return found
        return self._gibbs_steps(self._resample_unconstrained(found, branch), branch)

    def _is_loss_only(self) -> bool:
        return self.predicate == Constant(truth=True)

    def _counted(self, proposal: BranchProposal) -> Proposal:
        return lambda start, count: self.count(proposal.sample(start, count))

    def _gibbs_steps(self, rows: Columns, branch: int) -> Columns:
        """Resample some cells of each row several times, keeping what satisfies the condition.

        Copies of a particle drift apart, and the distribution approaches that of the model under the condition.
        """
        given, index = repeat_row(self.base, n_rows(rows)), np.arange(n_rows(rows))
        for step, fraction in enumerate(GIBBS_FRACTIONS):
            draw = stream_key(Stream.GIBBS, branch) + step
            new = self.count(self.sampler.gibbs_step(rows, given, index, fraction=fraction, draw=draw))
            satisfied = np.flatnonzero(evaluate(self.predicate, new))
            rows = scatter(rows, take(new, satisfied), satisfied)
        return rows

    def _resample_unconstrained(self, rows: Columns, branch: int) -> Columns:
        """Resample the columns that the condition does not name, conditioned on the others."""
        named = columns_of(self.predicate)
        given = {
            name: cells if name in named or not self.base[name].missing[0] else _all_missing(cells)
            for name, cells in rows.items()
        }
        draw = stream_key(Stream.UNCONSTRAINED, branch)
        new = self.count(self.sampler.sample(given, np.arange(n_rows(rows)), draw=draw))
        satisfied = evaluate(self.predicate, new)
        return {
            name: cells.with_values(np.where(satisfied, cells.values, rows[name].values)) for name, cells in new.items()
        }


def _whole_groups(rows: float) -> int:
    return int(np.ceil(rows / N_PARTICLES)) * N_PARTICLES


def _all_missing(cells: ColumnArray) -> ColumnArray:
    return replace(cells, values=np.zeros_like(cells.values), missing=np.ones(len(cells), dtype=np.bool_))
