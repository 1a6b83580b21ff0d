"""Noise has the distribution that the accountant assumes, for each source."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from harpoon.privacy.differential.noise_sources import SecureNoise, SeededNoise

SOURCES = [SeededNoise(0), SecureNoise()]
MIN_P = 1e-9  # secure noise has no seed: a test may fail by chance, but never does


@pytest.mark.parametrize("source", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("std", [0.7, 5.0])
def test_discrete_noise_has_the_probabilities_of_the_discrete_gaussian(source, std):
    values = source.discrete_normal(2000, std)
    ends = np.arange(-12 * max(std, 1), 12 * max(std, 1) + 1).round()
    p = np.exp(-(ends**2) / (2 * std**2))
    p /= p.sum()
    seen = np.array([(values == end).sum() for end in ends])
    assert seen.sum() == len(values)
    common = p * len(values) > 8
    observed = np.append(seen[common], seen[~common].sum())
    expected = np.append(p[common], p[~common].sum()) * len(values)
    assert stats.chisquare(observed, expected).pvalue > MIN_P


def test_discrete_noise_is_never_less_than_asked_for():
    noise = SeededNoise(0)
    seen = []
    noise.integers = type("Spy", (), {})()
    import harpoon.privacy.differential.noise_sources as module

    original = module._discrete_gaussian
    try:
        module._discrete_gaussian = lambda variance, _source: seen.append(variance) or 0
        noise.discrete_normal(1, 3.3333333)
    finally:
        module._discrete_gaussian = original
    assert seen[0] >= Fraction(3.3333333) ** 2


@pytest.mark.parametrize("source", SOURCES, ids=["seeded", "secure"])
def test_normal_noise_is_standard_normal(source):
    values = source.normal(torch.Size([50, 200]))
    assert values.shape == (50, 200)
    assert values.dtype is torch.float64
    assert stats.kstest(values.flatten().numpy(), "norm").pvalue > MIN_P


@pytest.mark.parametrize("source", SOURCES, ids=["seeded", "secure"])
def test_rows_are_chosen_independently(source):
    sizes = [len(source.sample_rows(1000, 0.1)) for _ in range(200)]
    spread = np.var(sizes, ddof=1) / (1000 * 0.1 * 0.9)  # binomial: sizes are not fixed
    assert stats.chi2(199).cdf(spread * 199) > MIN_P
    assert stats.chi2(199).sf(spread * 199) > MIN_P
    assert abs(np.mean(sizes) - 100) < 6
    chosen = source.sample_rows(1000, 0.1)
    assert len(chosen.unique()) == len(chosen)  # no row takes part twice


def test_noise_shares_no_stream_with_other_generators_of_the_seed():
    """The initial weights are drawn from a generator with the seed of the training, and anyone can read them."""
    seed = 5
    noise = SeededNoise(seed).normal(torch.Size([1000])).float()
    other = torch.randn(1000, generator=torch.Generator().manual_seed(seed))
    assert abs(np.corrcoef(noise, other)[0, 1]) < 0.2
    assert SeededNoise(None).normal(torch.Size([3])).tolist() != SeededNoise(None).normal(torch.Size([3])).tolist()


def test_seeds_repeat_noise_and_the_operating_system_does_not():
    shape = torch.Size([3])
    assert SeededNoise(1).normal(shape).equal(SeededNoise(1).normal(shape))
    assert not SecureNoise().normal(shape).equal(SecureNoise().normal(shape))
