"""Batches on a thread each: the same answers in the same order, errors that end the work, threads as they were."""

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
from harpoon.inference.row_sampler import RowSampler

CPU = torch.device("cpu")


@pytest.fixture
def threads():
    """Sets how many threads torch has, for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@given(st.lists(st.integers(), max_size=40), st.integers(1, 2 * MAX_THREADS))
def test_answers_come_in_the_order_of_the_items(items, count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        assert map_batches(lambda item: -item, items, CPU) == [-item for item in items]
    finally:
        torch.set_num_threads(before)


def test_batches_run_at_the_same_time_each_on_its_share_of_the_threads(threads):
    threads(4)
    met = threading.Barrier(4)

    def work(_item):
        met.wait(timeout=60)  # nobody gets past it alone
        return torch.get_num_threads(), threading.get_ident()

    shares, lanes = zip(*map_batches(work, range(4), CPU), strict=True)
    assert shares == (1, 1, 1, 1)
    assert len(set(lanes)) == 4


def test_many_threads_are_shared_out_among_few_batches(threads):
    threads(6)
    assert map_batches(lambda _: torch.get_num_threads(), range(2), CPU) == [3, 3]


def test_one_batch_stays_where_it_is_with_all_threads(threads):
    threads(3)
    here = threading.get_ident()
    assert map_batches(lambda _: (torch.get_num_threads(), threading.get_ident()), [0], CPU) == [(3, here)]


def test_threads_are_as_they_were_here_and_for_threads_that_begin_later(threads):
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


def telling(model, told):
    """The same model, with a function that is told of progress."""
    other = copy(model)
    other.progress = told
    return other


def test_what_is_drawn_and_expected_does_not_depend_on_the_threads(threads, model, tools):
    holes = pd.DataFrame(tools.mixed_columns(500))
    answers = []
    for count in (1, 3):
        threads(count)
        answers.append((model.sample(500, random_state=5, sampling_batch_size=64), model.impute(holes)))
    for one, other in zip(*answers, strict=True):
        for name in one.columns:
            assert np.mean(one[name].astype(str) == other[name].astype(str)) > 0.99  # or the last bit of a product


def test_a_function_that_is_told_of_progress_is_called_by_one_thread_at_a_time(threads, model):
    threads(3)
    inside, steps = threading.Lock(), []

    def told(step):
        assert inside.acquire(blocking=False)
        steps.append(step.done)
        inside.release()

    telling(model, told).sample(300, random_state=0, sampling_batch_size=64, sampling_steps=6, ar_steps=0)
    assert steps == list(range(1, 5 * 6 + 1))


def test_what_a_function_told_of_progress_raises_ends_the_drawing(threads, model):
    threads(2)

    def told(step):
        if step.done == 3:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        telling(model, told).sample(2000, random_state=0, sampling_batch_size=64)


def test_a_loss_of_the_user_is_called_by_the_thread_that_asked(threads, model):
    threads(2)
    callers = set()

    def loss(row):
        callers.add(threading.get_ident())
        return (row["age"] - 40) ** 2

    model.sample(200, loss=loss, random_state=0, sampling_batch_size=64)
    assert callers == {threading.get_ident()}


@pytest.mark.parametrize("sheet", [1, 3, 16])
def test_what_is_expected_does_not_depend_on_how_many_batches_are_encoded_together(threads, model, tools, sheet):
    threads(2)
    rows = model.codec_.read(dataframe.read(pd.DataFrame(tools.mixed_columns(500))))
    drawer = RowSampler(model.denoiser_, model.codec_, model.settings_, CPU)
    whole = np.concatenate(drawer.posterior_means(rows, lambda x: x))
    with patch.object(drawing, "SHEET", sheet):
        steps = []
        drawer = RowSampler(model.denoiser_, model.codec_, replace(model.settings_, sampling_batch_size=64), CPU)
        drawer.progress = steps.append
        parts = drawer.posterior_means(rows, lambda x: x)
    assert [len(part) for part in parts[:-1]] == [min(250, 64 * sheet)] * (len(parts) - 1)  # or half of the rows
    assert [step.done for step in steps] == list(range(1, steps[-1].of + 1))
    assert steps[-1].of == sum(-(-len(part) // 64) for part in parts)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)
    assert drawer.evaluations == 500
