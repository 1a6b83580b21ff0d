"""Denoisers: from a noisy row to the dirty estimate of the clean one (Definition 1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from harpoon.schedule import LinearSchedule, Schedule

MAX_PERIOD = 10_000
SMALLEST_RANK = 1e-6
SMALL_START = 0.1  # of a last layer: what is read off the table comes first


@dataclass(frozen=True)
class Given:
    """What is known of some rows: encoded values, and which of them are known. Both (n, d)."""

    x: Tensor
    known: Tensor

    def __getitem__(self, rows: slice | Tensor) -> Given:
        return Given(self.x[rows], self.known[rows])

    def to(self, device: torch.device) -> Given:
        """The same, on another device."""
        return Given(self.x.to(device), self.known.to(device))

    def complete(self) -> Given:
        """The rows of which everything is known."""
        return self[self.known.all(dim=1)]

    def write_into(self, x: Tensor) -> Tensor:
        """The known values where they are known, x elsewhere."""
        return torch.where(self.known, self.x, x)

    def drawn(self, generator: torch.Generator) -> Given:  # noqa: ARG002
        """The rows to train on this time."""
        return self


@dataclass(frozen=True)
class Spanned(Given):
    """Rows some of whose numbers stand for a span of ranks, and are drawn from it anew each time."""

    places: Tensor  # (k,)
    low: Tensor  # (n, k)
    high: Tensor  # (n, k)

    def __getitem__(self, rows: slice | Tensor) -> Spanned:
        return Spanned(self.x[rows], self.known[rows], self.places, self.low[rows], self.high[rows])

    def to(self, device: torch.device) -> Spanned:
        """The same, on another device."""
        return Spanned(*(getattr(self, field.name).to(device) for field in fields(self)))

    def drawn(self, generator: torch.Generator) -> Given:
        """With every rank that is known somewhere in its span, as the normal number that it is."""
        share = torch.rand(self.low.shape, generator=generator, device=self.low.device, dtype=self.low.dtype)
        rank = (self.low + share * (self.high - self.low)).clamp(SMALLEST_RANK, 1 - SMALLEST_RANK)
        x = self.x.clone()
        x[:, self.places] = torch.special.ndtri(rank) * self.known[:, self.places]
        return Given(x, self.known)


class Estimator(Protocol):
    """The dirty estimate x̂_0 = Q_t(x_t), as guidance and geometry see it."""

    def __call__(self, x_t: Tensor, t: float) -> Tensor:
        """Estimate the clean rows."""


class Denoiser(nn.Module, ABC):
    """A network with the schedule it is trained on and the moments of the rows it is trained on."""

    sees_known: ClassVar[bool]  # whether known cells enter the network, or only pull through guidance
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    @abstractmethod
    def knowing(self, given: Given | None = None) -> Estimator:
        """The dirty estimate for rows of which something is known."""

    def forward(self, x_t: Tensor, t: float, given: Given | None = None) -> Tensor:
        """The dirty estimate x̂_0 of the clean rows (Definition 1)."""
        return self.knowing(given)(x_t, t)

    def at_noise(self) -> AtNoise:
        """The network where there is only noise; its weights have to stay as they are."""
        return AtNoise(self)

    @abstractmethod
    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """The training objective on a batch."""

    def inner_matrices(self) -> list[nn.Parameter]:
        """The weights between two layers of many numbers each, which gain from steps along all directions."""
        return []

    def prepare(self, data: Given, generator: torch.Generator) -> None:
        """Set the first weights, and what can be read off the training rows before any training."""
        initialise(self, generator)
        self.learn_moments(data)

    def check(self) -> None:
        """Refuse weights that were read from a file and would lead astray."""

    def learn_moments(self, data: Given) -> None:
        """Mean and variance of the encoded training rows, where the forward process starts from."""
        count = data.known.sum(dim=0).clamp(min=1)
        self.mean.copy_((data.x * data.known).sum(dim=0) / count)
        self.variance.copy_((((data.x - self.mean) * data.known) ** 2).sum(dim=0) / count)


class AtNoise:
    """A network where there is only noise, which need not be drawn."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser

    def expected(self, given: Given) -> Tensor:
        """E[x_0 | known]."""
        nothing, noisiest = torch.zeros_like(self.denoiser.mean)[None], self.denoiser.schedule.times(1)[0]
        x0_hat: Tensor = self.denoiser(nothing, noisiest, given)
        return x0_hat


class PaperDenoiser(Denoiser):
    """The paper's denoiser: an unconditional network that predicts the noise.

    It does not look at what is known of a row; conditions reach it through guidance alone.
    """

    sees_known = False
    schedule: LinearSchedule

    def __init__(self, width: int, hidden: int, schedule: LinearSchedule) -> None:
        super().__init__(width, schedule)
        self.noise = PaperNetwork(width, hidden)

    def knowing(self, given: Given | None = None) -> Estimator:  # noqa: ARG002
        """The dirty estimate, whatever is known: that reaches the rows through guidance."""
        return self.estimate

    def estimate(self, x_t: Tensor, t: float) -> Tensor:
        """The dirty estimate (eq. 3): x̂_0 = (x_t - sqrt(1 - ᾱ_t) ε_θ(x_t, t)) / sqrt(ᾱ_t)."""
        level = self.schedule.level(t)
        times = torch.full((len(x_t),), t, device=x_t.device)
        predicted: Tensor = self.noise(x_t, times)
        return (x_t - level.s * predicted) / level.a

    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """Mean squared error of the predicted noise (eq. 2).

        A cell that is missing in the training table is noised from zero and is never a target.
        """
        device = data.x.device
        t = torch.randint(1, self.schedule.steps + 1, (len(data.x),), generator=generator, device=device)
        epsilon = torch.randn(data.x.shape, generator=generator, device=device, dtype=data.x.dtype)
        a, s = self.schedule.levels(t)
        error: Tensor = (epsilon - self.noise(a * data.x + s * epsilon, t)) ** 2
        return (error * data.known).sum() / data.known.sum().clamp(min=1)


class PaperNetwork(nn.Module):
    """ε_θ(x_t, t): a projection to `hidden`, the time embedding added, then four linear layers with SiLU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.project = nn.Linear(width, hidden)
        self.time = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.layers = nn.Sequential(
            nn.Linear(hidden, 2 * hidden),
            nn.SiLU(),
            nn.Linear(2 * hidden, 2 * hidden),
            nn.SiLU(),
            nn.Linear(2 * hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, width),
        )

    def forward(self, x_t: Tensor, t: Tensor) -> Tensor:
        """The predicted noise."""
        embedded: Tensor = self.time(sinusoidal(t, self.hidden).to(x_t.dtype))
        predicted: Tensor = self.layers(self.project(x_t) + embedded)
        return predicted


def sinusoidal(t: Tensor, channels: int) -> Tensor:
    """Sines and cosines of t at geometrically spaced frequencies, (n, channels)."""
    half = channels // 2
    frequencies = torch.exp(-math.log(MAX_PERIOD) / half * torch.arange(half, device=t.device))
    angles = t.unsqueeze(1).float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's defaults, from a generator of our own instead of the global one."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            with torch.no_grad():
                layer.weight.uniform_(-bound, bound, generator=generator)
                if layer.bias is not None:
                    layer.bias.uniform_(-bound, bound, generator=generator)
        elif isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
