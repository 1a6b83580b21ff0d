"""`harpoon evaluate` and `harpoon report`: the quality of a model and of its rows, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import is_model, load_model, read_for, read_table
from harpoon.config import DEFAULT_REPORT_ROWS
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping

EVALUATE = (
    "harpoon evaluate penguins.harpoon test.csv -o report.html",
    "harpoon evaluate penguins.harpoon test.csv --where \"species = 'Gentoo'\" --json > scores.json",
)
REPORT = (
    "harpoon report real.csv synthetic.csv -o comparison.html",
    "harpoon report penguins.harpoon -o model.html",
    "harpoon report penguins.harpoon penguins.csv -o sampled.html",
)


def evaluate(
    model: options.ModelFile,
    test: Annotated[str, Argument(metavar="TEST", help="A table that the model was not trained on.")],
    train: Annotated[str | None, Option(metavar="TABLE", help="The training table, to search it for copies.")] = None,
    where: options.Where = None,
    rows: Annotated[
        int | None,
        Option(min=1, metavar="N", help=f"Rows to sample and to evaluate; {DEFAULT_REPORT_ROWS:,} by default."),
    ] = None,
    *,
    page: options.PageOptions,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    console: Console,
) -> None:
    """Hide cells of a test table and score how the model fills them, and compare sampled rows with real rows."""
    from harpoon import report

    _check_output(page, console)
    loaded = load_model(model, console)
    csv_of = csv.by_table(test, *([] if train is None else [train]))
    table = read_for(loaded.schema_, test, csv_of[0], console)
    original = None if train is None else read_for(loaded.schema_, train, csv_of[1], console)
    with console.warnings_as_notes():
        summary = report.evaluate(
            loaded, table, train=original, where=where, rows=rows or DEFAULT_REPORT_ROWS, random_state=seed
        )
    _show(summary, page, console)


def report(
    first: Annotated[str, Argument(metavar="MODEL|REAL", help="A model, or a table of real rows.")],
    second: Annotated[
        str | None, Argument(metavar="TABLE|SYNTHETIC", help="A table to compare with.", show_default=False)
    ] = None,
    where: options.Where = None,
    rows: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help=f"Rows to sample; by default as many as TABLE has, or {DEFAULT_REPORT_ROWS:,} without a table.",
        ),
    ] = None,
    *,
    page: options.PageOptions,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    console: Console,
) -> None:
    """Describe a model, or compare two tables: real rows with synthetic rows, or with rows that the model samples."""
    import pyarrow as pa

    from harpoon import report
    from harpoon.data import dataframe

    _check_output(page, console)
    with console.warnings_as_notes():
        if is_model(first):
            model = load_model(Path(first), console)
            if second is None:
                summary = report.describe(model, where=where, rows=rows or DEFAULT_REPORT_ROWS, random_state=seed)
            else:
                real = read_for(model.schema_, second, csv, console)
                sampled = model.sample(rows or max(real.num_rows, 1), where=where, random_state=seed)
                summary = report.compare(real, dataframe.read(sampled).arrow, random_state=seed)
        elif second is None:
            raise InvalidOption(f"{first!r} is not a model. Compare it with a second table, or give a model.")
        elif where is not None or rows is not None:
            unused = "--where" if where is not None else "--rows"
            raise InvalidOption(f"{unused} needs a model; two tables are compared as they are, with all their rows.")
        else:
            first_csv, second_csv = csv.by_table(first, second)
            real = read_table(first, first_csv, console)
            known = [f for f in real.schema if not pa.types.is_null(f.type) and not pa.types.is_dictionary(f.type)]
            types = {f.name: f.type for f in known}
            summary = report.compare(real, read_table(second, second_csv, console, types), random_state=seed)
    _show(summary, page, console)


def _check_output(page: options.PageOptions, console: Console) -> None:
    page.check()
    if page.output is None and not console.json:
        raise InvalidOption("Give a file for the page, with -o report.html, or print the numbers with --json.")


def _show(summary: Mapping[str, Any], page: options.PageOptions, console: Console) -> None:
    page.save(summary)
    lines = [
        f"{one['name']}: {one['text']}{one['target'] and ' (' + one['target'] + ')'}. {one['meaning']}"
        for one in summary.get("headlines", ())
    ]
    console.summary(summary, *lines, f"Report: {page.output}")
