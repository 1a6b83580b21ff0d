"""A trained anchored denoiser against distributions known in closed form."""

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Harpoon, InvalidOption
from harpoon.diffusion.geometry import gradient_angles
from tests.support.oracles import CENTRES, CLASS_PROBABILITIES, class_probabilities, mixture_table, y_moments


@pytest.fixture(scope="module")
def trained(mixture_model):
    return mixture_model


@pytest.mark.parametrize("x", [-2.0, -0.5, 1.0, 2.0])
def test_one_evaluation_is_the_conditional_mean_and_the_class_probability(trained, x):
    incomplete = pa.table({"x": [x], "y": pa.nulls(1, pa.float64()), "c": pa.nulls(1, pa.string())})
    expected = trained.expect(incomplete)
    assert expected.numbers["y"][0] == pytest.approx(y_moments(x)[0], abs=0.3)
    assert expected.categories["c"] == ("a", "b")
    assert expected.probabilities["c"][0] == pytest.approx(class_probabilities(x), abs=0.12)
    imputed = trained.impute(incomplete)
    assert imputed["c"].to_pylist() == ["a" if expected.probabilities["c"][0, 0] > 0.5 else "b"]
    assert imputed["y"].to_pylist() == [pytest.approx(expected.numbers["y"][0], abs=1e-6)]


@pytest.mark.parametrize("x", [-2.0, -0.5, 1.0, 2.0])
def test_samples_of_missing_cells_follow_the_conditional_distribution(trained, x):
    sampled = trained.sample(2000, given={"x": x}, random_state=1)
    mean, std = y_moments(x)
    assert np.mean(sampled["y"]) == pytest.approx(mean, abs=0.3)
    assert np.std(sampled["y"]) == pytest.approx(std, rel=0.15)
    assert np.mean(np.asarray(sampled["c"]) == "a") == pytest.approx(class_probabilities(x)[0], abs=0.12)


def test_samples_follow_the_distribution(trained):
    sampled, truth = trained.sample(4000, random_state=1), mixture_table(200_000, seed=1)
    is_a = np.asarray(sampled["c"]) == "a"
    assert is_a.mean() == pytest.approx(CLASS_PROBABILITIES[0], abs=0.05)
    for name in ("x", "y"):
        assert np.mean(sampled[name]) == pytest.approx(np.mean(truth[name]), abs=0.15)
        assert np.std(sampled[name]) == pytest.approx(np.std(truth[name]), rel=0.07)
    assert np.mean(np.asarray(sampled["x"])[is_a]) == pytest.approx(CENTRES[0, 0], abs=0.2)


def test_gradient_angles_of_the_anchored_denoiser_stay_near_the_right_angle(trained):
    rows = trained.encode(mixture_table(200, seed=2))
    found = gradient_angles(trained.denoiser_, rows, trained.codec_.slices, times=[0.6, 0.4, 0.2, 0.1])
    for angles in found.values():
        assert np.all(np.abs(angles.mean - 90) < 35)


def test_a_model_of_an_incomplete_table_has_the_conditional_distribution():
    table = mixture_table(4000, seed=0)
    rng = np.random.default_rng(99)  # not the seed of the table, or the mask would depend on the classes
    masked = {name: pa.array(table[name].to_pylist(), mask=rng.random(4000) < 0.3) for name in table.column_names}
    options = {"hidden": 64, "depth": 2, "batch_size": 256, "max_epochs": 100, "learning_rate": 3e-3}
    model = Harpoon("anchored", random_state=0, progress=False, **options).fit(pa.table(masked))
    for x in (-2.0, 1.0):
        incomplete = pa.table({"x": [x], "y": pa.nulls(1, pa.float64()), "c": pa.nulls(1, pa.string())})
        expected = model.expect(incomplete)
        assert expected.numbers["y"][0] == pytest.approx(y_moments(x)[0], abs=0.25)
        assert expected.probabilities["c"][0] == pytest.approx(class_probabilities(x), abs=0.12)


@pytest.fixture(scope="module")
def spiked():
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(3000) < 0.8, 0.0, rng.gamma(2, 500, 3000).round(2))
    hours = np.where(rng.random(3000) < 0.5, 40, rng.integers(1, 90, 3000))
    level = rng.integers(1, 6, 3000)
    table = pa.table({"gain": gain, "hours": hours, "level": level, "name": np.array(list("abcde"))[level - 1]})
    options = {"hidden": 64, "depth": 2, "max_epochs": 250, "max_time": 600, "learning_rate": 3e-3}
    return Harpoon("anchored", random_state=0, progress=False, **options).fit(table), table


def test_spikes_are_sampled_as_often_as_they_occur(spiked):
    model, table = spiked
    sampled = model.sample(3000, random_state=0)
    assert np.mean(np.asarray(sampled["gain"]) == 0) == pytest.approx(0.8, abs=0.04)
    fraction = np.mean(np.asarray(table["hours"]) == 40)
    assert np.mean(np.asarray(sampled["hours"]) == 40) == pytest.approx(fraction, abs=0.05)
    assert sampled.schema == table.schema


def test_a_functional_dependency_is_kept(spiked):
    model, _ = spiked
    sampled = model.sample(2000, random_state=0)
    names = np.array(list("abcde"))[np.asarray(sampled["level"]) - 1]
    assert np.mean(names == np.asarray(sampled["name"])) > 0.95


def test_the_denoiser_of_the_paper_has_no_expectation():
    table = mixture_table(50, seed=0)
    paper = Harpoon("paper", hidden=8, max_epochs=1, diffusion_steps=3, random_state=0, progress=False).fit(table)
    with pytest.raises(InvalidOption, match="anchored"):
        paper.expect(table)
