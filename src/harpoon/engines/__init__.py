"""Engines: impute and sample tables of any length, on this machine or on a cluster.

Every engine cuts the work into the same blocks of numbered rows and processes a block with the same code. So all
engines give the same rows, with any number of workers. Ray and Spark schedule the blocks; Harpoon has no scheduler.

>>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
>>> from pathlib import Path
>>> from harpoon import Harpoon
>>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
>>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
>>> with tempfile.TemporaryDirectory() as folder:
...     source = Path(folder, "incomplete")
...     source.mkdir()
...     for number in range(3):
...         pq.write_table(table, source / f"{number}.parquet")
...     filled = pq.read_table(impute(source, model, Path(folder, "filled"), block_size=40))
>>> filled.num_rows, filled["x"].null_count
(300, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from typing import Unpack

    from harpoon.engines.block_store import BlockStore
    from harpoon.engines.blocks import Block
    from harpoon.engines.job import ImputeArguments, Job, Model, SampleArguments
    from harpoon.io import ReadOptions

Run = Callable[["Job", "BlockStore", "list[Block]"], Iterator["Block"]]

__all__ = ["ENGINES", "impute", "sample"]

DEFAULT_BLOCK_ROWS = 20_000


def impute(
    source: str | os.PathLike[str],
    model: Model,
    output: str | os.PathLike[str],
    *,
    engine: str = "local",
    workers: int | None = None,
    block_size: int = DEFAULT_BLOCK_ROWS,
    read_options: ReadOptions | None = None,
    force: bool = False,
    progress: bool = False,
    **arguments: Unpack[ImputeArguments],
) -> Path:
    """Impute the missing cells of files that may be larger than memory, and return the output.

    A run that was killed continues with the unfinished blocks when it is started again with the same arguments. Any
    other error leaves nothing behind. A `RangeIndex` of pandas is not a column of a Parquet file and is not kept,
    with a warning if it has a name or a step; to keep it, call `reset_index()` before the file is written.

    Args:
        source: A file, or a folder of files of one format, read in the order of their names.
        model: A fitted model, or the path of its file.
        output: A folder for Parquet files, one per block; or one file, if the name ends like a table file.
        engine: A key of `ENGINES`: "local", "ray" or "spark".
        workers: Number of workers on Ray and Spark; by default as many as there are CPUs.
        block_size: Rows in memory at a time. The result does not depend on it.
        read_options: Delimiter, encoding and the like of CSV files, where they should not be detected.
        force: Whether to replace an earlier output.
        progress: Whether to show a progress bar.
        **arguments: `where`, a condition that every completed row satisfies. `draws`, the number of rows to sample for
            each row, instead of the best values; a first column `draw` numbers them. `only`, the columns to impute; all
            columns of the model by default. Other columns pass through. `options` of sampling and guidance, as for
            `Harpoon.impute`, such as `{"point": "median"}`. `random_state`, a seed or a NumPy generator.
    """
    from harpoon.engines.block_store import run_job
    from harpoon.engines.job import ImputeJob, ImputeRequest

    run = start_engine(engine, workers)
    request = ImputeRequest.create(model, **arguments)
    job = ImputeJob.of_files(source, request, block_size=block_size, read_options=read_options)
    return run_job(job, output, run, force=force, progress=progress)


def sample(
    n: int,
    model: Model,
    output: str | os.PathLike[str],
    *,
    engine: str = "local",
    workers: int | None = None,
    force: bool = False,
    progress: bool = False,
    **arguments: Unpack[SampleArguments],
) -> Path:
    """Sample `n` rows to files, also more rows than memory holds, and return the output.

    The arguments are those of `impute` without `draws` and `only`, and `given`, values of columns that all rows share;
    `strategy` and `missing` ("as_trained" or "complete") are those of `Harpoon.sample`. Rows under a condition are
    sampled in blocks of 10,000.
    """
    from harpoon.engines.block_store import run_job
    from harpoon.engines.job import SampleJob

    run = start_engine(engine, workers)
    job = SampleJob.create(n, model, **arguments)
    return run_job(job, output, run, force=force, progress=progress)


def start_engine(engine: str, workers: int | None = None) -> Run:
    """Start the engine of that name and return its `run`."""
    if engine not in ENGINES:
        raise InvalidOption.one_of("engine", engine, ENGINES)
    return ENGINES[engine](workers)


def _lazy(module: str) -> Callable[[int | None], Run]:
    """Return the function `start` of a module of this room, which is imported when it is called."""
    return lambda workers: import_module(f"{__name__}.{module}").start(workers)


# An engine is a function that gets ready for a number of workers (None: the engine decides) and returns its `run`.
# `run(job, store, blocks)` processes `job.tasks(blocks)` in any order, each with `store.process(job, task)`, and yields
# every block when its file is in the store.
ENGINES = {name: _lazy(name) for name in ("local", "ray", "spark")}
