"""Several processes that train one model together: real ones, that talk over gloo."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.data.statistics import count_columns, merge_counts
from harpoon.training.distributed import SingleProcess
from harpoon.training.fit import TrainingData

WORKER = """
import sys
import torch
from torch import distributed
from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.training import optimizers
from harpoon.networks import layers
from harpoon.training.checkpoints import Checkpoint
from harpoon.training.fit import Lesson
from harpoon.data.statistics import merged, tallied
from harpoon.training.distributed import Together
from tests.integration.test_distributed import SETTINGS, parts, table

place, size, folder, epochs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
for module in (optimising, products):  # a cluster of two sorts of processors
    module.coarse_is_fast = lambda _device: place == 1
distributed.init_process_group("gloo", init_method=f"file://{folder}/meet-{epochs}", rank=place, world_size=size)
shares = [dataframe.read(part) for part in parts(size)]
lesson = Lesson(shares[place], merged(map(tallied, shares)), dataframe.read(table()))
model = Harpoon(max_epochs=epochs, **SETTINGS)

def keeper(seed, training):
    kept = Checkpoint.at(f"{folder}/run.checkpoint", seed, training)
    return kept if place == 0 else Checkpoint(None, kept.seed, training, kept.state)  # the first writes for all

learnt = model._learner(Together()).learn(lesson, keeper)
model._take(learnt, shares[0].template)
model.save(f"{folder}/{place}.harpoon")
distributed.destroy_process_group()
"""
SETTINGS = {"hidden": 32, "batch_size": 64, "random_state": 0, "progress": False}


def table(rows=900):
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=rows))  # sorted: no part looks like the whole
    return pa.table({"x": x, "y": 2 * x + rng.normal(size=rows) / 10, "kind": np.where(x > 0, "up", "down")})


def parts(size):
    """Of different heights."""
    cuts = [0, *(len(table()) * (k + 1) // (size + 1) for k in range(1, size)), len(table())]
    return [table().slice(a, b - a) for a, b in pairwise(cuts)]


def trained(folder, size, epochs):
    """The models of all processes."""
    command = [sys.executable, "-c", WORKER]
    running = [
        subprocess.Popen([*command, str(place), str(size), str(folder), str(epochs)], stderr=subprocess.PIPE)  # noqa: S603
        for place in range(size)
    ]
    for process in running:
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said.decode()
    return [Harpoon.load(folder / f"{place}.harpoon", progress=False) for place in range(size)]


def weights(model):
    return torch.cat([value.flatten() for value in model.denoiser_.state_dict().values()])


def test_processes_that_train_together_end_with_one_model_that_has_learnt_all_parts(tmp_path):
    """Half of the columns' values are known to one process only, and still the relation is learnt everywhere."""
    first, second = trained(tmp_path, 2, epochs=30)
    assert torch.equal(weights(first), weights(second))
    assert first.history_.epochs[-1].loss == second.history_.epochs[-1].loss
    asked = pa.table({"x": [-1.5, 0.0, 1.5], "y": pa.array([None] * 3, pa.float64()), "kind": ["down", "up", "up"]})
    assert (
        np.abs(first.impute(asked)["y"].to_numpy() - 2 * asked["x"].to_numpy()).max() < 1.0
    )  # of 3.0 for who knows nothing


class Recorded(SingleProcess):
    """One of two, which is told by the other what it says itself."""

    size = 2

    def __init__(self) -> None:
        self.said = set()

    def mean(self, numbers):
        self.said.add(numbers.numel())
        return numbers


def test_all_say_as_much_at_every_step_whatever_their_rows_need():
    """A pointer between numbers is of no use to rows of which neither is known; others wait for what it says."""
    team = Recorded()
    learner = Harpoon(max_epochs=5, **{**SETTINGS, "batch_size": 4})._learner(team)
    learner.fit(TrainingData.from_table(dataframe.read(table(100))))
    assert len(team.said - {1}) == 2  # gradients, and weights now and then; besides the losses of rows held out


def test_a_team_goes_on_from_its_checkpoint(tmp_path):
    trained(tmp_path, 2, epochs=3)
    first, second = trained(tmp_path, 2, epochs=6)
    assert [epoch.number for epoch in first.history_.epochs][-1] == 6
    assert torch.equal(weights(first), weights(second))


def test_a_lesson_in_parts_is_set_up_like_the_whole():
    """What is learnt before training: codec and first weights."""
    whole = TrainingData.from_table(dataframe.read(table()))
    shares = [dataframe.read(part) for part in parts(3)]
    part = TrainingData(shares[1], merge_counts(map(count_columns, shares)), dataframe.read(table()))
    learner = Harpoon(max_epochs=1, **SETTINGS)._learner(SingleProcess())
    assert whole.n_rows == part.n_rows == 900
    assert whole.schema(None) == part.schema(None)
    learnt = [learner.fit(lesson) for lesson in (whole, part)]
    assert learnt[0].codec.to_json() == learnt[1].codec.to_json()
    assert torch.equal(learnt[0].denoiser.edges, learnt[1].denoiser.edges)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_parts_of_these_tests_are_all_rows(size):
    assert sum(map(len, parts(size))) == len(table())
    assert len({len(part) for part in parts(size)}) == min(size, 2)
