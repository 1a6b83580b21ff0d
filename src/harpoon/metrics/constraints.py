"""Satisfaction of a condition by the rows of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions import Predicate, bind, evaluate, to_predicate
from harpoon.data import Schema, coerce_observed
from harpoon.metrics.arrays import read_tables


def satisfies(schema: Schema, rows: object, where: str | Predicate) -> NDArray[np.bool_]:
    """Return which rows of a table satisfy a condition, (n,).

    >>> import pyarrow as pa
    >>> rows = pa.table({"age": [31, 60, 75], "job": ["chef", "nurse", "chef"]})
    >>> satisfies(Schema.infer(rows), rows, "age >= 50 and job = 'chef'").tolist()
    [False, False, True]
    """
    (table,) = read_tables(schema, rows)
    columns = {column.name: coerce_observed(table.column(column.name), column) for column in schema.modelled}
    return np.broadcast_to(evaluate(bind(to_predicate(where, schema.names), schema), columns), table.n_rows)


def violation_rate(schema: Schema, rows: object, where: str | Predicate) -> float:
    """Return the fraction of rows that do not satisfy a condition.

    >>> import pyarrow as pa
    >>> rows = pa.table({"age": [31, 60, 75, 80]})
    >>> violation_rate(Schema.infer(rows), rows, "age >= 50")
    0.25
    """
    return float(1.0 - satisfies(schema, rows, where).mean())
