"""Arguments and options that several commands share, and `harpoon options`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harpoon.apps.cli.console import DEBUG, Console
from harpoon.exceptions import InvalidOption, TableFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from harpoon.engines.job import ImputeRequest, Job
    from harpoon.estimator import Harpoon
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


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the shell completion of an option that takes one of a few names.

    >>> complete_from(lambda: ("auto", "rejection", "conditioning"))("a")
    ['auto']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def strategy_names() -> list[str]:
    """Return the strategies for conditions."""
    from harpoon.inference.strategies import STRATEGIES

    return list(STRATEGIES)


def preset_names() -> list[str]:
    """Return the presets."""
    from harpoon.config import PRESETS

    return list(PRESETS)


def engine_names() -> list[str]:
    """Return the engines."""
    from harpoon.engines import ENGINES

    return list(ENGINES)


def format_names() -> list[str]:
    """Return the formats of tables."""
    from harpoon.io import FORMATS

    return list(FORMATS)


def option_names() -> list[str]:
    """Return the options, each followed by =."""
    from harpoon.config import Config, declared

    return [f"{name}=" for name, _ in declared(Config)]


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[DEBUG] = value
    return value


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `harpoon fit` or `save` wrote.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="A file, - or the URL of a table in a database.")]
TableOrFolder = Annotated[
    str, typer.Argument(metavar="TABLE", help="A file, a folder of files, - or the URL of a table in a database.")
]
OutputTable = Annotated[
    str, typer.Option("--output", "-o", metavar="TABLE", help="The table to write; - is the standard output.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=f"{', '.join(format_names())}: if the name does not tell.",
        autocompletion=complete_from(format_names),
    ),
]
Where = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="A condition as in SQL: \"age >= 50 and sex = 'f'\".")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on the standard output.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No messages and no progress bars; errors and the result remain.")
]
Debug = Annotated[bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output.")]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHARACTER", help="Between the cells of a CSV file; detected by default."),
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
OptionValues = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option by name; `harpoon options` lists them. May be repeated.",
        autocompletion=complete_from(option_names),
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help=f"{', '.join(engine_names())}: for tables that are larger than memory, and for clusters. It writes a "
        "folder of Parquet files, or one file by its name, and resumes if it was killed.",
        autocompletion=complete_from(engine_names),
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Workers of the engine; as many as there are CPUs by default.")
]


def options(
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", help="model, training, sampling or guidance; all by default."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """List the options of a model, with their defaults in each preset.

    `harpoon fit --option NAME=VALUE` takes those of model and training; `harpoon impute` and `harpoon sample` take
    those of sampling and guidance.
    """
    from harpoon.apps.cli.tables import option_table
    from harpoon.config import GROUPS, PRESETS, declared

    if group is not None and group not in GROUPS:
        raise InvalidOption.one_of("The group of options", group, GROUPS)
    chosen = {name: list(declared(GROUPS[name])) for name in ([group] if group else GROUPS)}
    data = {
        title: [
            {
                "name": name,
                "values": option.values,
                "defaults": {preset: getattr(config, name) for preset, config in PRESETS.items()},
                "help": option.help,
            }
            for name, option in declarations
        ]
        for title, declarations in chosen.items()
    }
    Console(json, quiet).result(data, *(option_table(title, rows) for title, rows in data.items()))


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


def read_options(
    delimiter: str | None,
    encoding: str | None,
    missing: Sequence[str] | None,
    types: Mapping[str, pa.DataType] | None = None,
) -> ReadOptions:
    """Return how to read a table, from the options."""
    from harpoon.io import ReadOptions

    unescaped = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    return ReadOptions(unescaped, encoding, missing or (), types or {})


def check_table_output(output: str, *, json: bool) -> None:
    """Raise if a table and a JSON document would both go to the standard output."""
    if json and output == "-":
        raise typer.BadParameter("With --json the rows need a file of their own: add -o FILE.")


def check_output(path: Path, *, force: bool) -> None:
    """Raise if a model or a report cannot be written to a path, before any work is done."""
    from harpoon import io

    if str(path) == "-":
        raise TableFileError("A model or a report needs a file of its own; it cannot go to the standard output.")
    io.check_writable(io.Location(str(path), path, ""), force=force)


def split_names(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return column names that were given one by one or separated by commas."""
    chosen = [name for text in texts for name in ([text] if text in names else text.split(","))]
    for name in chosen:
        if name not in names:
            raise InvalidOption.one_of("A column of --only", name, names)
    return chosen


def check_engine(engine: str, output: str, format: str) -> str:  # noqa: A002
    """Return the engine, if it can write the output."""
    if engine not in engine_names():
        raise InvalidOption.one_of("--engine", engine, engine_names())
    if output == "-" or "://" in output:
        raise InvalidOption("An engine writes a folder of Parquet files, or a file: add -o FOLDER.")
    if format:
        raise InvalidOption("An engine writes Parquet, or one file by its name: leave --format out.")
    return engine


def model_for_engine(path: Path, console: Console, values: Mapping[str, Any]) -> Path | Harpoon:
    """Return the model that an engine sends to its workers: its file, or with other options the model itself."""
    from harpoon.apps.cli.loading import load_model

    if not values:
        return path
    model = load_model(path, console)
    model.config = model.config.with_call_options(values)
    return model


def impute_request(
    model: Path | Harpoon, *, where: str | None, draws: int | None, only: Sequence[str], seed: int | None
) -> ImputeRequest:
    """Return the request to an engine."""
    from harpoon.engines.job import ImputeRequest, deserialize_model

    request = ImputeRequest.create(model, where=where, draws=draws, only=(), random_state=seed)
    return replace(request, only=tuple(split_names(only, deserialize_model(request.model).schema_.names)))


def run_job(job: Job, output: str, console: Console, engine: str, workers: int | None, *, force: bool) -> None:
    """Run a job on an engine, and print what was done."""
    from harpoon.engines import runner, start_engine

    started = perf_counter()
    runner.run_job(job, output, start_engine(engine, workers), force=force, progress=console.progress)
    rows = sum(map(job.n_output_rows, job.blocks))
    seconds = round(perf_counter() - started, 3)
    summary = {"output": output, "rows": rows, "engine": engine, "workers": workers, "seconds": seconds}
    console.summary(summary, f"{rows:,} rows in {output}")
