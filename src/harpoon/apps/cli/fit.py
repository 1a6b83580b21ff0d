"""`harpoon fit`: train a model on a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import read_table
from harpoon.exceptions import ColumnLeftOutWarning, InvalidOption, TableFileError

if TYPE_CHECKING:
    import pyarrow as pa

    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon


FIT = (
    "harpoon fit penguins.csv -o penguins.harpoon",
    "harpoon fit sales.parquet -o sales.harpoon --max-time 10m --exclude customer --kind region=category",
    "zcat rows.csv.gz | harpoon fit - -o rows.harpoon --max-epochs 50 --seed 1 --json",
    "harpoon fit large.parquet -o large.harpoon --max-time 8h --checkpoint large.checkpoint --option hidden=512",
)


@dataclass(frozen=True)
class ColumnOptions:
    """Options that change the inferred columns of a table."""

    exclude: Annotated[list[str] | None, Option(metavar="COLUMN", help="A column to leave out. May be repeated.")] = (
        None
    )
    kind: Annotated[
        list[str] | None, Option(metavar="COLUMN=KIND", help="The kind of a column: region=category. May be repeated.")
    ] = None

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column that has one."""
        found = {}
        for text in self.kind or ():
            name, equals, kind = text.rpartition("=")
            if not equals:
                raise InvalidOption(f"--kind takes COLUMN=KIND, such as region=category, got {text!r}.")
            found[name] = kind
        return found


def fit(
    table: options.Table,
    output: Annotated[Path, Option("--output", "-o", metavar="MODEL", help="The file for the model.")],
    max_time: Annotated[
        float | None,
        Option(parser=options.parse_duration, metavar="TIME", help="Longest training: 90s, 2m (the default) or 1h30m."),
    ] = None,
    max_epochs: Annotated[int | None, Option(min=1, metavar="N", help="Most passes over the table.")] = None,
    preset: Annotated[
        str,
        Option(
            help='"anchored", or "paper" for the paper\'s system to the letter.',
            autocompletion=options.complete_from("harpoon.config:PRESETS"),
        ),
    ] = "anchored",
    schema: Annotated[
        Path | None, Option(metavar="FILE", help="The columns, in a file that `harpoon schema -o` wrote.")
    ] = None,
    *,
    columns: ColumnOptions,
    option: options.OptionValues = None,
    checkpoint: Annotated[
        Path | None,
        Option(metavar="FILE", help="Saves the state of the training; if the file exists, training resumes."),
    ] = None,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Train a model on a table, which may have missing cells. Ctrl-C ends the training early and saves the model."""
    from harpoon.apps.cli.tables import schema_table
    from harpoon.data.dataframe import ANY_LIBRARY
    from harpoon.estimator import Harpoon

    options.check_output(output, force=force)
    values = options.parse_options(option, ["model", "training"])
    model = Harpoon(
        preset, max_time=max_time, max_epochs=max_epochs, random_state=seed, progress=not console.quiet, **values
    )
    with console.warnings_as_notes(hide=(ColumnLeftOutWarning,)):
        rows, model.schema = read_with_schema(table, csv, console, columns, schema)
        if not console.quiet:
            counts = f"{len(model.schema)} columns, {len(model.schema.modelled)} of them modelled"
            console.message(f"{rows.num_rows:,} rows, {counts}", schema_table(model.schema, rows))
        model.fit(rows, checkpoint=checkpoint)
    model.template_ = model.template_.with_library(ANY_LIBRARY)  # a file has no dataframe library
    model.save(output)
    summary = {"model": str(output), "rows": rows.num_rows, "bytes": output.stat().st_size, **training_summary(model)}
    console.summary(summary, _describe(summary))


def read_with_schema(
    table: str, csv: options.CsvOptions, console: Console, columns: ColumnOptions, file: Path | None = None
) -> tuple[pa.Table, Schema]:
    """Read a table and its schema: from a file, or inferred, with changes from the options."""
    from harpoon.data import Schema
    from harpoon.data.arrow_types import text_types

    if file is None:
        rows = read_table(table, csv, console, check_texts=True)
        return rows, Schema.infer(rows, kinds=columns.kinds, exclude=columns.exclude or ())
    try:
        schema = Schema.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise TableFileError.unreadable(f"The schema {str(file)!r}", error) from None
    rows = read_table(table, csv, console, text_types(schema))
    for name, kind in columns.kinds.items():
        schema = schema.replace(name, kind=kind)
    for name in columns.exclude or ():
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
        "grade": model.calibration_.grade,
        "calibration": str(model.calibration_),
    }


def _describe(summary: dict[str, Any]) -> str:
    validation = summary["validation_loss"]
    loss = "" if validation is None else f", validation loss {validation:.4f}"
    return (
        f"{summary['epochs']} epochs in {summary['seconds']:.0f} s (stopped by {summary['stopped_by']}){loss}. "
        f"{summary['calibration']} Model: {summary['model']} ({summary['bytes'] / 1e6:.1f} MB)"
    )
