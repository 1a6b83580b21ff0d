"""Relations of a trained model: which there are, which rows keep them, and rows that are made to keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harpoon._utils.rng import Stream
from harpoon.data import Columns, Floats, Index, Mask, n_rows, scatter, take
from harpoon.encoding import RowCodec
from harpoon.inference.sampling.batches import MIN_BATCH_ROWS
from harpoon.networks.heads.copy_head import COPY_CERTAIN_PROBABILITY
from harpoon.networks.one_step_prediction import FusedMaxNoiseModel
from harpoon.relations import (
    Exclusions,
    Formula,
    breaks_calendar,
    calendar_relations,
    close_sums,
    describe,
    describe_calendar_column,
    describe_dependency,
    fill_calendar_columns,
    follow_calendar,
    follow_relations,
    link_times,
    off_grid,
    project,
    solve,
    violates,
)
from harpoon.relations.projection import ROUNDING_STEPS

SampleAgain = Callable[[Columns, Index, int], tuple[Columns, Mask]]  # to rows, and where a value had to be clipped
MAX_RETRIES = 7  # of rows that contradict a relation


class StoredFormula(NamedTuple):
    """A relation in the units of the table."""

    formula: Formula
    fraction: float  # of the training rows in which it holds


@dataclass(frozen=True)
class FittedRelations:
    """The relations of a trained model, in the units of its table."""

    codec: RowCodec
    model: FusedMaxNoiseModel | None  # None: the network keeps no relations

    @property
    def exclusions(self) -> Exclusions | None:
        """The labels that exclude or determine each other; None if the network does not keep them."""
        return None if self.model is None else self.model.exclusions

    @cached_property
    def copied_formulas(self) -> Mapping[int, Formula]:
        """The formulas that numbers with a normal score may be copies of, by the index of their relation."""
        return {} if self.model is None else self.model.relations.formulas(self.codec.units)

    @cached_property
    def _stored_formulas(self) -> list[StoredFormula]:
        """All formulas: those of numeric columns with a normal score, then those of columns with few values."""
        if self.model is None:
            return []
        few_valued = self.model.few_valued_relations
        banks = (self.model.relations, self.copied_formulas), (few_valued, few_valued.formulas(self.codec.units))
        return [
            StoredFormula(formula, float(bank.fractions[relation]))
            for bank, formulas in banks
            for relation, formula in formulas.items()
        ]

    def _formulas(self, min_fraction: float) -> list[Formula]:
        """Return the formulas that hold in at least a fraction of the training rows."""
        return [each.formula for each in self._stored_formulas if each.fraction >= min_fraction]

    @cached_property
    def _exact_formulas(self) -> list[Formula]:
        """The formulas that all training rows keep exactly.

        A product is one if its column has a resolution and its factor is 1, or a label takes part. Others are rounded.
        """
        n_ranked, units = len(self.codec.numeric), self.codec.units
        return [
            formula
            for formula in self._formulas(1.0)
            if formula.factor is None
            or (formula.is_exact and units[formula.target].step)
            or max(formula.columns) >= n_ranked
        ]

    def describe(self) -> list[str]:
        """Return the relations as text.

        These are formulas with the fraction of rows in which they hold, calendar columns, and dependencies.
        """
        names, hidden = self.codec.quantity_names, self.codec.hidden_quantities
        formulas = [
            describe(each.formula, names, each.fraction)
            for each in self._stored_formulas
            if hidden.isdisjoint(each.formula.columns)
        ]
        pairs = [] if self.exclusions is None else self.exclusions.dependencies()
        parts = [
            describe_calendar_column(name, source, is_value=is_value)
            for name, source, is_value in calendar_relations(self.codec)
        ]
        return formulas + parts + [describe_dependency(*pair) for pair in pairs]

    def exact_sums(self) -> list[Formula]:
        """Return the sums that every sampled row keeps exactly."""
        return [formula for formula in self._exact_formulas if formula.factor is None]

    def exact_products(self) -> list[Formula]:
        """Return the plain products that every sampled row keeps up to rounding.

        Those of numbers with a resolution, none of them to another power than 1.
        """
        units = self.codec.units
        return [
            formula
            for formula in self._exact_formulas
            if formula.factor is not None and units[formula.target].step and set(formula.weights) == {1.0}
        ]

    @cached_property
    def columns(self) -> set[str]:
        """The columns that take part in a relation that all training rows keep."""
        used = {index for formula in self._exact_formulas for index in formula.columns}
        names = {self.codec.quantity_names[index] for index in used}
        of_calendar = {name for name, *_ in calendar_relations(self.codec)}
        if of_calendar or not names <= set(self.codec.schema.names):  # a timestamp, or the time between two
            names |= {column.name for column in self.codec.schema.modelled if column.kind.temporal}
        return (names | of_calendar) & set(self.codec.schema.names)

    def violated_by(self, rows: Columns) -> Mask:
        """Return which rows violate a relation that all training rows keep exactly, (n,)."""
        return violates(rows, self.codec, self._exact_formulas) | breaks_calendar(rows, self.codec)

    def unseen_times(self, rows: Columns) -> Mask:
        """Return which rows have a time between two timestamps beyond those of all training rows, (n,).

        The columns of a condition are sampled one by one, so that a start and its end may be years apart. A start that
        is rounded to the full hour may be after its end.
        """
        found = np.zeros(n_rows(rows), dtype=np.bool_)
        for each in self.codec.elapsed.values():
            cells, column = each.cells(rows), each.column
            is_outside = (cells.values < column.minimum) | (cells.values > column.maximum)
            found |= ~cells.missing & is_outside
        return found

    def name_violated(self, rows: Columns) -> set[str]:
        """Return the relations of all training rows that some rows violate, as text."""
        names = self.codec.quantity_names
        calendar = {"columns that repeat a part of a timestamp"} if breaks_calendar(rows, self.codec).any() else set()
        return calendar | {
            describe(formula, names, 1.0).partition(" (")[0]
            for formula in self._exact_formulas
            if violates(rows, self.codec, [formula]).any()
        }

    def solve(self, rows: Columns, min_fraction: float = COPY_CERTAIN_PROBABILITY) -> Columns:
        """Fill the unknown cells that relations determine, such as a total: exactly, and before all others."""
        return solve(fill_calendar_columns(rows, self.codec), self.codec, self._formulas(min_fraction))

    def link_times(self, rows: Columns, given: Columns, elapsed: Columns, settled: Columns | None = None) -> Columns:
        """Return point estimates in which unknown timestamps follow from others and the times between them.

        Args:
            rows: Estimates of all cells.
            given: The rows with unknown cells.
            elapsed: Estimates of the times between timestamps.
            settled: The timestamps that stay as they are are known there; None: those of `given`.
        """
        codec, known = self.codec, given if settled is None else settled
        values = {name: cells.values for name, cells in (rows | elapsed).items()}
        moved = link_times(
            values,
            {name: cells.unknown for name, cells in known.items()},
            {name: cells.is_null for name, cells in given.items()},
            codec,
            self._formulas(COPY_CERTAIN_PROBABILITY),
            to_column=lambda index, computed: codec.quantities[index].to_column_units(computed),
        )
        return rows | {name: replace(rows[name], values=time) for name, time in moved.items()}

    def link_expected_times(self, means: Mapping[str, Floats], given: Columns) -> dict[str, Floats]:
        """Return the expectations of timestamps, (n,), from those of all numbers and of the times between timestamps.

        Cells that are null have the expectations of values.
        """
        missing = {name: cells.missing for name, cells in given.items()}
        null = {name: np.zeros_like(mask) for name, mask in missing.items()}
        return link_times(means, missing, null, self.codec, self._formulas(COPY_CERTAIN_PROBABILITY))

    def resample(
        self, sample: SampleAgain, sampled: tuple[Columns, Mask], given: Columns, index: Index, draw: int
    ) -> Columns:
        """Return rows, of which those that contradict a relation of all training rows are sampled again.

        Such a row has a total outside of the range of its column, a number of items that is none of the few that
        occur, a computed time that its column never has, or a time between timestamps as in no training row. What is
        left in the end is projected; beside a given total at the end of its range, parts are changed so that the sums
        hold. `sample` returns rows, and in which of them a value had to be clipped.
        """
        (rows, clipped), formulas, codec = sampled, self._exact_formulas, self.codec
        for attempt in range(1, 1 + MAX_RETRIES):
            rows = follow_calendar(rows, given, codec, only_dates=True)
            rows = follow_relations(rows, given, codec, formulas, max_steps=ROUNDING_STEPS)
            is_wrong = clipped | self.violated_by(rows) | off_grid(rows, given, codec)
            failed = np.flatnonzero(is_wrong | (self.unseen_times(rows) & ~self.unseen_times(given)))
            if not len(failed):
                return rows
            padded = np.resize(failed, max(len(failed), MIN_BATCH_ROWS))
            new, again = sample(take(given, padded), index[padded], attempt * Stream.RETRIES + draw)
            rows, clipped = scatter(rows, take(new, slice(len(failed))), failed), np.zeros_like(clipped)
            clipped[failed] = again[: len(failed)]
        rows = follow_calendar(project(rows, given, codec, formulas), given, codec)
        failed = np.flatnonzero(violates(rows, codec, formulas))
        if not len(failed):
            return rows
        return scatter(rows, close_sums(take(rows, failed), take(given, failed), codec, formulas), failed)
