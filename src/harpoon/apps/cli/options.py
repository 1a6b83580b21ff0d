"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harpoon.apps.cli.console import DEBUG
from harpoon.engines import ENGINES
from harpoon.exceptions import InvalidOption, TableFileError
from harpoon.io import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from harpoon.io import ReadOptions


DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def seconds_of(text: str) -> float:
    """A duration as people write it.

    >>> [seconds_of(text) for text in ("90", "90s", "2m", "1h30m", "0.5h")]
    [90.0, 90.0, 120.0, 5400.0, 1800.0]
    """
    found = DURATION.fullmatch(str(text).strip().lower())
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise typer.BadParameter(f"{text!r} is no duration. Write 90, 90s, 2m or 1h30m.")
    return total


def completed(*words: str) -> Callable[[str], list[str]]:
    """What the shell offers for an option that takes one of a few words.

    >>> completed("auto", "rejection", "conditioning")("k")
    ['kept', 'known']
    """

    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


def one_of(words: Iterable[str]) -> str:
    """Join words to a list for help texts.

    >>> one_of(["local", "ray", "spark"])
    'local, ray or spark'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}"


def _debugging(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[DEBUG] = value
    return value


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `harpoon fit` or `save` wrote.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="A file, - or a URL of a database's table.")]
TableOrFolder = Annotated[
    str, typer.Argument(metavar="TABLE", help="A file, a folder of files, - or a URL of a database's table.")
]
ToTable = Annotated[
    str, typer.Option("--output", "-o", metavar="TABLE", help="Where the rows go; - is standard output.")
]
Format = Annotated[
    str,
    typer.Option("--format", metavar="FORMAT", help=f"{one_of(FORMATS)}, if the name does not tell."),
]
Where = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="A condition as in SQL: \"age >= 50 and sex = 'f'\".")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="The same seed gives the same answer.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on the standard output, for machines.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No messages and no progress; errors and the answer itself remain.")
]
Debug = Annotated[bool, typer.Option("--debug", callback=_debugging, help="Show where an error comes from.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHARACTER", help="Between the cells of a CSV file; found out by default."),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Of a CSV file, such as latin-1; UTF-8 by default.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="TEXT",
        help="A text that means a missing cell in a CSV file, besides empty cells, NA, N/A, NaN, null, <NA> and #N/A. "
        "May be repeated.",
    ),
]


Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help=f"{one_of(ENGINES)}: for what is larger than memory, and for clusters. It writes a folder of Parquet "
        "files, or one file by its name, and goes on where it was if it is killed.",
        autocompletion=completed(*ENGINES),
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="How many workers the engine has; as many as there are CPUs.")
]


def reading(
    delimiter: str | None,
    encoding: str | None,
    missing: Sequence[str] | None,
    types: Mapping[str, pa.DataType] | None = None,
) -> ReadOptions:
    """How to read a table, from the options."""
    from harpoon.io import ReadOptions

    unescaped = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    return ReadOptions(unescaped, encoding, missing or (), types or {})


def check_table_target(output: str, *, json: bool) -> None:
    """A table and a JSON document cannot both go to the standard output."""
    if json and output == "-":
        raise typer.BadParameter("With --json the rows need a file of their own: add -o FILE.")


def check_free(path: Path, *, force: bool) -> None:
    """Refuse, before any work is done, a file that cannot be written, or that is there."""
    from harpoon import io

    if str(path) == "-":
        raise TableFileError("A model or a report needs a file of its own; it cannot go to the standard output.")
    io.check_writable(io.Location(str(path), path, ""), force=force)


def named(only: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that were asked for, several in one text or not."""
    wanted = [name for text in only for name in ([text] if text in names else text.split(","))]
    for name in wanted:
        if name not in names:
            raise InvalidOption.one_of("A column of --only", name, names)
    return wanted
