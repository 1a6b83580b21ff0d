"""`harpoon impute` and `harpoon sample` on an engine: from files to a folder of files, with a bar."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.engines import ENGINES, start_engine
from harpoon.engines.job import ImputeRequest, deserialize_model
from harpoon.engines.runner import run_job
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harpoon.engines.job import Job


def checked(engine: str, output: str, format: str) -> str:  # noqa: A002
    """The engine, if it can write what is asked for."""
    if engine not in ENGINES:
        raise InvalidOption.one_of("--engine", engine, ENGINES)
    if output == "-" or "://" in output:
        raise InvalidOption("An engine writes a folder of Parquet files, or a file: add -o FOLDER.")
    if format:
        raise InvalidOption("An engine writes Parquet, or one file by its name: leave --format out.")
    return engine


def filling(
    model: Path, *, where: str | None, draws: int | None, only: Sequence[str], seed: int | None
) -> ImputeRequest:
    """What fills, by options."""
    every = ImputeRequest.create(model, where=where, draws=draws, only=(), random_state=seed)
    return replace(every, only=tuple(options.named(only, deserialize_model(every.model).schema_.names)))


def run(job: Job, output: str, talk: Console, engine: str, workers: int | None, *, force: bool) -> None:
    """Do a job, and say what was done."""
    began = perf_counter()
    run_job(job, output, start_engine(engine, workers), force=force, progress=talk.progress)
    rows = sum(map(job.n_output_rows, job.blocks))
    seconds = round(perf_counter() - began, 3)
    done = {"output": output, "rows": rows, "engine": engine, "workers": workers, "seconds": seconds}
    talk.told(done, f"{rows:,} rows in {output}")
