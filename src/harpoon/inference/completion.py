"""Given rows completed under a condition: every row keeps its cells, and its holes are filled so that it is met.

A row is drawn again and again, ever more often at once, until a candidate meets the condition: that is the law of its
holes, exactly. Rows that will not are pulled, a group of candidates for each, with the weights that keep the law right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_list
from harpoon._utils.rng import random_for
from harpoon.conditions.bound import BoundPredicate, negate
from harpoon.conditions.evaluate import evaluate
from harpoon.data.column_array import Columns, Index, n_rows, scatter, take
from harpoon.encoding.batch import Penalty
from harpoon.exceptions import InvalidCondition
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.guided import N_PARTICLES, GuidedSampler
from harpoon.inference.proposals import branch_proposals
from harpoon.inference.row_sampler import RowSampler

CANDIDATES = (1, 4, 16, 64, 256)  # of each row that is left, round after round
MAX_CANDIDATES = 2**16  # candidates in a round, unless there are more rows
MAX_GUIDED_ROUNDS = 4
POINT_PROBABILITY = 1e-3  # the share of a region of numbers that is as good as a point
DRAW_STRIDE = 2**20  # draws of one table are numbered so far apart from those of the next


def check_satisfiable(rows: Columns, bound: BoundPredicate, text: str, row_offset: int = 0) -> None:
    """Refuse a condition that the cells of a row already break."""
    if is_unsatisfiable(bound, rows):
        return  # the cells are not to blame
    broken = np.flatnonzero(evaluate(negate(bound), rows)) + row_offset
    if len(broken):
        rows_are = "row" if len(broken) == 1 else "rows"
        raise InvalidCondition(
            f"The condition {text} is broken by cells that are already there, in {rows_are} {format_list(broken.tolist())} "
            "(counted from 0). Empty those cells, leave those rows out, or ask for less."
        )


def is_unsatisfiable(bound: BoundPredicate, rows: Columns) -> bool:
    """Whether a condition is false whatever is in a row."""
    blank = {name: replace(cells[:1], missing=np.ones(len(cells[:1]), dtype=np.bool_)) for name, cells in rows.items()}
    return n_rows(blank) > 0 and bool(evaluate(negate(bound), blank).all())


def scatter_partial(rows: Columns, new: Columns, index: Index) -> Columns:
    """New cells, some of them still missing, laid over those of the rows at `index`."""
    laid = {}
    for name, cells in rows.items():
        values, missing = cells.values.astype(new[name].values.dtype).copy(), cells.missing.copy()
        values[index], missing[index] = new[name].values, new[name].missing
        laid[name] = replace(new[name], values=values, missing=missing)
    return laid


@dataclass
class ConditionalCompletion:
    """Rows on their way to being completed."""

    sampler: RowSampler
    rows: Columns
    index: Index
    predicate: BoundPredicate
    loss: Penalty | None = None
    draw: int = 0

    def sample(self) -> tuple[Columns, NDArray[np.bool_], SamplingInfo]:
        """Rows with every hole filled, which of them meet the condition, and what it took."""
        began, before = perf_counter(), self.sampler.evaluations
        self.found, self.met = dict(self.rows), np.zeros(len(self.index), dtype=np.bool_)
        self.tried = self.rounds = 0
        failed: float | None = None
        if self.loss is None:
            for candidates in CANDIDATES:
                self._try(candidates, self.sampler.sample)
                if candidates == 1:
                    self._fallback(max_probability=POINT_PROBABILITY)
        left = int((~self.met).sum())
        for attempt in range(MAX_GUIDED_ROUNDS):
            puller = GuidedSampler.from_sampler(self.sampler, self.predicate, self.loss)
            self._try(N_PARTICLES if puller.corrected else 1, partial(puller.sample, scale_factor=2.0**attempt))
            self.sampler.evaluations += puller.sampler.evaluations
            if attempt == 0 and left:
                failed = float((~self.met).sum()) / left
        self._fallback()
        spent = self.sampler.evaluations - before
        share = float((~self.met).mean()) if len(self.met) else 0.0
        seconds = perf_counter() - began
        report = SamplingInfo("completed", len(self.met), self.tried, failed, share, self.rounds, spent, seconds)
        return self.found, self.met, report

    def _fallback(self, *, max_probability: float = np.inf) -> None:
        """Rows that are left: their restricted numbers drawn first, without regard to what is known of the row.

        Of a single point (`rarer_than`) that is no loss: there is but one value to draw.
        """
        left = np.flatnonzero(~self.met)
        if not len(left) or self.loss is not None or not self.sampler.denoiser.is_conditional:
            return
        rows, random = self.rows, random_for(self.sampler.seed, 4, self.draw)
        open_cells = {name: cells.missing[left].any() for name, cells in rows.items()}
        base = {name: replace(cells[:1], missing=np.array([open_cells[name]])) for name, cells in rows.items()}
        for way in branch_proposals(self.sampler, self.predicate, base, ignore_given=True):
            if max_probability < np.inf and (
                way.restricted_number is None or way.restricted_number[1].probability >= max_probability
            ):
                continue
            self.rows = scatter_partial(rows, way.condition(take(rows, left), random)[0], left)
            self._try(16, self.sampler.sample)
            self.rows, left = rows, np.flatnonzero(~self.met)
            if not len(left):
                break

    def _try(self, candidates: int, draw: Callable[..., Columns]) -> None:
        """Some candidates for each row that is left, of which the first that meets the condition is taken."""
        left = np.flatnonzero(~self.met)
        if not len(left):
            return
        candidates = max(1, min(candidates, MAX_CANDIDATES // len(left))) if candidates != N_PARTICLES else N_PARTICLES
        number = self.draw + self.rounds * DRAW_STRIDE
        every = max(1, MAX_CANDIDATES // candidates)
        for some in np.split(left, np.arange(every, len(left), every)):
            again = np.repeat(some, candidates)
            # A candidate's noise depends on its row and on its place among the row's candidates alone.
            index = self.index[again] * candidates + np.tile(np.arange(candidates), len(some))
            rows = draw(take(self.rows, again), index, draw=number)
            met = evaluate(self.predicate, rows).reshape(len(some), candidates)
            first = np.arange(len(some)) * candidates + met.argmax(axis=1)
            self.found = scatter(self.found, take(rows, first), some)
            self.met[some] = met.any(axis=1)
            self.tried += len(again)
        self.rounds += 1
