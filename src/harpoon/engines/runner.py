"""A job from its first block to its output, whatever the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from harpoon._utils.progress import rows_bar
from harpoon.engines.block_store import BlockStore, collect
from harpoon.engines.blocks import Block
from harpoon.engines.job import Job
from harpoon.exceptions import InvalidOption

Run = Callable[[Job, BlockStore, list[Block]], Iterator[Block]]
ENGINES = ("local", "ray", "spark")


def run_on(engine: str, workers: int | None = None) -> Run:
    """What does blocks on the engine of that name: on the cluster that is configured, or on this machine."""
    if engine not in ENGINES:
        raise InvalidOption.one_of("engine", engine, ENGINES)
    if engine == "local":
        from harpoon.engines import local

        if workers not in (None, 1):
            raise InvalidOption(
                f'The local engine is one process, not {workers}. Use engine="ray" for more workers.',
                code="local_engine_workers",
                workers=workers,
            )
        return local.run
    if engine == "ray":
        from harpoon.engines import ray

        ray.connect(workers)
        return partial(ray.run, workers=workers)
    from harpoon.engines import spark

    return partial(spark.run, workers=workers)


def run_job(job: Job, output: str | os.PathLike[str], run: Run, *, force: bool = False, progress: bool = True) -> Path:
    """Do what is left of a job, and say where its output is.

    Args:
        job: What is to be done.
        output: One file, if its name ends in .parquet, .csv or the like; a folder of Parquet files otherwise.
        run: Does blocks on some engine, and yields each when its part has been written.
        force: Whether to replace an earlier output.
        progress: Whether to show a bar.
    """
    blocks = job.blocks
    with collect(job, output, force=force) as (seeded, parts):
        left = parts.left(blocks)
        with rows_bar("Rows", sum(block.rows for block in blocks), show=progress) as advance:
            advance(sum(block.rows for block in blocks) - sum(block.rows for block in left))
            for block in run(seeded, parts, left):
                advance(block.rows)
    return Path(output)
