"""`harpoon sample` and `harpoon check`: rows under a condition, and whether there are any."""

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
    "harpoon check penguins.harpoon --where 'bill_length_mm > 50' --given sex=female --json",
)
ROWS = 100
IMPOSSIBLE = 3


Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        metavar="COLUMN=VALUE|TABLE",
        help="What is decided: COLUMN=VALUE, which all rows share (may be repeated), or a TABLE of partial rows, which "
        "are completed one by one.",
    ),
]
GivenValues = Annotated[
    list[str] | None,
    typer.Option("--given", metavar="COLUMN=VALUE", help="A value that all rows share. May be repeated."),
]


def sample(
    model: options.ModelFile,
    n: Annotated[
        int | None, typer.Option("-n", min=1, help=f"How many rows; {ROWS} by default.", show_default=False)
    ] = None,
    where: options.Where = None,
    given: Given = None,
    output: options.ToTable = "-",
    strategy: Annotated[
        str,
        typer.Option(
            help="How to meet the condition: auto, kept, known, guided or paper.",
            autocompletion=options.completed("auto", "rejection", "conditioning", "guidance", "paper"),
        ),
    ] = "auto",
    fewer: Annotated[
        bool, typer.Option("--fewer", help="Take what there is if too few rows meet the condition.")
    ] = False,
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
    """Draw new rows, as many as asked for, each of which meets the condition."""
    from harpoon import io
    from harpoon.data import dataframe
    from harpoon.engines.job import SampleJob

    talk = Console(json, quiet)
    options.check_table_target(output, json=json)
    if engine is not None:
        from harpoon.apps.cli import engines

        engine = engines.checked(engine, output, format)
        if fewer:
            raise InvalidOption("An engine draws all rows or none. Leave --fewer out.")
        with talk.notes():
            values = _values(given or (), load_model(model, talk))
            job = SampleJob.create(
                ROWS if n is None else n, model, where=where, given=values, strategy=strategy, random_state=seed
            )
            engines.run(job, output, talk, engine, workers, force=force)
        return
    target = io.Location.parse(output).with_format(format)
    io.check_writable(target, force=force)
    loaded = load_model(model, talk)
    with talk.notes():
        decided = _decided(given or (), loaded, options.reading(delimiter, encoding, missing), talk)
        drawn = loaded.sample(
            n if n is not None or not isinstance(decided, dict) else ROWS,
            where=where,
            given=decided,
            strategy=strategy,
            on_shortfall="return" if fewer else "raise",
            random_state=seed,
        )
    rows = dataframe.read(drawn).arrow
    io.write_table(target, rows, force)
    report = getattr(loaded, "sampling_info_", None)
    told = {"output": output, "rows": rows.num_rows, "report": None if report is None else asdict(report)}
    talk.told(told, f"{rows.num_rows:,} rows drawn" if report is None else str(report))


def check(
    model: options.ModelFile,
    where: Annotated[str, typer.Option("--where", metavar="CONDITION", help="The condition, as in SQL.")],
    given: GivenValues = None,
    seed: options.Seed = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Say how likely a condition is, which part of it is unlikely, and what would be within reach.

    The exit code is 3 if no row meets it.
    """
    talk = Console(json, quiet)
    loaded = load_model(model, talk)
    with talk.notes():
        values = _values(given or (), loaded)
        found = loaded.feasibility(where, given=values, random_state=seed)
    talk.answer(asdict(found), str(found))
    if not found.probability:
        raise typer.Exit(IMPOSSIBLE)


def _decided(given: Sequence[str], model: Harpoon, how: ReadOptions, talk: Console) -> Any:  # noqa: ANN401
    """Values that all rows share, or a table of partial rows."""
    files = [text for text in given if "=" not in text or Path(text).exists() or "://" in text]
    if not files:
        return _values(given, model)
    if len(given) > 1:
        raise InvalidOption("--given takes one table of partial rows, or values only: --given column=value.")
    from harpoon.data.arrow_types import text_types

    return read_table(files[0], replace(how, types=text_types(model.schema_)), talk)


def _values(given: Sequence[str], model: Harpoon) -> dict[str, Any]:
    """Values of columns, read as the model's columns hold them."""
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
                f'--given decides {name} twice. Give one value, or several with --where "{name} in (...)".'
            )
        column = model.schema_[name]
        cell = pa.chunked_array([[value]])
        plain = value if column.name not in types else cast_texts(cell, types[name], name=name, missing=())[0].as_py()
        values[name] = plain
    return values
