"""Rows that satisfy a condition: as many as were asked for, each of them checked.

A strategy is a way to find them:

    rejection     Sample unconditionally and keep the rows that satisfy the condition: the conditional distribution of
                  the model, exactly.
    conditioning  Split the condition into disjoint branches. In each, sample the restricted columns from their
                  truncated marginals, condition the rest of the row on them, and reject rows that violate terms of
                  several columns.
    guidance      Guide rows by the gradient of a penalty (Algorithm 1) and correct the bias by importance weights.
                  Then resample the columns that the condition does not name, and run Gibbs steps, which leave the
                  conditional distribution unchanged.
    paper         Algorithm 1 with the paper's penalties alone: rows may violate the condition.
    auto          The first that works: rejection for common conditions, conditioning for rare ones, guidance for
                  branches that are rare themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator, stream_key
from harpoon.conditions.bound import BoundPredicate, Constant, columns_of
from harpoon.conditions.evaluate import evaluate
from harpoon.data.column_array import ColumnArray, Columns, concat, n_rows, repeat_row, scatter, take
from harpoon.encoding.batch import Penalty
from harpoon.exceptions import InvalidOption, SamplingFailed
from harpoon.inference.completion import is_unsatisfiable
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.guided import N_PARTICLES, GuidedSampler
from harpoon.inference.proposals import BranchProposal, branch_proposals
from harpoon.inference.row_sampler import RowSampler

PILOT_ROWS = 2048  # unconditional rows from which the probability of a condition is estimated
BRANCH_PILOT_ROWS = 512  # the same for a branch
COMMON_PROBABILITY = 0.5  # conditions above it are always met by rejection
RARE_PROBABILITY = 0.005  # conditions below it never are
MAX_REJECTION_ROWS = 25_000  # rows that rejection may sample in between: its rows have the exact distribution
MAX_ROWS_PER_ROUND = 32_768
MAX_SAMPLED_PER_ROW = 400
MAX_BRANCH_ROWS = 100_000  # rows that rejection may sample in a branch before guidance takes over
MAX_GUIDED_ROUNDS = 6
GIBBS_FRACTIONS = (0.5, 0.3, 0.4, 0.2, 0.5, 0.3, 0.4, 0.2)  # fraction of the cells that each Gibbs step resamples
OVERSAMPLING = 1.25  # rows sampled for each row that is expected to be kept

Proposal = Callable[[int, int], Columns]  # the number of the first row and the number of rows, to rows
BranchPilot = tuple[BranchProposal, Columns, NDArray[np.bool_]]


def check_strategy(strategy: str) -> None:
    """Raise InvalidOption unless there is such a strategy."""
    if strategy not in STRATEGIES:
        raise InvalidOption.one_of("strategy", strategy, STRATEGIES)


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

    def sample(self, n: int, strategy: str = "auto") -> tuple[Columns, SamplingInfo]:
        """Return at most n rows, all of which satisfy the condition (except for "paper"), and diagnostics."""
        check_strategy(strategy)
        started, evaluations = perf_counter(), self.sampler.evaluations
        rows = self.no_rows()
        if not is_unsatisfiable(self.predicate, self.base):
            self.strategy = self._applicable(strategy)
            rows = take(STRATEGIES[self.strategy](self, n), slice(0, n))
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

    def _applicable(self, strategy: str) -> str:
        """Return the strategy, or guidance where that is the only one: for a loss, or an unconditional network."""
        if strategy == "paper":
            return strategy
        needs_conditioning = strategy in ("auto", "conditioning")
        only_guidance = self.loss is not None or (needs_conditioning and not self.sampler.denoiser.is_conditional)
        return "guidance" if only_guidance else strategy

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


def auto(query: ConditionalSampler, n: int) -> Columns:
    """Reject if the condition is common enough, else condition on its branches."""
    query.strategy = "rejection"
    pilot = query.pilot = query.unconditional(0, PILOT_ROWS)
    satisfied = evaluate(query.predicate, pilot)
    p = float(satisfied.mean())
    if p >= COMMON_PROBABILITY or (p >= RARE_PROBABILITY and n / p <= MAX_REJECTION_ROWS):
        return query.reject(n, query.unconditional, take(pilot, satisfied), len(satisfied))
    return conditioning(query, n)


def rejection(query: ConditionalSampler, n: int) -> Columns:
    """Keep the unconditional rows that satisfy the condition."""
    return query.reject(n, query.unconditional)


def conditioning(query: ConditionalSampler, n: int) -> Columns:
    """Sample from every branch in proportion to its probability."""
    query.strategy = "conditioning"
    pilots = query.branch_pilots()
    if not pilots:
        return query.no_rows()
    p = np.array([branch.probability * (hits.sum() + 0.5) / (len(hits) + 1) for branch, _, hits in pilots])
    random = generator(query.sampler.seed, Stream.BRANCHES)
    counts = random.multinomial(n, p / p.sum())
    rows = concat([query.sample_branch(int(count), *pilot) for pilot, count in zip(pilots, counts, strict=True)])
    if n_rows(rows) < n:
        rows = concat([rows, query.ignore_given(n - n_rows(rows))])
    return take(rows, random.permutation(n_rows(rows)))


def guidance(query: ConditionalSampler, n: int) -> Columns:
    """Guide by the whole condition; fill up by rejection."""
    rows = query.guide(n, lambda _start, count: repeat_row(query.base, count), query.predicate)
    is_short = n_rows(rows) < n and query.loss is None
    return query.reject(n, query.unconditional, rows) if is_short else rows


def paper(query: ConditionalSampler, n: int) -> Columns:
    """Run Algorithm 1 on the whole condition and return its rows as they are."""
    guided = GuidedSampler(query.sampler, query.predicate, query.loss)
    rows = query.count(guided.sample(repeat_row(query.base, n), np.arange(n)))
    violated = ~evaluate(query.predicate, rows)
    query.guided = [len(violated), int(violated.sum())]
    return rows


def _whole_groups(rows: float) -> int:
    return int(np.ceil(rows / N_PARTICLES)) * N_PARTICLES


def _all_missing(cells: ColumnArray) -> ColumnArray:
    return replace(cells, values=np.zeros_like(cells.values), missing=np.ones(len(cells), dtype=np.bool_))


STRATEGIES: dict[str, Callable[[ConditionalSampler, int], Columns]] = {
    "auto": auto,
    "rejection": rejection,
    "conditioning": conditioning,
    "guidance": guidance,
    "paper": paper,
}
