"""The commands of `harpoon-bench`: one per experiment, and two that write pages from the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harpoon.exceptions import HarpoonError, InvalidOption
from harpoon_bench.baselines import METHODS
from harpoon_bench.doc_tables import PAGES, write_tables
from harpoon_bench.experiments import Run, make_cells
from harpoon_bench.pages import PUBLISHED, write_page
from harpoon_bench.records import RESULTS, Cell, Results
from harpoon_bench.reproduction import describe_items, paper_items, select

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The experiments of the Harpoon paper, its baselines and metrics, with published and measured numbers.",
)


DatasetNames = Annotated[
    str | None, typer.Option(help="Data sets, separated by commas.", show_default="the experiment's")
]
MethodNames = Annotated[str | None, typer.Option(help="Methods, separated by commas.", show_default="the experiment's")]
Masks = Annotated[str | None, typer.Option(help="MCAR, MAR, MNAR.", show_default="the experiment's")]
Ratios = Annotated[str | None, typer.Option(help="Fractions of hidden cells.", show_default="the experiment's")]
Conditions = Annotated[str | None, typer.Option(help="range, category, and, or.", show_default="all four")]
Seeds = Annotated[
    str | None, typer.Option(help="Seeds of masks or samples, such as 0,1,2.", show_default="the experiment's")
]
Budget = Annotated[float | None, typer.Option(help="Most seconds of training.", show_default="the authors' setting")]
Options = Annotated[list[str] | None, typer.Option("--option", help="An option of the methods, such as hidden=256.")]
Limit = Annotated[
    float | None, typer.Option(help="Seconds after which a training or an answer is stopped.", show_default="none")
]
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets.", show_default="HARPOON_DATA, or downloaded")]
Models = Annotated[Path | None, typer.Option(help="Folder of trained models.", show_default="in the user's cache")]
ResultsFolder = Annotated[Path, typer.Option(help="Folder of the records.")]
OnlyList = Annotated[bool, typer.Option("--list", help="Only print what is missing and how long that takes.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Measure failed cells again.")]


EXPERIMENTS = {
    "imputation": "Hide cells of test rows and impute them: the paper's imputation tables.",
    "constraints": "Sample rows under the paper's conditions: its two tables of constraints.",
    "ablation": "Change loss, schedule, encoding and scaling of the paper's preset, one at a time.",
    "runtime": "Measure how long methods take to impute Adult's test rows.",
    "geometry": "Measure gradient angles of both presets, and the theorems on the circle and the sphere.",
    "fidelity": "Sample rows without a condition and score them against test rows.",
    "statistics": "Count rows, columns and the training rows that satisfy each condition.",
}


def main() -> None:
    """Run the command line."""
    try:
        app()
    except HarpoonError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from None


def _make_command(experiment: str) -> Callable[..., None]:
    """Return the command of an experiment; all have the same options."""

    def command(
        *,
        datasets: DatasetNames = None,
        methods: MethodNames = None,
        masks: Masks = None,
        ratios: Ratios = None,
        conditions: Conditions = None,
        seeds: Seeds = None,
        option: Options = None,
        budget: Budget = None,
        limit: Limit = None,
        data: Data = None,
        models: Models = None,
        results: ResultsFolder = RESULTS,
        retry_failed: RetryFailed = False,
    ) -> None:
        selection: dict[str, Any] = {
            "datasets": _split(datasets),
            "methods": _split(methods),
            "masks": _split(masks),
            "ratios": _split(ratios, float),
            "conditions": _split(conditions),
            "seeds": _split(seeds, int),
            "options": [dict(map(_parse_option, option))] if option else [],
        }
        _measure(Run(results, data, models, limit, retry_failed), make_cells(experiment, budget, **selection))

    return command


for _name, _help in EXPERIMENTS.items():
    app.command(_name, help=_help)(_make_command(_name))


@app.command()
def methods() -> None:
    """List the methods."""
    typer.echo("\n".join(METHODS))


@app.command("results")
def reproduce(
    *,
    only_list: OnlyList = False,
    datasets: DatasetNames = None,
    methods: MethodNames = None,
    limit: Limit = None,
    data: Data = None,
    models: Models = None,
    results: ResultsFolder = RESULTS,
    output: Annotated[Path, typer.Option(help="Folder of the page and its figures.")] = Path("docs"),
    retry_failed: RetryFailed = False,
) -> None:
    """Measure whatever a table or figure of the paper lacks, and write the pages."""
    run = Run(results, data, models, limit, retry_failed)
    items = select(paper_items(), _split(datasets), _split(methods))
    typer.echo(describe_items(items, run))
    if only_list:
        return
    for item in items:
        if run.remaining(item.cells):
            typer.echo(item.title)
            _measure(run, list(item.cells))
    typer.echo(write_page(results, output))
    for path in write_tables([path for pattern in PAGES for path in sorted(Path().glob(pattern))], results.parent):
        typer.echo(path)


@app.command()
def page(
    results: ResultsFolder = RESULTS,
    output: Annotated[Path, typer.Option(help="Folder of the page and its figures.")] = Path("docs"),
    published: Annotated[
        Path, typer.Option(help="Folder of the published tables, as CSV.", show_default="in the package")
    ] = PUBLISHED,
) -> None:
    """Write results.md and its figures from the records and the published tables."""
    typer.echo(write_page(results, output, published))


@app.command()
def tables(
    files: Annotated[list[Path] | None, typer.Argument(help="Markdown files.", show_default=" ".join(PAGES))] = None,
    results: Annotated[Path, typer.Option(help="Folder of all results.")] = RESULTS.parent,
) -> None:
    """Write the tables between `<!-- table: name -->` and `<!-- end -->` in Markdown files from the records."""
    paths = files or [path for pattern in PAGES for path in sorted(Path().glob(pattern))]
    for path in write_tables(paths, results):
        typer.echo(path)


def _measure(run: Run, cells: list[Cell]) -> None:
    """Measure the cells without a record, with a progress bar on the standard error."""
    if not cells:
        raise InvalidOption("The selected data sets have no such cells. Select others.")
    remaining = run.remaining(cells)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("Starting", total=len(remaining))
            run(remaining, lambda cell: progress.update(task, advance=1, description=f"{cell.dataset} {cell.variant}"))
    except KeyboardInterrupt:
        typer.echo(f"Stopped. Finished cells are in {run.results}; the same command continues.", err=True)
        raise typer.Exit(130) from None
    failed = [cell for cell in cells if not Results(run.results).has(cell, successful=True)]
    typer.echo(f"{len(remaining)} cells measured, {len(cells) - len(remaining)} measured before, in {run.results}")
    if failed:
        typer.echo(f"{len(failed)} of them failed; their records say why. Try again with --retry-failed.", err=True)


def _split(text: str | None, convert: Callable[[str], Any] = str) -> list[Any]:
    """Split a list at its commas."""
    try:
        return [] if text is None else [convert(part.strip()) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be numbers separated by commas.") from None


def _parse_option(text: str) -> tuple[str, Any]:
    """Return the name and the value of `name=value`; a value that is not JSON is a string."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    main()
