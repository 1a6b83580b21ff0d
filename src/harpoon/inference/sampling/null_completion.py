"""Values for null cells of sampled rows, so that a row is the same with and without its nulls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream
from harpoon.data import Columns, Index, n_rows, null_as_unknown, scatter, take
from harpoon.inference.sampling.fitted_relations import FittedRelations

MAX_COMPLETIONS = 3  # of rows that contradict a relation


@dataclass(frozen=True)
class NullCompletion:
    """Completes rows with null cells.

    Args:
        relations: What values have to keep.
        fill: Samples values for all unknown cells of rows with these numbers, in a draw.
        structural_nulls: Returns which unknown cells of rows cannot have a value, by column.
    """

    relations: FittedRelations
    fill: Callable[[Columns, Index, int], Columns]
    structural_nulls: Callable[[Columns], Mapping[str, NDArray[np.bool_]]]

    def with_possible_values(
        self, rows: Columns, given: Columns, index: Index, draw: int, *, complete: bool, attempts: int
    ) -> Columns:
        """Return rows whose nulls could have values that keep the relations; if `complete`, with these values.

        A part that is null leaves its total a value that the part can have. Rows in which it does not are sampled
        again with the same nulls, so that rows are the same with and without their nulls. A cell that cannot have a
        value, which is structurally missing, has to keep no relation.
        """
        related = self.relations.columns
        filled = self._fill_nulls(rows, index, set(rows) if complete else related, draw)
        for attempt in range(1, 1 + attempts):
            failed = np.flatnonzero(self.relations.violated_by(self._without_structural(filled, rows)))
            if not len(failed):
                break
            # In the end, the columns of relations have no nulls: without them, relations can always be kept.
            kept = set(rows) - related if attempt == attempts else set(rows)
            part, nulls, number = take(given, failed), take(rows, failed), attempt * Stream.COMPLETIONS + draw
            pattern = {name: part[name].with_null(part[name].unknown & nulls[name].is_null) for name in kept}
            new = self.fill(part | pattern, index[failed], number)
            rows = scatter(rows, new, failed)
            filled = scatter(filled, self._fill_nulls(new, index[failed], set(rows), number), failed)
        return filled if complete else rows

    def _without_structural(self, filled: Columns, rows: Columns) -> Columns:
        """Return filled rows in which cells that cannot have a value are null again."""
        structural = self.structural_nulls(null_as_unknown(rows))
        return filled | {name: filled[name].with_null(mask & rows[name].is_null) for name, mask in structural.items()}

    def _fill_nulls(self, rows: Columns, index: Index, columns: Collection[str], draw: int) -> Columns:
        """Fill all nulls of the rows that have one in some columns, given the rest of their row."""
        has_null = np.zeros(n_rows(rows), dtype=np.bool_)
        for name in columns:
            has_null |= rows[name].is_null
        null = np.flatnonzero(has_null)
        return scatter(rows, self.fill(null_as_unknown(take(rows, null)), index[null], Stream.FILL + draw), null)
