"""The command line: arguments to model to file, and errors as one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from harpoon._version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"harpoon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Train one diffusion model on a table, then fill any hole and draw rows under any condition."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("demo-output"),
    seconds: Annotated[float, typer.Option(help="Seconds of training at the most.", min=1.0)] = 45.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Fill the holes of the Palmer penguins and draw new ones."""
    from harpoon.demo import CONDITION, ROWS, run

    outcome = run(output, seconds=seconds, progress=not quiet)
    words = ", ".join(f"{column} = {value}" for column, value in CONDITION.items())
    typer.echo(f"{outcome.holes} missing cells filled:   {outcome.filled}")
    typer.echo(f"{ROWS} rows drawn ({words}):   {outcome.drawn}")
    typer.echo(f"Both in one picture:   {outcome.picture}")


def main() -> None:
    """Run a command; an error of ours is one red sentence and exit code 1."""
    from harpoon.errors import HarpoonError

    try:
        app()
    except HarpoonError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}")


def _fail(message: str) -> None:
    sentence = Text.assemble(("Error: ", "bold red"), message)  # as text: a message may hold brackets
    Console(stderr=True).print(sentence, soft_wrap=True)
    sys.exit(1)
