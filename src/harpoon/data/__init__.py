"""Tables in memory: dataframes in and out, columns as NumPy arrays, the schema and the counts it is inferred from."""

from harpoon.data.coercion import coerce, coerce_observed, factorize, unknown_categories
from harpoon.data.column import KINDS, Column, Kind, KindSpec, as_category, describe, format_number, format_time
from harpoon.data.column_array import (
    NANOSECONDS,
    NO_INDEX,
    ColumnArray,
    Columns,
    Index,
    Storage,
    as_unknown,
    concat,
    fill_missing,
    missing_as_null,
    n_rows,
    null_as_unknown,
    repeat_row,
    scatter,
    take,
)
from harpoon.data.dataframe import FrameTemplate, Table
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.data.statistics import ColumnCounts, Floats, TableCounts, WeightedValues, count_columns, merge_counts

__all__ = [
    "KINDS",
    "NANOSECONDS",
    "NO_INDEX",
    "Column",
    "ColumnArray",
    "ColumnCounts",
    "Columns",
    "Floats",
    "FrameTemplate",
    "Index",
    "Kind",
    "KindSpec",
    "Schema",
    "Storage",
    "Table",
    "TableCounts",
    "WeightedValues",
    "as_category",
    "as_unknown",
    "coerce",
    "coerce_observed",
    "concat",
    "count_columns",
    "describe",
    "factorize",
    "fill_missing",
    "format_number",
    "format_time",
    "merge_counts",
    "missing_as_null",
    "n_rows",
    "null_as_unknown",
    "read_columns",
    "repeat_row",
    "scatter",
    "take",
    "unknown_categories",
]
