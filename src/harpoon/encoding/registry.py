"""Registries of codecs.

`ENCODINGS` and `KIND_ENCODINGS` have functions that choose and fit codecs. Such a function receives some columns,
the counts of all columns and the name of a scaler in `SCALERS`. It returns one codec per column, or fewer where
columns are encoded together. To give a new kind of column its own codec, add

    KIND_ENCODINGS["angle"] = per_column(lambda column, counts, scaling: AngleCodec(column))
    CODECS["AngleCodec"] = AngleCodec
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harpoon.data import Column, ColumnCounts, Schema, TableCounts
from harpoon.encoding.categorical import MAX_ONE_HOT_CATEGORIES, HierarchicalCodec, OneHotCodec
from harpoon.encoding.codec import Codec
from harpoon.encoding.missing_indicators import MissingIndicatorCodec
from harpoon.encoding.numeric import NumericCodec, OrdinalCodec, SpikedNumericCodec
from harpoon.encoding.temporal.calendar_parts import CalendarPartCodec, TimestampCodec
from harpoon.encoding.temporal.elapsed_time import ElapsedTimeCodec

Encoding = Callable[[Sequence[Column], TableCounts, str], list[Codec]]


def per_column(choose: Callable[[Column, ColumnCounts, str], Codec]) -> Encoding:
    """Return the encoding that chooses a codec for each column by itself, from the counts of its coerced cells."""

    def encoding(columns: Sequence[Column], counts: TableCounts, scaling: str) -> list[Codec]:
        return [choose(column, counts[column.name].coerced(column), scaling) for column in columns]

    return encoding


def fit_codecs(schema: Schema, counts: TableCounts, encoding: str, scaling: str) -> tuple[Codec, ...]:
    """Choose and fit the codecs of all modelled columns, in the order of their first columns."""
    position = {column.name: index for index, column in enumerate(schema.modelled)}
    codecs: list[Codec] = []
    by_kind: dict[str, list[Column]] = {}
    for column in schema.modelled:
        by_kind.setdefault(column.kind if column.kind in KIND_ENCODINGS else "", []).append(column)
    for kind, columns in by_kind.items():
        codecs += (KIND_ENCODINGS[kind] if kind else ENCODINGS[encoding])(columns, counts, scaling)
    return tuple(sorted(codecs, key=lambda codec: position[codec.columns[0].name]))


def codec_from_json(schema: Schema, data: Mapping[str, Any]) -> Codec:
    """Restore a codec from its `to_json`."""
    codec, columns = CODECS[data["codec"]], [schema[name] for name in data["columns"]]
    for column in columns:
        if not codec.supports(column.kind):
            raise ValueError(f"column {column.name!r} of kind {column.kind} cannot have the codec {data['codec']!r}")
    return codec.from_json(columns, data)


def _mixed(column: Column, counts: ColumnCounts, scaling: str) -> Codec:
    if column.kind.numeric:
        return SpikedNumericCodec.fit(column, counts, scaling)
    is_large = len(column.categories or ()) > MAX_ONE_HOT_CATEGORIES
    return HierarchicalCodec.fit(column, counts) if is_large else OneHotCodec(column)


# The classes that saved models name.
CODECS: dict[str, type[Codec]] = {
    codec.__name__: codec
    for codec in (
        NumericCodec,
        SpikedNumericCodec,
        OneHotCodec,
        OrdinalCodec,
        HierarchicalCodec,
        MissingIndicatorCodec,
        CalendarPartCodec,
        TimestampCodec,
        ElapsedTimeCodec,
    )
}
# The values of the option `encoding`.
ENCODINGS: dict[str, Encoding] = {
    "onehot": per_column(lambda c, *fit: OneHotCodec(c) if c.kind.discrete else NumericCodec.fit(c, *fit)),
    "integer": per_column(lambda c, *fit: (OrdinalCodec if c.kind.discrete else NumericCodec).fit(c, *fit)),
    "mixed": per_column(_mixed),
}
# Kinds with an encoding of their own for any value of the option. It receives all columns of the kind at once.
KIND_ENCODINGS: dict[str, Encoding] = {}
