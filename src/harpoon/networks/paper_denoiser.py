"""The denoiser of the paper: an unconditional MLP that predicts the noise (appendix G.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.layers import Linear
from harpoon.networks.time_embeddings import TIME_EMBEDDINGS


class PaperDenoiser(Denoiser):
    """Unconditional noise prediction. Observed cells and conditions act through guidance alone."""

    is_conditional = False
    schedule: LinearSchedule

    def __init__(self, width: int, hidden: int, schedule: LinearSchedule, time_embedding: str = "sinusoidal") -> None:
        super().__init__(width, schedule)
        self.noise = PaperNetwork(width, hidden, time_embedding)
        self.eval()  # bfloat16 products are for training only

    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:  # noqa: ARG002
        """Return `estimate`: the network does not see observed cells."""
        return self.estimate

    def estimate(self, x_t: Tensor, t: float) -> Tensor:
        """Return x̂_0 = (x_t - sqrt(1 - ᾱ_t) ε_θ(x_t, t)) / sqrt(ᾱ_t), (n, d) (eq. 3)."""
        level = self.schedule.level(t)
        times = torch.full((1,), t, device=x_t.device)
        epsilon: Tensor = self.noise(x_t, times)
        return (x_t - level.noise * epsilon) / level.signal

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Return the mean squared error of the predicted noise (eq. 2).

        A cell that is missing in the training table is 0 before it is noised, and is never a target. Errors are
        weighted by the weights of the rows.
        """
        device = data.x.device
        t = torch.randint(1, self.schedule.steps + 1, (len(data.x),), generator=generator, device=device)
        epsilon = torch.randn(data.x.shape, generator=generator, device=device, dtype=data.x.dtype)
        a, s = self.schedule.levels(t)
        steps = torch.arange(1, self.schedule.steps + 1, device=device)
        error: Tensor = (epsilon - self.noise(a * data.x + s * epsilon, steps, t - 1)) ** 2
        return (error * data.observed * data.row_weights).sum() / data.observed.sum().clamp(min=1)


class PaperNetwork(nn.Module):
    """ε_θ(x_t, t): a projection to `hidden`, plus the time embedding, then four linear layers with SiLU."""

    def __init__(self, width: int, hidden: int, time_embedding: str = "sinusoidal") -> None:
        super().__init__()
        self.hidden, self.embed_time = hidden, TIME_EMBEDDINGS[time_embedding]
        self.project = Linear(width, hidden)
        self.time = nn.Sequential(Linear(hidden, hidden), nn.SiLU(), Linear(hidden, hidden))
        self.layers = nn.Sequential(
            Linear(hidden, 2 * hidden),
            nn.SiLU(),
            Linear(2 * hidden, 2 * hidden),
            nn.SiLU(),
            Linear(2 * hidden, hidden),
            nn.SiLU(),
            Linear(hidden, width),
        )

    def forward(self, x_t: Tensor, t: Tensor, index: Tensor | None = None) -> Tensor:
        """Predict the noise, (n, d), from x_t, (n, d), and times, (n,), or (1,) if all rows have the same.

        With `index`, (n,), row i has the time t[index[i]]: fewer times than rows have to be embedded.
        """
        embedding: Tensor = self.time(self.embed_time(t, self.hidden).to(x_t.dtype))
        epsilon: Tensor = self.layers(self.project(x_t) + (embedding if index is None else embedding[index]))
        return epsilon
