"""Answers as bytes: which format a client accepts, and how rows are written in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import pyarrow as pa
from pydantic_core import to_json

from harpoon.apps.server.errors import ApiError
from harpoon.io import FORMATS
from harpoon.io.text_types import plain_values
from harpoon.io.writers import closing_writer

JSON = "application/json"
EVENTS = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"
CSV = FORMATS["csv"].media_type


@dataclass(frozen=True)
class Payload:
    """An answer: facts, the seed among them, and for some questions rows."""

    facts: Mapping[str, Any]
    table: pa.Table | None = None

    def written(self, media: str) -> tuple[bytes, dict[str, str]]:
        """The answer in a format, and headers for what has no place in it."""
        if self.table is not None and media in TABLES:
            notes = self.facts.get("notes")
            told = {"X-Harpoon-Notes": json.dumps(notes)} if notes else {}  # in ASCII, as headers are
            return TABLES[media](self.table), {"X-Harpoon-Seed": str(self.facts["seed"]), **told}
        rows = {} if self.table is None else {"rows": records(self.table)}
        return as_json({**rows, **self.facts}), {}


def accepted(header: str, *, tables: bool) -> str:
    """The first of our formats that a client prefers.

    >>> accepted("text/csv;q=0.5, application/json", tables=True), accepted("*/*", tables=True)
    ('application/json', 'application/json')
    >>> accepted("text/html, application/*;q=0.8", tables=False)
    'application/json'
    """
    offered = (JSON, EVENTS, *TABLES) if tables else (JSON, EVENTS)
    for pattern in _by_preference(header or "*/*"):
        for media in offered:
            if pattern in (media, "*/*", f"{media.partition('/')[0]}/*"):
                return media
    raise ApiError(
        HTTPStatus.NOT_ACCEPTABLE,
        "NotAcceptable",
        f"The answer can be had as {', '.join(offered)}; the header Accept asks for something else.",
    )


def records(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as objects: dates and times as text, durations as whole numbers.

    >>> import datetime as dt
    >>> records(pa.table({"day": [dt.date(2024, 1, 31)], "price": [Decimal("1.50")]}))
    [{'day': '2024-01-31', 'price': 1.5}]
    """
    names = table.column_names
    columns = [[_number(cell) for cell in plain_values(column)] for column in table.columns]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def as_json(data: Any) -> bytes:  # noqa: ANN401
    """JSON as the standard has it: without NaN and infinity."""
    return to_json(data, inf_nan_mode="null", bytes_mode="base64")


def _number(cell: object) -> object:
    return float(cell) if isinstance(cell, Decimal) else cell


def _by_preference(header: str) -> list[str]:
    """The media types of the header Accept, the most welcome first."""
    found = []
    for place, part in enumerate(header.lower().split(",")):
        media, *parameters = (word.strip() for word in part.split(";"))
        weight = next((word[2:] for word in parameters if word.startswith("q=")), "1")
        quality = float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0
        if quality > 0:
            found.append((-quality, place, media))
    return [media for _, _, media in sorted(found)]


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    return bytes(sink.getvalue())


def _in_format(name: str) -> Callable[[pa.Table], bytes]:
    """Return the function that writes a table in a file format."""

    def write(table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with closing_writer(FORMATS[name], sink) as writer:
            writer.write(table)
        return bytes(sink.getvalue())

    return write


TABLES: dict[str, Callable[[pa.Table], bytes]] = {
    **{format_.media_type: _in_format(format_.name) for format_ in FORMATS.values() if format_.media_type},
    ARROW: _arrow,
}
