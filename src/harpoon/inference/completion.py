"""Partial rows completed under a condition: each row keeps its observed cells, and the completed row satisfies it.

Rejection comes first: candidates are sampled for each row, more from round to round, until one satisfies the
condition. That is the conditional distribution, exactly. The remaining rows are guided, with one group of particles
per row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_list
from harpoon._utils.rng import Stream, generator
from harpoon.conditions.bound import BoundPredicate, negate
from harpoon.conditions.evaluate import evaluate
from harpoon.data.column_array import Columns, Index, n_rows, scatter, take
from harpoon.encoding.batch import Penalty
from harpoon.exceptions import InvalidCondition
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.guided import N_PARTICLES, GuidedSampler, SampleRows
from harpoon.inference.proposals import branch_proposals
from harpoon.inference.row_sampler import RowSampler

CANDIDATES_PER_ROW = (1, 4, 16, 64, 256)  # round after round
FALLBACK_CANDIDATES = 16
MAX_CANDIDATES = 2**16  # in a round, unless there are more rows
MAX_GUIDED_ROUNDS = 4
POINT_PROBABILITY = 1e-3  # a truncated marginal with less probability than this counts as a point
DRAW_STRIDE = 2**20  # between the draw numbers of two rounds


def check_satisfiable(rows: Columns, predicate: BoundPredicate, text: str, row_offset: int = 0) -> None:
    """Raise InvalidCondition if the observed cells of a row already violate the condition."""
    if is_unsatisfiable(predicate, rows):
        return  # the observed cells are not to blame
    violated = np.flatnonzero(evaluate(negate(predicate), rows)) + row_offset
    if len(violated):
        rows_are = "row" if len(violated) == 1 else "rows"
        raise InvalidCondition(
            f"The condition {text} is violated by observed cells, in {rows_are} {format_list(violated.tolist())} "
            "(counted from 0). Empty those cells, leave those rows out, or relax the condition."
        )


def is_unsatisfiable(predicate: BoundPredicate, rows: Columns) -> bool:
    """Return whether the condition is false for every row."""
    blank = {name: replace(cells[:1], missing=np.ones(len(cells[:1]), dtype=np.bool_)) for name, cells in rows.items()}
    return n_rows(blank) > 0 and bool(evaluate(negate(predicate), blank).all())


@dataclass
class ConditionalCompletion:
    """Completes partial rows under a condition.

    Attributes:
        sampler: Samples the missing cells.
        rows: The partial rows.
        index: The number of each row, on which its noise depends.
        predicate: The condition.
        loss: A penalty besides the condition.
        draw: The number of the draw, on which the noise depends too.
    """

    sampler: RowSampler
    rows: Columns
    index: Index
    predicate: BoundPredicate
    loss: Penalty | None = None
    draw: int = 0

    def sample(self) -> tuple[Columns, NDArray[np.bool_], SamplingInfo]:
        """Return completed rows, which of them satisfy the condition, and diagnostics."""
        started, evaluations = perf_counter(), self.sampler.evaluations
        self.completed, self.satisfied = dict(self.rows), np.zeros(len(self.index), dtype=np.bool_)
        self.sampled = self.rounds = 0
        if self.loss is None:
            for candidates in CANDIDATES_PER_ROW:
                self._try(candidates, self.sampler.sample)
                if candidates == 1:
                    self._ignore_observed(max_probability=POINT_PROBABILITY)
        guided_violations = self._guide()
        self._ignore_observed()
        info = SamplingInfo(
            strategy="completion",
            rows=len(self.satisfied),
            sampled=self.sampled,
            guided_violations=guided_violations,
            violations=float((~self.satisfied).mean()) if len(self.satisfied) else 0.0,
            rounds=self.rounds,
            evaluations=self.sampler.evaluations - evaluations,
            seconds=perf_counter() - started,
        )
        return self.completed, self.satisfied, info

    def _guide(self) -> float | None:
        """Guide the remaining rows; return the fraction of them that failed in the first round."""
        remaining, failed = int((~self.satisfied).sum()), None
        guided = GuidedSampler.from_sampler(self.sampler, self.predicate, self.loss)
        for sample in guided.rounds(MAX_GUIDED_ROUNDS):
            self._try(N_PARTICLES if guided.corrects_bias else 1, sample)
            if failed is None and remaining:
                failed = float((~self.satisfied).sum()) / remaining
        self.sampler.evaluations += guided.sampler.evaluations
        return failed

    def _ignore_observed(self, *, max_probability: float = np.inf) -> None:
        """Complete the remaining rows from truncated marginals, which ignore the observed cells of the row.

        For a single value (`max_probability`) nothing is lost by that: there is no distribution to be wrong about.
        """
        remaining = np.flatnonzero(~self.satisfied)
        if not len(remaining) or self.loss is not None or not self.sampler.denoiser.is_conditional:
            return
        rows, random = self.rows, generator(self.sampler.seed, Stream.COMPLETION, self.draw)
        is_free = {name: cells.missing[remaining].any() for name, cells in rows.items()}
        base = {name: replace(cells[:1], missing=np.array([is_free[name]])) for name, cells in rows.items()}
        for proposal in branch_proposals(self.sampler, self.predicate, base, ignore_given=True):
            if max_probability < np.inf and proposal.number_probability >= max_probability:
                continue
            self.rows = _scatter_partial(rows, proposal.condition(take(rows, remaining), random)[0], remaining)
            self._try(FALLBACK_CANDIDATES, self.sampler.sample)
            self.rows, remaining = rows, np.flatnonzero(~self.satisfied)
            if not len(remaining):
                break

    def _try(self, candidates: int, sample: SampleRows) -> None:
        """Sample candidates for each remaining row and keep the first that satisfies the condition."""
        remaining = np.flatnonzero(~self.satisfied)
        if not len(remaining):
            return
        if candidates != N_PARTICLES:
            candidates = max(1, min(candidates, MAX_CANDIDATES // len(remaining)))
        draw = self.draw + self.rounds * DRAW_STRIDE
        rows_at_once = max(1, MAX_CANDIDATES // candidates)
        for chunk in np.split(remaining, np.arange(rows_at_once, len(remaining), rows_at_once)):
            repeated = np.repeat(chunk, candidates)
            # The noise of a candidate depends only on its row and its position among the candidates of the row.
            index = self.index[repeated] * candidates + np.tile(np.arange(candidates), len(chunk))
            rows = sample(take(self.rows, repeated), index, draw=draw)
            satisfied = evaluate(self.predicate, rows).reshape(len(chunk), candidates)
            first = np.arange(len(chunk)) * candidates + satisfied.argmax(axis=1)
            self.completed = scatter(self.completed, take(rows, first), chunk)
            self.satisfied[chunk] = satisfied.any(axis=1)
            self.sampled += len(repeated)
        self.rounds += 1


def _scatter_partial(rows: Columns, new: Columns, index: Index) -> Columns:
    """Replace the rows at `index` by new ones, which may have missing cells."""
    replaced = {}
    for name, cells in rows.items():
        values, missing = cells.values.astype(new[name].values.dtype).copy(), cells.missing.copy()
        values[index], missing[index] = new[name].values, new[name].missing
        replaced[name] = replace(new[name], values=values, missing=missing)
    return replaced
