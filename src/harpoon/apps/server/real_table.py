"""The real rows of the service, which may be read while it answers already.

A large table takes long to read. Studio is shown at once, says that the table is being read, and compares with its rows
as soon as they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Thread
from typing import Any

import numpy as np

from harpoon.conditions import BoundPredicate, evaluate
from harpoon.data import Columns, Floats, Schema, Table, dataframe, read_columns
from harpoon.data.schema import check_columns
from harpoon.data.survey_weights import read_known_weights
from harpoon.exceptions import InvalidTable


class RealTable:
    """Real rows, to compare with."""

    def __init__(self, schema: Schema, read: Callable[[], Any], on_error: Callable[[], None] = lambda: None) -> None:
        self.schema = schema
        self.table: Table | None = None  # None: it is not read yet
        self.weights: Floats | None = None  # of its rows, (n,), if the model has weights and the table their column
        self.error: Exception | None = None  # why it cannot be read
        self._read, self._on_error = read, on_error

    @property
    def is_reading(self) -> bool:
        """Whether its rows are still to come."""
        return self.table is None and self.error is None

    def read(self) -> None:
        """Read the table, or raise InvalidTable."""
        table = dataframe.read(self._read())
        check_columns(table.names, self.schema.names, weights=self.schema.weights)
        if not table.n_rows:
            raise InvalidTable("`data` must have rows, got none.")
        self.weights = read_known_weights(table, self.schema)
        self.table = table

    def read_in_background(self) -> None:
        """Read the table in a thread; an error is kept, and `on_error` is called."""

        def run() -> None:
            try:
                self.read()
            except Exception as error:  # noqa: BLE001  # raised again in the main thread
                self.error = error
                self._on_error()

        Thread(target=run, name="real-table", daemon=True).start()

    @cached_property
    def columns(self) -> Columns:
        """Its cells, once they are read."""
        assert self.table is not None  # noqa: S101
        return read_columns(self.table, self.schema, partial=True)

    def satisfying(self, predicate: BoundPredicate) -> Table | None:
        """Return the rows that satisfy a condition; None if the table is not read yet."""
        return None if self.table is None else self.table.take(np.flatnonzero(evaluate(predicate, self.columns)))
