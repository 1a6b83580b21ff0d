"""What goes wrong, as an answer: a status and a sentence, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from harpoon.exceptions import HarpoonError

GONE = 499  # nobody reads it; it is for the log
MOST_TOLD = 20  # faults of one body
AS_SENT = {  # Python and shell to JSON
    'on_shortfall="return"': '"fewer": true',
    ", empty it, or name it with --missing": ", or empty it",
}
SAID = {
    404: "There is nothing at this address. What there is, /openapi.json describes.",
    405: "This address takes another method. What it takes, /openapi.json describes.",
}
CELL = {"str", "bool", "int", "float"}  # what pydantic calls the ways to read a cell
EXPECTED = (HarpoonError, HTTPException, RequestValidationError, ValidationError)


class ApiError(Exception):
    """An answer that is not what was asked for.

    Attributes:
        status: Of HTTP.
        kind: A word for programs.
        message: A sentence for people.
        headers: Besides the usual ones.
        more: What else a program may want to know.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        **more: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = int(status), kind, message
        self.headers, self.more = dict(headers or {}), more

    @property
    def body(self) -> bytes:
        """The answer. Plain ASCII, for a name that was sent may hold half a character."""
        return json.dumps({"error": {"kind": self.kind, "message": self.message, **self.more}}).encode()

    @classmethod
    def of(cls, error: BaseException) -> ApiError:
        """Any error as a fault. The words of one that nobody expected may hold cells, so they are not passed on.

        >>> from harpoon import InvalidCondition
        >>> Fault.of(InvalidCondition("The condition is empty.")).body
        b'{"error": {"kind": "InvalidCondition", "message": "The condition is empty."}}'
        >>> Fault.of(ZeroDivisionError("of 17")).message
        'This is a fault of Harpoon; its log says where it was.'
        """
        match error:
            case ApiError():
                return error
            case HarpoonError():
                return cls(HTTPStatus.BAD_REQUEST, type(error).__name__, _as_sent(str(error)))
            case RequestValidationError() | ValidationError():
                return _misfit(list(error.errors()))
            case HTTPException():
                kind = HTTPStatus(error.status_code).phrase.title().replace(" ", "")
                message = SAID.get(error.status_code, f"{str(error.detail).rstrip('.')}.")
                return cls(error.status_code, kind, message, error.headers)
            case MemoryError():
                return too_large("There is not enough memory for this. Ask for fewer rows.")
        return cls(HTTPStatus.INTERNAL_SERVER_ERROR, "Fault", "This is a fault of Harpoon; its log says where it was.")


def response_of(fault: ApiError) -> Response:
    """A fault as a response."""
    return Response(fault.body, fault.status, fault.headers, "application/json")


def too_large(message: str, headers: Mapping[str, str] | None = None) -> ApiError:
    """More than one client may ask for."""
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLarge", message, headers)


def busy(why: str, headers: Mapping[str, str] | None = None) -> ApiError:
    """Too many want something at the same time."""
    message = f"{why} Try again in a moment."
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "Busy", message, {"Retry-After": "1", **(headers or {})})


def gone() -> ApiError:
    """Nobody waits for the answer any more."""
    return ApiError(GONE, "Gone", "The client went away.")


def ending() -> ApiError:
    """An answer that the service does not live to give."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "Ending", "The service is ending. Ask again when it is back.")


def took_too_long(seconds: float) -> ApiError:
    """An answer that would take longer than any may."""
    # Not 408: browsers send such a request again by themselves.
    return ApiError(
        HTTPStatus.BAD_REQUEST,
        "TookTooLong",
        f"An answer may take {seconds:g} s here, waiting for others included, and this one would take longer. Ask for "
        "fewer rows or a less rare condition, or try again when fewer are asking.",
    )


def _misfit(errors: list[Any]) -> ApiError:
    """A body that does not fit its description: the first field in a sentence, all of them in a list."""
    fields = [_told(one["loc"], str(one["msg"]).removeprefix("Value error, ")) for one in errors[:MOST_TOLD]]
    first = fields[0]
    if errors[0]["type"] == "json_invalid":
        sentence = "The body cannot be read as JSON."
    else:
        sentence = f"{first['field']} does not fit: {first['message']}."
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "InvalidBody", sentence, fields=fields)


def _told(location: tuple[Any, ...], message: str) -> dict[str, str]:
    """A field and what is wrong with it.

    >>> _told(("body", "rows", 0, "age", "str"), "Input should be a valid string")
    {'field': 'rows.0.age', 'message': 'a cell is a text, a finite number, true, false or null'}
    """
    inside = [str(part) for part in location if part not in ("body", "query")]
    if len(inside) > 1 and inside[-1] in CELL:
        return {"field": ".".join(inside[:-1]), "message": "a cell is a text, a finite number, true, false or null"}
    return {"field": ".".join(inside) or "The body", "message": message[:1].lower() + message[1:]}


def _as_sent(sentence: str) -> str:
    """A sentence about arguments of Python as one about fields of JSON."""
    for python, sent in AS_SENT.items():
        sentence = sentence.replace(python, sent)
    return sentence
