"""The metadata of an Arrow schema in which dataframe libraries write what Arrow does not know: dtypes, labels, notes.

A model keeps only what is needed to build the dtypes again, see `model_field` and `pandas_dtypes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

JSON_FIELD = {b"harpoon": b"json"}  # metadata of a column of JSON texts
ARROW_DECIMAL = {b"pandas_dtype": b"decimal[pyarrow]"}  # of a field, as pandas stores such a decimal as an object
POLARS_ENUM, POLARS_CATEGORIES = b"_PL_ENUM_VALUES", b"_PL_CATEGORICAL"  # with these begin its metadata of a field
PANDAS_WRITER = ("creator", "pandas_version")
PANDAS_COLUMN = ("name", "field_name", "pandas_type", "numpy_type")
PANDAS_TYPE = ("timezone", "precision", "scale", "ordered", "encoding")  # what else belongs to the dtype of a column


def plain_field(field: pa.Field) -> pa.Field:
    """Return a field without metadata, also of the fields inside its type: those of polars list the labels of Enums."""
    return field.with_type(_plain_type(field.type)).remove_metadata()


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([plain_field(dtype.field(i)) for i in range(dtype.num_fields)])
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(plain_field(dtype.value_field), dtype.list_size)
    for is_list, make in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_list(dtype):
            return make(plain_field(dtype.value_field))
    return pa.null() if pa.types.is_nested(dtype) else dtype  # no other nested type is ever built again


def is_enum(f: pa.Field) -> bool:
    """Return whether a field is an Enum of polars."""
    return any(key.startswith(POLARS_ENUM) for key in f.metadata or ())


def model_field(f: pa.Field, *, is_labelled: bool) -> pa.Field:
    """Return a field with the metadata that its dtype needs: the mark of a decimal or of JSON, a name of categories."""
    found = dict(f.metadata or {})
    needed = {key: value for key, value in found.items() if is_labelled and key.startswith(POLARS_CATEGORIES)}
    for mark in (ARROW_DECIMAL, JSON_FIELD):
        if mark.items() <= found.items():
            needed |= mark
    return plain_field(f).with_metadata(needed)


def pandas_dtypes(schema: pa.Schema) -> dict[bytes, bytes] | None:
    """Return the pandas metadata of a schema, with only the names and dtypes of its columns; None if there are none."""
    try:
        pandas = schema.pandas_metadata or {}
        found = {
            "index_columns": [name for name in pandas["index_columns"] if name in schema.names],
            "column_indexes": [_pandas_dtype(level) for level in pandas["column_indexes"]],
            "columns": [_pandas_dtype(c) for c in pandas["columns"] if c.get("field_name", c["name"]) in schema.names],
        }
    except (ValueError, LookupError, TypeError, AttributeError):  # metadata that pandas did not write
        return None
    writer = {name: pandas[name] for name in PANDAS_WRITER if name in pandas}
    return {b"pandas": json.dumps(found | writer).encode()}


def index_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a schema that are the index of a pandas table, as its metadata say.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1, 2]}, index=[5, 3])
    >>> index_columns(pa.Schema.from_pandas(frame)), index_columns(pa.Schema.from_pandas(frame.reset_index(drop=True)))
    (['__index_level_0__'], [])
    """
    try:
        found = (schema.pandas_metadata or {}).get("index_columns", [])
        return [name for name in found if isinstance(name, str) and name in schema.names]
    except (ValueError, TypeError, AttributeError):  # metadata that pandas did not write
        return []


def _pandas_dtype(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pandas metadata of a column without what is no part of its dtype, such as the number of labels."""
    more = {name: value for name, value in (column.get("metadata") or {}).items() if name in PANDAS_TYPE}
    return {name: column[name] for name in PANDAS_COLUMN if name in column} | {"metadata": more or None}


def pandas_metadata_of(name: str, schema: pa.Schema) -> dict[bytes, bytes]:
    """Return the pandas metadata of one column."""
    pandas = schema.pandas_metadata or {}
    own = [column for column in pandas.get("columns", []) if column["name"] == name]
    return {b"pandas": json.dumps({**pandas, "columns": own, "index_columns": []}).encode()}
