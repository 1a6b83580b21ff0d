"""`harpoon audit`: attacks on a model, as text, JSON or one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model, read_table

AUDIT = (
    "harpoon audit penguins.harpoon train.csv holdout.csv",
    "harpoon audit penguins.harpoon train.csv holdout.csv -o audit.html --json > audit.json",
    "harpoon audit penguins.harpoon train.csv holdout.csv --shadow-models 16",
)


def audit(
    model: options.ModelFile,
    train: Annotated[str, Argument(metavar="TRAIN", help="The table that the model was trained on.")],
    holdout: Annotated[
        str, Argument(metavar="HOLDOUT", help="Rows of the same source that the model was not trained on.")
    ],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="A page, an HTML file.")] = None,
    rows: Annotated[int, Option(min=1, metavar="N", help="Rows of each table to attack, at most.")] = 2000,
    k: Annotated[int, Option(min=1, metavar="N", help="Labels and extremes of fewer training rows are rare.")] = 10,
    shadow_models: Annotated[
        int,
        Option(
            min=0,
            metavar="N",
            help="Models to train for one more attack, which compares the likelihood of a row with that under models "
            "without it; 16, say. Each takes about as long as the model did.",
        ),
    ] = 0,
    *,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Attack a model: what do its rows reveal about the training rows that they do not reveal about any other row?

    Each attack has a light: green, yellow or red. An audit is no guarantee.
    """
    from harpoon.data.arrow_types import text_types

    if output is not None:
        options.check_output(output, force=force)
    loaded = load_model(model, console)
    types = text_types(loaded.schema_)
    with console.warnings_as_notes():
        tables = [
            read_table(each, csv_of, console, types)
            for each, csv_of in zip((train, holdout), csv.by_table(train, holdout), strict=True)
        ]
        found = loaded.audit(*tables, rows=rows, k=k, shadow_models=shadow_models, random_state=seed)
    found = found.with_names(model=str(model), train=train, holdout=holdout)
    if output is not None:
        from harpoon.report import Page, summarize_audit

        Page(summarize_audit(found)).save(output, force=force)
        console.message(f"Report: {output}")
    console.result(found.to_json(), str(found))
