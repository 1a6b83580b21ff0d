"""`harpoon fit`: from a table to a model."""

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
    "harpoon fit large.parquet -o large.harpoon --max-time 8h --checkpoint large.checkpoint",
)
FEW_PASSES = 20  # over the rows; a model that has seen them less often is still learning fast


def fit(
    table: options.Table,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")],
    max_time: Annotated[
        float | None,
        typer.Option(parser=options.seconds_of, metavar="TIME", help="At the most, as 90s, 2m (the default) or 1h30m."),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the table at the most.")] = None,
    preset: Annotated[
        str,
        typer.Option(
            help='"anchored", or "paper" for the paper\'s system to the letter.',
            autocompletion=options.completed("anchored", "paper"),
        ),
    ] = "anchored",
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What the columns are, as `harpoon schema -o` wrote it.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. May be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="What a column is: region=category. May be repeated."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keeps the state of the training; where it is there, the training goes on from it."
        ),
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
    """Train a model on a table, with its holes. Ctrl-C ends the training early, and the model so far is saved."""
    from harpoon.estimator import Harpoon

    talk = Console(json, quiet)
    options.check_free(output, force=force)
    model = Harpoon(preset, max_time=max_time, max_epochs=max_epochs, random_state=seed, progress=talk.progress)
    with talk.notes(besides=(ColumnLeftOutWarning,)):
        how = options.reading(delimiter, encoding, missing)
        rows, model.schema = prepared(table, how, talk, file=schema, kinds=kind or (), exclude=exclude or ())
        _show(model.schema, rows, talk)
        model.fit(rows, checkpoint=checkpoint)
    model.save(output)
    outcome = {"model": str(output), "rows": rows.num_rows, "bytes": output.stat().st_size, **trained(model)}
    talk.told(outcome, _in_words(outcome))
    if model.history_.stopped_by == "time" and outcome["epochs"] < FEW_PASSES:
        talk.say(
            f"Note: those were only {outcome['epochs']} passes over the table, and more would make a better model: "
            "give a longer --max-time."
        )


def prepared(
    table: str, how: ReadOptions, talk: Console, *, file: Path | None, kinds: Sequence[str], exclude: Sequence[str]
) -> tuple[pa.Table, Schema]:
    """A table, and what its columns are: by a file, by what is asked for, or as they look."""
    from harpoon.data.arrow_types import text_types
    from harpoon.data.schema import Schema

    said = None if file is None else _schema_in(file)
    types = {} if said is None else text_types(said)
    rows = read_table(table, replace(how, types=types), talk, unknown=said is None)
    asked = dict(_pair(text) for text in kinds)
    if said is None:
        return rows, Schema.infer(rows, kinds=asked, exclude=exclude)
    for name, kind in asked.items():
        said = said.replace(name, kind=kind)
    for name in exclude:
        said = said.replace(name, kind="skipped", note="left out on request")
    return rows, said.complete(rows)


def trained(model: Harpoon) -> dict[str, Any]:
    """What the training came to."""
    last = model.history_.epochs[-1] if model.history_.epochs else None
    return {
        "epochs": last.number if last else 0,
        "loss": last.loss if last else None,
        "held_out_loss": last.validation_loss if last else None,
        "seconds": model.history_.seconds,
        "stopped_by": model.history_.stopped_by,
    }


def _show(columns: Schema, rows: pa.Table, talk: Console) -> None:
    if not talk.quiet:
        from harpoon.apps.cli.tables import schema_table

        talk.say(f"{rows.num_rows:,} rows, {len(columns)} columns, {len(columns.modelled)} of them modelled")
        talk.say(schema_table(columns, rows))


def _schema_in(file: Path) -> Schema:
    from harpoon.data.schema import Schema

    try:
        return Schema.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise TableFileError.unreadable(f"The schema {str(file)!r}", error) from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals:
        raise InvalidOption(f"--kind takes COLUMN=KIND, such as region=category, got {text!r}.")
    return name, kind


def _in_words(outcome: dict[str, Any]) -> str:
    held_out = "" if outcome["held_out_loss"] is None else f", held-out loss {outcome['held_out_loss']:.4f}"
    return (
        f"{outcome['epochs']} epochs in {outcome['seconds']:.0f} s (stopped by {outcome['stopped_by']}){held_out}. "
        f"Model: {outcome['model']} ({outcome['bytes'] / 1e6:.1f} MB)"
    )
