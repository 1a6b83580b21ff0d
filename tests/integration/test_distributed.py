"""Several processes train one model together: real processes, over gloo."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.data.value_counts import count_columns, merge_counts
from harpoon.training.distributed import SingleProcess
from harpoon.training.fit import TrainingData
from tests.support.tables import DISTRIBUTED_OPTIONS, sorted_parts, sorted_table

WORKER = """
import sys
from torch import distributed
from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.data.value_counts import count_columns, merge_counts
from harpoon.networks import layers
from harpoon.training import optimizers
from harpoon.training.checkpoints import Checkpoint
from harpoon.training.distributed import ProcessGroup
from harpoon.training.fit import TrainingData
from tests.support.tables import DISTRIBUTED_OPTIONS, sorted_parts, sorted_table
from tests.support.tables import DISTRIBUTED_OPTIONS, sorted_parts, sorted_table

rank, world_size, folder, epochs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
for module in (optimizers, layers):  # processors of two sorts
    module.has_fast_bfloat16 = lambda _device: rank == 1
distributed.init_process_group("gloo", init_method=f"file://{folder}/group-{epochs}", rank=rank, world_size=world_size)
parts = [dataframe.read(part) for part in sorted_parts(world_size)]
data = TrainingData(parts[rank], merge_counts(map(count_columns, parts)), dataframe.read(sorted_table()))
model = Harpoon(max_epochs=epochs, **DISTRIBUTED_OPTIONS)

def open_checkpoint(seed, fingerprint):
    stored = Checkpoint.open(f"{folder}/run.checkpoint", seed, fingerprint)
    return stored if rank == 0 else Checkpoint(None, stored.seed, fingerprint, stored.state)  # the first one writes

model._set_fitted(model._fitter(ProcessGroup()).fit(data, open_checkpoint), parts[0].template)
model.save(f"{folder}/{rank}.harpoon")
distributed.destroy_process_group()
"""


def train(folder, world_size, epochs):
    """Train in several processes; return the model of each."""
    command = [sys.executable, "-c", WORKER]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}  # bfloat16 without AMX
    running = [
        subprocess.Popen(  # noqa: S603
            [*command, str(rank), str(world_size), str(folder), str(epochs)], stderr=subprocess.PIPE, env=environment
        )
        for rank in range(world_size)
    ]
    for process in running:
        errors = process.communicate(timeout=600)[1]
        assert process.returncode == 0, errors.decode()
    return [Harpoon.load(folder / f"{rank}.harpoon", progress=False) for rank in range(world_size)]


def weights(model):
    return torch.cat([value.flatten() for value in model.denoiser_.state_dict().values()])


def test_processes_end_with_the_same_model_of_all_parts(tmp_path):
    """Each process has half of the range of values, and all learn the relation over the whole range."""
    first, second = train(tmp_path, 2, epochs=30)
    assert torch.equal(weights(first), weights(second))
    assert first.history_.epochs[-1].loss == second.history_.epochs[-1].loss
    x = np.array([-1.5, 0.0, 1.5])
    incomplete = pa.table({"x": x, "y": pa.nulls(3, pa.float64()), "kind": ["down", "up", "up"]})
    assert np.abs(first.impute(incomplete)["y"].to_numpy() - 2 * x).max() < 1.0  # 3.0 by the mean


class RecordingProcess(SingleProcess):
    """One of two processes; the other one sends the same messages."""

    world_size = 2

    def __init__(self) -> None:
        self.sizes = set()

    def all_reduce_mean(self, tensor):
        self.sizes.add(tensor.numel())
        return tensor


def test_messages_have_the_same_size_at_every_step():
    """Rows without observed numbers need no pointers between them; the other process waits for their gradients."""
    process = RecordingProcess()
    fitter = Harpoon(max_epochs=5, **{**DISTRIBUTED_OPTIONS, "batch_size": 4})._fitter(process)
    fitter.fit(TrainingData.from_table(dataframe.read(sorted_table(100))))
    # Counts of the table and of rules, gradients, weights, calibration; besides losses.
    assert len(process.sizes - {1}) == 5


def test_a_process_group_resumes_from_its_checkpoint(tmp_path):
    train(tmp_path, 2, epochs=3)
    first, second = train(tmp_path, 2, epochs=6)
    assert [epoch.number for epoch in first.history_.epochs][-1] == 6
    assert torch.equal(weights(first), weights(second))


def test_a_part_of_a_table_is_initialized_like_the_whole():
    """Codec and bins are the same."""
    whole = TrainingData.from_table(dataframe.read(sorted_table()))
    parts = [dataframe.read(part) for part in sorted_parts(3)]
    part = TrainingData(parts[1], merge_counts(map(count_columns, parts)), dataframe.read(sorted_table()))
    fitter = Harpoon(max_epochs=1, **DISTRIBUTED_OPTIONS)._fitter(SingleProcess())
    assert whole.n_rows == part.n_rows == 900
    assert whole.schema(None) == part.schema(None)
    of_whole, of_part = (fitter.fit(data) for data in (whole, part))
    assert of_whole.codec.to_json() == of_part.codec.to_json()
    assert torch.equal(of_whole.denoiser.bin_edges, of_part.denoiser.bin_edges)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_parts_have_all_rows_and_different_lengths(n):
    assert sum(map(len, sorted_parts(n))) == len(sorted_table())
    assert len({len(part) for part in sorted_parts(n)}) == min(n, 2)
