"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harpoon.data.column import Column
from harpoon.data.statistics import Tally
from harpoon.encoding.base import ColumnCodec
from harpoon.encoding.categorical import MANY_LABELS, GroupedCodec, IntegerCodec, OneHotCodec, _labels
from harpoon.encoding.numeric import NumberCodec, SpikeCodec
from harpoon.encoding.scalers import SCALINGS, Ranks, numbers


def _one_hot(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    return OneHotCodec(column) if column.kind.discrete else NumberCodec.fit(column, tally, scaling)


def _integer(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    return (IntegerCodec if column.kind.discrete else NumberCodec).fit(column, tally, scaling)


def _spiked(column: Column, tally: Tally, scaling: str) -> ColumnCodec:
    if column.kind.numeric:
        return SpikeCodec.fit(column, tally, scaling)
    return GroupedCodec.fit(column, tally) if len(_labels(column)) > MANY_LABELS else OneHotCodec(column)


def to_json(codec: ColumnCodec) -> dict[str, Any]:
    """What a codec has learnt, as plain data."""
    data: dict[str, Any] = {"codec": type(codec).__name__}
    if isinstance(codec, SpikeCodec):
        ranks = asdict(codec.ranks) if codec.ranks else None
        return {**to_json(codec.number), **data, "ranks": ranks, "spikes": list(codec.spikes)}
    if isinstance(codec, GroupedCodec):
        data |= {"frequent": list(codec.frequent)}
    if isinstance(codec, NumberCodec | IntegerCodec):
        data |= {"scaling": codec.scaling.name, **asdict(codec.scaling)}
    return data


def from_json(column: Column, data: Mapping[str, Any]) -> ColumnCodec:
    """Back from `to_json`."""
    if column.kind.discrete != (data["codec"] not in (NumberCodec.__name__, SpikeCodec.__name__)):
        raise ValueError(f"column {column.name!r} of kind {column.kind} cannot have the codec {data['codec']!r}")
    if data["codec"] == OneHotCodec.__name__:
        return OneHotCodec(column)
    if data["codec"] == GroupedCodec.__name__:
        return GroupedCodec(column, tuple(data["frequent"]))
    if data["codec"] == SpikeCodec.__name__:
        number = NumberCodec(column, SCALINGS[data["scaling"]].from_json(data))
        ranks = None if data["ranks"] is None else Ranks.from_json(data["ranks"])
        return SpikeCodec(number, ranks, numbers(data["spikes"]))
    scaled = {cls.__name__: cls for cls in (NumberCodec, IntegerCodec)}
    return scaled[data["codec"]](column, SCALINGS[data["scaling"]].from_json(data))


ENCODINGS = {"onehot": _one_hot, "integer": _integer, "spiked": _spiked}
