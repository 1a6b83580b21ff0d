"""Partial rows completed under a condition: each row keeps its observed cells, and the completed row satisfies it.

Rejection comes first: candidates are sampled for each row, more from round to round, until one satisfies the
condition. That is the conditional distribution, exactly. In the remaining rows, the columns that the condition names
are sampled one after another, each restricted to what can still satisfy it, and one of several candidates is chosen by
its importance weight (`harpoon.inference.conditional.importance_sampling`). What is left then is guided, with one
group of particles per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from harpoon._utils.rng import Stream, generator
from harpoon.conditions import evaluate
from harpoon.data import Columns, Index, Mask, as_unknown, n_rows, scatter, take
from harpoon.inference.conditional.condition_search import N_PARTICLES, ConditionSearch
from harpoon.inference.conditional.importance_sampling import branch_proposals
from harpoon.inference.conditional.restriction import sample_index
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.sampling.row_sampler import Complete

CANDIDATES_PER_ROW = (1, 4, 16, 64)  # round after round
WEIGHTED_CANDIDATES = 16  # of a row, of which one is chosen by its importance weight
MAX_CANDIDATES = 2**16  # in a round, unless there are more rows
MAX_GUIDED_ROUNDS = 4
DRAW_STRIDE = 2**20  # between the draw numbers of two rounds


@dataclass
class ConditionalCompletion(ConditionSearch):
    """Completes partial rows under a condition. The noise of a row depends on its number in `index` and on `draw`."""

    index: Index = field(kw_only=True)
    draw: int = field(default=0, kw_only=True)
    guided: bool = field(default=True, kw_only=True)  # whether to guide rows for which rejection finds nothing: slow

    def sample(self) -> tuple[Columns, Mask, SamplingInfo]:
        """Return completed rows, which of them satisfy the condition, and diagnostics."""
        self.completed, self.satisfied = dict(self.given), np.zeros(len(self.index), dtype=np.bool_)
        if self.loss is None:
            for candidates in CANDIDATES_PER_ROW:
                self._try(candidates, self.sampler.sample)
            self._condition()
        attempt = partial(self._try, N_PARTICLES if self.can_condition else 1)
        if self.guided or self.loss is not None or not self.can_condition:
            self.guide_rounds(self.predicate, attempt, MAX_GUIDED_ROUNDS)
        return self.completed, self.satisfied, self.info("completion", self.satisfied)

    def _condition(self) -> None:
        """Sample the columns of the condition first in the remaining rows, each row in one of its branches."""
        remaining = np.flatnonzero(~self.satisfied)
        if not len(remaining) or not self.can_condition:
            return
        random = generator(self.sampler.seed, Stream.COMPLETION, self.draw)
        rows_at_once = MAX_CANDIDATES // WEIGHTED_CANDIDATES
        for start in range(0, len(remaining), rows_at_once):
            chunk = remaining[start : start + rows_at_once]
            self._try(1, self.sampler.sample, self._conditioned(take(self.given, chunk), random), chunk)

    def _conditioned(self, given: Columns, random: np.random.Generator) -> Columns:
        """Return rows with the columns of the condition filled; of several candidates, one by its weight."""
        count = n_rows(given)
        rows = take(given, np.repeat(np.arange(count), WEIGHTED_CANDIDATES))
        is_free = {name: cells.unknown.any() for name, cells in rows.items()}
        base = {name: as_unknown(cells[:1]) if is_free[name] else cells[:1] for name, cells in rows.items()}
        proposals = branch_proposals(self.sampler, self.predicate, base)
        found = [proposal.condition(rows, random) for proposal in proposals]
        weights = np.hstack([w.reshape(count, WEIGHTED_CANDIDATES) for _, w in found] or [np.zeros((count, 1))])
        branch, candidate = np.divmod(sample_index(weights, random.random(count)), WEIGHTED_CANDIDATES)
        for number, (conditioned, _) in enumerate(found):
            here = np.flatnonzero((branch == number) & (weights.sum(axis=1) > 0))
            given = scatter(given, take(conditioned, here * WEIGHTED_CANDIDATES + candidate[here]), here)
        return given

    def _try(
        self, candidates: int, sample: Complete, given: Columns | None = None, remaining: Index | None = None
    ) -> Mask | None:
        """Sample candidates for each remaining row and keep the first that satisfies the condition.

        Return which of the remaining rows now satisfy it; None if there was none. `given` replaces their given cells.
        """
        remaining = np.flatnonzero(~self.satisfied) if remaining is None else remaining
        if not len(remaining):
            return None
        if candidates != N_PARTICLES:
            candidates = max(1, min(candidates, MAX_CANDIDATES // len(remaining)))
        given = take(self.given, remaining) if given is None else given
        draw = self.draw + self.rounds * DRAW_STRIDE
        rows_at_once = max(1, MAX_CANDIDATES // candidates)
        for start in range(0, len(remaining), rows_at_once):
            chunk = remaining[start : start + rows_at_once]
            repeated = np.repeat(np.arange(len(chunk)), candidates)
            # The noise of a candidate depends only on its row and its position among the candidates of the row.
            index = self.index[chunk][repeated] * candidates + np.tile(np.arange(candidates), len(chunk))
            rows = sample(take(given, start + repeated), index, draw=draw)
            satisfied = evaluate(self.predicate, rows)
            given_cells = take(self.given, chunk[repeated][satisfied])
            satisfied[satisfied] = self.sampler.is_possible(take(rows, satisfied), given_cells)
            satisfied = satisfied.reshape(len(chunk), candidates)
            first = np.arange(len(chunk)) * candidates + satisfied.argmax(axis=1)
            self.completed = scatter(self.completed, take(rows, first), chunk)
            self.satisfied[chunk] = satisfied.any(axis=1)
            self.sampled += len(repeated)
        self.rounds += 1
        return self.satisfied[remaining]
