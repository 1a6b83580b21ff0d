"""Rows judged by a condition that they should meet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions.binder import bind
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import Predicate
from harpoon.conditions.parser import to_predicate
from harpoon.data.coercion import coerce
from harpoon.data.schema import Schema
from harpoon.metrics.arrays import read_tables


def satisfies(schema: Schema, rows: object, where: str | Predicate) -> NDArray[np.bool_]:
    """Which rows of a table meet a condition.

    >>> import pyarrow as pa
    >>> rows = pa.table({"age": [31, 60, 75], "job": ["chef", "nurse", "chef"]})
    >>> meets(Schema.infer(rows), rows, "age >= 50 and job = 'chef'").tolist()
    [False, False, True]
    """
    (table,) = read_tables(schema, rows)
    cells = {column.name: coerce(table.column(column.name), column) for column in schema.modelled}
    return np.broadcast_to(evaluate(bind(to_predicate(where), schema), cells), table.n_rows)


def violation_rate(schema: Schema, rows: object, where: str | Predicate) -> float:
    """The share of rows that do not meet a condition.

    >>> import pyarrow as pa
    >>> rows = pa.table({"age": [31, 60, 75, 80]})
    >>> violation_rate(Schema.infer(rows), rows, "age >= 50")
    0.25
    """
    return float(1.0 - satisfies(schema, rows, where).mean())
