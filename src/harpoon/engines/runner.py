"""Run a job on any engine, from its first unfinished block to the complete output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harpoon._utils.progress import rows_bar
from harpoon.engines.block_store import assemble_output
from harpoon.engines.job import Job

if TYPE_CHECKING:
    from harpoon.engines import Run


def run_job(job: Job, output: str | os.PathLike[str], run: Run, *, force: bool = False, progress: bool = True) -> Path:
    """Process the unfinished blocks of a job and return the output.

    Args:
        job: The job.
        output: One file, if its name ends like a table file; otherwise a folder of Parquet files.
        run: The `run` of an engine: processes blocks and yields each when it is in the store.
        force: Whether to replace an earlier output.
        progress: Whether to show a progress bar.
    """
    blocks = job.blocks
    with assemble_output(job, output, force=force) as (seeded, store):
        unfinished = store.unfinished(blocks)
        with rows_bar("Rows", sum(block.n_rows for block in blocks), show=progress) as advance:
            advance(sum(block.n_rows for block in blocks) - sum(block.n_rows for block in unfinished))
            for block in run(seeded, store, unfinished):
                advance(block.n_rows)
    return Path(output)
