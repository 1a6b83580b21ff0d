"""What is asked of rows: a condition, a loss, or both; and what to say when it cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from harpoon.conditions.bound import BoundPredicate
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import Predicate
from harpoon.data.column_array import Columns, Index, n_rows, repeat_row, scatter, take
from harpoon.data.schema import Schema
from harpoon.encoding.batch import Penalty
from harpoon.exceptions import InfeasibleCondition, InvalidOption
from harpoon.inference.completion import ConditionalCompletion, check_satisfiable
from harpoon.inference.conditional import PILOT_ROWS, ConditionalSampler
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.feasibility import explain
from harpoon.inference.row_sampler import RowSampler

SHORTFALLS = ("raise", "return")
Produce = Callable[..., Columns]


@dataclass(frozen=True)
class Query:
    """A condition, as it was asked and as it is bound to the table, and a penalty besides it."""

    tree: Predicate | None
    predicate: BoundPredicate
    schema: Schema
    loss: Penalty | None
    on_shortfall: str

    @property
    def text(self) -> str:
        """The condition in words."""
        return "" if self.tree is None else str(self.tree)

    def sample(self, drawer: RowSampler, rows: Columns, strategy: str) -> tuple[Columns, SamplingInfo]:
        """As many rows as there are, which all know the same, that meet the condition."""
        n = n_rows(rows)
        if not n:
            return dict(rows), SamplingInfo("none", 0, 0, None, 0.0, 0, 0, 0.0)
        base = take(rows, slice(0, 1))
        check_satisfiable(base, self.predicate, self.text)
        asked = ConditionalSampler(drawer, self.predicate, base, self.loss)
        found, report = asked.sample(n, strategy)
        if n_rows(found) < n and self.on_shortfall == "raise":
            raise InfeasibleCondition(self._shortfall(drawer, asked, n_rows(found), n))
        return found, report

    def completer(
        self,
        drawer: RowSampler,
        rows: Columns,
        row_offset: int = 0,
        on_info: Callable[[SamplingInfo], None] = lambda _: None,
    ) -> Produce:
        """Fills the holes of given rows so that each meets the condition, and tells what that took."""
        if self.on_shortfall == "return":
            raise InvalidOption('on_shortfall="return" is for n rows; given rows are all completed, or none are.')
        check_satisfiable(rows, self.predicate, self.text, row_offset)

        def produce(part: Columns, index: Index, *, draw: int = 0) -> Columns:
            found, met, report = ConditionalCompletion(drawer, part, index, self.predicate, self.loss, draw).sample()
            on_info(report)
            if not met.all():
                left = index[~met]
                raise InfeasibleCondition(
                    f"No way was found to complete {len(left)} rows so that {self.text} holds, in {report.sampled} "
                    f"tries; the first is row {int(left[0])} (counted from 0). Look whether its known cells leave any "
                    "room, leave it out, or ask for less."
                )
            return found

        return produce

    def correct(self, produce: Produce, complete: Produce) -> Produce:
        """Keeps what is produced where it meets the condition, and completes the other rows."""

        def corrected(part: Columns, index: Index) -> Columns:
            found = produce(part, index)
            left = np.flatnonzero(~evaluate(self.predicate, found))
            if not len(left):
                return found
            return scatter(found, complete(take(part, left), index[left]), left)

        return corrected

    def _shortfall(self, drawer: RowSampler, asked: ConditionalSampler, have: int, n: int) -> str:
        """What to say when there are too few rows."""
        plain = asked.pilot or drawer.sample(repeat_row(asked.base, PILOT_ROWS), np.arange(PILOT_ROWS))
        why = explain(self.tree, self.schema, plain) if self.tree is not None else []
        found = f"only {have} of {n} rows that meet it were found" if have else "no row that meets it was found"
        advice = 'Relax it, or take what there is with on_shortfall="return".' if have else "Relax it."
        return " ".join([f"The condition {self.text} cannot be met: {found} in {asked.tried} drawn.", *why, advice])


def sample_unconditional(drawer: RowSampler, rows: Columns, first_row: int = 0) -> tuple[Columns, SamplingInfo]:
    """Rows of which nothing is asked, numbered from `first_row` on."""
    began, n = perf_counter(), n_rows(rows)
    found = drawer.sample(rows, np.arange(first_row, first_row + n))
    return found, SamplingInfo("plain", n, n, None, 0.0, 1, drawer.evaluations, perf_counter() - began)
