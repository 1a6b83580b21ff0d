"""The training of `harpoon.engines.ray.fit`: data-parallel training on Ray Train."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
import ray.exceptions
from ray.data import Dataset

from harpoon._formatting import shorten
from harpoon._utils.rng import to_seed
from harpoon._utils.validation import check_count
from harpoon.data import dataframe
from harpoon.data.survey_weights import read_weights
from harpoon.data.value_counts import TableCounts, count_columns, merge_counts
from harpoon.engines import DEFAULT_BLOCK_ROWS
from harpoon.engines.blocks import FileSet
from harpoon.engines.ray_data import blocks_of_tasks, in_order, tasks_to_dataset
from harpoon.estimator import Harpoon
from harpoon.exceptions import HarpoonError, InvalidOption, InvalidTable, TrainingFailed
from harpoon.training.checkpoints import SAVE_INTERVAL_SECONDS, Checkpoint, TrainingState
from harpoon.training.distributed import ProcessGroup
from harpoon.training.fit import TrainingData

if TYPE_CHECKING:
    import ray.train

SAMPLE_ROWS = 20_000  # rows that initialize the network
DATASET = "rows"
WORKER_CPUS = 0.5  # the rest reads the rows; if workers reserved all CPUs, reading would never start
RUN_NAME, STATE_FILE, MODEL_FILE = "training", "training.checkpoint", "model.harpoon"


def fit(
    model: Harpoon,
    data: object,
    *,
    weights: str | None = None,
    workers: int = 2,
    gpus: float = 0.0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = SAVE_INTERVAL_SECONDS,
    max_failures: int = 3,
) -> Harpoon:
    """Train a model on a Ray cluster, by several processes with a part of the rows each, and return it.

    Columns are counted where the rows are, and the counts are merged. Then every worker keeps its part of the rows, and
    all workers take each optimizer step together, over gloo on CPUs and NCCL on GPUs. On one machine with several GPUs,
    set `workers` to their number and `gpus=1`.

    Args:
        model: The model to train, with its options.
        data: A Ray Dataset, a file or a folder of files, or a pandas, polars or pyarrow table.
        weights: The column with the weight of each row, as for `Harpoon.fit`.
        workers: Number of processes that train together.
        gpus: GPUs of each process.
        checkpoint: The folder of Ray's checkpoints. With several machines it must be one that all of them see, or a URL
            that Ray knows. If it holds the checkpoints of an earlier call, the training continues from them. By default
            a temporary folder, deleted at the end.
        checkpoint_seconds: Seconds between two checkpoints.
        max_failures: How often workers may die before the training fails.
    """
    import ray.train
    from ray.train.torch import TorchTrainer

    check_count(workers, "workers, the number of workers,")
    if model.privacy is not None:
        raise InvalidOption(
            "privacy is not possible with engine Ray: its workers count and share rows outside of the budget. Train "
            "with model.fit(table) in one process."
        )
    dataset, weights = _to_dataset(data), model._weight_column(weights)
    try:
        counts, sample = count_dataset(dataset, weights)
    except ray.exceptions.RayError as error:
        raise _to_harpoon_error(error) from error
    job = _TrainingJob(model, to_seed(model.random_state) % 2**63, counts, sample, checkpoint_seconds, weights)
    with nullcontext(checkpoint) if checkpoint else tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        trainer = TorchTrainer(
            _train,
            train_loop_config={"job": ray.put(job)},
            datasets={DATASET: dataset},
            scaling_config=ray.train.ScalingConfig(
                num_workers=workers, use_gpu=gpus > 0, resources_per_worker={"CPU": WORKER_CPUS, "GPU": gpus}
            ),
            run_config=ray.train.RunConfig(
                name=RUN_NAME,  # by which Ray finds the checkpoints of an earlier call
                storage_path=str(folder) if "://" in str(folder) else str(Path(folder).absolute()),
                failure_config=ray.train.FailureConfig(max_failures=max_failures),
                checkpoint_config=ray.train.CheckpointConfig(num_to_keep=1),
            ),
        )
        try:
            with _restore_sigint():
                result: Any = trainer.fit().checkpoint
        except ray.train.TrainingFailedError as error:
            raise _to_harpoon_error(error) from error
        with result.as_directory() as found:
            trained = Harpoon.load(Path(found, MODEL_FILE), device=model.device.type, progress=model.progress)
    model._set_fitted(trained._fitted, trained.template_)
    if not isinstance(data, ray.data.Dataset | str | os.PathLike):
        model.template_ = dataframe.read(data).template.for_model(model.schema_.labelled)
    return model


def count_dataset(data: Dataset, weights: str | None = None) -> tuple[TableCounts, pa.Table]:
    """Count the values of a Dataset where its blocks are, and take evenly spaced rows of it.

    `weights` is the column with the weights of the rows, if they have any.
    """
    n_rows = data.count()
    if not n_rows:
        raise InvalidTable("A table to train on must have rows, and this Dataset has none.")
    count = partial(_count, fraction=SAMPLE_ROWS / n_rows, weights=weights)
    parts = in_order(data).map_batches(count, batch_format="pyarrow", batch_size=None)
    found = [pickle.loads(row["part"]) for row in parts.iter_rows()]  # noqa: S301 - made by our own workers
    for part in found:
        if isinstance(part, HarpoonError):
            raise part
    return merge_counts(counts for counts, _ in found), _concat(sample for _, sample in found)


def _concat(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables. A column without observed cells has no type in one of them."""
    return pa.concat_tables(tables, promote_options="permissive")


def _to_dataset(data: object) -> Dataset:
    """Return files or a table in memory as a Dataset."""
    if isinstance(data, ray.data.Dataset):
        return data
    if not isinstance(data, str | os.PathLike):
        return ray.data.from_arrow(dataframe.read(data).arrow)
    files = FileSet.from_path(data)  # checks every file
    tasks = tasks_to_dataset(files.tasks(files.blocks(DEFAULT_BLOCK_ROWS)), ordered=True)
    return tasks.map_batches(partial(_read, files=files), batch_format="pyarrow", batch_size=1)


def _read(batch: pa.Table, files: FileSet) -> Iterator[pa.Table]:
    for blocks in blocks_of_tasks(batch):
        yield from (table for _, table in files.read(blocks))


@contextmanager
def _restore_sigint() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which Ray replaces while it trains."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _to_harpoon_error(error: BaseException) -> HarpoonError:
    """Return the error of a worker: a Harpoon error, or the last line of Ray's message."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, HarpoonError):
        return cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = shorten(lines[-1], shown=300) if lines else type(error).__name__
    return TrainingFailed(f"The training on Ray failed: {message}")


def _count(batch: pa.Table, fraction: float, weights: str | None) -> pa.Table:
    n_sample = min(batch.num_rows, int(np.ceil(fraction * batch.num_rows)))
    index = np.linspace(0, batch.num_rows - 1, n_sample).astype(np.int64)
    table = dataframe.read(batch)
    try:
        counts = count_columns(table, None if weights is None else read_weights(table, weights))
        part = pickle.dumps((counts, batch.take(index)))
    except HarpoonError as error:  # Ray would hide it in one of its own
        part = pickle.dumps(error)
    return pa.table({"part": pa.array([part], pa.large_binary())})


@dataclass(frozen=True)
class _TrainingJob:
    """The input of every worker."""

    model: Harpoon
    seed: int
    counts: TableCounts
    sample: pa.Table
    checkpoint_seconds: float
    weights: str | None


@dataclass
class ReportedCheckpoint(Checkpoint):
    """A checkpoint that Ray stores. All workers report each epoch; the worker of rank 0 adds the state."""

    adds_state: bool = True
    interval_seconds: float = SAVE_INTERVAL_SECONDS

    @classmethod
    def resume(cls, seed: int, fingerprint: str, *, adds_state: bool, interval_seconds: float) -> ReportedCheckpoint:
        """Return the state that Ray stored before a worker died, or an empty checkpoint."""
        stored, before = Checkpoint(None, seed, fingerprint), ray.train.get_checkpoint()
        if before is not None:
            with before.as_directory() as folder:
                stored = Checkpoint.open(Path(folder, STATE_FILE), seed, fingerprint)
        return cls(
            None, stored.seed, fingerprint, stored.state, adds_state=adds_state, interval_seconds=interval_seconds
        )

    def save(self, state: Callable[[], TrainingState], epoch: Mapping[str, Any], *, now: bool = False) -> None:
        """Report an epoch to Ray, with the state if `now` or if the interval has passed."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if self.adds_state and (now or self.is_due(self.interval_seconds)):
                self.write(Path(folder, STATE_FILE), state())
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report(dict(epoch), checkpoint=checkpoint)


def _train(config: dict[str, Any]) -> None:
    """Train in one worker."""
    import ray.train

    job: _TrainingJob = ray.get(config["job"])
    processes, model = ProcessGroup(), job.model
    model.random_state, model.progress = job.seed, False
    shard = ray.train.get_dataset_shard(DATASET)
    rows = _concat(shard.iter_batches(batch_format="pyarrow", batch_size=None))
    table, sample = dataframe.read(rows), dataframe.read(job.sample)
    weights = [None if job.weights is None else read_weights(each, job.weights) for each in (table, sample)]
    data = TrainingData.from_parts(
        table, job.counts, sample, weights=weights[0], sample_weights=weights[1], weight_column=job.weights
    )
    is_first = processes.rank == 0
    open_checkpoint = partial(ReportedCheckpoint.resume, adds_state=is_first, interval_seconds=job.checkpoint_seconds)
    model._set_fitted(model._fitter(processes).fit(data, open_checkpoint), data.sample.template)
    with tempfile.TemporaryDirectory() as folder:
        if is_first:
            model.save(Path(folder, MODEL_FILE))
            with ray.train.get_checkpoint().as_directory() as before:  # another call may continue from it
                shutil.copy(Path(before, STATE_FILE), folder)
        checkpoint = ray.train.Checkpoint.from_directory(folder) if is_first else None
        ray.train.report({}, checkpoint=checkpoint)
