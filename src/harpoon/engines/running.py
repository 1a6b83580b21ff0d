"""A job from its first block to its output, whatever the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from harpoon.engines.jobs import Job
from harpoon.engines.parts import Parts, collected
from harpoon.engines.shards import Block
from harpoon.progress import rows_bar

Run = Callable[[Job, Parts, list[Block]], Iterator[Block]]


def finished(job: Job, output: str | os.PathLike[str], run: Run, *, force: bool = False, progress: bool = True) -> Path:
    """Do what is left of a job, and say where its output is.

    Args:
        job: What is to be done.
        output: One file, if its name ends in .parquet, .csv or the like; a folder of Parquet files otherwise.
        run: Does blocks on some engine, and yields each when its part has been written.
        force: Whether to replace an earlier output.
        progress: Whether to show a bar.
    """
    blocks = job.blocks
    with collected(job, output, force=force) as (seeded, parts):
        left = parts.left(blocks)
        with rows_bar("Rows", sum(block.rows for block in blocks), show=progress) as advance:
            advance(sum(block.rows for block in blocks) - sum(block.rows for block in left))
            for block in run(seeded, parts, left):
                advance(block.rows)
    return Path(output)
