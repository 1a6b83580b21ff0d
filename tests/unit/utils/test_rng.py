"""The noise of rows depends on the seed, the row and the draw alone."""

import numpy as np
import torch
from scipy.stats import kstest

from harpoon._utils.rng import row_noise


def test_noise_belongs_to_the_row_and_not_to_the_batch():
    whole = row_noise(42, np.arange(100), 4, 5)
    parts = [row_noise(42, np.arange(i, min(i + 7, 100)), 4, 5) for i in range(0, 100, 7)]
    assert torch.equal(whole, torch.cat(parts, dim=1))
    assert torch.equal(whole[:, [70, 3]], row_noise(42, np.array([70, 3]), 4, 5))


def test_noise_differs_between_rows_steps_and_seeds():
    noise = row_noise(0, np.arange(50), 4, 5)
    assert len(torch.unique(noise)) == noise.numel()
    assert not torch.isin(noise, row_noise(1, np.arange(50), 4, 5)).any()


def test_noise_is_standard_normal():
    noise = row_noise(7, np.arange(2000), 5, 4)
    assert kstest(noise.flatten().numpy(), "norm").pvalue > 0.001
    assert abs(np.corrcoef(noise[0, :, 0], noise[1, :, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[0, 1:, 0], noise[0, :-1, 0])[0, 1]) < 0.1
