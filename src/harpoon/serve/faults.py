"""What goes wrong, as an answer: a status and a sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from harpoon.errors import HarpoonError

GONE = 499  # nobody reads it; it is for the log


class Fault(Exception):
    """An answer that is not what was asked for.

    Attributes:
        status: Of HTTP.
        kind: A word for programs.
        message: A sentence for people.
        headers: Besides the usual ones.
        more: Whatever else a program may want to know.
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
        self.status, self.kind, self.message = status, kind, message
        self.headers, self.more = dict(headers or {}), more

    @property
    def body(self) -> dict[str, Any]:
        """The answer."""
        return {"error": {"kind": self.kind, "message": self.message, **self.more}}

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Any error as a fault. What is no fault of the question is ours, and its words, which may hold cells, stay here.

        >>> from harpoon import InvalidCondition
        >>> Fault.of(InvalidCondition("The condition is empty.")).body
        {'error': {'kind': 'InvalidCondition', 'message': 'The condition is empty.'}}
        """
        if isinstance(error, Fault):
            return error
        if isinstance(error, HarpoonError):
            return cls(HTTPStatus.BAD_REQUEST, type(error).__name__, _as_sent(str(error)))
        if isinstance(error, MemoryError):
            return too_large("There is not enough memory for this. Ask for fewer rows.")
        return cls(HTTPStatus.INTERNAL_SERVER_ERROR, "Fault", "This is a fault of Harpoon. Its log says where it was.")


def too_large(message: str) -> Fault:
    """More than one client may ask for."""
    return Fault(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLarge", message)


def busy() -> Fault:
    """Too many want something at the same time."""
    message = "Too many requests are waiting for an answer already. Try again in a moment."
    return Fault(HTTPStatus.TOO_MANY_REQUESTS, "Busy", message, {"Retry-After": "1"})


def took_too_long(seconds: float) -> Fault:
    """An answer that would take longer than any may."""
    # Not 408: browsers send such a request again by themselves.
    return Fault(
        HTTPStatus.BAD_REQUEST,
        "TookTooLong",
        f"An answer may take {seconds:g} s here, waiting for others included, and this one would take longer. Ask for "
        "fewer rows or a less rare condition, or try again when fewer are asking.",
    )


def _as_sent(sentence: str) -> str:
    """A sentence about arguments of Python as one about fields of JSON."""
    for python, sent in AS_SENT.items():
        sentence = sentence.replace(python, sent)
    return sentence


AS_SENT = {
    'on_shortfall="return"': '"fewer": true',
    ", or name it with --missing": "",
}
