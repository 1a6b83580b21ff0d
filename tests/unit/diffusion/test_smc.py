"""Importance weights and resampling of guided rows."""

import math

import pytest
import torch
from torch.distributions import Normal

from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.smc import SMCResampler

LEVEL = NoiseLevel(0.6, 0.8)


def test_equal_penalties_keep_all_rows():
    resampler = SMCResampler(n_particles=4, seed=0)
    assert resampler.resample(torch.ones(8), LEVEL, last=False).tolist() == list(range(8))


def test_rows_are_replaced_by_rows_of_their_group_with_a_small_penalty():
    penalties = torch.tensor([0.0, 50.0, 50.0, 50.0, 50.0, 50.0, 0.0, 50.0])
    resampler = SMCResampler(n_particles=4, seed=0)
    ancestors = resampler.resample(penalties, LEVEL, last=False)
    assert ancestors.tolist() == [0] * 4 + [6] * 4
    assert torch.equal(resampler.log_potential, torch.zeros(8, dtype=torch.float64))
    assert resampler.log_weights.tolist() == pytest.approx([-math.log(4)] * 8)


def test_after_resampling_weights_change_by_the_ratio_of_potentials():
    """At each step the weight is multiplied by the potential and divided by that of the ancestor."""
    resampler = SMCResampler(n_particles=4, seed=0)
    ancestors = resampler.resample(torch.tensor([0.1, 90.0, 90.0, 90.0]), LEVEL, last=False)
    assert ancestors.tolist() == [0] * 4
    before, later = resampler.log_weights.clone(), torch.tensor([0.3, 0.2, 0.1, 0.0])
    resampler.resample(later, LEVEL, last=False)
    expected = before - (later - 0.1) / (2 * LEVEL.noise**2)
    assert resampler.log_weights.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_guided_step_is_weighted_by_the_ratio_of_densities():
    resampler = SMCResampler(n_particles=3, seed=0)
    resampler.resample(torch.zeros(3), LEVEL, last=False)
    generator = torch.Generator().manual_seed(0)
    z, update, std = torch.randn(3, 2, generator=generator), torch.randn(3, 2, generator=generator), 0.5
    x = std * z - update
    resampler.reweight(z, update, std)
    expected = (Normal(0.0, std).log_prob(x) - Normal(-update, std).log_prob(x)).sum(dim=1)
    assert resampler.log_weights.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_random_numbers_depend_on_the_number_of_the_group():
    penalties = torch.linspace(0, 1, 64)
    first, same, other = (
        resampler.resample(penalties, LEVEL, last=True).tolist()
        for resampler in (
            SMCResampler(64, seed=0).starting_at(64),
            SMCResampler(64, seed=0).starting_at(64),
            SMCResampler(64, seed=0).starting_at(128),
        )
    )
    assert first == same
    assert first != other
