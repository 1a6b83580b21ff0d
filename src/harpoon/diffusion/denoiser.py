"""Denoisers: from a noisy row to the dirty estimate of the clean one (Definition 1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from harpoon.diffusion.schedules import Schedule
from harpoon.encoding.batch import EncodedRows


class DenoiserFn(Protocol):
    """The dirty estimate x̂_0 = Q_t(x_t), as guidance and geometry see it."""

    def __call__(self, x_t: Tensor, t: float) -> Tensor:
        """Estimate the clean rows."""


class Denoiser(nn.Module, ABC):
    """A network with the schedule it is trained on and the moments of the rows it is trained on."""

    is_conditional: ClassVar[bool]  # whether known cells enter the network, or only pull through guidance
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    @abstractmethod
    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:
        """The dirty estimate for rows of which something is known."""

    def forward(self, x_t: Tensor, t: float, given: EncodedRows | None = None) -> Tensor:
        """The dirty estimate x̂_0 of the clean rows (Definition 1)."""
        return self.condition_on(given)(x_t, t)

    def at_max_noise(self) -> MaxNoiseModel:
        """The network where there is only noise; its weights have to stay as they are."""
        return MaxNoiseModel(self)

    @abstractmethod
    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """The training objective on a batch."""

    def muon_parameters(self) -> list[nn.Parameter]:
        """The weights between two layers of many numbers each, which gain from steps along all directions."""
        return []

    def initialize(self, data: EncodedRows, generator: torch.Generator) -> None:
        """Set the first weights, and what can be read off the training rows before any training."""
        initialize_linear(self, generator)
        self.fit_moments(data)

    def validate_state(self) -> None:
        """Refuse weights that were read from a file and would lead astray."""

    def fit_moments(self, data: EncodedRows) -> None:
        """Mean and variance of the encoded training rows, where the forward process starts from."""
        count = data.observed.sum(dim=0).clamp(min=1)
        self.mean.copy_((data.x * data.observed).sum(dim=0) / count)
        self.variance.copy_((((data.x - self.mean) * data.observed) ** 2).sum(dim=0) / count)


class MaxNoiseModel:
    """A denoiser at the largest noise level, where x_t carries no information and needs not be sampled."""

    is_autoregressive: ClassVar[bool] = False  # whether it predicts the distribution of each cell (`predict`)

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser

    def posterior_mean(self, given: EncodedRows) -> Tensor:
        """E[x_0 | known]."""
        nothing, noisiest = torch.zeros_like(self.denoiser.mean)[None], self.denoiser.schedule.times(1)[0]
        x0_hat: Tensor = self.denoiser(nothing, noisiest, given)
        return x0_hat


def initialize_linear(module: nn.Module, generator: torch.Generator) -> None:
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
