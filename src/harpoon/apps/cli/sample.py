"""`harpoon sample` and `harpoon check`: rows under a condition, and the probability of a condition."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model, read_table
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harpoon.estimator import Harpoon
    from harpoon.io import ReadOptions


SAMPLE = (
    "harpoon sample penguins.harpoon -n 1000 -o new.csv",
    "harpoon sample penguins.harpoon -n 50 --where \"body_mass_g >= 5000 or island = 'Dream'\" -o heavy.parquet",
    "harpoon sample penguins.harpoon -n 20 --given species=Gentoo --given sex=female",
    "harpoon sample penguins.harpoon --given partial.csv -o completed.csv",
    "harpoon sample penguins.harpoon -n 1000000000 --engine ray --workers 100 -o new/",
)
CHECK = (
    "harpoon check penguins.harpoon --where \"body_mass_g >= 6000 and species = 'Adelie'\"",
    "harpoon check penguins.harpoon --where 'bill_length_mm > 50' --data penguins.csv",
    "harpoon check penguins.harpoon --where 'bill_length_mm > 50' --given sex=female --json",
)
DEFAULT_ROWS = 100
IMPOSSIBLE = 3


Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        metavar="COLUMN=VALUE|TABLE",
        help="COLUMN=VALUE: a value that all rows share (may be repeated). TABLE: partial rows, each of which is "
        "completed.",
    ),
]
GivenValues = Annotated[
    list[str] | None,
    typer.Option("--given", metavar="COLUMN=VALUE", help="A value that all rows share. May be repeated."),
]


def sample(
    model: options.ModelFile,
    n: Annotated[
        int | None, typer.Option("-n", min=1, help=f"Number of rows; {DEFAULT_ROWS} by default.", show_default=False)
    ] = None,
    where: options.Where = None,
    given: Given = None,
    output: options.OutputTable = "-",
    strategy: Annotated[
        str,
        typer.Option(
            help="How to satisfy the condition: auto, rejection, conditioning, guidance or paper.",
            autocompletion=options.complete_from(options.strategy_names),
        ),
    ] = "auto",
    allow_fewer: Annotated[
        bool, typer.Option("--allow-fewer", help="Accept fewer than -n rows if the condition is too rare.")
    ] = False,
    option: options.OptionValues = None,
    engine: options.Engine = None,
    workers: options.Workers = None,
    format: options.Format = "",  # noqa: A002
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Sample new rows, each of which satisfies the condition."""
    from harpoon import io
    from harpoon.data import dataframe
    from harpoon.engines.job import SampleJob

    console = Console(json, quiet)
    options.check_table_output(output, json=json)
    values = options.parse_options(option, ["sampling", "guidance"])
    if engine is not None:
        engine = options.check_engine(engine, output, format)
        if allow_fewer:
            raise InvalidOption("An engine samples all rows or none. Leave --allow-fewer out.")
        with console.warnings_as_notes():
            cells = _parse_given(given or (), load_model(model, console))
            sent = options.model_for_engine(model, console, values)
            rows = DEFAULT_ROWS if n is None else n
            job = SampleJob.create(rows, sent, where=where, given=cells, strategy=strategy, random_state=seed)
            options.run_job(job, output, console, engine, workers, force=force)
        return
    target = io.Location.parse(output).with_format(format)
    io.check_writable(target, force=force)
    loaded = load_model(model, console)
    with console.warnings_as_notes():
        observed = _read_given(given or (), loaded, options.read_options(delimiter, encoding, missing), console)
        frame = loaded.sample(
            n if n is not None or not isinstance(observed, dict) else DEFAULT_ROWS,
            where=where,
            given=observed,
            strategy=strategy,
            on_shortfall="return" if allow_fewer else "raise",
            random_state=seed,
            **values,
        )
    table = dataframe.read(frame).arrow
    io.write_table(target, table, force)
    info = getattr(loaded, "sampling_info_", None)
    summary = {"output": output, "rows": table.num_rows, "sampling_info": None if info is None else asdict(info)}
    console.summary(summary, f"{table.num_rows:,} rows sampled" if info is None else str(info))


def check(
    model: options.ModelFile,
    where: Annotated[str, typer.Option("--where", metavar="CONDITION", help="The condition, as in SQL.")],
    given: GivenValues = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="TABLE", help="A table in which to count the rows that satisfy it, too."),
    ] = None,
    seed: options.Seed = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Estimate the probability of a condition, and show which part is unlikely and what to relax.

    The exit code is 3 if no row satisfies it.
    """
    from harpoon.data.arrow_types import text_types

    console = Console(json, quiet)
    loaded = load_model(model, console)
    with console.warnings_as_notes():
        cells = _parse_given(given or (), loaded)
        how = options.read_options(None, None, None, text_types(loaded.schema_))
        table = None if data is None else read_table(data, how, console)
        found = loaded.feasibility(where, given=cells, data=table, random_state=seed)
    facts = {name: value for name, value in asdict(found).items() if name != "training_fraction" or value is not None}
    console.result(facts, str(found))
    if not found.probability:
        raise typer.Exit(IMPOSSIBLE)


def _read_given(given: Sequence[str], model: Harpoon, how: ReadOptions, console: Console) -> Any:  # noqa: ANN401
    """Return values that all rows share, or a table of partial rows."""
    files = [text for text in given if "=" not in text or Path(text).exists() or "://" in text]
    if not files:
        return _parse_given(given, model)
    if len(given) > 1:
        raise InvalidOption("--given takes one table of partial rows, or values only: --given column=value.")
    from harpoon.data.arrow_types import text_types

    return read_table(files[0], replace(how, types=text_types(model.schema_)), console)


def _parse_given(given: Sequence[str], model: Harpoon) -> dict[str, Any]:
    """Return the values of `--given COLUMN=VALUE`, in the types of the model's columns."""
    import pyarrow as pa

    from harpoon.data.arrow_types import text_types
    from harpoon.io.text_types import cast_texts

    types, values = text_types(model.schema_), {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOption(f"--given takes COLUMN=VALUE, such as sex=female, got {text!r}.")
        if name in values:
            raise InvalidOption(
                f'--given has two values for {name}. Give one value, or several with --where "{name} in (...)".'
            )
        column = model.schema_[name]
        cell = pa.chunked_array([[value]])
        values[name] = (
            value if column.name not in types else cast_texts(cell, types[name], name=name, missing=())[0].as_py()
        )
    return values
