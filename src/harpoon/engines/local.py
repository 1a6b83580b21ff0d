"""This machine, one process: tables larger than its memory, block by block.

>>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
>>> from pathlib import Path
>>> from harpoon import Harpoon
>>> table = pa.table({"x": [0.1, 0.9, 0.2, None] * 25, "kind": ["low", "high", None, "low"] * 25})
>>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
>>> with tempfile.TemporaryDirectory() as folder:
...     holes = Path(folder, "holes")
...     holes.mkdir()
...     for number in range(3):
...         pq.write_table(table, holes / f"{number}.parquet")
...     filled = pq.read_table(impute(holes, model, Path(folder, "filled"), block=40))
>>> filled.num_rows, filled["x"].null_count
(300, 0)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harpoon._utils.rng import RandomState
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import DEFAULT_BLOCK_ROWS, ImputeJob, ImputeRequest, Job, Model, SampleJob, Where
from harpoon.engines.runner import run_job
from harpoon.io import ReadOptions


def impute(
    source: str | os.PathLike[str],
    model: Model,
    output: str | os.PathLike[str],
    *,
    where: Where = None,
    draws: int | None = None,
    only: Sequence[str] = (),
    random_state: RandomState = None,
    block_size: int = DEFAULT_BLOCK_ROWS,
    read_options: ReadOptions | None = None,
    force: bool = False,
    progress: bool = False,
) -> Path:
    """Fill the holes of a table that may be larger than memory.

    A run that was killed goes on where it was when it is started again with the same arguments. Whatever else goes
    wrong leaves nothing behind.

    Args:
        source: A Parquet or CSV file, or a folder of them, read in the order of their names.
        model: A fitted model, or its file.
        output: A folder to be made, with one Parquet file for each block; or one file, if the name ends like one.
        where: A condition that every completed row meets.
        draws: Draw so many rows for each, instead of the best values; a first column `draw` numbers them.
        only: The columns to fill; all that the model knows by default. All others are passed on.
        random_state: A seed or a NumPy generator.
        block: Rows in memory at a time. What a row gets does not depend on it.
        how: Delimiter, encoding and the like of CSV files, where they should not be found out.
        force: Whether to replace an earlier output.
        progress: Whether to show a bar.
    """
    filling = ImputeRequest.create(model, where=where, draws=draws, only=only, random_state=random_state)
    job = ImputeJob.create(source, filling, block_size=block_size, read_options=read_options)
    return run_job(job, output, run, force=force, progress=progress)


def sample(
    n: int,
    model: Model,
    output: str | os.PathLike[str],
    *,
    where: Where = None,
    given: Mapping[str, object] | None = None,
    strategy: str = "auto",
    random_state: RandomState = None,
    block_size: int = DEFAULT_BLOCK_ROWS,
    force: bool = False,
    progress: bool = False,
) -> Path:
    """Draw rows, also more of them than memory holds.

    Args:
        n: How many.
        model: A fitted model, or its file.
        output: As for `impute`.
        where: A condition that every row meets. Rows under a condition are drawn 10,000 together.
        given: Values of columns that all rows share.
        strategy: How to meet the condition.
        random_state: A seed or a NumPy generator.
        block: Rows in memory at a time. Which rows are drawn does not depend on it.
        force: Whether to replace an earlier output.
        progress: Whether to show a bar.
    """
    job = SampleJob.create(n, model, where=where, given=given, strategy=strategy, random_state=random_state, block_size=block_size)
    return run_job(job, output, run, force=force, progress=progress)


def run(job: Job, parts: BlockStore, blocks: list[Block]) -> Iterator[Block]:
    """Blocks one after the other, in this process."""
    return parts.process(job, blocks)
