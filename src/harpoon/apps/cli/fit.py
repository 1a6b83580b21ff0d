"""`harpoon fit`: train a model on a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import read_for, read_table, save_model
from harpoon.exceptions import ColumnLeftOutWarning, InvalidOption, TableFileError

if TYPE_CHECKING:
    import pyarrow as pa

    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon
    from harpoon.privacy.differential.budget import Privacy


FIT = (
    "harpoon fit penguins.csv -o penguins.harpoon",
    "harpoon fit sales.parquet -o sales.harpoon --max-time 10m --exclude customer --kind region=category",
    "zcat rows.csv.gz | harpoon fit - -o rows.harpoon --max-epochs 50 --seed 1 --json",
    "harpoon fit people.csv -o people.harpoon --schema people.json --epsilon 2 --delta 1e-6   (differential privacy)",
    "harpoon fit large.parquet -o large.harpoon --max-time 8h --checkpoint large.checkpoint --option hidden=512",
    "harpoon fit survey.csv -o survey.harpoon --weights weight",
)

PUBLIC_SCHEMA = (
    "The guarantee of differential privacy holds only if the schema was written without a look at the rows. One that "
    "`harpoon schema` read off the table holds its exact labels and ranges."
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


@dataclass(frozen=True)
class PrivacyOptions:
    """Options of differential privacy."""

    epsilon: Annotated[
        float | None, Option(metavar="NUMBER", help="Differential privacy: ε of the training. Needs --delta, --schema.")
    ] = None
    delta: Annotated[
        float | None, Option(metavar="NUMBER", help="Differential privacy: δ, far below 1 / the number of rows.")
    ] = None
    secure: Annotated[
        bool, Option("--secure", help="Differential privacy: noise from cryptographic random numbers.")
    ] = False
    dp_steps: Annotated[
        int | None, Option(metavar="N", help="Differential privacy: number of training steps, 2000 by default.")
    ] = None
    dp_rate: Annotated[
        float | None,
        Option(
            metavar="NUMBER",
            help="Differential privacy: probability with which each row takes part in a step, 0.02 by default.",
        ),
    ] = None

    @property
    def budget(self) -> Privacy | None:
        """The budget; None without one."""
        from harpoon.privacy.differential.budget import Privacy

        steps = {"steps": self.dp_steps, "sample_rate": self.dp_rate}
        given: dict[str, Any] = {name: value for name, value in steps.items() if value is not None}
        if self.epsilon is None and self.delta is None and not self.secure and not given:
            return None
        if self.epsilon is None or self.delta is None:
            raise InvalidOption("Differential privacy takes --epsilon and --delta, such as --epsilon 2 --delta 1e-6.")
        return Privacy(self.epsilon, self.delta, secure=self.secure, **given)


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
        Path | None,
        Option(
            metavar="FILE",
            help="The columns, in a JSON file that `harpoon schema -o` wrote; for --epsilon, in one written by hand.",
        ),
    ] = None,
    weights: Annotated[
        str | None, Option(metavar="COLUMN", help="The column with the weight of each row, such as that of a survey.")
    ] = None,
    *,
    columns: ColumnOptions,
    option: options.OptionValues = None,
    checkpoint: Annotated[
        Path | None,
        Option(metavar="FILE", help="Saves the state of the training; if the file exists, training resumes."),
    ] = None,
    privacy: PrivacyOptions,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Train a model on a table, which may have missing cells. Ctrl-C ends the training early and saves the model."""
    from harpoon.apps.cli.terminal_tables import schema_table
    from harpoon.estimator import Harpoon

    options.check_output(output, force=force)
    values, budget = options.parse_options(option, ["model", "training"]), privacy.budget
    if budget is not None and schema is None:
        raise InvalidOption(
            "Differential privacy takes --schema FILE: a schema that was written without a look at the rows. See the "
            "page on privacy for an example."
        )
    model = Harpoon(
        preset,
        max_time=max_time,
        max_epochs=max_epochs,
        random_state=seed,
        progress=not console.quiet,
        privacy=budget,
        **values,
    )
    with console.warnings_as_notes(hide=(ColumnLeftOutWarning,)):
        complete = budget is None
        rows, model.schema = read_with_schema(table, csv, console, columns, schema, weights, complete=complete)
        if not console.quiet and complete:
            counts = f"{len(model.schema)} columns, {len(model.schema.modelled)} of them modelled"
            console.message(f"{rows.num_rows:,} rows, {counts}", schema_table(model.schema, rows))
        if budget is not None:
            console.note(PUBLIC_SCHEMA)
        model.fit(rows, checkpoint=checkpoint)
    save_model(model, output)
    shown = {} if budget is not None else {"rows": rows.num_rows}  # with privacy the number of rows is private, too
    summary = {"model": str(output), **shown, "bytes": output.stat().st_size, **training_summary(model)}
    console.summary(summary, _describe(summary))


def read_with_schema(
    table: str,
    csv: options.CsvOptions,
    console: Console,
    columns: ColumnOptions,
    file: Path | None = None,
    weights: str | None = None,
    *,
    complete: bool = True,
) -> tuple[pa.Table, Schema]:
    """Read a table and its schema: from a file, or inferred, with changes from the options.

    What the file leaves open is inferred if the schema is to be `complete`.
    """
    from harpoon.data import Schema

    if file is None:
        named = {weights, *columns.kinds, *(columns.exclude or ())}
        rows = _without_index(read_table(table, csv, console, check_texts=True), named, console)
        schema = Schema.infer(rows, kinds=columns.kinds, exclude=columns.exclude or ())
        return rows, schema if weights is None else schema.with_weights(weights)
    try:
        schema = Schema.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise TableFileError.unreadable(f"The schema {str(file)!r}", error) from None
    rows = read_for(schema, table, csv, console)
    for name, kind in columns.kinds.items():
        schema = schema.replace(name, kind=kind)
    for name in columns.exclude or ():
        schema = schema.replace(name, kind="skipped", note="left out on request")
    schema = schema if weights is None else schema.with_weights(weights)
    return rows, schema.complete(rows) if complete else schema


def _without_index(rows: pa.Table, named: set[str | None], console: Console) -> pa.Table:
    """Leave out the index of a pandas table, as pandas does when it reads the file, unless an option names it."""
    from harpoon.data.frame_metadata import index_columns

    index = [name for name in index_columns(rows.schema) if name not in named]
    if not index or len(index) == rows.num_columns:
        return rows
    console.note(f"Left out, because it is the index of a pandas table: {', '.join(index)}.")
    return rows.drop_columns(index)


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
        **({} if model.privacy_ is None else {"steps": model.privacy_.privacy.steps}),
        "privacy": None if model.privacy_ is None else model.privacy_.to_json(),
    }


def _describe(summary: dict[str, Any]) -> str:
    from harpoon.privacy.differential.budget import PrivacyRecord

    validation = summary["validation_loss"]
    loss = "" if validation is None else f", validation loss {validation:.4f}"
    if summary["privacy"] is not None:
        record = PrivacyRecord.from_json(summary["privacy"])
        return f"Differential privacy: {record}. Model: {summary['model']} ({summary['bytes'] / 1e6:.1f} MB)"
    return (
        f"{summary['epochs']} epochs in {summary['seconds']:.0f} s (stopped by {summary['stopped_by']}){loss}. "
        f"{summary['calibration']} Model: {summary['model']} ({summary['bytes'] / 1e6:.1f} MB)"
    )
