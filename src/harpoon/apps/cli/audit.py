"""`harpoon audit`: attacks on a model, as text, JSON or one HTML page."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model, read_for

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
    page: options.PageOptions,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    console: Console,
) -> None:
    """Attack a model: what do its rows reveal about the training rows that they do not reveal about any other row?

    Each attack has a light: green, yellow or red. An audit is no guarantee.
    """
    page.check()
    loaded = load_model(model, console)
    with console.warnings_as_notes():
        tables = [
            read_for(loaded.schema_, each, csv_of, console)
            for each, csv_of in zip((train, holdout), csv.by_table(train, holdout), strict=True)
        ]
        found = loaded.audit(*tables, rows=rows, k=k, shadow_models=shadow_models, random_state=seed)
    found = found.with_names(model=str(model), train=train, holdout=holdout)
    if page.output is not None:
        from harpoon.report import summarize_audit

        page.save(summarize_audit(found))
        console.message(f"Report: {page.output}")
    console.result(found.to_json(), str(found))
