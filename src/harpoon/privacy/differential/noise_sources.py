"""Random numbers of the mechanisms: which rows take part in a step, and Gaussian noise.

    SeededNoise   ordinary pseudo-random numbers from a seed
    SecureNoise   the operating system's cryptographic random numbers

Counts get discrete Gaussian noise, sampled exactly with integers (Canonne, Kamath and Steinke, 2020): there is no
rounding that could reveal them. It has the Rényi divergence of the continuous Gaussian. Gradients get float noise. A
single float normal has gaps in its last bits that can reveal what it was added to (Mironov, 2012). `SecureNoise`
therefore adds four, each from 53 random bits, in double precision and halves the sum (Holohan and Braghin, 2021).
"""

from __future__ import annotations

import math
import os
import random
import secrets
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

STREAM = 1  # of the seed, for noise alone
N_SUMMED = 4  # normals in a secure one
UNIFORM_BITS = 53
VARIANCE_UNITS = 1000  # variances of counts are rounded up to a multiple of one in so many


class Noise(ABC):
    """A source of noise; `integers` is for exact samplers."""

    integers: random.Random

    @abstractmethod
    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return numbers in (0, 1), (count,)."""

    @abstractmethod
    def normal(self, shape: torch.Size) -> Tensor:
        """Return standard normal noise in double precision."""

    def sample_rows(self, n_rows: int, rate: float) -> Tensor:
        """Return the rows that take part in a step, by index; each does with the same probability, independently."""
        return torch.from_numpy(np.flatnonzero(self.uniform(n_rows) < rate))

    def discrete_normal(self, count: int, std: float) -> NDArray[np.int64]:
        """Return integers with the probabilities of a Gaussian with at least this standard deviation, (count,)."""
        variance = Fraction(math.ceil(Fraction(std) ** 2 * VARIANCE_UNITS), VARIANCE_UNITS)
        return np.array([_discrete_gaussian(variance, self.integers) for _ in range(count)], dtype=np.int64)


class SeededNoise(Noise):
    """Pseudo-random numbers that a seed determines; None: a seed of the operating system, which is not kept.

    Its generators share no stream with any other of the training, such as the one of the initial weights: these can be
    read off a model, and would tell the noise.
    """

    def __init__(self, seed: int | None) -> None:
        entropy = secrets.randbits(256) if seed is None else seed
        for_integers, for_uniform, for_normal = np.random.SeedSequence(entropy, spawn_key=(STREAM,)).spawn(3)
        self.integers = random.Random(int(for_integers.generate_state(1, np.uint64)[0]))  # noqa: S311
        self._uniform = np.random.default_rng(for_uniform)
        self._normal = torch.Generator().manual_seed(int(for_normal.generate_state(1, np.uint64)[0] >> np.uint64(1)))

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1), (count,)."""
        return self._uniform.random(count)

    def normal(self, shape: torch.Size) -> Tensor:
        """Return standard normal noise."""
        return torch.randn(shape, generator=self._normal, dtype=torch.float32).double()


class SecureNoise(Noise):
    """Random numbers of the operating system, which nobody can predict or repeat."""

    def __init__(self) -> None:
        self.integers = secrets.SystemRandom()

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return numbers in (0, 1), (count,): the middles of 2**53 intervals."""
        words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(64 - UNIFORM_BITS)
        return (words.astype(np.float64) + 0.5) * 2.0**-UNIFORM_BITS

    def normal(self, shape: torch.Size) -> Tensor:
        """Return standard normal noise: half the sum of four normals."""
        total = np.sum([ndtri(self.uniform(shape.numel())) for _ in range(N_SUMMED)], axis=0)
        return torch.from_numpy(total / math.sqrt(N_SUMMED)).view(shape)


def _discrete_gaussian(variance: Fraction, source: random.Random) -> int:
    """Return an integer y with a probability proportional to exp(-y² / (2 variance))."""
    scale = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        y = _discrete_laplace(scale, source)
        if _happens((abs(y) - variance / scale) ** 2 / (2 * variance), source):
            return y


def _discrete_laplace(scale: int, source: random.Random) -> int:
    """Return an integer y with a probability proportional to exp(-|y| / scale)."""
    while True:
        rest = source.randrange(scale)
        if not _happens(Fraction(rest, scale), source):
            continue
        whole = 0
        while _happens(Fraction(1), source):
            whole += 1
        y, is_negative = rest + scale * whole, bool(source.randrange(2))
        if y or not is_negative:  # 0 has one sign only
            return -y if is_negative else y


def _happens(exponent: Fraction, source: random.Random) -> bool:
    """Return True with probability exp(-exponent), exactly."""
    while exponent > 1:
        if not _happens(Fraction(1), source):
            return False
        exponent -= 1
    trial = 1
    while source.randrange(exponent.denominator * trial) < exponent.numerator:
        trial += 1
    return trial % 2 == 1
