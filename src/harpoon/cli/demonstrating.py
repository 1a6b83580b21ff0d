"""`harpoon demo`: the whole story on a small real table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harpoon.cli import options
from harpoon.cli.talking import Talk

DEMO = ("harpoon demo", "harpoon demo --output somewhere --seconds 20")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write to; what an earlier demo wrote is replaced.")
    ] = Path("demo-output"),
    seconds: Annotated[float, typer.Option(help="Seconds of training at the most.", min=1.0)] = 45.0,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Fill the holes of the Palmer penguins and draw new ones."""
    from harpoon.demo import CONDITION, ROWS, run

    talk = Talk(json, quiet)
    with talk.notes():
        outcome = run(output, seconds=seconds, random_state=seed, progress=talk.progress)
    words = ", ".join(f"{column} = {value}" for column, value in CONDITION.items())
    talk.answer(
        vars(outcome),
        f"{outcome.holes} missing cells filled:   {outcome.filled}",
        f"{ROWS} rows drawn ({words}):   {outcome.drawn}",
        f"Both in one picture:   {outcome.picture}",
        f"The model, to ask it more (harpoon serve):   {outcome.model}",
    )
