"""`harpoon bench`: one command per experiment, and one that makes pages of what they found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harpoon_bench.experiments import Run
    from harpoon_bench.records import Cell


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The paper's tables and figures, its baselines and metrics, and our numbers beside them.",
)


Names = Annotated[str | None, typer.Option(help="Names with commas between them.", show_default="the experiment's")]
Masks = Annotated[str | None, typer.Option(help="Of MCAR, MAR, MNAR.", show_default="the experiment's")]
Ratios = Annotated[str | None, typer.Option(help="Shares of hidden cells.", show_default="the experiment's")]
Conditions = Annotated[str | None, typer.Option(help="Of range, category, and, or.", show_default="all four")]
Seeds = Annotated[str | None, typer.Option(help="Of masks or draws, such as 0,1,2.", show_default="the experiment's")]
Budget = Annotated[
    float | None, typer.Option(help="Seconds of training at the most.", show_default="as the method's authors do")
]
Options = Annotated[list[str] | None, typer.Option("--option", help="A setting of the methods, such as loss=mse.")]
Limit = Annotated[
    float | None, typer.Option(help="Seconds after which a training or an answer is ended.", show_default="none")
]
Data = Annotated[
    Path | None, typer.Option(help="The folder of the data sets.", show_default="HARPOON_DATA, or downloaded")
]
Models = Annotated[Path | None, typer.Option(help="The folder of trained models.", show_default="in the user's cache")]
Folder = Annotated[Path, typer.Option(help="The folder of the records.")]
Again = Annotated[bool, typer.Option("--again", help="Repeat what has failed.")]
RESULTS = Path("results")


EXPERIMENTS = {
    "imputation": "Hide cells of test rows and let methods fill them: the paper's imputation tables.",
    "constraints": "Draw rows that meet the paper's conditions: its two tables of constraints.",
    "ablation": "Change loss, schedule, encoding and scaling of the paper's preset, one at a time.",
    "runtime": "Time how long methods take to fill Adult's test rows, in one run.",
    "geometry": "Measure gradient angles of both presets, and the theorems on the circle and the sphere.",
    "fidelity": "Draw rows without a condition and compare them with test rows.",
}


def _command(experiment: str) -> Callable[..., None]:
    """The command of an experiment; all take the same options."""

    def command(
        *,
        datasets: Names = None,
        methods: Names = None,
        masks: Masks = None,
        ratios: Ratios = None,
        conditions: Conditions = None,
        seeds: Seeds = None,
        option: Options = None,
        budget: Budget = None,
        limit: Limit = None,
        data: Data = None,
        models: Models = None,
        results: Folder = RESULTS,
        again: Again = False,
    ) -> None:
        from harpoon_bench.experiments import Run, cells

        chosen: dict[str, Any] = {
            "datasets": _split(datasets),
            "methods": _split(methods),
            "masks": _split(masks),
            "ratios": _split(ratios, float),
            "conditions": _split(conditions),
            "seeds": _split(seeds, int),
            "options": [dict(map(_setting, option))] if option else [],
        }
        _do(Run(results, data, models, limit, again), cells(experiment, budget, **chosen))

    return command


for _name, _help in EXPERIMENTS.items():
    app.command(_name, help=_help)(_command(_name))


@app.command()
def methods() -> None:
    """List the methods by name."""
    from harpoon_bench.baselines import METHODS

    typer.echo("\n".join(METHODS))


@app.command()
def page(
    published: Annotated[Path, typer.Option(help="The folder of the published tables, as CSV.")],
    results: Folder = RESULTS,
    output: Annotated[Path, typer.Option(help="The folder of the page and its figures.")] = Path("docs"),
) -> None:
    """Make results.md and its figures from the records and the published tables."""
    from harpoon_bench.pages import write_page

    typer.echo(write_page(results, published, output))


def _do(run: Run, todo: list[Cell]) -> None:
    """Do the cells that have no record, with a bar and the time left on the standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from harpoon.exceptions import InvalidOption
    from harpoon_bench.records import Results

    if not todo:
        raise InvalidOption("There is nothing to do: the data sets that were asked for have no such cells.")
    left = run.left(todo)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("Starting", total=len(left))
            run(left, lambda cell: progress.update(task, advance=1, description=f"{cell.dataset} {cell.variant}"))
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What was done is kept in {run.results}; the same command goes on.", err=True)
        raise typer.Exit(130) from None
    failed = [cell for cell in todo if not Results(run.results).done(cell, again=True)]
    typer.echo(f"{len(left)} cells done now, {len(todo) - len(left)} before, in {run.results}")
    if failed:
        typer.echo(f"{len(failed)} of them failed, as their records say; repeat them with --again.", err=True)


def _split(text: str | None, kind: Callable[[str], Any] = str) -> list[Any]:
    """The parts of a list with commas."""
    try:
        return [] if text is None else [kind(part.strip()) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be numbers with commas between them.") from None


def _setting(text: str) -> tuple[str, Any]:
    """A setting as name and value: a number where it is one."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
