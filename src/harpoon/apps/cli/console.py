"""What the command line says: answers on the standard output, everything else on the standard error."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from harpoon.exceptions import (
    HarpoonError,
    HarpoonWarning,
    InfeasibleCondition,
    InvalidCondition,
    InvalidOption,
    TableFileError,
)

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


DEBUG = "harpoon.debug"
INTERRUPTED, PIPE_CLOSED = 130, 141
CODES: tuple[tuple[type[Exception], int], ...] = (
    (InfeasibleCondition, 3),
    (InvalidCondition, 2),
    (InvalidOption, 2),
    (HarpoonError, 1),
)
AS_TYPED = {  # Python to shell
    'on_shortfall="return"': "--fewer",
    "incomplete='mask'": "--preset anchored",
    "n must be left out when given is a frame": "-n must be left out when --given is a table",
    "name that one (such as latin-1)": "give it as --encoding latin-1",
    "or name the format": "or give --format",
}
MOST_NOTES = 20


class Commands(TyperGroup):
    """The commands; what goes wrong in one of them is one red sentence, and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("Stopped. Nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read has seen enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(PIPE_CLOSED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # typer's own
                raise
            if ctx.meta.get(DEBUG):
                sys.stderr.write(traceback.format_exc())
            complain(_sentence(error))
            raise typer.Exit(next((code for kind, code in CODES if isinstance(error, kind)), 1)) from None


class Closed(io.TextIOBase):
    """Stands in for a standard stream that the shell has closed (`>&-`): whoever needs it gets a sentence."""

    def __init__(self, name: str) -> None:
        self._about = f"The standard {name} is closed. Name a file instead, or leave the stream open."

    @property
    def buffer(self) -> Any:  # noqa: ANN401
        """The bytes of the stream."""
        raise TableFileError(self._about)

    def write(self, _text: str) -> int:
        """Refuse."""
        raise TableFileError(self._about)


def stand_in_for_closed_streams() -> None:
    """Python has None for a stream that is closed. The standard error may be: then nobody wants to hear."""
    if sys.stdin is None:
        sys.stdin = Closed("input")
    if sys.stdout is None:
        sys.stdout = Closed("output")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


@dataclass(frozen=True)
class Console:
    """How a command talks: to people, to machines (`json`), or not at all (`quiet`)."""

    json: bool = False
    quiet: bool = False

    @property
    def progress(self) -> bool:
        """Whether to show progress bars."""
        return not self.quiet

    def say(self, *what: Any) -> None:  # noqa: ANN401
        """Something worth knowing, on the standard error, line by line."""
        for part in () if self.quiet else what:
            console(stderr=True).print(part)

    def note(self, words: str) -> None:
        """Something that may be amiss."""
        self.say(_labelled("Note: ", "yellow", words))

    def answer(self, data: Mapping[str, Any], *words: Any) -> None:  # noqa: ANN401
        """What was asked for, on the standard output: one JSON document, or words."""
        if self.json:
            sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
            sys.stdout.flush()  # here, and not at the end, it is known who asked
        else:
            for part in words:
                console().print(part)

    def told(self, data: Mapping[str, Any], *words: Any) -> None:  # noqa: ANN401
        """What was done: for machines on the standard output, for people on the standard error."""
        self.answer(data) if self.json else self.say(*words)

    @contextmanager
    def notes(self, *, besides: tuple[type[Warning], ...] = ()) -> Iterator[None]:
        """Our warnings as lines, each once, but for those in `besides`; those of other packages are for developers."""
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *_where: object, **_more: object) -> None:
            about = str(message).partition(" in ")[0]
            if issubclass(category, HarpoonWarning) and about not in shown and len(shown) < MOST_NOTES:
                shown.add(about)
                self.note(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            for category in besides:
                warnings.simplefilter("ignore", category)
            warnings.showwarning = show
            yield


def console(*, stderr: bool = False) -> RichConsole:
    """A console that prints text as it is: names of columns may look like markup."""
    from rich.console import Console as RichConsole

    class Told(RichConsole):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `Commands`, which ends all commands alike

    return Told(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def complain(sentence: str) -> None:
    """What went wrong, in one red sentence."""
    console(stderr=True).print(_labelled("Error: ", "bold red", sentence))


def _labelled(label: str, style: str, words: str) -> Any:  # noqa: ANN401
    from rich.text import Text

    return Text.assemble((label, style), words)


def _sentence(error: Exception) -> str:
    if isinstance(error, HarpoonError):
        text = str(error)
        for python, shell in AS_TYPED.items():
            text = text.replace(python, shell)
        return text
    if isinstance(error, OSError):
        return f"{error.strerror or error}{'' if error.filename is None else f': {error.filename}'}"
    if isinstance(error, MemoryError):
        return "There is not enough memory. Use a smaller --batch, or fewer rows."
    return f"{type(error).__name__}: {error}. This is a fault of Harpoon; run it again with --debug and report it."
