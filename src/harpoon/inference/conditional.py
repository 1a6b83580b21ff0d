"""Rows that meet a condition: as many as were asked for, every one of them checked.

How they are found is a strategy:

    kept      plain rows are drawn, and those that meet the condition are kept: the law of the model, exactly
    known     the condition is split into branches that exclude each other; in each, columns that it restricts are drawn
              first, from what it leaves of their law, and the rest of the row is drawn knowing them; what it asks of
              several columns together is checked
    guided    what is left is a penalty that pulls rows (Algorithm 1), with weights that take back how the pull bends
              their law; at the end, what is not concerned is drawn again knowing the rest, and rows move about where
              the condition holds, by Gibbs steps that leave the law as it is
    paper     Algorithm 1 and the paper's penalties, and nothing else: rows come back as they are
    auto      the first of these that gets there: kept while the condition is common, known while its branches are,
              guided beyond
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import random_for
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

STRATEGIES = ("auto", "rejection", "conditioning", "guidance", "paper")
PILOT_ROWS, BRANCH_PILOT_ROWS = 2048, 512  # rows drawn to see how often a condition, or a branch, is met
COMMON_PROBABILITY, RARE_PROBABILITY = (
    0.5,
    0.005,
)  # shares of plain rows that meet it: above they are kept, below they are not
MAX_REJECTION_ROWS = 25_000  # plain rows that are drawn anyway: those kept of them have the law of the model exactly
MAX_ROWS_PER_ROUND = 32_768
PATIENCE = 400  # rows drawn for each row asked for, at the most
LONGEST = 100_000  # rows drawn in a branch, rather than to guide fewer
MAX_GUIDED_ROUNDS = 6
GIBBS_FRACTIONS = (0.5, 0.3, 0.4, 0.2, 0.5, 0.3, 0.4, 0.2)  # the shares of their cells that found rows draw again
MOVED = 2**34
OVERSAMPLING = 1.25  # rows drawn for each that is expected to be kept


Proposal = Callable[[int, int], Columns]


def check_strategy(strategy: str) -> None:
    """Refuse a strategy that there is not."""
    if strategy not in STRATEGIES:
        raise InvalidOption.one_of("strategy", strategy, STRATEGIES)


@dataclass
class ConditionalSampler:
    """Draws rows under a condition.

    Attributes:
        drawer: Draws rows.
        bound: The condition.
        base: What all rows have in common: one row, its free cells missing.
        loss: A penalty besides the condition.
        tried: Rows drawn so far.
        rounds: Rounds of drawing so far.
        guided: Rows out of the guided loop and those among them that failed, at its first strength.
        pilot: Plain rows, kept for what they say about the condition.
    """

    sampler: RowSampler
    predicate: BoundPredicate
    base: Columns
    loss: Penalty | None = None
    tried: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    guided: list[int] = field(default_factory=lambda: [0, 0], init=False)
    pilot: Columns | None = field(default=None, init=False)
    used: str = field(default="rejection", init=False)

    def sample(self, n: int, strategy: str = "auto") -> tuple[Columns, SamplingInfo]:
        """At most n rows, all of which meet the condition (but for strategy="paper"), and what it took."""
        check_strategy(strategy)
        began, before = perf_counter(), self.sampler.evaluations
        found = take(self._by(strategy)(n), slice(0, n))
        count = n_rows(found)
        share = 1 - float(evaluate(self.predicate, found).mean()) if count else 0.0
        failed = self.guided[1] / self.guided[0] if self.guided[0] else None
        spent = self.sampler.evaluations - before
        seconds = perf_counter() - began
        return found, SamplingInfo(self.used, count, self.tried, failed, share, self.rounds, spent, seconds)

    def probability(self) -> float:
        """How likely the condition is, branch by branch: for one that plain rows hardly ever meet."""
        return float(sum(way.probability * float(met.mean()) for way, _, met in self._branch_proposals()))

    def _by(self, strategy: str) -> Callable[[int], Columns]:
        sees_known = self.sampler.denoiser.is_conditional
        if is_unsatisfiable(self.predicate, self.base):
            return lambda _: self._no_rows()
        if strategy == "paper":
            return self._paper
        if self.loss is not None or (strategy in ("auto", "conditioning") and not sees_known):
            strategy = "guidance"
        self.used = strategy
        return {
            "auto": self._auto,
            "rejection": self._rejection,
            "conditioning": self._conditioning,
            "guidance": self._guidance,
        }[strategy]

    def _auto(self, n: int) -> Columns:
        self.used = "rejection"
        found = self._unconditional(0, PILOT_ROWS)
        self.pilot = found
        met = evaluate(self.predicate, found)
        share = float(met.mean())
        if share >= COMMON_PROBABILITY or (share >= RARE_PROBABILITY and n / share <= MAX_REJECTION_ROWS):
            return self._reject(n, self._unconditional, take(found, met), len(met))
        return self._conditioning(n)

    def _rejection(self, n: int) -> Columns:
        return self._reject(n, self._unconditional)

    def _paper(self, n: int) -> Columns:
        """Algorithm 1 on the whole condition."""
        self.used = "paper"
        puller = GuidedSampler(self.sampler, self.predicate, self.loss)
        rows = self._count(puller.sample(repeat_row(self.base, n), np.arange(n)))
        failed = ~evaluate(self.predicate, rows)
        self.guided = [len(failed), int(failed.sum())]
        return rows

    def _conditioning(self, n: int) -> Columns:
        """Every branch in proportion to how likely it is."""
        self.used = "conditioning"
        open_ways = self._branch_proposals()
        if not open_ways:
            return self._no_rows()
        likely = np.array([way.probability * (met.sum() + 0.5) / (len(met) + 1) for way, _, met in open_ways])
        random = random_for(self.sampler.seed, 1)
        counts = random.multinomial(n, likely / likely.sum())
        found = concat([self._sample_branch(*way, int(count)) for way, count in zip(open_ways, counts, strict=True)])
        if n_rows(found) < n:
            found = concat([found, self._ignore_given(n - n_rows(found))])
        return take(found, random.permutation(n_rows(found)))

    def _ignore_given(self, n: int) -> Columns:
        """Rows whose restricted numbers are drawn without regard to what is known: where nothing else leads there."""
        if all(cells.missing[0] for cells in self.base.values()):
            return self._no_rows()
        found = branch_proposals(self.sampler, self.predicate, self.base, ignore_given=True)
        parts = [self._reject(-(-n // len(found)), self._proposals(way)) for way in found]
        return concat(parts) if parts else self._no_rows()

    def _proposals(self, way: BranchProposal) -> Proposal:
        return lambda start, count: self._count(way.sample(start, count))

    def _sample_branch(self, way: BranchProposal, pilot: Columns, met: NDArray[np.bool_], n: int) -> Columns:
        """Rows of one branch: kept if it is common enough once its columns are known, else guided, else either."""
        found = take(take(pilot, met), slice(0, n))
        common = bool(met.any()) and n / met.mean() <= LONGEST
        for keeping in (common, not common):
            if n_rows(found) >= n:
                break
            more = self._proposals(way)
            found = self._reject(n, more, found, len(met)) if keeping else self._add_guided(n, way, found)
        return take(found, slice(0, n))

    def _add_guided(self, n: int, way: BranchProposal, found: Columns) -> Columns:
        self.used = "guidance"
        return concat([found, self._guide_until(n - n_rows(found), way.sample_restricted, way.branch.predicate)])

    def _guidance(self, n: int) -> Columns:
        """The whole condition as a penalty."""
        self.used = "guidance"
        found = self._guide_until(n, lambda _start, count: repeat_row(self.base, count), self.predicate)
        short = n_rows(found) < n and self.loss is None
        return self._reject(n, self._unconditional, found) if short else found

    def _reject(self, n: int, propose: Proposal, first: Columns | None = None, tried: int = 0) -> Columns:
        """Propose rows until n of them meet the condition."""
        parts = [self._no_rows() if first is None else first]
        have = n_rows(parts[0])
        start = tried
        while have < n and tried - start < PATIENCE * n + PILOT_ROWS:
            share = max(have, 1) / tried if tried else 1.0
            count = int(min(max((n - have) / share * OVERSAMPLING, BRANCH_PILOT_ROWS), MAX_ROWS_PER_ROUND))
            rows = propose(tried, count)
            parts.append(take(rows, evaluate(self.predicate, rows)))
            have, tried = have + n_rows(parts[-1]), tried + count
        return concat(parts)

    def _unconditional(self, start: int, count: int) -> Columns:
        """Rows as the model draws them."""
        return self._count(self.sampler.sample(repeat_row(self.base, count), np.arange(start, start + count)))

    def _count(self, rows: Columns) -> Columns:
        self.tried, self.rounds = self.tried + n_rows(rows), self.rounds + 1
        return rows

    def _branch_proposals(self) -> list[tuple[BranchProposal, Columns, NDArray[np.bool_]]]:
        """The ways that can be gone at all, with some rows of each and which of them meet the condition."""
        found = []
        for way in branch_proposals(self.sampler, self.predicate, self.base):
            rows = self._count(way.sample(0, BRANCH_PILOT_ROWS))
            found.append((way, rows, evaluate(self.predicate, rows)))
        return found

    def _no_rows(self) -> Columns:
        return repeat_row(self.base, 0)

    def _guide_until(self, n: int, known: Proposal, bound: BoundPredicate) -> Columns:
        """Pull rows, harder each round, until n of them meet the condition; then draw the rest of them afresh."""
        puller = GuidedSampler.from_sampler(self.sampler, bound, self.loss)
        parts, have, tried = [self._no_rows()], 0, 0
        for attempt in range(MAX_GUIDED_ROUNDS):
            count = (
                n
                if self.predicate == Constant(truth=True)
                else int(np.ceil((n - have) * OVERSAMPLING / N_PARTICLES)) * N_PARTICLES
            )
            index = np.arange(tried, tried + count)
            try:
                rows = self._count(puller.sample(known(tried, count), index, scale_factor=2.0**attempt))
            except SamplingFailed:
                if attempt == 0:
                    raise
                break  # pulled too hard: this is as far as it goes
            met = evaluate(self.predicate, rows)
            if attempt == 0:
                self.guided = [self.guided[0] + len(met), self.guided[1] + int((~met).sum())]
            parts.append(take(rows, met))
            have, tried = have + int(met.sum()), tried + count
            if have >= n:
                break
        self.sampler.evaluations += puller.sampler.evaluations
        found = take(concat(parts), slice(0, n))
        return self._gibbs_steps(self._resample_unconstrained(found)) if self.loss is None else found

    def _gibbs_steps(self, rows: Columns) -> Columns:
        """Rows that have moved about where the condition holds: copies part, and the law becomes that of the model."""
        if not self.sampler.denoiser.is_conditional or not n_rows(rows):
            return rows
        known, index = repeat_row(self.base, n_rows(rows)), np.arange(n_rows(rows))
        for number, share in enumerate(GIBBS_FRACTIONS):
            new = self._count(self.sampler.gibbs_step(rows, known, index, fraction=share, draw=MOVED + number))
            met = np.flatnonzero(evaluate(self.predicate, new))
            rows = scatter(rows, take(new, met), met)
        return rows

    def _resample_unconstrained(self, rows: Columns) -> Columns:
        """The columns that the condition does not concern, drawn again knowing the others."""
        concerned = columns_of(self.predicate)
        if not self.sampler.denoiser.is_conditional or not n_rows(rows):
            return rows
        known = {
            name: cells if name in concerned or not self.base[name].missing[0] else _hidden(cells)
            for name, cells in rows.items()
        }
        again = self._count(self.sampler.sample(known, np.arange(n_rows(rows)), draw=2**33))
        met = evaluate(self.predicate, again)
        return {
            name: cells.with_values(np.where(met, cells.values, rows[name].values)) for name, cells in again.items()
        }


def _hidden(cells: ColumnArray) -> ColumnArray:
    return replace(cells, values=np.zeros_like(cells.values), missing=np.ones(len(cells), dtype=np.bool_))
