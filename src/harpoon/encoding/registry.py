"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harpoon.data.column import Column
from harpoon.data.statistics import ColumnCounts
from harpoon.encoding.base import ColumnCodec
from harpoon.encoding.categorical import (
    MAX_ONE_HOT_CATEGORIES,
    HierarchicalCodec,
    OneHotCodec,
    OrdinalCodec,
    categories_of,
)
from harpoon.encoding.numeric import NumericCodec, SpikedNumericCodec
from harpoon.encoding.scalers import SCALERS, NormalScoreScaler, floats_from_json


def _one_hot(column: Column, tally: ColumnCounts, scaling: str) -> ColumnCodec:
    return OneHotCodec(column) if column.kind.discrete else NumericCodec.fit(column, tally, scaling)


def _integer(column: Column, tally: ColumnCounts, scaling: str) -> ColumnCodec:
    return (OrdinalCodec if column.kind.discrete else NumericCodec).fit(column, tally, scaling)


def _mixed(column: Column, tally: ColumnCounts, scaling: str) -> ColumnCodec:
    if column.kind.numeric:
        return SpikedNumericCodec.fit(column, tally, scaling)
    return (
        HierarchicalCodec.fit(column, tally)
        if len(categories_of(column)) > MAX_ONE_HOT_CATEGORIES
        else OneHotCodec(column)
    )


def to_json(codec: ColumnCodec) -> dict[str, Any]:
    """What a codec has learnt, as plain data."""
    data: dict[str, Any] = {"codec": type(codec).__name__}
    if isinstance(codec, SpikedNumericCodec):
        ranks = asdict(codec.normal_scores) if codec.normal_scores else None
        return {**to_json(codec.number), **data, "ranks": ranks, "spikes": list(codec.spikes)}
    if isinstance(codec, HierarchicalCodec):
        data |= {"frequent": list(codec.frequent)}
    if isinstance(codec, NumericCodec | OrdinalCodec):
        data |= {"scaling": codec.scaler.name, **asdict(codec.scaler)}
    return data


def from_json(column: Column, data: Mapping[str, Any]) -> ColumnCodec:
    """Back from `to_json`."""
    if column.kind.discrete != (data["codec"] not in (NumericCodec.__name__, SpikedNumericCodec.__name__)):
        raise ValueError(f"column {column.name!r} of kind {column.kind} cannot have the codec {data['codec']!r}")
    if data["codec"] == OneHotCodec.__name__:
        return OneHotCodec(column)
    if data["codec"] == HierarchicalCodec.__name__:
        return HierarchicalCodec(column, tuple(data["frequent"]))
    if data["codec"] == SpikedNumericCodec.__name__:
        number = NumericCodec(column, SCALERS[data["scaling"]].from_json(data))
        ranks = None if data["ranks"] is None else NormalScoreScaler.from_json(data["ranks"])
        return SpikedNumericCodec(number, ranks, floats_from_json(data["spikes"]))
    scaled = {cls.__name__: cls for cls in (NumericCodec, OrdinalCodec)}
    return scaled[data["codec"]](column, SCALERS[data["scaling"]].from_json(data))


ENCODINGS = {"onehot": _one_hot, "integer": _integer, "mixed": _mixed}
