"""The types that a model, or a schema, expects of cells written as text."""

from __future__ import annotations

import pyarrow as pa

from harpoon.data.arrow import storage_type
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import FrameTemplate
from harpoon.data.schema import Schema


def text_types(schema: Schema) -> dict[str, pa.DataType]:
    """What the cells of modelled columns must be; the other columns may be what they like."""
    found = {column.name: _type(column) for column in schema.modelled}
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def imputed_schema(own: pa.Schema, model: Schema, like: FrameTemplate) -> pa.Schema:
    """The types of a table once its holes are filled: its own, but for those that are due to the holes.

    They are settled before the first row, because each part of a long table has other holes.
    """
    for place, f in enumerate(own):
        if f.name in model.names:
            trained = like.schema.field(f.name).type
            if pa.types.is_null(f.type) or (storage_type(f.type) == "float" and _is_whole(model[f.name], trained)):
                own = own.set(place, f.with_type(trained))
    return own


def _type(column: Column) -> pa.DataType | None:
    if column.kind in (Kind.DATETIME, Kind.DURATION):
        unit = column.unit or "us"
        return (
            pa.duration(unit) if column.kind is Kind.DURATION else pa.timestamp(unit, "UTC" if column.zoned else None)
        )
    plain = {Kind.NUMBER: pa.float64(), Kind.INTEGER: pa.int64(), Kind.BOOLEAN: pa.bool_(), Kind.DATE: pa.date32()}
    if column.kind in plain:
        return plain[column.kind]
    return pa.array(column.categories).type if column.categories else None


def _is_whole(column: Column, trained: pa.DataType) -> bool:
    labels = column.categories or ()
    whole = column.kind in (Kind.INTEGER, Kind.BOOLEAN) or (bool(labels) and all(isinstance(v, int) for v in labels))
    return whole and storage_type(trained) in ("integer", "boolean")
