"""Output of the command line: results on the standard output, everything else on the standard error."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from harpoon.apps.cli.errors import EXIT_CODES, sentence
from harpoon.exceptions import HarpoonWarning, TableFileError

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


DEBUG = "harpoon.debug"
INTERRUPTED, PIPE_CLOSED = 130, 141
MAX_NOTES = 20


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[DEBUG] = value
    return value


Json = Annotated[bool, Option("--json", help="Print one JSON document on the standard output.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No messages and no progress bars; errors and the result remain.")]
Debug = Annotated[bool, Option("--debug", callback=_set_debug, help="Show the traceback of an error.")]


class Commands(TyperGroup):
    """The commands. An error in one of them becomes one red sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_labelled("Error: ", "bold red", "Stopped. Nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader has closed the pipe, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(PIPE_CLOSED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # an exception of typer
                raise
            if ctx.meta.get(DEBUG):
                sys.stderr.write(traceback.format_exc())
            print_labelled("Error: ", "bold red", sentence(error))
            raise typer.Exit(EXIT_CODES.get(type(error), 1)) from None


class ClosedStream(io.TextIOBase):
    """Replacement for a standard stream that the shell has closed (`>&-`); any use of it is an error."""

    def __init__(self, name: str) -> None:
        self._message = f"The standard {name} is closed. Name a file instead, or leave the stream open."

    @property
    def buffer(self) -> Any:  # noqa: ANN401
        """The bytes of the stream."""
        raise TableFileError(self._message)

    def write(self, _text: str) -> int:
        """Raise TableFileError."""
        raise TableFileError(self._message)


def replace_closed_streams() -> None:
    """Replace standard streams that are closed, for which Python has None. A closed standard error is silent."""
    if sys.stdin is None:
        sys.stdin = ClosedStream("input")
    if sys.stdout is None:
        sys.stdout = ClosedStream("output")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def escape_other_characters() -> None:
    """Write characters that the console has not as escapes: one of Windows may have only those of its language."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def _is_utf8(stream: Any) -> bool:  # noqa: ANN401
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name in ("utf-8", "utf-8-sig")


@dataclass(frozen=True)
class Console:
    """Output of one command: for people, for programs (`json`), or only the result (`quiet`)."""

    json: Json = False
    quiet: Quiet = False
    debug: Debug = False

    def message(self, *parts: Any) -> None:  # noqa: ANN401
        """Print messages on the standard error, one line each."""
        for part in () if self.quiet else parts:
            rich_console(stderr=True).print(part)

    def note(self, text: str) -> None:
        """Print a message about a possible problem."""
        if not self.quiet:
            print_labelled("Note: ", "yellow", text)

    def result(self, data: Mapping[str, Any], *parts: Any) -> None:  # noqa: ANN401
        """Print the result on the standard output: one JSON document, or text."""
        if self.json:
            sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=not _is_utf8(sys.stdout), default=str) + "\n")
            sys.stdout.flush()  # a closed pipe is noticed here, where it is handled
        else:
            for part in parts:
                rich_console().print(part)

    def summary(self, data: Mapping[str, Any], *parts: Any) -> None:  # noqa: ANN401
        """Print what was done: JSON on the standard output, or text on the standard error."""
        self.result(data) if self.json else self.message(*parts)

    @contextmanager
    def warnings_as_notes(self, *, hide: tuple[type[Warning], ...] = ()) -> Iterator[None]:
        """Print Harpoon's warnings as notes, each once. Those in `hide` and those of other packages are not shown."""
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *_where: object, **_more: object) -> None:
            subject = str(message).partition(" in ")[0]
            if issubclass(category, HarpoonWarning) and subject not in shown and len(shown) < MAX_NOTES:
                shown.add(subject)
                self.note(sentence(message) if isinstance(message, HarpoonWarning) else str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            for category in hide:
                warnings.simplefilter("ignore", category)
            warnings.showwarning = show
            yield


def rich_console(*, stderr: bool = False) -> RichConsole:
    """Return a console that prints text unchanged: names of columns may look like markup."""
    from rich.console import Console as RichConsole

    class PlainConsole(RichConsole):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # handled by `Commands`

    return PlainConsole(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_labelled(label: str, style: str, text: str) -> None:
    """Print a sentence on the standard error, after a label in a colour."""
    from rich.text import Text

    rich_console(stderr=True).print(Text.assemble((label, style), text))
