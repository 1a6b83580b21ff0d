"""Errors as HTTP responses: a status and a sentence, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from harpoon.exceptions import HarpoonError, HarpoonWarning

CLIENT_GONE = 499  # only for the log
MAX_FIELD_ERRORS = 20  # of one body
SENTENCES = {  # of the service, by the code of an error; the fields are its facts
    "invalid_cell": "{problem} Fix the cell, or empty it.",
    "structural_missing": 'Filled: {problem}. To leave such cells missing, choose "left missing" in Studio, or send '
    'the option "structural": "keep".',
    "targets_missed": '{problem}, or take the nearest with "allow_fewer": true.',
    "too_few_rows_found": '{problem} Relax it, or take these rows with "allow_fewer": true.',
}
STATUS_SENTENCES = {
    404: "There is nothing at this address. All addresses are described in /openapi.json.",
    405: "This address takes another method. All addresses are described in /openapi.json.",
}
CELL_TYPES = {"str", "bool", "int", "float"}  # pydantic's names for the types of a cell
EXPECTED = (HarpoonError, HTTPException, RequestValidationError, ValidationError)


class ApiError(Exception):
    """An error response: a status, a kind for programs, a message for people; further headers, and details in JSON."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        **details: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = int(status), kind, message
        self.headers, self.details = dict(headers or {}), details

    @property
    def body(self) -> bytes:
        """The response as JSON in ASCII: a name in it may hold an unpaired surrogate."""
        return json.dumps({"error": {"kind": self.kind, "message": self.message, **self.details}}).encode()

    @classmethod
    def from_exception(cls, error: BaseException) -> ApiError:
        """Return any exception as an error response. The text of an unexpected one may hold cells and is not sent.

        >>> from harpoon import InvalidCondition
        >>> ApiError.from_exception(InvalidCondition("The condition is empty.")).body
        b'{"error": {"kind": "InvalidCondition", "message": "The condition is empty."}}'
        >>> ApiError.from_exception(ZeroDivisionError("of 17")).message
        'This is a bug in Harpoon; the log of the service shows where.'
        """
        match error:
            case ApiError():
                return error
            case HarpoonError():
                return cls(HTTPStatus.BAD_REQUEST, type(error).__name__, sentence(error))
            case RequestValidationError() | ValidationError():
                return _invalid_body(list(error.errors()))
            case HTTPException():
                kind = "".join(HTTPStatus(error.status_code).phrase.title().split())
                message = STATUS_SENTENCES.get(error.status_code, f"{str(error.detail).rstrip('.')}.")
                return cls(error.status_code, kind, message, error.headers)
            case MemoryError():
                return too_large("There is not enough memory for this request. Ask for fewer rows.")
        message = "This is a bug in Harpoon; the log of the service shows where."
        return cls(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", message)


def sentence(error: object) -> str:
    """Return the sentence of the service for an error or a warning of the library."""
    if isinstance(error, HarpoonError | HarpoonWarning) and error.code in SENTENCES:
        return SENTENCES[error.code].format(**error.facts)
    return str(error)


def to_response(error: ApiError) -> Response:
    """Return an error as a response."""
    return Response(error.body, error.status, error.headers, "application/json")


def too_large(message: str, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error of a request above a limit."""
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLarge", message, headers)


def busy(reason: str, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error of too many requests at the same time."""
    message = f"{reason} Try again in a moment."
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "Busy", message, {"Retry-After": "1", **(headers or {})})


def client_gone() -> ApiError:
    """Return the error of a request whose client has disconnected."""
    return ApiError(CLIENT_GONE, "ClientGone", "The client has disconnected.")


def shutting_down() -> ApiError:
    """Return the error of a request that the service does not finish before it ends."""
    message = "The service is shutting down. Try again when it is back."
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "ShuttingDown", message)


def timed_out(seconds: float) -> ApiError:
    """Return the error of an answer that takes too long."""
    # Not 408: browsers send such a request again by themselves.
    return ApiError(
        HTTPStatus.BAD_REQUEST,
        "TimedOut",
        f"The answer would take more than {seconds:g} s, which is the limit here, including the time in the queue. Ask "
        "for fewer rows or a less rare condition, or try again later.",
    )


def _invalid_body(errors: list[Any]) -> ApiError:
    """Return the error of an invalid body: the first field in the sentence, up to 20 in a list."""
    fields = [_field_error(one["loc"], str(one["msg"]).removeprefix("Value error, ")) for one in errors]
    fields = fields[:MAX_FIELD_ERRORS]
    if errors[0]["type"] == "json_invalid" and "query" not in errors[0]["loc"]:
        message = "The body is not valid JSON."
    else:
        message = f"{fields[0]['field']} is not valid: {fields[0]['message'].rstrip('.')}"
        message += "" if message.endswith("?") else "."
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "InvalidBody", message, fields=fields)


def _field_error(location: tuple[Any, ...], message: str) -> dict[str, str]:
    """Return a field and what is wrong with it.

    >>> _field_error(("body", "rows", 0, "age", "str"), "Input should be a valid string")
    {'field': 'rows.0.age', 'message': 'a cell is a text, a finite number, true, false or null'}
    """
    path = [str(part) for part in location if part not in ("body", "query")]
    if len(path) > 1 and path[-1] in CELL_TYPES:
        return {"field": ".".join(path[:-1]), "message": "a cell is a text, a finite number, true, false or null"}
    return {"field": ".".join(path) or "The body", "message": message[:1].lower() + message[1:]}
