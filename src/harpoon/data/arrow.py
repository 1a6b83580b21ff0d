"""Arrow arrays to column arrays, and back."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harpoon.data.column_array import ColumnArray, Mask, Storage

MAX_DIGITS = 38  # of a decimal of 128 bits


def storage_type(dtype: pa.DataType) -> Storage:
    """Return the storage of an Arrow type."""
    tests: Sequence[tuple[Storage, Any]] = (
        ("null", lambda t: pa.types.is_null(t.value_type if pa.types.is_dictionary(t) else t)),
        ("boolean", pa.types.is_boolean),
        ("integer", pa.types.is_integer),
        ("float", lambda t: pa.types.is_floating(t) or pa.types.is_decimal(t)),
        ("date", pa.types.is_date),
        ("datetime", pa.types.is_timestamp),
        ("duration", pa.types.is_duration),
        ("text", lambda t: t in (pa.string(), pa.large_string(), pa.string_view())),
        ("category", lambda t: pa.types.is_dictionary(t) and storage_type(t.value_type) in ("text", "integer")),
    )
    return next((storage for storage, test in tests if test(dtype)), "other")


def opaque(height: int, storage: Storage = "other") -> ColumnArray:
    """Return cells whose values are not read."""
    return ColumnArray(storage, np.zeros(height, dtype=np.int64), np.full(height, storage == "null"))


def from_arrow(column: pa.ChunkedArray) -> ColumnArray:
    """Convert an Arrow column; null and NaN are both missing."""
    storage = storage_type(column.type)
    if storage == "other" and column.null_count == len(column):
        storage = "null"  # without a value, any type is possible
    if storage in ("null", "other"):
        return opaque(len(column), storage)
    if storage == "float":
        column = column.cast(pa.float64())
    missing = np.asarray(pc.is_null(column, nan_is_null=True))
    if storage in ("text", "category"):
        return _from_dictionary(column, storage, missing)
    if storage == "float":
        return ColumnArray(storage, np.where(missing, 0.0, np.asarray(column.fill_null(0.0))), missing)
    categories = (False, True) if storage == "boolean" else ()
    unit, zone = getattr(column.type, "unit", ""), getattr(column.type, "tz", None)
    if storage == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    try:
        values = np.asarray(column.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid:  # an unsigned integer beyond 2**63
        return ColumnArray("float", np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0)), missing)
    return ColumnArray(storage, values, missing, categories, unit=unit, zoned=zone is not None, zone=zone or "")


def _from_dictionary(column: pa.ChunkedArray, storage: Storage, missing: Mask) -> ColumnArray:
    ordered = bool(storage == "category" and column.type.ordered)
    chunks = (column.unify_dictionaries() if storage == "category" else column.dictionary_encode()).chunks
    categories = tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    codes = [np.asarray(chunk.indices.cast(pa.int64()).fill_null(0)) for chunk in chunks]
    values = np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64)
    return ColumnArray(storage, values, missing, categories=categories, ordered=ordered)


def resolve_null_type(field: pa.Field, cells: ColumnArray) -> pa.Field:
    """Return the field; one of type null, because every cell was missing, gets the type of the cells."""
    return field if not pa.types.is_null(field.type) else field.with_type(_natural_type(cells))


def _natural_type(cells: ColumnArray) -> pa.DataType:
    if cells.storage in ("datetime", "duration"):
        return (pa.timestamp if cells.storage == "datetime" else pa.duration)(cells.unit)
    types = {"float": pa.float64(), "integer": pa.int64(), "date": pa.date32(), "null": pa.null()}
    return types[cells.storage] if cells.storage in types else pa.array(cells.categories).type


def to_arrow(cells: ColumnArray, dtype: pa.DataType) -> pa.Array:
    """Convert cells to an Arrow array of the given type, or of a wider one if the values need it."""
    if pa.types.is_dictionary(dtype) or cells.storage in ("boolean", "text", "category"):
        codes = pa.array(cells.values.astype(np.int64), mask=cells.missing)
        if not pa.types.is_dictionary(dtype):
            return pa.array(cells.categories).take(codes).cast(dtype)
        return _dictionary_array(codes, pa.array(cells.categories).cast(dtype.value_type), dtype)
    if cells.storage == "null":
        return pa.nulls(len(cells), dtype)
    values = cells.values.astype(np.int32) if cells.storage == "date" else cells.values
    array = pa.array(values, mask=cells.missing).cast(_natural_type(cells))
    try:
        if pa.types.is_decimal(dtype):
            return _to_decimals(array, dtype)
        if pa.types.is_integer(dtype) and cells.storage == "float":
            array = pa.array(_to_integers(cells.values, dtype.to_pandas_dtype()), mask=cells.missing)
        return array.cast(dtype, safe=cells.storage == "integer")
    except (pa.ArrowInvalid, InvalidOperation):
        return array  # an edited range exceeds the dtype: keep the values in the wider type


def _to_integers(values: NDArray[Any], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Round floats to integers of a type; a float that is its maximum only by rounding stays below it."""
    low, high = (float(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    rounded = np.rint(values)
    if len(rounded) and (rounded.min() < low or rounded.max() > high):
        raise pa.ArrowInvalid("outside the range of the type")
    largest = high if int(high) <= np.iinfo(dtype).max else np.nextafter(high, 0)
    clipped: NDArray[Any] = np.minimum(rounded, largest)
    return clipped.astype(dtype)


def _to_decimals(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    step = Decimal(1).scaleb(-dtype.scale)
    values = [None if v is None else Decimal(repr(v)).quantize(step) for v in array.to_pylist()]
    try:
        return pa.array(values, type=dtype)
    except pa.ArrowInvalid:  # more digits than the observed decimals have, which stay decimals
        return pa.array(values, type=pa.decimal128(MAX_DIGITS, dtype.scale))


def _dictionary_array(codes: pa.Array, categories: pa.Array, dtype: pa.DataType) -> pa.Array:
    fits = len(categories) <= 2 ** (dtype.index_type.bit_width - 1)
    codes = codes.cast(dtype.index_type if fits else pa.int32())
    return pa.DictionaryArray.from_arrays(codes, categories, ordered=dtype.ordered)


def has_new_categories(array: pa.Array, own: pa.ChunkedArray) -> bool:
    """Return whether a dictionary array has more categories than the column it replaces."""
    both = pa.types.is_dictionary(array.type) and pa.types.is_dictionary(own.type) and own.num_chunks > 0
    return both and len(array.dictionary) > len(own.unify_dictionaries().chunk(0).dictionary)


def merge_filled(own: pa.ChunkedArray, new: pa.Array, missing: Mask) -> pa.Array:
    """Return the new cells where a cell is missing, and the own ones elsewhere."""
    own = own.combine_chunks()
    if isinstance(own, pa.ChunkedArray):  # an empty one has no chunks to combine
        return new
    mask = pa.array(missing)
    if pa.types.is_string_view(new.type):  # if_else does not support string views
        return merge_filled(pa.chunked_array([own.cast(pa.string())]), new.cast(pa.string()), missing).cast(new.type)
    if missing.all():  # the own type may not convert to the new one
        return new
    if not pa.types.is_dictionary(new.type):
        kept = pc.if_else(mask, pa.scalar(None, own.type), own)
        kept = kept.dictionary_decode() if pa.types.is_dictionary(own.type) else kept
        return pc.if_else(mask, new, kept.cast(new.type))
    if not pa.types.is_dictionary(own.type):
        own = own.cast(new.type.value_type).dictionary_encode()
    categories = own.dictionary.to_pylist()
    extra = [category for category in new.dictionary.to_pylist() if category not in set(categories)]
    values = pa.array(categories + extra, type=own.dictionary.type)
    new_codes = pc.index_in(new.dictionary.cast(values.type), values).take(new.indices)
    codes = pc.if_else(mask, new_codes.cast(pa.int64()), own.indices.cast(pa.int64()))
    return _dictionary_array(codes, values, new.type)
