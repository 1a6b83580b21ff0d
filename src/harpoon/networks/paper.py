"""Denoisers: from a noisy row to the dirty estimate of the clean one (Definition 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.layers import sinusoidal_embedding


class PaperDenoiser(Denoiser):
    """The paper's denoiser: an unconditional network that predicts the noise.

    It does not look at what is known of a row; conditions reach it through guidance alone.
    """

    is_conditional = False
    schedule: LinearSchedule

    def __init__(self, width: int, hidden: int, schedule: LinearSchedule) -> None:
        super().__init__(width, schedule)
        self.noise = PaperNetwork(width, hidden)

    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:  # noqa: ARG002
        """The dirty estimate, whatever is known: that reaches the rows through guidance."""
        return self.estimate

    def estimate(self, x_t: Tensor, t: float) -> Tensor:
        """The dirty estimate (eq. 3): x̂_0 = (x_t - sqrt(1 - ᾱ_t) ε_θ(x_t, t)) / sqrt(ᾱ_t)."""
        level = self.schedule.level(t)
        times = torch.full((len(x_t),), t, device=x_t.device)
        predicted: Tensor = self.noise(x_t, times)
        return (x_t - level.noise * predicted) / level.signal

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Mean squared error of the predicted noise (eq. 2).

        A cell that is missing in the training table is noised from zero and is never a target.
        """
        device = data.x.device
        t = torch.randint(1, self.schedule.steps + 1, (len(data.x),), generator=generator, device=device)
        epsilon = torch.randn(data.x.shape, generator=generator, device=device, dtype=data.x.dtype)
        a, s = self.schedule.levels(t)
        error: Tensor = (epsilon - self.noise(a * data.x + s * epsilon, t)) ** 2
        return (error * data.observed).sum() / data.observed.sum().clamp(min=1)


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
        embedded: Tensor = self.time(sinusoidal_embedding(t, self.hidden).to(x_t.dtype))
        predicted: Tensor = self.layers(self.project(x_t) + embedded)
        return predicted
