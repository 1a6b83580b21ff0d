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
from typing import Any

import numpy as np
import pyarrow as pa

from harpoon._text import shorten
from harpoon._utils.rng import to_seed
from harpoon._utils.validation import check_count
from harpoon.data import dataframe
from harpoon.data.statistics import TableCounts, count_columns, merge_counts
from harpoon.engines.blocks import FileSet
from harpoon.engines.job import BLOCK
from harpoon.estimator import Harpoon
from harpoon.exceptions import HarpoonError, InvalidTable, MissingExtra, TrainingFailed
from harpoon.training import checkpoints
from harpoon.training.checkpoints import Checkpoint, TrainingState
from harpoon.training.distributed import ProcessGroup
from harpoon.training.fit import TrainingData

try:
    import ray
    import ray.data
    import ray.exceptions
    import ray.train
    from ray.data import Dataset
    from ray.train.torch import TorchTrainer

    from harpoon.engines.ray import blocks_of, in_order, of_tasks
except ImportError:
    raise MissingExtra.for_package("ray", "ray", "Training on Ray") from None


SAMPLE = 20_000  # rows to set the network up with
ROWS = "rows"
WORKER_CPUS = 0.5  # as Ray counts: what is left reads the rows, without which all would wait for ever
NAME, STATE, MODEL = "training", "training.checkpoint", "model.harpoon"


def fit(
    model: Harpoon,
    source: object,
    *,
    workers: int,
    gpus: float,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_seconds: float,
    max_failures: int,
) -> Harpoon:
    """Train a model; the arguments are those of `harpoon.engines.ray.fit`."""
    check_count(workers, "workers, the number of workers,")
    data = _dataset(source)
    try:
        tallies, sample = count_dataset(data)
    except ray.exceptions.RayError as error:
        raise _untangled(error) from error
    job = _Job(model, to_seed(model.random_state) % 2**63, tallies, sample, checkpoint_seconds)
    with nullcontext(checkpoint) if checkpoint else tempfile.TemporaryDirectory(prefix="harpoon-") as place:
        trainer = TorchTrainer(
            _work,
            train_loop_config={"job": ray.put(job)},
            datasets={ROWS: data},
            scaling_config=ray.train.ScalingConfig(
                num_workers=workers, use_gpu=gpus > 0, resources_per_worker={"CPU": WORKER_CPUS, "GPU": gpus}
            ),
            run_config=ray.train.RunConfig(
                name=NAME,  # by which Ray finds the checkpoints of an earlier call
                storage_path=str(place) if "://" in str(place) else str(Path(place).absolute()),
                failure_config=ray.train.FailureConfig(max_failures=max_failures),
                checkpoint_config=ray.train.CheckpointConfig(num_to_keep=1),
            ),
        )
        try:
            with _own_ctrl_c():
                kept: Any = trainer.fit().checkpoint
        except ray.train.TrainingFailedError as error:
            raise _untangled(error) from error
        with kept.as_directory() as found:
            trained = Harpoon.load(Path(found, MODEL), device=model.device.type, progress=model.progress)
    vars(model).update({name: value for name, value in vars(trained).items() if name.endswith("_")})
    if not isinstance(source, ray.data.Dataset | str | os.PathLike):
        model.template_ = dataframe.read(source).template
    return model


def count_dataset(data: Dataset) -> tuple[TableCounts, pa.Table]:
    """What a Dataset holds, counted where its blocks are, and evenly spaced rows of it."""
    rows = data.count()
    if not rows:
        raise InvalidTable("A table to train on must have rows, and this Dataset has none.")
    count = partial(_count, share=SAMPLE / rows)
    parts = in_order(data).map_batches(count, batch_format="pyarrow", batch_size=None)
    found = [pickle.loads(row["part"]) for row in parts.iter_rows()]  # noqa: S301 - made by our own workers
    return merge_counts(tallies for tallies, _ in found), _together(sample for _, sample in found)


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables of which one may lack the cells of a column, and so its type."""
    return pa.concat_tables(tables, promote_options="permissive")


def _dataset(source: object) -> Dataset:
    """A Dataset, files or a frame as a Dataset."""
    if isinstance(source, ray.data.Dataset):
        return source
    if not isinstance(source, str | os.PathLike):
        return ray.data.from_arrow(dataframe.read(source).arrow)
    shards = FileSet.of(source)  # which looks at every file
    tasks = of_tasks(shards.tasks(shards.blocks(BLOCK)), ordered=True)
    return tasks.map_batches(partial(_read, shards=shards), batch_format="pyarrow", batch_size=1)


def _read(batch: pa.Table, shards: FileSet) -> Iterator[pa.Table]:
    for blocks in blocks_of(batch):
        yield from (table for _, table in shards.read(blocks))


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Ray takes Ctrl-C while it trains; afterwards it is again whose it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _untangled(error: BaseException) -> HarpoonError:
    """What went wrong in a worker: our own error, or the last line of what Ray says."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, HarpoonError):
        return cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = shorten(lines[-1], shown=300) if lines else type(error).__name__
    return TrainingFailed(f"The training on Ray did not come to its end: {said}")


def _count(batch: pa.Table, share: float) -> pa.Table:
    wanted = min(batch.num_rows, int(np.ceil(share * batch.num_rows)))
    places = np.linspace(0, batch.num_rows - 1, wanted).astype(np.int64)
    part = pickle.dumps((count_columns(dataframe.read(batch)), batch.take(places)))
    return pa.table({"part": pa.array([part], pa.large_binary())})


@dataclass(frozen=True)
class _Job:
    """What every worker needs."""

    model: Harpoon
    seed: int
    tallies: TableCounts
    sample: pa.Table
    every: float


@dataclass
class Reported(Checkpoint):
    """A checkpoint that Ray keeps. All workers report each epoch, and the first of them brings the state."""

    brings: bool = True
    every: float = checkpoints.SAVE_INTERVAL_SECONDS

    @classmethod
    def resumed(cls, seed: int, training: str, *, brings: bool, every: float) -> Reported:
        """With what was kept before a worker died, if one has."""
        before = ray.train.get_checkpoint()
        if before is None:
            return cls(None, seed, training, brings=brings, every=every)
        with before.as_directory() as folder:
            kept = Checkpoint.open(Path(folder, STATE), seed, training)
        return cls(None, kept.seed, training, kept.state, brings=brings, every=every)

    def keep(self, state: Callable[[], TrainingState], epoch: Mapping[str, Any], *, now: bool = False) -> None:
        """Tell Ray how far the training is."""
        with tempfile.TemporaryDirectory() as folder:
            brought = None
            if self.brings and (now or self.is_due(self.every)):
                self.write(Path(folder, STATE), state())
                brought = ray.train.Checkpoint.from_directory(folder)
            ray.train.report(dict(epoch), checkpoint=brought)


def _work(config: dict[str, Any]) -> None:
    """What one worker does."""
    job: _Job = ray.get(config["job"])
    team, model = ProcessGroup(), job.model
    model.random_state, model.progress = job.seed, False
    shard = ray.train.get_dataset_shard(ROWS)
    part = _together(shard.iter_batches(batch_format="pyarrow", batch_size=None))
    lesson = TrainingData(dataframe.read(part), job.tallies, dataframe.read(job.sample))
    keeper = partial(Reported.resumed, brings=team.rank == 0, every=job.every)
    model._take(model._learner(team).fit(lesson, keeper), lesson.sample.template)
    with tempfile.TemporaryDirectory() as folder:
        if team.rank == 0:
            model.save(Path(folder, MODEL))
            with ray.train.get_checkpoint().as_directory() as before:  # from which another call may go on
                shutil.copy(Path(before, STATE), folder)
        done = ray.train.Checkpoint.from_directory(folder) if team.rank == 0 else None
        ray.train.report({}, checkpoint=done)
