"""Gradient angles of a trained denoiser stay near the right angle (the gradient-angle figure of the paper)."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon, InvalidOption, InvalidTable
from harpoon.diffusion.geometry import gradient_angles
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.encoded_rows import EncodedRows


@pytest.fixture(scope="module")
def circle_model():
    """A model trained on rows of the unit circle."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 3000)
    table = pa.table({"x": np.cos(angle), "y": np.sin(angle), "half": np.where(angle < np.pi, "upper", "lower")})
    options = {"hidden": 64, "batch_size": 512, "learning_rate": 2e-3, "max_epochs": 60, "time_embedding": "sinusoidal"}
    model = Harpoon("paper", random_state=0, progress=False, **options).fit(table)
    return model.denoiser_, model.encode(table), model.codec_.slices


def test_angles_of_a_trained_model_stay_near_the_right_angle(circle_model):
    found = gradient_angles(*circle_model, times=[150, 100, 50, 20, 10])
    assert list(found) == ["mae", "mse", "mae+ce", "mse+ce"]
    for angles in found.values():
        assert angles.times == (150, 100, 50, 20, 10)
        assert angles.mean.shape == angles.std.shape == (5,)
        assert np.all(np.abs(angles.mean - 90) < 35)


def test_all_times_are_visited_by_default(circle_model):
    found = gradient_angles(*circle_model, losses=["mae"], rows=5)
    assert found["mae"].times == tuple(LinearSchedule().times(200))[:-1]


def test_unknown_losses_and_incomplete_rows_are_errors(circle_model):
    denoiser, data, slices = circle_model
    with pytest.raises(InvalidOption, match="mae"):
        gradient_angles(denoiser, data, slices, losses=["huber"])
    incomplete = EncodedRows(data.x, torch.zeros_like(data.observed))
    with pytest.raises(InvalidTable, match="complete rows"):
        gradient_angles(denoiser, incomplete, slices)
