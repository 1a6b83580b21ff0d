"""`harpoon evaluate` and `harpoon report`: how good a model is and how real its rows look, as a page to send on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import is_model, load_model, read_table
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harpoon.estimator import Harpoon
    from harpoon.io import ReadOptions


EVALUATE = (
    "harpoon evaluate penguins.harpoon test.csv -o report.html",
    "harpoon evaluate penguins.harpoon test.csv --where \"species = 'Gentoo'\" --json > scores.json",
)
REPORT = (
    "harpoon report real.csv synthetic.csv -o comparison.html",
    "harpoon report penguins.harpoon -o model.html",
    "harpoon report penguins.harpoon penguins.csv -o drawn.html",
)


ROWS = 5000  # that of `harpoon.report`, which is too heavy to ask for a help text


Page = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page, one HTML file.")]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help=f"How many rows to draw and to look at; {ROWS:,} by default."),
]
RowsDrawn = Annotated[
    int | None,
    typer.Option(
        "--rows", min=1, help=f"How many rows the model draws: by default as many as TABLE has, without one {ROWS:,}."
    ),
]


def evaluate(
    model: options.ModelFile,
    test: Annotated[str, typer.Argument(metavar="TEST", help="A table that the model was not trained on.")],
    output: Page = None,
    where: options.Where = None,
    rows: Rows = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Hide cells of a test table and score what the model makes of them, and compare drawn rows with real ones."""
    talk = Console(json, quiet)
    _check_output(output, json=json, force=force)
    loaded = load_model(model, talk)
    table = _like_model(test, loaded, options.reading(delimiter, encoding, missing), talk)
    with talk.notes():
        from harpoon import report

        summary = report.evaluate(loaded, table, where=where, random_state=seed, **_given(rows=rows))
    _show(summary, output, talk, force=force)


def report(
    first: Annotated[str, typer.Argument(metavar="MODEL|REAL", help="A model, or a table of real rows.")],
    second: Annotated[
        str | None, typer.Argument(metavar="[TABLE|SYNTHETIC]", help="A table to compare with.", show_default=False)
    ] = None,
    output: Page = None,
    where: options.Where = None,
    rows: RowsDrawn = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Describe a model, or compare two tables: real rows with synthetic ones, or with rows that the model draws."""
    talk = Console(json, quiet)
    _check_output(output, json=json, force=force)
    how = options.reading(delimiter, encoding, missing)
    with talk.notes():
        if is_model(first):
            summary = _of_model(Path(first), second, where, rows, seed, how, talk)
        elif second is None:
            raise InvalidOption(f"{first!r} is no model. Compare it with a second table, or give a model.")
        elif where is not None or rows is not None:
            unused = "--where" if where is not None else "--rows"
            raise InvalidOption(f"{unused} needs a model; two tables are compared as they are, with all their rows.")
        else:
            summary = _of_tables(first, second, seed, how, talk)
    _show(summary, output, talk, force=force)


def _of_model(
    path: Path,
    second: str | None,
    where: str | None,
    rows: int | None,
    seed: int | None,
    how: ReadOptions,
    talk: Console,
) -> Mapping[str, Any]:
    from harpoon import report
    from harpoon.data import dataframe

    model = load_model(path, talk)
    if second is None:
        return report.describe(model, where=where, random_state=seed, **_given(rows=rows))
    real = _like_model(second, model, how, talk)
    drawn = dataframe.read(model.sample(rows or max(real.num_rows, 1), where=where, random_state=seed)).arrow
    return report.compare(real, drawn, random_state=seed)


def _of_tables(first: str, second: str, seed: int | None, how: ReadOptions, talk: Console) -> Mapping[str, Any]:
    import pyarrow as pa

    from harpoon import report

    real = read_table(first, how, talk)
    types = {f.name: f.type for f in real.schema if not pa.types.is_null(f.type) and not pa.types.is_dictionary(f.type)}
    return report.compare(real, read_table(second, replace(how, types=types), talk), random_state=seed)


def _like_model(place: str, model: Harpoon, how: ReadOptions, talk: Console) -> Any:  # noqa: ANN401
    from harpoon.data.arrow_types import text_types

    return read_table(place, replace(how, types=text_types(model.schema_)), talk)


def _given(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    """The arguments that were given."""
    return {name: value for name, value in arguments.items() if value is not None}


def _check_output(output: Path | None, *, json: bool, force: bool) -> None:
    if output is None and not json:
        raise InvalidOption("Say where the page goes, with -o report.html, or ask for numbers with --json.")
    if output is not None:
        options.check_free(output, force=force)


def _show(summary: Mapping[str, Any], output: Path | None, talk: Console, *, force: bool) -> None:
    if output is not None:
        from harpoon.report import Page

        Page(summary).save(output, force=force)
    words = [f"{line['name']}: {line['text']}. {line['meaning']}" for line in summary.get("headlines", ())]
    talk.told(summary, *words, f"Report: {output}")
