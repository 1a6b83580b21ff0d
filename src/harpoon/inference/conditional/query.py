"""A query: a condition, a loss or both, bound to a schema, and the errors if too few rows satisfy it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from harpoon._formatting import format_list
from harpoon.conditions import BoundPredicate, Predicate, assume_complete, bind, column_names, evaluate, to_predicate
from harpoon.conditions.binding.bound import Constant, all_of, complement
from harpoon.conditions.evaluation.penalty import LossFunction, batch_penalty, row_penalty
from harpoon.conditions.language.expressions import conjunction
from harpoon.data import Columns, Index, Schema, Table, n_rows, scatter, take
from harpoon.diffusion import sum_penalties
from harpoon.encoding import Penalty, RowCodec
from harpoon.exceptions import InfeasibleCondition, InvalidCondition, InvalidOption
from harpoon.inference.conditional.completion import ConditionalCompletion
from harpoon.inference.conditional.conditional_sampler import PILOT_ROWS, ConditionalSampler, is_unsatisfiable
from harpoon.inference.conditional.feasibility import explain
from harpoon.inference.conditional.model_contradiction import find_contradiction
from harpoon.inference.conditional.rule_enforcement import (
    complete_under_rules,
    correct_broken,
    sample_obeying,
    warn_broken,
)
from harpoon.inference.conditional.strategies import check_strategy, sample_conditional
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.option_checks import without_effect
from harpoon.inference.sampling.row_sampler import Complete, RowSampler
from harpoon.rules.rule_set import BoundRules

ON_SHORTFALL = ("raise", "return")


@dataclass(frozen=True)
class Query:
    """A condition, a loss and the rules of the model, bound to a schema."""

    tree: Predicate | None  # the condition as it was given, and the rules; None: only a loss
    predicate: BoundPredicate  # the condition and the rules
    schema: Schema
    loss: Penalty | None
    on_shortfall: str  # what to do if too few rows are found: "raise" or "return" them
    nullable: Collection[str]  # columns that may have missing cells
    asked: Predicate | None  # the condition without the rules
    required: BoundPredicate
    rules: BoundRules | None = None

    @classmethod
    def create(
        cls,
        codec: RowCodec,
        where: object,
        *,
        loss: LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        strategy: str = "auto",
        on_shortfall: str = "raise",
        nullable: Collection[str] = (),
        rules: BoundRules | None = None,
        has_targets: bool = False,
    ) -> Query | None:
        """Bind a condition and a loss to a codec and its schema; return None if there is neither, and no rule.

        The columns in `nullable` may have missing cells. If the rows `has_targets`, too few may meet those.
        """
        rules = rules or None
        check_strategy(strategy)
        if on_shortfall not in ON_SHORTFALL:
            raise InvalidOption.one_of("on_shortfall", on_shortfall, ON_SHORTFALL)
        penalties = [row_penalty(loss, codec)] if loss is not None else []
        penalties += [batch_penalty(loss_batch, codec)] if loss_batch is not None else []
        if where is None and not penalties and rules is None:
            if strategy != "auto" or (on_shortfall != "raise" and not has_targets):
                name = "strategy" if strategy != "auto" else "on_shortfall"
                raise without_effect([name], "it needs where or loss", code="needs_condition")
            return None
        tree = None if where is None else to_predicate(where, codec.schema.names)
        required = Constant(truth=True) if tree is None else assume_complete(bind(tree, codec.schema), nullable)
        penalty = sum_penalties(penalties) if penalties else None
        if rules is None:
            return cls(tree, required, codec.schema, penalty, on_shortfall, nullable, tree, required)
        predicate = all_of((required, *rules.accepted(nullable)))
        everything = conjunction(part for part in (tree, rules.condition(nullable)) if part is not None)
        return cls(everything, predicate, codec.schema, penalty, on_shortfall, nullable, tree, required, rules)

    @property
    def text(self) -> str:
        """The condition as text; if there is none, the rules."""
        tree = self.tree if self.asked is None else self.asked
        return "" if tree is None else str(tree)

    def sample(self, sampler: RowSampler, rows: Columns, strategy: str) -> tuple[Columns, SamplingInfo]:
        """Sample rows that satisfy the condition, as many as `rows`, which all have the same given cells."""
        n, row = n_rows(rows), take(rows, slice(0, 1))
        conditional = ConditionalSampler(sampler, self.predicate, row, self.loss)
        if why := self._contradiction(sampler, row):
            if self.on_shortfall == "raise":
                raise self._inconsistent(why)
            return conditional.no_rows(), conditional.info(strategy, np.zeros(0, dtype=np.bool_))
        self._check_satisfiable(self.predicate, row)
        found, info = sample_conditional(conditional, n, strategy)
        if n_rows(found) < n and self.on_shortfall == "raise":
            raise self._shortfall(conditional, n_rows(found), n)
        return found, info

    def sample_by_rules(
        self, sampler: RowSampler, rows: Columns, row_offset: int
    ) -> tuple[Columns, SamplingInfo] | None:
        """Sample rows under rules that most rows obey anyway; None if there is a condition, or they do not."""
        if self.asked is not None or self.loss is not None:
            return None
        row = take(rows, slice(0, 1))
        if why := self._contradiction(sampler, row):
            raise self._inconsistent(why)
        self._check_satisfiable(self.predicate, row)
        return sample_obeying(sampler, self.predicate, rows, row_offset)

    def completer(
        self, sampler: RowSampler, rows: Columns, row_offset: int, on_info: Callable[[SamplingInfo], None]
    ) -> Complete:
        """Return a function that completes partial rows so that each satisfies the condition."""
        if self.on_shortfall == "return":
            raise InvalidOption(
                'on_shortfall="return" is for n rows; given rows are all completed, or none are.',
                code="shortfall_of_given_rows",
            )
        if why := self._contradiction(sampler, rows):
            raise self._inconsistent(why)
        self._check_satisfiable(self.required, rows, row_offset)
        if self.rules is not None and self.loss is None:
            warn_broken(self.rules, rows, row_offset)
            under_rules = complete_under_rules(sampler, self.rules, self.required, self.nullable, on_info)

            def complete_obeying(part: Columns, index: Index, *, draw: int = 0) -> Columns:
                completed, satisfied = under_rules(part, index, draw=draw)
                self._check_completed(index[~satisfied])
                return completed

            return complete_obeying

        def complete(part: Columns, index: Index, *, draw: int = 0) -> Columns:
            completion = ConditionalCompletion(sampler, self.predicate, part, self.loss, index=index, draw=draw)
            completed, satisfied, info = completion.sample()
            on_info(info)
            self._check_completed(index[~satisfied], f", in {info.sampled} attempts")
            return completed

        return complete

    def _check_completed(self, failed: Index, attempts: str = "") -> None:
        """Raise InfeasibleCondition if there are rows for which no completion was found, by their numbers."""
        if len(failed):
            raise InfeasibleCondition(
                f"{len(failed)} rows could not be completed so that {self.text} holds{attempts}; the first is row "
                f"{int(failed[0])} (counted from 0). Check whether its observed cells leave any value, leave the row "
                "out, or relax the condition."
            )

    def correct(self, impute: Complete, complete: Complete) -> Complete:
        """Return a function that imputes rows, and completes those that violate the condition again."""
        if self.rules is not None:
            return correct_broken(impute, complete, self.rules, self.required, self.nullable)

        def corrected(part: Columns, index: Index) -> Columns:
            imputed = impute(part, index)
            violated = np.flatnonzero(~evaluate(self.predicate, imputed))
            if not len(violated):
                return imputed
            return scatter(imputed, complete(take(part, violated), index[violated]), violated)

        return corrected

    def check_constants(self, table: Table) -> None:
        """Raise InvalidCondition if the condition reads a constant column that has other values in a table."""
        named = set() if self.tree is None else column_names(self.tree)
        for name, constant in self.schema.constants.items():
            if name not in named or name not in table.names:
                continue
            cells = table.column(name)
            values = np.unique(cells.observed).tolist()
            here = {cells.categories[value] if cells.categories else value for value in values}
            if here - {constant}:
                raise InvalidCondition(
                    f"A condition on column {name!r} can only use {constant!r}, its only value in training, but the "
                    f"table has {format_list(sorted(here, key=str))}. Leave the column out of it."
                )

    def _check_satisfiable(self, predicate: BoundPredicate, rows: Columns, row_offset: int = 0) -> None:
        """Raise InvalidCondition if the observed cells of a row already violate the condition."""
        if is_unsatisfiable(predicate, rows):
            return  # the observed cells are not to blame
        nullable = [name for name, cells in rows.items() if cells.null is not None]
        violated = np.flatnonzero(evaluate(complement(predicate, nullable), rows, partial=True)) + row_offset
        if len(violated):
            rows_are = "row" if len(violated) == 1 else "rows"
            raise InvalidCondition(
                f"The condition {self.text} is violated by observed cells, in {rows_are} "
                f"{format_list(violated.tolist())} (counted from 0). Empty those cells, leave those rows out, or relax "
                "the condition."
            )

    def _contradiction(self, sampler: RowSampler, rows: Columns) -> str:
        """Return why no row beside the given cells can satisfy the condition; "" if some may."""
        return "" if self.tree is None else find_contradiction(self.tree, sampler, rows, self.nullable)

    def _inconsistent(self, why: str) -> InfeasibleCondition:
        """Return the error for a condition that no row can satisfy."""
        prefix = f"{self.text} is never true, "  # it would repeat the condition
        why = f", {why.removeprefix(prefix)}" if why.startswith(prefix) else f": {why}"
        return InfeasibleCondition(f"The condition {self.text} cannot be met{why}. Relax it.")

    def _shortfall(self, conditional: ConditionalSampler, have: int, n: int) -> InfeasibleCondition:
        """Return the error for too few rows."""
        rows = conditional.pilot or conditional.unconditional(0, PILOT_ROWS)
        why = explain(self.tree, self.schema, rows) if self.tree is not None else []
        found = f"only {have} of {n} rows that satisfy it were found" if have else "no row that satisfies it was found"
        sampled = f"in {conditional.sampled} sampled rows"
        if not have and (broken := sorted(conditional.broken_relations)):
            why = [f"Rows that satisfy it break a relation of all training rows: {format_list(broken)}."]
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
