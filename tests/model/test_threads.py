"""Batches in parallel: results in order, errors end the work, and the number of threads is restored."""

import threading
from copy import copy
from dataclasses import replace
from time import sleep
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import harpoon
from harpoon._utils.threads import MAX_THREADS, map_batches
from harpoon.data import dataframe
from harpoon.data.reader import read_columns
from harpoon.inference.conditional import condition_search
from harpoon.inference.sampling import batch_evaluation
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.inference.sampling.trained_model import TrainedModel

CPU = torch.device("cpu")


@pytest.fixture
def threads():
    """A function that sets the number of torch's threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@given(st.lists(st.integers(), max_size=40), st.integers(1, 2 * MAX_THREADS))
def test_results_are_in_the_order_of_the_items(items, count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        assert map_batches(lambda item: -item, items, CPU) == [-item for item in items]
    finally:
        torch.set_num_threads(before)


def test_batches_run_in_parallel_with_a_fraction_of_the_threads_each(threads):
    threads(4)
    met = threading.Barrier(4)

    def work(_item):
        met.wait(timeout=60)  # passes only if all run at once
        return torch.get_num_threads(), threading.get_ident()

    counts, threads_used = zip(*map_batches(work, range(4), CPU), strict=True)
    assert counts == (1, 1, 1, 1)
    assert len(set(threads_used)) == 4


def test_many_threads_are_distributed_among_few_batches(threads):
    threads(6)
    assert map_batches(lambda _: torch.get_num_threads(), range(2), CPU) == [3, 3]


def test_one_batch_runs_in_the_calling_thread_with_all_threads(threads):
    threads(3)
    here = threading.get_ident()
    assert map_batches(lambda _: (torch.get_num_threads(), threading.get_ident()), [0], CPU) == [(3, here)]


def test_the_number_of_threads_is_restored_here_and_for_later_threads(threads):
    threads(2)
    map_batches(lambda item: item, range(5), CPU)
    later = []
    other = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert (torch.get_num_threads(), later) == (2, [2])


def test_the_first_error_ends_the_work_and_leaves_no_thread(threads):
    threads(2)
    before, done = threading.active_count(), []

    def work(item):
        if item == 3:
            raise KeyError(item)
        sleep(0.001)
        done.append(item)

    with pytest.raises(KeyError, match="3"):
        map_batches(work, range(1000), CPU)
    assert len(done) < 999
    assert threading.active_count() == before
    assert torch.get_num_threads() == 2


@pytest.fixture(scope="module")
def model(tools):
    table = pd.DataFrame(tools.mixed_columns(200))
    return harpoon.Harpoon(hidden=32, max_epochs=5, random_state=0, progress=False).fit(table)


def with_callback(model, callback):
    """Return the same model with a progress callback."""
    other = copy(model)
    other.progress = callback
    return other


def test_samples_and_imputed_cells_do_not_depend_on_the_threads(threads, model, tools):
    incomplete = pd.DataFrame(tools.mixed_columns(500))
    results = []
    for count in (1, 3):
        threads(count)
        results.append((model.sample(500, random_state=5, sampling_batch_size=64), model.impute(incomplete)))
    for one, other in zip(*results, strict=True):
        for name in one.columns:
            assert np.mean(one[name].map(str) == other[name].map(str)) > 0.99  # or the last bit of a product


def test_the_progress_callback_is_called_by_one_thread_at_a_time(threads, model):
    threads(3)
    inside, steps = threading.Lock(), []

    def callback(step):
        assert inside.acquire(blocking=False)
        steps.append(step.done)
        inside.release()

    with_callback(model, callback).sample(300, random_state=0, sampling_batch_size=64, sampling_steps=6, ar_steps=0)
    assert steps == list(range(1, 5 * 6 + 1))


def test_an_error_in_the_progress_callback_ends_the_sampling(threads, model):
    threads(2)

    def callback(step):
        if step.done == 3:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        with_callback(model, callback).sample(2000, random_state=0, sampling_batch_size=64)


def test_a_loss_of_the_user_is_called_in_the_calling_thread(threads, model, monkeypatch):
    monkeypatch.setattr(condition_search, "MIN_GUIDED_STEPS", 2)  # threads of torch wait for each other in a busy loop
    threads(2)
    callers = set()

    def loss(row):
        callers.add(threading.get_ident())
        return (row["age"] - 40) ** 2

    model.sample(100, loss=loss, random_state=0, sampling_batch_size=64, sampling_steps=2)
    assert callers == {threading.get_ident()}


@pytest.mark.parametrize("batches", [1, 3, 16])
def test_posterior_means_do_not_depend_on_the_chunk_size(threads, model, tools, batches):
    threads(2)
    rows = read_columns(dataframe.read(pd.DataFrame(tools.mixed_columns(500))), model.schema_)
    sampler = RowSampler(TrainedModel(model.denoiser_, model.codec_), model.config_)
    whole = np.concatenate(sampler.posterior_means(rows, lambda x: x))
    with patch.object(batch_evaluation, "BATCHES_PER_CHUNK", batches):
        steps = []
        sampler = RowSampler(sampler.model, replace(model.config_, sampling_batch_size=64))
        sampler.progress = steps.append
        parts = sampler.posterior_means(rows, lambda x: x)
    assert [len(part) for part in parts[:-1]] == [min(250, 64 * batches)] * (len(parts) - 1)  # or half of the rows
    assert [step.done for step in steps] == list(range(1, steps[-1].total + 1))
    assert steps[-1].total == sum(-(-len(part) // 64) for part in parts)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)
    assert sampler.evaluations == 500
