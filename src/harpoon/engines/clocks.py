"""Instants and clocks: Spark stores instants, and a model may have learnt what a clock says.

>>> from datetime import datetime
>>> from harpoon.schema import Schema
>>> noon = datetime(2024, 7, 1, 12)
>>> schema = Schema.infer(pa.table({"at": [noon, datetime(2024, 7, 2)]}))
>>> own = pa.table({"at": pa.array([noon, None], pa.timestamp("us", "America/New_York"))})  # noon in Greenwich
>>> on_the_clock(own, schema)["at"].to_pylist()
[datetime.datetime(2024, 7, 1, 8, 0), None]
>>> made = pa.table({"at": [datetime(2024, 7, 1, 8), datetime(2024, 7, 1, 9)]})
>>> as_instants(made, own)["at"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).to_pylist()
[datetime.datetime(2024, 7, 1, 12, 0), datetime.datetime(2024, 7, 1, 13, 0)]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon.schema import Schema


def on_the_clock(own: pa.Table, schema: Schema) -> pa.Table:
    """Instants as what the clock says in their zone, where a model was trained on times without one."""
    for place, f in enumerate(own.schema):
        if _is_instant(f.type) and f.name in schema.names and not schema[f.name].zoned:
            own = own.set_column(place, f.name, pc.local_timestamp(own[f.name]))
    return own


def as_instants(made: pa.Table, own: pa.Table, draws: int | None = None) -> pa.Table:
    """Times on the clock as instants again. Those that were known stay: an hour may be missing there, or twice."""
    for f in own.schema:
        place = made.schema.get_field_index(f.name)
        if _is_instant(f.type) and not made.schema.field(place).type.tz:
            known = own[f.name].take(np.repeat(np.arange(own.num_rows), draws or 1))
            instants = pc.assume_timezone(made[f.name], f.type.tz, ambiguous="earliest", nonexistent="earliest")
            made = made.set_column(place, f.name, pc.coalesce(known, instants.cast(f.type)))
    return made


def _is_instant(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz)
