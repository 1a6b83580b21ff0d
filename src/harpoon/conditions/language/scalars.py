"""Constants of conditions: Python scalars, and intervals of time."""

from __future__ import annotations

import datetime as dt
from typing import Any

from harpoon.data.date_parts import TIME_UNITS

Scalar = bool | int | float | str | dt.date | dt.datetime | dt.timedelta
INTERVALS = {unit: dt.timedelta(microseconds=size // 1000) for unit, size in TIME_UNITS.items() if size >= 1000}  # noqa: PLR2004


def to_python_scalar(given: Any) -> Any:  # noqa: ANN401
    """Convert a scalar of NumPy or pandas to Python's without importing either; None if it is missing."""
    if isinstance(given, dt.datetime) and given != given:  # noqa: PLR0124  # pandas.NaT is a datetime
        return None
    if getattr(given, "ndim", 1) == 0 and given.dtype.kind in "mM":
        given = given.astype(f"{given.dtype.kind}8[us]")  # item() of nanoseconds is an integer
    if getattr(given, "ndim", 1) == 0:
        given = given.item()
    if hasattr(given, "to_pydatetime"):
        given = given.to_pydatetime()
    if hasattr(given, "to_pytimedelta"):
        given = given.to_pytimedelta()
    if not isinstance(given, dt.datetime):
        return given
    offset = given.utcoffset()
    return given.replace(tzinfo=None if offset is None else dt.timezone(offset), fold=0)
