"""The Ray engine: impute and sample on an actor pool of Ray Data, train on Ray Train.

    import harpoon.engines.ray as engine

    filled = engine.impute("incomplete/", "penguins.harpoon", output="filled/", workers=8)  # files to files
    filled = engine.impute(ray.data.read_parquet("incomplete/"), model)  # a Dataset to a Dataset, computed on use
    sampled = engine.sample(1_000_000, model, where="body_mass_g >= 5000")
    model = engine.fit(harpoon.Harpoon(max_time=3600), "sales/", workers=8)

Each worker has one copy of the model. It reads the rows of a block and writes the result itself, so rows travel only
between storage and worker, and every machine has to see the files. If a worker dies, Ray starts another one and gives
it the block again. The file of a block appears complete or not at all, so no row is lost or duplicated.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from harpoon._utils.validation import check_count
from harpoon.engines import DEFAULT_BLOCK_ROWS, Run
from harpoon.engines.block_imputer import warn_structural
from harpoon.engines.block_store import BlockStore, run_job
from harpoon.engines.blocks import Block, consecutive_runs
from harpoon.engines.job import (
    ROW_NUMBER,
    ImputeArguments,
    ImputeJob,
    ImputeRequest,
    Job,
    Model,
    SampleArguments,
    SampleJob,
    effective_block_size,
)
from harpoon.exceptions import HarpoonError, InvalidOption, MissingExtra
from harpoon.io import Chunk, Location, ReadOptions

try:
    import ray
    import ray.data
    from ray.data import ActorPoolStrategy, DataContext, Dataset
except ImportError:
    raise MissingExtra.for_package("ray", "ray", "The engine Ray") from None

from harpoon.engines.ray_data import blocks_of_tasks, in_order, number_rows, preserved_order, tasks_to_dataset
from harpoon.engines.ray_train import fit

__all__ = ["connect", "fit", "impute", "run", "sample"]

FAILED = -1  # instead of the row offset of a block


def impute(
    source: Dataset | str | os.PathLike[str],
    model: Model,
    *,
    output: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    gpus: float = 0.0,
    block_size: int = DEFAULT_BLOCK_ROWS,
    ordered: bool = True,
    read_options: ReadOptions | None = None,
    force: bool = False,
    progress: bool = False,
    **arguments: Unpack[ImputeArguments],
) -> Dataset:
    """Impute the missing cells of files or of a Ray Dataset; the result has all columns of the source.

    Args:
        source: A file, a folder of files, or a Ray Dataset.
        model: A fitted model, or the path of its file.
        output: A folder for Parquet files, or one Parquet file; None returns a Dataset that is computed on use.
        workers: Number of actors, each with a copy of the model; by default as many as the cluster has CPUs.
        gpus: GPUs of each worker; may be a fraction.
        block_size: Rows that a worker has in memory at a time. The result does not depend on it.
        ordered: Whether the rows of the Dataset come in the order of the source. Files are always in order.
        read_options: As for `harpoon.engines.impute`.
        force: Whether to replace an earlier output.
        progress: Whether to show a progress bar.
        **arguments: `where`, `draws`, `only` and `random_state`, as for `harpoon.engines.impute`.
    """
    request, pool = ImputeRequest.create(model, **arguments), ActorPool(workers, gpus)
    if not isinstance(source, ray.data.Dataset):
        job = ImputeJob.of_files(source, request, block_size=block_size, read_options=read_options)
        return _run_to_dataset(job, output, pool, ordered=ordered, force=force, progress=progress)
    if output is not None:
        raise InvalidOption("output is for files. Leave it out for a Dataset, and call write_parquet on the result.")
    request.check_columns(source.columns() or ())
    rows = in_order(source) if ordered or request.depends_on_row_number else source
    if request.depends_on_row_number:
        rows = number_rows(rows)
    size = effective_block_size(block_size, request.is_conditional)
    return pool.map_batches(rows, ImputeWorker, request.with_seed(), size=size, exclusive=False)


def sample(
    n: int,
    model: Model,
    *,
    output: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    gpus: float = 0.0,
    ordered: bool = True,
    force: bool = False,
    progress: bool = False,
    **arguments: Unpack[SampleArguments],
) -> Dataset:
    """Sample rows on a Ray cluster. The arguments are those of `impute` and of `harpoon.engines.sample`."""
    job = SampleJob.create(n, model, **arguments)
    return _run_to_dataset(job, output, ActorPool(workers, gpus), ordered=ordered, force=force, progress=progress)


def start(workers: int | None) -> Run:
    """Join or start a cluster."""
    connect(workers)
    return partial(run, pool=ActorPool(workers))


def run(job: Job, store: BlockStore, blocks: list[Block], pool: ActorPool) -> Iterator[Block]:
    """Process blocks on an actor pool and yield each when its file is written.

    After an error the remaining receipts are read, too, which are few because workers then stop. A Dataset that is
    abandoned has threads that end the whole process if Ray is shut down before them.
    """
    by_offset = {block.row_offset: block for block in blocks}
    if not blocks:
        return
    has_failed = False
    for receipt in _process(job, store, blocks, pool, ordered=False).iter_rows():
        has_failed |= receipt["row_offset"] == FAILED
        if not has_failed:
            yield by_offset[receipt["row_offset"]]
    if has_failed:
        raise store.worker_error() or store.invisible_error()


def connect(workers: int | None = None) -> None:
    """Join the cluster of RAY_ADDRESS, or start one on this machine, without progress bars and messages of Ray."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    DataContext.get_current().enable_progress_bars = False
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        n_cpus = max(workers or 1, os.cpu_count() or 1)
        ray.init(address="local", num_cpus=n_cpus, include_dashboard=False, **quiet)


@dataclass(frozen=True)
class ActorPool:
    """The number of workers and the GPUs of each."""

    workers: int | None = None
    gpus: float = 0.0

    def map_batches(self, data: Dataset, worker: type, *arguments: object, size: int, exclusive: bool) -> Dataset:
        """Give each batch of a Dataset to a worker.

        Exclusive workers reserve the CPUs. Otherwise the rows come from tasks of Ray's own: if workers reserved all
        CPUs, these tasks would never start.
        """
        if self.workers is not None:
            check_count(self.workers, "workers, the number of workers,")
        n_cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        n_workers = self.workers or n_cpus
        return data.map_batches(
            worker,
            fn_constructor_args=(ray.put(arguments),),
            batch_size=size,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(min_size=min(n_workers, n_cpus) if exclusive else 1, max_size=n_workers),
            num_cpus=1 if exclusive else 0,
            num_gpus=self.gpus,
            scheduling_strategy="SPREAD",
        )


class TaskWorker:
    """Processes tasks to files, for which it returns receipts, or to rows of a Dataset."""

    def __init__(self, arguments: Any) -> None:  # noqa: ANN401
        self.job: Job
        self.store: BlockStore | None
        self.job, self.store = ray.get(arguments)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Process each task of a batch, block by block."""
        for blocks in blocks_of_tasks(batch):
            if self.store is None:
                # Ray would take an index that the pandas metadata names out of the columns, and lose it.
                yield from (result.table.replace_schema_metadata() for result in self.job.process(blocks))
                continue
            try:
                for block in self.store.process(self.job, blocks):
                    yield _receipt(block.row_offset)
            except HarpoonError:  # every worker would fail, so Ray need not try again
                yield _receipt(FAILED)


class ImputeWorker:
    """Imputes batches of a Dataset."""

    def __init__(self, arguments: Any) -> None:  # noqa: ANN401
        self.request: ImputeRequest
        (self.request,) = ray.get(arguments)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Impute a batch. Its rows need not be consecutive."""
        numbered = self.request.depends_on_row_number
        numbers = batch[ROW_NUMBER].to_numpy() if numbered else np.arange(batch.num_rows)
        rows = batch.drop_columns([ROW_NUMBER]) if numbered else batch
        imputer = self.request.block_imputer(rows.schema)
        runs = consecutive_runs(numbers)
        parts = [imputer.impute_stacked(Chunk(rows.slice(start, n)), number) for start, n, number in runs]
        warn_structural(imputer.structural, imputer.causes)
        return pa.concat_tables(parts) if parts else rows


def _run_to_dataset(
    job: Job, output: str | os.PathLike[str] | None, pool: ActorPool, *, ordered: bool, force: bool, progress: bool
) -> Dataset:
    """Write files and return a Dataset that reads them; without an output return a Dataset that is computed on use."""
    if output is None:
        return _process(job.with_seed(), None, job.blocks, pool, ordered=ordered)
    if Location.parse(output).format not in ("", "parquet"):
        raise InvalidOption(f"output must be a folder or a .parquet file, which Ray can read back, got {output!r}.")
    target = run_job(job, output, partial(run, pool=pool), force=force, progress=progress)
    with preserved_order(ordered=ordered):
        return ray.data.read_parquet(str(target.resolve()))  # workers may have another working directory


def _process(job: Job, store: BlockStore | None, blocks: list[Block], pool: ActorPool, *, ordered: bool) -> Dataset:
    """Return a Dataset of the results of tasks: rows, or receipts of files."""
    tasks = tasks_to_dataset(job.tasks(blocks), ordered=ordered)
    return pool.map_batches(tasks, TaskWorker, job, store, size=1, exclusive=True)


def _receipt(row_offset: int) -> pa.Table:
    return pa.table({"row_offset": [row_offset]})
