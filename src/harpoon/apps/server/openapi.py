"""What the OpenAPI document says beyond the bodies: formats and errors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from harpoon.apps.server.formats import ARROW, CSV, EVENTS, JSON, TABLES
from harpoon.apps.server.schemas import Error, ImputeBody

ABOUT = """One model of one table, trained once: draw rows under any condition, fill holes, ask what-if questions.

Rows come as JSON, CSV, Arrow or Parquet, as the header `Accept` says. With `text/event-stream`, long answers send
events `progress`, then `result` or `error`. Every error is `{"error": {"kind", "message"}}`."""
ERRORS = {
    400: "The question makes no sense for this table, cannot be met, or would take too long.",
    401: "The token is missing or wrong.",
    403: "The request is from another site.",
    406: "The answer cannot be had in the format that was asked for.",
    408: "The request took too long to arrive.",
    413: "More than one request may ask for.",
    415: "The body is of a type that is not understood.",
    422: "The body does not fit its description.",
    429: "Too many are asking. The header Retry-After says when to try again.",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
TEXT = {"schema": {"type": "string"}}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an address may answer with; all of them by default."""
    return {status: {"model": Error, "description": ERRORS[status]} for status in statuses or ERRORS}


def answers(model: type[BaseModel], *, tables: bool = False) -> dict[int | str, dict[str, Any]]:
    """The answers of an address that works for them."""
    content: dict[str, Any] = {EVENTS: TEXT}
    if tables:
        content |= {media: TEXT if media == CSV else BINARY for media in TABLES}
    return {200: {"model": model, "description": "The answer.", "content": content}, **errors()}


def _form() -> dict[str, Any]:
    properties = {"file": {"type": "string", "format": "binary"}}
    return {"schema": {"type": "object", "properties": properties, "required": ["file"]}}


TABLE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": ImputeBody.model_json_schema()},
            CSV: TEXT,
            ARROW: BINARY,
            "multipart/form-data": _form(),
        },
    }
}
