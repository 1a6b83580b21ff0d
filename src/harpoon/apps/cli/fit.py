"""`harpoon fit`: train a model on a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import read_table
from harpoon.exceptions import ColumnLeftOutWarning, InvalidOption, TableFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon
    from harpoon.io import ReadOptions


FIT = (
    "harpoon fit penguins.csv -o penguins.harpoon",
    "harpoon fit sales.parquet -o sales.harpoon --max-time 10m --exclude customer --kind region=category",
    "zcat rows.csv.gz | harpoon fit - -o rows.harpoon --max-epochs 50 --seed 1 --json",
    "harpoon fit large.parquet -o large.harpoon --max-time 8h --checkpoint large.checkpoint --option hidden=512",
)
MIN_EPOCHS = 20  # a model with fewer is still learning fast


def fit(
    table: options.Table,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")],
    max_time: Annotated[
        float | None,
        typer.Option(
            parser=options.parse_duration, metavar="TIME", help="Longest training: 90s, 2m (the default) or 1h30m."
        ),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, help="Most passes over the table.")] = None,
    preset: Annotated[
        str,
        typer.Option(
            help='"anchored", or "paper" for the paper\'s system to the letter.',
            autocompletion=options.complete_from(options.preset_names),
        ),
    ] = "anchored",
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The columns, in a file that `harpoon schema -o` wrote.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. May be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="The kind of a column: region=category. May be repeated."),
    ] = None,
    option: options.OptionValues = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Saves the state of the training; if the file exists, training resumes."),
    ] = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Train a model on a table, which may have missing cells. Ctrl-C ends the training early and saves the model."""
    from harpoon.estimator import Harpoon

    console = Console(json, quiet)
    options.check_output(output, force=force)
    values = options.parse_options(option, ["model", "training"])
    model = Harpoon(
        preset, max_time=max_time, max_epochs=max_epochs, random_state=seed, progress=console.progress, **values
    )
    with console.warnings_as_notes(hide=(ColumnLeftOutWarning,)):
        how = options.read_options(delimiter, encoding, missing)
        rows, model.schema = read_with_schema(table, how, console, file=schema, kinds=kind or (), exclude=exclude or ())
        _show_schema(model.schema, rows, console)
        model.fit(rows, checkpoint=checkpoint)
    model.save(output)
    summary = {"model": str(output), "rows": rows.num_rows, "bytes": output.stat().st_size, **training_summary(model)}
    console.summary(summary, _describe(summary))
    if model.history_.stopped_by == "time" and summary["epochs"] < MIN_EPOCHS:
        console.message(
            f"Note: the training had only {summary['epochs']} passes over the table. A longer --max-time gives a "
            "better model."
        )


def read_with_schema(
    table: str, how: ReadOptions, console: Console, *, file: Path | None, kinds: Sequence[str], exclude: Sequence[str]
) -> tuple[pa.Table, Schema]:
    """Read a table and its schema: from a file, or inferred, with changes from the options."""
    from harpoon.data.arrow_types import text_types
    from harpoon.data.schema import Schema

    schema = None if file is None else _read_schema(file)
    types = {} if schema is None else text_types(schema)
    rows = read_table(table, replace(how, types=types), console, check_texts=schema is None)
    given_kinds = dict(_parse_kind(text) for text in kinds)
    if schema is None:
        return rows, Schema.infer(rows, kinds=given_kinds, exclude=exclude)
    for name, kind in given_kinds.items():
        schema = schema.replace(name, kind=kind)
    for name in exclude:
        schema = schema.replace(name, kind="skipped", note="left out on request")
    return rows, schema.complete(rows)


def training_summary(model: Harpoon) -> dict[str, Any]:
    """Return how the training ended."""
    last = model.history_.epochs[-1] if model.history_.epochs else None
    return {
        "epochs": last.number if last else 0,
        "loss": last.loss if last else None,
        "validation_loss": last.validation_loss if last else None,
        "seconds": model.history_.seconds,
        "stopped_by": model.history_.stopped_by,
    }


def _show_schema(columns: Schema, rows: pa.Table, console: Console) -> None:
    if not console.quiet:
        from harpoon.apps.cli.tables import schema_table

        console.message(f"{rows.num_rows:,} rows, {len(columns)} columns, {len(columns.modelled)} of them modelled")
        console.message(schema_table(columns, rows))


def _read_schema(file: Path) -> Schema:
    from harpoon.data.schema import Schema

    try:
        return Schema.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise TableFileError.unreadable(f"The schema {str(file)!r}", error) from None


def _parse_kind(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals:
        raise InvalidOption(f"--kind takes COLUMN=KIND, such as region=category, got {text!r}.")
    return name, kind


def _describe(summary: dict[str, Any]) -> str:
    validation = summary["validation_loss"]
    loss = "" if validation is None else f", validation loss {validation:.4f}"
    return (
        f"{summary['epochs']} epochs in {summary['seconds']:.0f} s (stopped by {summary['stopped_by']}){loss}. "
        f"Model: {summary['model']} ({summary['bytes'] / 1e6:.1f} MB)"
    )
