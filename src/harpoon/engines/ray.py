"""Ray: blocks of a long table on an actor pool of Ray Data, with the model once in each worker.

    import harpoon.engines.ray as engine

    filled = engine.impute("holes/", "penguins.harpoon", output="filled/", workers=8)  # files to files
    filled = engine.impute(ray.data.read_parquet("holes/"), model)  # a Dataset to a Dataset, when it is asked for
    drawn = engine.sample(1_000_000, model, where="body_mass_g >= 5000")

A worker reads the rows of a block, and writes what it makes of them, by itself: rows travel between storage and worker
only. Every machine has to see the files. If a worker dies, Ray starts another one and gives it the block again; a block
is a file that appears whole, so none is lost or there twice.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from harpoon._utils.rng import RandomState, to_seed
from harpoon._utils.validation import check_count
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import BLOCK, ROW, ImputeJob, ImputeRequest, Job, Model, SampleJob, Where, block_size
from harpoon.engines.runner import run_job
from harpoon.estimator import Harpoon
from harpoon.exceptions import HarpoonError, InvalidOption, MissingExtra
from harpoon.io import Location, ReadOptions
from harpoon.training.checkpoints import SAVE_INTERVAL_SECONDS

try:
    import ray
    import ray.data
    from ray.data import ActorPoolStrategy, DataContext, Dataset
except ImportError:
    raise MissingExtra.for_package("ray", "ray", "The engine Ray") from None


TASK = "task"
GIVEN_UP = -1  # in the place of the number of a block


def impute(
    source: Dataset | str | os.PathLike[str],
    model: Model,
    *,
    output: str | os.PathLike[str] | None = None,
    where: Where = None,
    draws: int | None = None,
    only: Sequence[str] = (),
    random_state: RandomState = None,
    workers: int | None = None,
    gpus: float = 0.0,
    block: int = BLOCK,
    ordered: bool = True,
    how: ReadOptions | None = None,
    force: bool = False,
    progress: bool = False,
) -> Dataset:
    """Fill the holes of a table on a Ray cluster.

    Args:
        source: A Parquet or CSV file, a folder of them, or a Ray Dataset.
        model: A fitted model, or its file.
        output: A folder to write Parquet files to, or one file; None gives a Dataset that is computed when it is used.
        where: A condition that every completed row meets.
        draws: Draw so many rows for each, instead of the best values; a first column `draw` numbers them.
        only: The columns to fill; all that the model knows by default. All others are passed on.
        random_state: A seed or a NumPy generator.
        workers: Actors with a model each; by default as many as the cluster has CPUs.
        gpus: GPUs, or a share of one, for each worker.
        block: Rows that a worker has in memory at a time. What a row gets does not depend on it.
        ordered: Whether the rows of the Dataset come back in their order. Files are always in order.
        how: Delimiter, encoding and the like of CSV files, where they should not be found out.
        force: Whether to replace an earlier output.
        progress: Whether to show a bar.

    Returns:
        The filled rows, with all columns of the source.
    """
    filling = ImputeRequest.of(model, where=where, draws=draws, only=only, random_state=random_state)
    if not isinstance(source, ray.data.Dataset):
        job = ImputeJob.of(source, filling, block=block, how=how)
        return _answered(job, output, Pool(workers, gpus), ordered=ordered, force=force, progress=progress)
    if output is not None:
        raise InvalidOption("A Dataset is written by itself: leave output out, and call write_parquet on the answer.")
    return _filled(source, filling, Pool(workers, gpus), block=block, ordered=ordered)


def sample(
    n: int,
    model: Model,
    *,
    where: Where = None,
    given: Mapping[str, object] | None = None,
    strategy: str = "auto",
    output: str | os.PathLike[str] | None = None,
    random_state: RandomState = None,
    workers: int | None = None,
    gpus: float = 0.0,
    block: int = BLOCK,
    ordered: bool = True,
    force: bool = False,
    progress: bool = False,
) -> Dataset:
    """Draw rows on a Ray cluster; the arguments are those of `impute` and of `harpoon.engines.local.sample`."""
    job = SampleJob.of(n, model, where=where, given=given, strategy=strategy, random_state=random_state, block=block)
    return _answered(job, output, Pool(workers, gpus), ordered=ordered, force=force, progress=progress)


def fit(
    model: Harpoon,
    data: object,
    *,
    workers: int = 2,
    gpus: float = 0.0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = SAVE_INTERVAL_SECONDS,
    max_failures: int = 3,
) -> Harpoon:
    """Train a model on a Ray cluster, by several processes with a part of the rows each.

    Columns are counted where the rows are, and the counts are merged. Then every worker keeps its part of the rows, and
    all workers take each optimizer step together, over gloo on CPUs and NCCL on GPUs. On one machine with several GPUs,
    set `workers` to their number and `gpus=1`.

    Args:
        model: The model to train, with its options.
        data: A Ray Dataset, a file or a folder of files, or a pandas, polars or pyarrow table.
        workers: Number of processes that train together.
        gpus: GPUs of each process.
        checkpoint: The folder of Ray's checkpoints. With several machines it must be one that all of them see, or a URL
            that Ray knows. If it holds the checkpoints of an earlier call, the training continues from them. By default
            a temporary folder, deleted at the end.
        checkpoint_seconds: Seconds between two checkpoints.
        max_failures: How often workers may die before the training fails.

    Returns:
        The model itself, fitted.
    """
    from harpoon.engines import ray_train

    return ray_train.fit(
        model,
        data,
        workers=workers,
        gpus=gpus,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        max_failures=max_failures,
    )


def run(
    job: Job, parts: BlockStore, blocks: list[Block], workers: int | None = None, gpus: float = 0.0
) -> Iterator[Block]:
    """Blocks on an actor pool, each told of when its part has been written."""
    by_number = {block.row_offset: block for block in blocks}
    for receipt in _worked(job, parts, blocks, Pool(workers, gpus), ordered=False).iter_rows() if blocks else ():
        if receipt["first_row"] == GIVEN_UP:
            raise parts.problem() or parts.unseen()
        yield by_number[receipt["first_row"]]


def connect(workers: int | None = None) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine, without Ray's own bars and messages."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    DataContext.get_current().enable_progress_bars = False
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        room = max(workers or 1, os.cpu_count() or 1)
        ray.init(address="local", num_cpus=room, include_dashboard=False, **quiet)


@dataclass(frozen=True)
class Pool:
    """How many workers there are to be, and what each of them needs."""

    workers: int | None = None
    gpus: float = 0.0

    def mapped(self, data: Dataset, worker: type, *arguments: object, size: int, alone: bool) -> Dataset:
        """The batches of a Dataset, each given to a worker.

        Workers that are alone have the CPUs to themselves. Otherwise tasks of Ray's own make the rows: if workers took
        all CPUs, as Ray counts them, everybody would wait for ever.
        """
        if self.workers is not None:
            check_count(self.workers, "workers, the number of workers,")
        room = max(1, int(ray.cluster_resources().get("CPU", 1)))
        wanted = self.workers or room
        return data.map_batches(
            worker,
            fn_constructor_args=(ray.put(arguments),),
            batch_size=size,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(min_size=min(wanted, room) if alone else 1, max_size=wanted),
            num_cpus=1 if alone else 0,
            num_gpus=self.gpus,
            scheduling_strategy="SPREAD",
        )


class Worker:
    """Does tasks: to files, of which it sends receipts, or into a Dataset."""

    def __init__(self, arguments: Any) -> None:  # noqa: ANN401
        self.job: Job
        self.parts: BlockStore | None
        self.job, self.parts = ray.get(arguments)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Do each task of a batch, block by block."""
        for blocks in blocks_of(batch):
            if self.parts is None:
                # With what pandas says of its index Ray would take that out of the columns, and lose it.
                yield from (table.replace_schema_metadata() for _, table in self.job.made(blocks))
                continue
            try:
                for block in self.parts.work(self.job, blocks):
                    yield _receipt(block.row_offset)
            except HarpoonError:  # no worker could do better, so Ray need not try again
                yield _receipt(GIVEN_UP)


class FillingWorker:
    """Fills batches of a Dataset."""

    def __init__(self, arguments: Any) -> None:  # noqa: ANN401
        self.filling: ImputeRequest
        (self.filling,) = ray.get(arguments)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Fill a batch, in which rows may follow each other that are no neighbours."""
        numbered = self.filling.numbered
        numbers = batch[ROW].to_numpy() if numbered else np.arange(batch.num_rows)
        own = batch.drop_columns([ROW]) if numbered else batch
        filler = self.filling.filler(own.schema)
        starts = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        runs = [filler.stacked(own.slice(a, b - a), int(numbers[a])) for a, b in pairwise(starts) if a < b]
        return pa.concat_tables(runs) if runs else own


def _filled(data: Dataset, filling: ImputeRequest, pool: Pool, *, block: int, ordered: bool) -> Dataset:
    """The rows of a Dataset, filled; they are numbered first where what a row gets depends on its number."""
    filling.check_columns(data.columns() or ())
    seeded = replace(filling, seed=to_seed(None)) if filling.seed is None else filling
    rows = in_order(data) if ordered or filling.numbered else data
    if filling.numbered:
        rows = _numbered(rows)
    return pool.mapped(rows, FillingWorker, seeded, size=block_size(block, filling.where), alone=False)


def in_order(data: Dataset) -> Dataset:
    """The same rows, which come in their order."""
    copy = Dataset.copy(data, _deep_copy=True)
    copy.context.execution_options.preserve_order = True
    return copy


def of_tasks(tasks: Sequence[Sequence[Block]], *, ordered: bool) -> Dataset:
    """Tasks as a Dataset, each a block of it, which a worker reads with `blocks_of`."""
    with _context(ordered=ordered):
        return ray.data.from_items([{TASK: pickle.dumps(task)} for task in tasks], override_num_blocks=len(tasks))


def blocks_of(batch: pa.Table) -> Iterator[list[Block]]:
    """The blocks of each task in a batch."""
    return map(pickle.loads, batch[TASK].to_pylist())


def _numbered(data: Dataset) -> Dataset:
    """The rows with their numbers. Ray has none, so all blocks are computed first, and kept where Ray keeps them."""
    refs = data.to_arrow_refs()
    rows = ray.get([ray.remote(_rows_of).remote(ref) for ref in refs])
    firsts = accumulate(rows, initial=0)
    blocks: Any = [ray.remote(_with_numbers).remote(ref, first) for ref, first in zip(refs, firsts, strict=False)]
    with _context(ordered=True):
        return ray.data.from_arrow_refs(blocks)


def _rows_of(table: pa.Table) -> int:
    return int(table.num_rows)


def _with_numbers(table: pa.Table, first_row: int) -> pa.Table:
    return table.append_column(ROW, pa.array(np.arange(first_row, first_row + table.num_rows)))


def _answered(
    job: Job, output: str | os.PathLike[str] | None, pool: Pool, *, ordered: bool, force: bool, progress: bool
) -> Dataset:
    """Files, and a Dataset that reads them; or a Dataset that is computed when it is used."""
    if output is None:
        seeded = job.seeded(to_seed(None)) if job.seed is None else job
        return _worked(seeded, None, job.blocks, pool, ordered=ordered)
    if Location.parse(output).format not in ("", "parquet"):
        raise InvalidOption(f"Ray reads what it wrote, so the output is a folder or a .parquet file, got {output!r}.")
    work = partial(run, workers=pool.workers, gpus=pool.gpus)
    target = run_job(job, output, work, force=force, progress=progress)
    with _context(ordered=ordered):
        return ray.data.read_parquet(str(target.resolve()))  # workers may be elsewhere


def _worked(job: Job, parts: BlockStore | None, blocks: list[Block], pool: Pool, *, ordered: bool) -> Dataset:
    """A Dataset of what tasks become: rows, or receipts of parts."""
    return pool.mapped(of_tasks(job.tasks(blocks), ordered=ordered), Worker, job, parts, size=1, alone=True)


def _receipt(first_row: int) -> pa.Table:
    return pa.table({"first_row": [first_row]})


@contextmanager
def _context(*, ordered: bool) -> Iterator[None]:
    """The settings that a Dataset is made with, and keeps."""
    options = DataContext.get_current().execution_options
    before, options.preserve_order = options.preserve_order, ordered or options.preserve_order
    try:
        yield
    finally:
        options.preserve_order = before
