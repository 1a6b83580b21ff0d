"""A query: the condition, the loss, or both, that rows are asked to meet."""

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
from harpoon.inference.strategies import sample_conditional

ON_SHORTFALL = ("raise", "return")
Complete = Callable[..., Columns]  # (rows, index, draw=) to rows without missing cells


@dataclass(frozen=True)
class Query:
    """A condition and a loss, bound to a schema.

    Attributes:
        tree: The condition as it was given; None: only a loss.
        predicate: The condition bound to the schema.
        schema: The schema.
        loss: A penalty besides the condition.
        on_shortfall: What to do if too few rows are found: "raise" or "return" them.
    """

    tree: Predicate | None
    predicate: BoundPredicate
    schema: Schema
    loss: Penalty | None
    on_shortfall: str

    @property
    def text(self) -> str:
        """The condition as text."""
        return "" if self.tree is None else str(self.tree)

    def sample(self, sampler: RowSampler, rows: Columns, strategy: str) -> tuple[Columns, SamplingInfo]:
        """Sample rows that satisfy the condition, as many as `rows`, which all have the same given cells."""
        n = n_rows(rows)
        if not n:
            return dict(rows), SamplingInfo("none", 0, 0, None, 0.0, 0, 0, 0.0)
        base = take(rows, slice(0, 1))
        check_satisfiable(base, self.predicate, self.text)
        conditional = ConditionalSampler(sampler, self.predicate, base, self.loss)
        found, info = sample_conditional(conditional, n, strategy)
        if n_rows(found) < n and self.on_shortfall == "raise":
            raise self._shortfall(conditional, n_rows(found), n)
        return found, info

    def completer(
        self,
        sampler: RowSampler,
        rows: Columns,
        row_offset: int = 0,
        on_info: Callable[[SamplingInfo], None] = lambda _: None,
    ) -> Complete:
        """Return a function that completes partial rows so that each satisfies the condition."""
        if self.on_shortfall == "return":
            raise InvalidOption(
                'on_shortfall="return" is for n rows; given rows are all completed, or none are.',
                code="shortfall_of_given_rows",
            )
        check_satisfiable(rows, self.predicate, self.text, row_offset)

        def complete(part: Columns, index: Index, *, draw: int = 0) -> Columns:
            completion = ConditionalCompletion(sampler, part, index, self.predicate, self.loss, draw)
            completed, satisfied, info = completion.sample()
            on_info(info)
            if not satisfied.all():
                failed = index[~satisfied]
                raise InfeasibleCondition(
                    f"{len(failed)} rows could not be completed so that {self.text} holds, in {info.sampled} attempts; "
                    f"the first is row {int(failed[0])} (counted from 0). Check whether its observed cells leave any "
                    "value, leave the row out, or relax the condition."
                )
            return completed

        return complete

    def correct(self, impute: Complete, complete: Complete) -> Complete:
        """Return a function that imputes rows, and completes those that violate the condition again."""

        def corrected(part: Columns, index: Index) -> Columns:
            imputed = impute(part, index)
            violated = np.flatnonzero(~evaluate(self.predicate, imputed))
            if not len(violated):
                return imputed
            return scatter(imputed, complete(take(part, violated), index[violated]), violated)

        return corrected

    def _shortfall(self, conditional: ConditionalSampler, have: int, n: int) -> InfeasibleCondition:
        """Return the error for too few rows."""
        rows = conditional.pilot
        if rows is None:
            rows = conditional.sampler.sample(repeat_row(conditional.base, PILOT_ROWS), np.arange(PILOT_ROWS))
        why = explain(self.tree, self.schema, rows) if self.tree is not None else []
        found = f"only {have} of {n} rows that satisfy it were found" if have else "no row that satisfies it was found"
        sampled = f"in {conditional.sampled} sampled rows"
        problem = " ".join([f"The condition {self.text} cannot be met: {found} {sampled}.", *why])
        if not have:
            return InfeasibleCondition(f"{problem} Relax it.")
        advice = 'Relax it, or take these rows with on_shortfall="return".'
        return InfeasibleCondition(f"{problem} {advice}", code="too_few_rows_found", problem=problem)


def sample_unconditional(sampler: RowSampler, rows: Columns, row_offset: int = 0) -> tuple[Columns, SamplingInfo]:
    """Sample the missing cells of rows without a condition; the rows are numbered from `row_offset` on."""
    started, n = perf_counter(), n_rows(rows)
    found = sampler.sample(rows, np.arange(row_offset, row_offset + n))
    info = SamplingInfo("unconditional", n, n, None, 0.0, 1, sampler.evaluations, perf_counter() - started)
    return found, info
