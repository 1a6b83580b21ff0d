"""Arrow types that a schema implies."""

from __future__ import annotations

import pyarrow as pa

from harpoon.data.arrow import storage_type
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import FrameTemplate
from harpoon.data.schema import Schema


def text_types(schema: Schema) -> dict[str, pa.DataType]:
    """Return the types of modelled columns that are read from text; the types of other columns are inferred."""
    types = {}
    for column in schema.modelled:
        if column.kind.spec.arrow_type is not None:
            dtype = column.kind.spec.arrow_type(column.unit, column.zoned)
            is_zoned = pa.types.is_timestamp(dtype) and dtype.tz is not None and column.zone
            types[column.name] = pa.timestamp(dtype.unit, column.zone) if is_zoned else dtype
        elif column.categories:
            types[column.name] = pa.array(column.categories).type
    return types


def imputed_schema(own: pa.Schema, model: Schema, template: FrameTemplate) -> pa.Schema:
    """Return the types of a table after imputation: its own, except those that are due to missing cells.

    They are fixed before the first row, because each block of a long table has other missing cells.
    """
    for index, field in enumerate(own):
        if field.name in model.names:
            trained = template.schema.field(field.name).type
            is_float = storage_type(field.type) == "float"
            if pa.types.is_null(field.type) or (is_float and _is_integer(model[field.name], trained)):
                own = own.set(index, field.with_type(trained))
    return own


def _is_integer(column: Column, trained: pa.DataType) -> bool:
    categories = column.categories or ()
    integers = bool(categories) and all(isinstance(category, int) for category in categories)
    is_integer = integers or column.kind in (Kind.INTEGER, Kind.BOOLEAN)
    return is_integer and storage_type(trained) in ("integer", "boolean")
