"""Denoisers: estimates of the clean row x_0 from a noisy row x_t (Definition 1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from harpoon.data import Columns
from harpoon.diffusion.schedules import Schedule
from harpoon.encoding.encoded_rows import EncodedRows


class DenoiserFn(Protocol):
    """The estimate x̂_0 = Q_t(x_t) of the clean rows; the paper calls it the dirty estimate."""

    def __call__(self, x_t: Tensor, t: float) -> Tensor:
        """Estimate x_0, (n, d), from x_t, (n, d), at time t."""


class Denoiser(nn.Module, ABC):
    """A network, its noise schedule, and the moments of its training rows.

    A subclass defines `condition_on` and `loss`, and is registered in `harpoon.networks.build.NETWORKS`.
    """

    is_conditional: ClassVar[bool]  # whether observed cells are an input; if not, they only act through guidance
    mean: Tensor  # of the encoded training rows, (d,)
    variance: Tensor  # of the encoded training rows, (d,)

    def __init__(self, width: int, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    @abstractmethod
    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:
        """Return the estimate of x_0 given the observed cells, as a function of x_t and t."""

    def forward(self, x_t: Tensor, t: float, given: EncodedRows | None = None) -> Tensor:
        """Estimate x_0, (n, d), from x_t, (n, d), at time t and the observed cells."""
        return self.condition_on(given)(x_t, t)

    def at_max_noise(self) -> MaxNoiseModel:
        """Return the model at the largest noise level. The weights must not change afterwards."""
        return MaxNoiseModel(self)

    @abstractmethod
    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Return the training loss of a batch, a scalar."""

    def muon_parameters(self) -> list[nn.Parameter]:
        """Return the inner weight matrices, which Muon may optimise; none by default."""
        return []

    def initialize(
        self,
        data: EncodedRows,
        generator: torch.Generator,
        cells: Columns | None = None,  # noqa: ARG002
        *,
        independent: bool = False,  # noqa: ARG002
    ) -> None:
        """Set the initial weights, and all statistics of the training rows that the network uses.

        Args:
            data: The encoded rows.
            generator: The source of random weights.
            cells: The same rows before they were encoded, for exact relations between columns.
            independent: The columns of the rows are independent of each other, so that no dependence is searched.
        """
        initialize_linear(self, generator)
        self.fit_moments(data)

    def validate_state(self) -> None:
        """Raise ValueError if buffers that were read from a file cannot be used."""

    def fit_moments(self, data: EncodedRows) -> None:
        """Set `mean` and `variance` to the weighted moments of the observed cells of the training rows."""
        weights = data.observed * data.row_weights
        total = weights.sum(dim=0)
        total = torch.where(total > 0, total, 1.0)  # no cell of a feature may be observed
        self.mean.copy_((data.x * weights).sum(dim=0) / total)
        self.variance.copy_(((data.x - self.mean) ** 2 * weights).sum(dim=0) / total)


class CellScores(NamedTuple):
    """How well cells are predicted from the other cells of their rows, (n,) each."""

    gain: Tensor  # the log likelihood of the cell, minus that under the distribution of its column alone
    probability: Tensor  # of the most probable category; NaN if the cell has no categories
    correct: Tensor  # whether that is the category of the cell
    cumulative: Tensor  # the cumulative probability of a number at its value; NaN if the cell has none
    row: Tensor  # the index of its row


class MaxNoiseModel:
    """A denoiser at the largest noise level, where x_t carries no information and need not be sampled."""

    predicts_distributions: ClassVar[bool] = False  # those of all cells, as `networks.one_step_prediction` does

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser

    def posterior_mean(self, given: EncodedRows) -> Tensor:
        """Return E[x_0 | observed cells], (n, d)."""
        x_t, t = torch.zeros_like(self.denoiser.mean)[None], self.denoiser.schedule.times(1)[0]
        x0_hat: Tensor = self.denoiser(x_t, t, given)
        return x0_hat

    def draw_parameters(self, generator: np.random.Generator) -> MaxNoiseModel:  # noqa: ARG002
        """Return a model whose parameters are a draw from what the training table leaves open of them.

        By default this model: the uncertainty of its parameters is not known.
        """
        return self

    def score_cells(self, rows: EncodedRows, count: int, generator: torch.Generator) -> CellScores | None:  # noqa: ARG002
        """Hide random observed cells, one at a time and at most `count`, and predict each from its row.

        By default None: the model predicts no distributions.
        """
        return None


def initialize_linear(module: nn.Module, generator: torch.Generator) -> None:
    """Initialize linear layers as PyTorch does, from a generator instead of the global random state."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            with torch.no_grad():
                layer.weight.uniform_(-bound, bound, generator=generator)
                if layer.bias is not None:
                    layer.bias.uniform_(-bound, bound, generator=generator)
        elif isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
