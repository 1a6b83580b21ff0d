"""The parts of the OpenAPI document that the bodies do not describe: formats and errors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from harpoon.apps.server.responses import ARROW, CSV, EVENTS, JSON, TABLE_FORMATS
from harpoon.apps.server.schemas import Error, ImputeBody

ABOUT = """One model of one table: sample rows under a condition, fill missing cells, ask what-if questions.

Rows are returned as JSON, CSV, Arrow or Parquet, chosen by the header `Accept`. With `text/event-stream`, long requests
send events `progress`, then `result` or `error`. Every error is `{"error": {"kind", "message"}}`."""
ERRORS = {
    400: "The request makes no sense for this table, cannot be met, or would take too long.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site.",
    406: "The requested format is not available.",
    408: "The body took too long to arrive.",
    413: "The request is above a limit.",
    415: "The type of the body is not supported.",
    422: "The body is not valid.",
    429: "Too many requests. The header Retry-After says when to try again.",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
TEXT = {"schema": {"type": "string"}}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route; all by default."""
    return {status: {"model": Error, "description": ERRORS[status]} for status in statuses or ERRORS}


def job_responses(model: type[BaseModel], *, tables: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route that runs a job."""
    content: dict[str, Any] = {EVENTS: TEXT}
    if tables:
        content |= {media: TEXT if media == CSV else BINARY for media in TABLE_FORMATS}
    return {200: {"model": model, "description": "The answer.", "content": content}, **error_responses()}


FORM = {"type": "object", "properties": {"file": BINARY["schema"]}, "required": ["file"]}
TABLE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": ImputeBody.model_json_schema()},
            CSV: TEXT,
            ARROW: BINARY,
            "multipart/form-data": {"schema": FORM},
        },
    }
}
