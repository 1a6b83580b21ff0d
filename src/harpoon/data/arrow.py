"""Arrow columns to cells, and back. Each dataframe library converts to and from Arrow without loss."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harpoon.data.column_array import ColumnArray, Storage


def storage_type(dtype: pa.DataType) -> Storage:
    """Which of our few storages an Arrow type belongs to."""
    tests: Sequence[tuple[Storage, Any]] = (
        ("null", lambda t: pa.types.is_null(t) or (pa.types.is_dictionary(t) and pa.types.is_null(t.value_type))),
        ("boolean", pa.types.is_boolean),
        ("integer", pa.types.is_integer),
        ("float", lambda t: pa.types.is_floating(t) or pa.types.is_decimal(t)),
        ("date", pa.types.is_date),
        ("datetime", pa.types.is_timestamp),
        ("duration", pa.types.is_duration),
        (
            "text",
            lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        ),
        ("category", lambda t: pa.types.is_dictionary(t) and storage_type(t.value_type) in ("text", "integer")),
    )
    return next((storage for storage, test in tests if test(dtype)), "other")


def opaque(height: int, storage: Storage = "other") -> ColumnArray:
    """Cells that are not looked into."""
    missing = np.full(height, storage == "null")
    return ColumnArray(storage, np.zeros(height, dtype=np.int64), missing)


def from_arrow(column: pa.ChunkedArray) -> ColumnArray:
    """An Arrow column as cells; null and NaN are both missing."""
    storage = storage_type(column.type)
    if storage == "other" and column.null_count == len(column):
        storage = "null"  # nothing in it says what it could hold
    if storage in ("null", "other"):
        return opaque(len(column), storage)
    if storage == "float":
        column = column.cast(pa.float64())
    missing = np.asarray(pc.is_null(column, nan_is_null=True))
    if storage in ("text", "category"):
        return _coded(column, storage, missing)
    if storage == "float":
        return ColumnArray(
            storage,
            np.nan_to_num(np.asarray(column.fill_null(0.0)), nan=0.0, posinf=np.inf, neginf=-np.inf),
            missing,
        )
    if storage == "boolean":
        values = np.asarray(column.fill_null(False)).astype(np.int64)  # noqa: FBT003
        return ColumnArray(storage, values, missing, categories=(False, True))
    unit = column.type.unit if storage in ("datetime", "duration") else ""
    zoned = storage == "datetime" and column.type.tz is not None
    if storage == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    try:
        values = np.asarray(column.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid:  # an unsigned integer beyond 2**63
        return ColumnArray("float", np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0)), missing)
    return ColumnArray(storage, values, missing, unit=unit, zoned=zoned)


def _coded(column: pa.ChunkedArray, storage: Storage, missing: NDArray[np.bool_]) -> ColumnArray:
    ordered = bool(storage == "category" and column.type.ordered)
    coded = column.unify_dictionaries() if storage == "category" else column.dictionary_encode()
    chunks = coded.chunks
    labels = tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    codes = [np.asarray(chunk.indices.cast(pa.int64()).fill_null(0)) for chunk in chunks]
    values = np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64)
    return ColumnArray(storage, values, missing, categories=labels, ordered=ordered)


def settled(f: pa.Field, cells: ColumnArray) -> pa.Field:
    """The field, unless it was left without a type because every cell was missing."""
    return f if not pa.types.is_null(f.type) else f.with_type(_natural_type(cells))


def _natural_type(cells: ColumnArray) -> pa.DataType:
    natural = {
        "float": pa.float64(),
        "integer": pa.int64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "null": pa.null(),
    }
    if cells.storage == "datetime":
        return pa.timestamp(cells.unit)
    if cells.storage == "duration":
        return pa.duration(cells.unit)
    return natural[cells.storage] if cells.storage in natural else pa.array(cells.categories).type


def to_arrow(cells: ColumnArray, dtype: pa.DataType) -> pa.Array:
    """Cells as an Arrow array of the given type, or of a wider one where the values need it."""
    if pa.types.is_dictionary(dtype):
        labels = pa.array(cells.categories).cast(dtype.value_type)
        codes = pa.array(cells.values.astype(np.int64), mask=cells.missing)
        return pa.DictionaryArray.from_arrays(
            codes.cast(_index_type(dtype, len(labels))), labels, ordered=dtype.ordered
        )
    if cells.storage in ("boolean", "text", "category"):
        codes = pa.array(cells.values.astype(np.int64), mask=cells.missing)
        return pa.array(cells.categories).take(codes).cast(dtype)
    if cells.storage == "null":
        return pa.nulls(len(cells), dtype)
    values = cells.values.astype(np.int32) if cells.storage == "date" else cells.values
    array = pa.array(values, mask=cells.missing).cast(_natural_type(cells))
    try:
        if pa.types.is_decimal(dtype):
            return _to_decimals(array, dtype)
        if pa.types.is_integer(dtype) and cells.storage == "float":
            array = pa.array(_whole(cells.values, dtype.to_pandas_dtype()), mask=cells.missing)
        return array.cast(dtype, safe=cells.storage == "integer")
    except (pa.ArrowInvalid, InvalidOperation):
        return array  # an edited range went beyond the dtype: the wider type is the honest answer


def _whole(values: NDArray[Any], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Floats as whole numbers of a type; one that rounding took to just beyond its end stays below it."""
    low, high = (float(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    whole = np.rint(values)
    if len(whole) and (whole.min() < low or whole.max() > high):
        raise pa.ArrowInvalid("beyond the type")
    kept: NDArray[Any] = np.minimum(whole, high if int(high) <= np.iinfo(dtype).max else np.nextafter(high, 0))
    return kept.astype(dtype)


def _to_decimals(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    grid = Decimal(1).scaleb(-dtype.scale)
    return pa.array([None if v is None else Decimal(repr(v)).quantize(grid) for v in array.to_pylist()], type=dtype)


def _index_type(dtype: pa.DataType, labels: int) -> pa.DataType:
    fits = labels <= 2 ** (dtype.index_type.bit_width - 1)
    return dtype.index_type if fits else pa.int32()


def has_new_categories(array: pa.Array, own: pa.ChunkedArray) -> bool:
    """Whether a dictionary column came back with labels that it did not have."""
    coded = pa.types.is_dictionary(array.type) and pa.types.is_dictionary(own.type) and own.num_chunks > 0
    return coded and len(array.dictionary) > len(own.unify_dictionaries().chunk(0).dictionary)


def merge_filled(own: pa.ChunkedArray, new: pa.Array, holes: NDArray[np.bool_]) -> pa.Array:
    """The new cells in the holes, the own ones elsewhere."""
    own = own.combine_chunks()
    if isinstance(own, pa.ChunkedArray):  # an empty one has no chunks to combine
        return new
    mask = pa.array(holes)
    if pa.types.is_string_view(new.type):  # Arrow cannot choose between those
        return merge_filled(pa.chunked_array([own.cast(pa.string())]), new.cast(pa.string()), holes).cast(new.type)
    if holes.all():  # and nothing of the own cells, whose type may be no type at all for these
        return new
    if not pa.types.is_dictionary(new.type):
        kept = pc.if_else(mask, pa.scalar(None, own.type), own)
        kept = kept.cast(new.type) if not pa.types.is_dictionary(own.type) else kept.dictionary_decode().cast(new.type)
        return pc.if_else(mask, new, kept)
    if not pa.types.is_dictionary(own.type):
        own = own.cast(new.type.value_type).dictionary_encode()
    labels = own.dictionary.to_pylist()
    place = {label: i for i, label in enumerate(labels)}
    extra = [label for label in new.dictionary.to_pylist() if label not in place]
    place |= {label: len(labels) + i for i, label in enumerate(extra)}
    moved = np.array([place[label] for label in new.dictionary.to_pylist()], dtype=np.int64)
    new_codes = pa.array(moved[np.asarray(new.indices.fill_null(0)).astype(np.int64)])
    codes = pc.if_else(mask, new_codes, own.indices.cast(pa.int64()))
    values = pa.concat_arrays([own.dictionary, pa.array(extra, type=own.dictionary.type)])
    index = _index_type(new.type, len(values))
    return pa.DictionaryArray.from_arrays(codes.cast(index), values, ordered=new.type.ordered)
