"""The Python half of the R package: tables as plain lists in, draws of missing cells as plain lists out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from harpoon import Harpoon, InvalidOption, Schema

TYPES = {"number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "category": pa.string()}


def fit(columns: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any], seed: int) -> Harpoon:
    """Fit a model; the kinds of columns with more than one value are those of R."""
    if options.get("privacy") is not None:
        raise InvalidOption(
            "privacy needs a schema that was written without a look at the rows, and here it is read off the data "
            "frame. Train in Python with Harpoon(privacy=..., schema=...), or leave privacy out."
        )
    table = to_table(columns)
    kinds = {name: column["kind"] for name, column in columns.items() if len(table[name].drop_null().unique()) > 1}
    schema = Schema.infer(table, kinds=kinds)
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in options.items()
    }
    return Harpoon(schema=schema, random_state=int(seed), progress=False, **whole).fit(table)


def draw(
    model: Harpoon, columns: Mapping[str, Mapping[str, Any]], names: Sequence[str], seed: int
) -> dict[str, list[Any]]:
    """Draw the missing cells of some columns, in the order of the rows."""
    table = to_table(columns)
    drawn = model.impute(table, draws=1, random_state=int(seed)).tables[0]
    found = {name: drawn[name].filter(table[name].is_null()).to_pylist() for name in names}
    if empty := [name for name, values in found.items() if None in values]:
        raise ValueError(f"Column {empty[0]!r} cannot be imputed: it has no values, or is not modelled.")
    return found


def to_table(columns: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """Return the columns of an R data frame as a table."""
    return pa.table({name: _to_array(column) for name, column in columns.items()})


def _to_array(column: Mapping[str, Any]) -> pa.Array:
    cells = zip(column["values"], column["missing"], strict=True)
    return pa.array([None if missing else value for value, missing in cells], TYPES[column["kind"]])
