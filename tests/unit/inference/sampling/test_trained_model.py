"""What is constant of a trained model is computed once, for all calls, copies and threads, and anew for new weights."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from harpoon.networks.anchored_denoiser import AnchoredDenoiser


@pytest.fixture
def builds(monkeypatch):
    """The networks at maximal noise that were made."""
    made, make = [], AnchoredDenoiser.at_max_noise

    def record(denoiser):
        made.append(denoiser)
        return make(denoiser)

    monkeypatch.setattr(AnchoredDenoiser, "at_max_noise", record)
    return made


@pytest.fixture
def model(arrow_fitted):
    """A fitted model of which nothing is computed yet."""
    return copy.deepcopy(arrow_fitted.model)


def test_all_calls_of_a_model_and_of_its_copies_share_what_is_constant(model, arrow_fitted, builds):
    copy.copy(model).sample(2)
    model.impute(arrow_fitted.table.slice(0, 3))
    model.with_rules(["age >= 0"]).sample(3, where="age >= 30")
    model.sample(2, missing="complete")
    assert len(builds) == 1


def test_a_model_that_is_trained_again_forgets_what_it_computed(model, arrow_fitted, builds):
    model.sample(1)
    model.fit(arrow_fitted.table)
    builds.clear()
    model.sample(1)
    assert builds == [model.denoiser_]


def test_a_network_in_another_precision_is_noticed(model, builds):
    model.sample(1)
    model.denoiser_.double()
    assert model._trained_model.at_max_noise.input_weight.dtype == torch.float64
    assert len(builds) == 2


def test_a_pickled_model_has_nothing_that_can_be_computed_again(model):
    before = len(pickle.dumps(model))
    rows = model.sample(5, random_state=0)
    stored = pickle.dumps(model)
    assert len(stored) < 1.01 * before
    assert pickle.loads(stored).sample(5, random_state=0).equals(rows)  # noqa: S301 - our own


def test_the_first_calls_of_a_model_may_be_made_by_several_threads(model, arrow_fitted):
    expected = copy.deepcopy(model).sample(20, random_state=1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: copy.copy(model).sample(20, random_state=1), range(8)))
    assert all(each.equals(expected) for each in found)
