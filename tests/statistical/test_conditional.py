"""Conditions and laws: branches are a partition, and rows under a condition follow the truncated law, not its edge."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

from harpoon import Harpoon
from harpoon.conditions.binder import bind
from harpoon.conditions.branches import disjoint_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.smc import SMCResampler
from tests.support.conditions import table_conditions
from tests.support.oracles import mixture_table

N = 5000
TRUTH = mixture_table(500_000, seed=5)
X, IS_A = np.asarray(TRUTH["x"]), np.asarray(TRUTH["c"]) == "a"


@given(table_conditions())
@settings(max_examples=60, deadline=None)
def test_every_row_that_meets_a_condition_is_in_exactly_one_branch(question):
    schema, table, trees = question
    read = dataframe.read(table)
    rows = {column.name: coerce(read.column(column.name), column) for column in schema}
    there = ~np.any([cells.missing for cells in rows.values()], axis=0)
    for tree in trees:
        bound = bind(tree, schema)
        inside = sum(
            (evaluate(branch.predicate, rows).astype(int) for branch in disjoint_branches(bound)),
            np.zeros(read.n_rows, int),
        )
        assert (inside[there] == evaluate(bound, rows)[there]).all(), str(tree)


@pytest.fixture(scope="module")
def model():
    options = {"hidden": 64, "depth": 2, "max_epochs": 25, "max_time": 900, "learning_rate": 3e-3}
    return Harpoon(random_state=0, progress=False, **options).fit(mixture_table(40_000, seed=0))


@pytest.mark.parametrize("bound", [0.0, 2.0])
def test_rows_above_a_bound_follow_the_truncated_law(model, bound):
    rows = model.sample(N, where=f"x >= {bound}", random_state=3)
    above = bound <= X
    assert stats.ks_2samp(np.asarray(rows["x"]), X[above], method="asymp").pvalue > 0.01
    share = IS_A[above].mean()
    error = np.sqrt(share * (1 - share) / N)
    assert np.mean(np.asarray(rows["c"]) == "a") == pytest.approx(share, abs=4 * error + 0.005)


def test_guided_rows_do_not_pile_up_at_the_bound(model):
    rows = np.asarray(model.sample(2000, where="x >= 1", strategy="guidance", random_state=3)["x"])
    alone = np.asarray(model.sample(2000, where="x >= 1", strategy="paper", sampling_steps=50, random_state=3)["x"])
    truth = X[X >= 1]
    assert np.median(rows) == pytest.approx(np.median(truth), abs=0.15)
    assert np.mean(rows < 1.1) == pytest.approx(np.mean(truth < 1.1), abs=0.05)
    distance = [stats.ks_2samp(found[found >= 1], truth, method="asymp").statistic for found in (rows, alone)]
    assert distance[0] < distance[1]


def test_rows_that_promise_the_same_all_go_on():
    selection = SMCResampler(n_particles=4, seed=0)
    for t in (0.9, 0.5):
        assert selection.resample(torch.ones(8), NoiseLevel(np.cos(t), np.sin(t)), last=False).tolist() == list(
            range(8)
        )


def test_a_row_that_promises_nothing_gives_way_to_one_of_its_group():
    penalties = torch.tensor([0.0, 0.0, 0.0, 1e6, 0.0, 0.0, 0.0, 0.0])
    chosen = SMCResampler(n_particles=4, seed=0).resample(penalties, NoiseLevel(0.6, 0.8), last=True).tolist()
    assert 3 not in chosen
    assert all(place // 4 == row // 4 for row, place in enumerate(chosen))
    assert chosen == SMCResampler(n_particles=4, seed=0).resample(penalties, NoiseLevel(0.6, 0.8), last=True).tolist()
