"""Encoded rows sampled by the reverse process, guided by a penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from harpoon._utils.rng import Stream, row_noise
from harpoon.config import Config
from harpoon.data import Columns, Floats, Index
from harpoon.diffusion import INITIAL_NOISE, SOLVERS, SMCResampler, reverse_process
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance, TwistedGuidance
from harpoon.diffusion.reconstruction_penalty import reconstruction_penalty, sum_penalties
from harpoon.encoding import EncodedRows, Penalty
from harpoon.exceptions import SamplingFailed
from harpoon.inference.sampling.batch_evaluation import BatchEvaluator, Sampled
from harpoon.inference.sampling.batches import batch_size


@dataclass(frozen=True)
class ReverseDiffusion:
    """Samples unobserved cells by the reverse process.

    Args:
        evaluator: The model, its options and the seed.
        penalty: Guides the rows, besides the observed cells for a network that is not conditioned on them.
        guidance_scale: η; that of the options by default.
        resampler: Corrects the bias of guidance by importance weights.
    """

    evaluator: BatchEvaluator
    penalty: Penalty | None = None
    guidance_scale: float | None = None
    resampler: SMCResampler | None = None

    def sample(
        self, given: Columns, index: Index, draw: int, finish: Callable[[Columns, EncodedRows, torch.Tensor], Sampled]
    ) -> list[tuple[Sampled, int]]:
        """Sample rows batch by batch; return what `finish` makes of each, and how many rows count.

        `finish` gets the given rows of a batch, the same encoded, and the sampled ones, (n, d).
        """
        model, config, solver = self.evaluator.model, self._config, SOLVERS[self._config.solver]
        times = model.denoiser.schedule.times(config.sampling_steps)
        noises = len(times) if solver.stochastic else 1
        size = batch_size(config.sampling_batch_size, noises * model.codec.width)
        if self.resampler is not None:
            size = max(1, size // self.resampler.n_particles) * self.resampler.n_particles

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Sampled:
            observed, seed = model.codec.to_batch(rows).to(model.device), self.evaluator.seed
            noise = row_noise(seed, index[batch], noises, model.codec.width, draw=draw).to(model.device)
            x = reverse_process(
                model.denoiser,
                noise,
                times=times,
                initial_noise=INITIAL_NOISE[config.initial_noise],
                solver=solver,
                given=observed,
                guidance=self._guidance(observed),
                resampler=None if self.resampler is None else self.resampler.starting_at(int(index[batch[0]])),
                on_step=on_step,
            )
            _check_finite(x, config)
            return finish(rows, observed, x)

        # A penalty may be a function of the user, which need not be thread-safe.
        return self.evaluator.sample_batches(given, sample_batch, size, len(times) - 1, parallel=self.penalty is None)

    @property
    def _config(self) -> Config:
        return self.evaluator.config

    def _guidance(self, observed: EncodedRows) -> Guidance | None:
        """Return the guidance by the penalty, and by observed cells if the network is not conditioned on them."""
        config, model = self._config, self.evaluator.model
        penalties = [] if self.penalty is None else [self.penalty]
        if not model.denoiser.is_conditional and bool(observed.observed.any()):
            penalties.append(reconstruction_penalty(config.reconstruction_loss, observed, model.codec.slices))
        eta = config.guidance_scale if self.guidance_scale is None else self.guidance_scale
        if not penalties or not eta:
            return None
        kind = Guidance if self.resampler is None else TwistedGuidance
        return kind(
            sum_penalties(penalties), GUIDANCE_SCHEDULES[config.guidance_schedule](eta), config.max_guidance_norm
        )


def sample_encoded(
    evaluator: BatchEvaluator, given: Columns, index: Index, *, draw: int = Stream.CELLS, penalty: Penalty | None = None
) -> Floats:
    """Sample rows by reverse diffusion and return them before they are decoded and rounded, (n, d)."""
    parts = ReverseDiffusion(evaluator, penalty).sample(given, index, draw, lambda _, *rows: to_encoded(*rows))
    return np.concatenate([np.zeros((0, evaluator.codec.width)), *(x[:count] for x, count in parts)])


def to_encoded(observed: EncodedRows, x: torch.Tensor) -> Floats:
    """Return the encoded rows of a batch, (n, d), with their observed cells."""
    encoded: Floats = observed.fill(x).cpu().double().numpy()
    return encoded


def _check_finite(x: torch.Tensor, config: Config) -> None:
    invalid = int((~x.isfinite()).any(dim=1).sum())
    if invalid:
        raise SamplingFailed(
            f"Guidance made {invalid} of {len(x)} rows infinite: its gradients were too large. Use a smaller "
            f"guidance_scale than {config.guidance_scale:g}, or reconstruction_loss='mae', whose gradients are bounded."
        )
