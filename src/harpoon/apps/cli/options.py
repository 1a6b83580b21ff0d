"""Arguments and options that several commands share, and `harpoon options`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from harpoon.apps.cli.console import Console
from harpoon.engines import ENGINES
from harpoon.exceptions import InvalidOption, TableFileError
from harpoon.io import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from harpoon.engines.job import Job
    from harpoon.io import ReadOptions


OPTIONS = ("harpoon options", "harpoon options training", "harpoon options sampling --json")
DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
FLAGS = {"max_time": "--max-time", "max_epochs": "--max-epochs"}  # options that have a flag


def parse_duration(text: str) -> float:
    """Return the seconds of a duration.

    >>> [parse_duration(text) for text in ("90", "90s", "2m", "1h30m", "0.5h")]
    [90.0, 90.0, 120.0, 5400.0, 1800.0]
    """
    found = DURATION.fullmatch(str(text).strip().lower())
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise typer.BadParameter(f"{text!r} is not a duration. Write 90, 90s, 2m or 1h30m.")
    return total


def complete_from(registry: str, suffix: str = "") -> Callable[[str], list[str]]:
    """Return the shell completion of an option that takes a key of a registry, which is imported only then.

    >>> complete_from("harpoon.config:PRESETS")("a")
    ['anchored']
    """
    return lambda incomplete: [f"{name}{suffix}" for name in resolve_name(registry) if name.startswith(incomplete)]


ModelFile = Annotated[Path, Argument(metavar="MODEL", help="A model that `harpoon fit` or `save` wrote.")]
Table = Annotated[str, Argument(metavar="TABLE", help="A file, - or the URL of a table in a database.")]
TableOrFolder = Annotated[
    str, Argument(metavar="TABLE", help="A file, a folder of files, - or the URL of a table in a database.")
]
OutputTable = Annotated[
    str, Option("--output", "-o", metavar="TABLE", help="The table to write; - is the standard output.")
]
Where = Annotated[str | None, Option(metavar="CONDITION", help="A condition as in SQL: \"age >= 50 and sex = 'f'\".")]
Seed = Annotated[int | None, Option(min=0, metavar="N", help="The same seed gives the same result.")]
Force = Annotated[bool, Option("--force", "-f", help="Replace an existing output.")]
OptionValues = Annotated[
    list[str] | None,
    Option(
        metavar="NAME=VALUE",
        help="An option by name; `harpoon options` lists them. May be repeated.",
        autocompletion=complete_from("harpoon.config:Config.__dataclass_fields__", "="),
    ),
]


@dataclass(frozen=True)
class CsvOptions:
    """Options of commands that read a table."""

    delimiter: Annotated[
        str | None, Option(metavar="CHARACTER", help="Between the cells of a CSV file; detected by default.")
    ] = None
    encoding: Annotated[
        str | None, Option(metavar="NAME", help="Of a CSV file, such as latin-1; UTF-8 by default.")
    ] = None
    missing: Annotated[
        list[str] | None,
        Option(
            metavar="TEXT",
            help="A text that means a missing cell in a CSV file, besides empty cells, NA, N/A, NaN, null, <NA> and "
            "#N/A. May be repeated.",
        ),
    ] = None

    def read_options(self, types: Mapping[str, pa.DataType] | None = None) -> ReadOptions:
        """Return how to read a table whose columns have these types, as far as they are known."""
        from harpoon.io import ReadOptions

        unescaped = {"\\t": "\t", "tab": "\t"}.get(self.delimiter or "", self.delimiter)
        return ReadOptions(unescaped, self.encoding, self.missing or (), types or {})

    @property
    def is_given(self) -> bool:
        """Whether any of them is given."""
        return bool(self.delimiter or self.encoding or self.missing)

    def by_table(self, *locations: str) -> list[CsvOptions]:
        """Return the options of each of several tables: those of text files are for text files, if there is one."""
        from harpoon.io import Location

        parsed = [Location.parse(location) for location in locations]
        typed = [bool(location.format) and not location.keeps_text for location in parsed]
        return [CsvOptions() if is_typed and not all(typed) else self for is_typed in typed]


@dataclass(frozen=True)
class PageOptions:
    """Options of commands that write a page."""

    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="The page, an HTML file.")] = None
    force: Force = False

    def check(self) -> None:
        """Raise if the page cannot be written, before any work is done."""
        if self.output is not None:
            check_output(self.output, force=self.force)

    def save(self, summary: Mapping[str, Any]) -> None:
        """Write the page of a summary, if it has a file."""
        if self.output is not None:
            from harpoon.report import Page

            Page(summary).save(self.output, force=self.force)


@dataclass(frozen=True)
class EngineOptions:
    """Options of commands that an engine can run."""

    engine: Annotated[
        str | None,
        Option(
            metavar="ENGINE",
            help=f"{', '.join(ENGINES)}: for tables that are larger than memory, and for clusters. It writes a "
            "folder of Parquet files, or one file by its name, and resumes if it was killed.",
            autocompletion=complete_from("harpoon.engines:ENGINES"),
        ),
    ] = None
    workers: Annotated[
        int | None, Option(min=1, metavar="N", help="Workers of the engine; as many as there are CPUs by default.")
    ] = None
    format: Annotated[
        str,
        Option(
            metavar="FORMAT",
            help=f"{', '.join(FORMATS)}: if the name does not tell.",
            autocompletion=complete_from("harpoon.io:FORMATS"),
        ),
    ] = ""

    def __post_init__(self) -> None:
        if self.workers is not None and self.engine is None:
            raise InvalidOption("--workers is the number of workers of an engine, so it needs one: add --engine ray.")

    def check_output(self, output: str) -> None:
        """Raise unless there is such an engine and it can write the output."""
        if self.engine not in ENGINES:
            raise InvalidOption.one_of("--engine", self.engine, ENGINES)
        if output == "-" or "://" in output:
            raise InvalidOption("An engine writes a folder of Parquet files, or a file: add -o FOLDER.")
        if self.format:
            raise InvalidOption("An engine writes Parquet, or one file by its name: leave --format out.")

    def run(self, job: Job, output: str, console: Console, *, force: bool) -> None:
        """Run a job, and print what was done."""
        from harpoon.engines import block_store, start_engine

        started, run = perf_counter(), start_engine(str(self.engine), self.workers)
        block_store.run_job(job, output, run, force=force, progress=not console.quiet)
        rows = sum(map(job.n_output_rows, job.blocks))
        seconds = round(perf_counter() - started, 3)
        support = None if job.support is None else job.support.to_json()
        summary = {"output": output, "rows": rows, "engine": self.engine, "workers": self.workers, "seconds": seconds}
        console.summary({**summary, "support": support}, f"{rows:,} rows in {output}")


def expand_records(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has, instead of each parameter that is a dataclass, one parameter for each of its fields.

    Typer makes the options of a command from its parameters.
    """
    given = signature(command, eval_str=True).parameters
    records: dict[str, Any] = {name: one.annotation for name, one in given.items() if is_dataclass(one.annotation)}
    parameters = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for name, one in given.items()
        for parameter in (signature(records[name], eval_str=True).parameters.values() if name in records else [one])
    ]

    @wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401
        for name, record in records.items():
            values[name] = record(**{field.name: values.pop(field.name) for field in fields(record)})
        command(**values)

    vars(run)["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def options(
    group: Annotated[
        str | None, Argument(metavar="GROUP", help="model, training, sampling or guidance; all by default.")
    ] = None,
    *,
    console: Console,
) -> None:
    """List the options of a model, with their defaults in each preset.

    `harpoon fit --option NAME=VALUE` takes those of model and training; `harpoon impute` and `harpoon sample` take
    those of sampling and guidance.
    """
    from harpoon.apps.cli.terminal_tables import option_table
    from harpoon.config import GROUPS, PRESETS, declared

    if group is not None and group not in GROUPS:
        raise InvalidOption.one_of("The group of options", group, GROUPS)
    data: dict[str, list[dict[str, Any]]] = {}
    for title in [group] if group else GROUPS:
        for name, option in declared(GROUPS[title]):
            defaults = {preset: getattr(config, name) for preset, config in PRESETS.items()}
            row = {"name": name, "values": option.values, "defaults": defaults, "help": option.help}
            data.setdefault(title, []).append(row)
    console.result(data, *(option_table(title, rows) for title, rows in data.items()))


def parse_options(texts: Sequence[str] | None, groups: Sequence[str]) -> dict[str, Any]:
    """Return the values of `--option NAME=VALUE`, converted and validated as declared in `harpoon.config`.

    >>> parse_options(["ar_steps=16", "solver=ddim"], ["sampling"])
    {'ar_steps': 16, 'solver': 'ddim'}
    """
    from harpoon.config import GROUPS, Config, declared

    known = {name: option for group in groups for name, option in declared(GROUPS[group])}
    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOption(f"--option takes NAME=VALUE, such as {next(iter(known))}=VALUE, got {text!r}.")
        if name in known and name in FLAGS:
            raise InvalidOption(f"{name} has a flag: use {FLAGS[name]}.")
        if name not in known and name in dict(declared(Config)):
            raise InvalidOption(f"{name} is not an option of this command. It takes those of {' and '.join(groups)}.")
        if name not in known:
            raise InvalidOption.one_of("The name of an --option", name, known)
        values[name] = known[name].parse(name, value.strip())
    return values


def check_table_output(output: str, console: Console) -> None:
    """Raise if a table and a JSON document would both go to the standard output."""
    if console.json and output == "-":
        raise typer.BadParameter("With --json the rows need a file of their own: add -o FILE.")


def check_output(path: Path, *, force: bool) -> None:
    """Raise if a model or a report cannot be written to a path, before any work is done."""
    from harpoon import io

    if str(path) == "-":
        raise TableFileError("A model or a report needs a file of its own; it cannot go to the standard output.")
    io.check_writable(io.Location(str(path), path, ""), force=force)
