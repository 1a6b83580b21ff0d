"""`harpoon evaluate` and `harpoon report`: the quality of a model and of its rows, as one HTML page."""

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
    "harpoon report penguins.harpoon penguins.csv -o sampled.html",
)


DEFAULT_ROWS = 5000  # that of `harpoon.report`, which is too heavy to import for a help text


Page = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page, an HTML file.")]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help=f"Rows to sample and to evaluate; {DEFAULT_ROWS:,} by default."),
]
RowsSampled = Annotated[
    int | None,
    typer.Option(
        "--rows", min=1, help=f"Rows to sample; by default as many as TABLE has, or {DEFAULT_ROWS:,} without a table."
    ),
]


def evaluate(
    model: options.ModelFile,
    test: Annotated[str, typer.Argument(metavar="TEST", help="A table that the model was not trained on.")],
    train: Annotated[
        str | None, typer.Option("--train", metavar="TABLE", help="The training table, to search it for copies.")
    ] = None,
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
    """Hide cells of a test table and score how the model fills them, and compare sampled rows with real rows."""
    console = Console(json, quiet)
    _check_output(output, json=json, force=force)
    loaded = load_model(model, console)
    how = options.read_options(delimiter, encoding, missing)
    table = _read_like_model(test, loaded, how, console)
    original = None if train is None else _read_like_model(train, loaded, how, console)
    with console.warnings_as_notes():
        from harpoon import report

        summary = report.evaluate(
            loaded, table, train=original, where=where, random_state=seed, **_drop_none(rows=rows)
        )
    _show(summary, output, console, force=force)


def report(
    first: Annotated[str, typer.Argument(metavar="MODEL|REAL", help="A model, or a table of real rows.")],
    second: Annotated[
        str | None, typer.Argument(metavar="TABLE|SYNTHETIC", help="A table to compare with.", show_default=False)
    ] = None,
    output: Page = None,
    where: options.Where = None,
    rows: RowsSampled = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Describe a model, or compare two tables: real rows with synthetic rows, or with rows that the model samples."""
    console = Console(json, quiet)
    _check_output(output, json=json, force=force)
    how = options.read_options(delimiter, encoding, missing)
    with console.warnings_as_notes():
        if is_model(first):
            summary = _report_model(Path(first), second, where, rows, seed, how, console)
        elif second is None:
            raise InvalidOption(f"{first!r} is not a model. Compare it with a second table, or give a model.")
        elif where is not None or rows is not None:
            unused = "--where" if where is not None else "--rows"
            raise InvalidOption(f"{unused} needs a model; two tables are compared as they are, with all their rows.")
        else:
            summary = _compare_tables(first, second, seed, how, console)
    _show(summary, output, console, force=force)


def _report_model(
    path: Path,
    second: str | None,
    where: str | None,
    rows: int | None,
    seed: int | None,
    how: ReadOptions,
    console: Console,
) -> Mapping[str, Any]:
    from harpoon import report
    from harpoon.data import dataframe

    model = load_model(path, console)
    if second is None:
        return report.describe(model, where=where, random_state=seed, **_drop_none(rows=rows))
    real = _read_like_model(second, model, how, console)
    sampled = dataframe.read(model.sample(rows or max(real.num_rows, 1), where=where, random_state=seed)).arrow
    return report.compare(real, sampled, random_state=seed)


def _compare_tables(first: str, second: str, seed: int | None, how: ReadOptions, console: Console) -> Mapping[str, Any]:
    import pyarrow as pa

    from harpoon import report

    real = read_table(first, how, console)
    types = {f.name: f.type for f in real.schema if not pa.types.is_null(f.type) and not pa.types.is_dictionary(f.type)}
    return report.compare(real, read_table(second, replace(how, types=types), console), random_state=seed)


def _read_like_model(location: str, model: Harpoon, how: ReadOptions, console: Console) -> Any:  # noqa: ANN401
    from harpoon.data.arrow_types import text_types

    return read_table(location, replace(how, types=text_types(model.schema_)), console)


def _drop_none(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def _check_output(output: Path | None, *, json: bool, force: bool) -> None:
    if output is None and not json:
        raise InvalidOption("Give a file for the page, with -o report.html, or print the numbers with --json.")
    if output is not None:
        options.check_output(output, force=force)


def _show(summary: Mapping[str, Any], output: Path | None, console: Console, *, force: bool) -> None:
    if output is not None:
        from harpoon.report import Page

        Page(summary).save(output, force=force)
    lines = [f"{line['name']}: {line['text']}. {line['meaning']}" for line in summary.get("headlines", ())]
    console.summary(summary, *lines, f"Report: {output}")
