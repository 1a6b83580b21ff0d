"""Missing cells sampled, or their posterior means computed, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch

from harpoon._utils.progress import Progress, sampling_bar, step_callback
from harpoon._utils.rng import Stream, row_noise
from harpoon._utils.threads import map_batches
from harpoon.config import Config
from harpoon.data.column_array import Columns, Index, concat, fill_missing, n_rows, take
from harpoon.data.statistics import Floats
from harpoon.diffusion.denoiser import Denoiser, MaxNoiseModel
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance, TwistedGuidance
from harpoon.diffusion.reconstruction import reconstruction_penalty, sum_penalties
from harpoon.diffusion.samplers import INITIAL_NOISE, reverse_process
from harpoon.diffusion.smc import SMCResampler
from harpoon.diffusion.solvers import SOLVERS
from harpoon.encoding.batch import EncodedRows, Penalty
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import SamplingFailed
from harpoon.inference.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler, DistributionModel
from harpoon.relations.formula import Formula, apply_formulas

Decoded = TypeVar("Decoded")
SampleBatch = Callable[[Index, Columns, Callable[[], None]], Columns]  # (positions, given cells, on_step) to rows
MIN_BATCH_ROWS = 64
BATCHES_PER_CHUNK = 16  # batches that are encoded and decoded together, at most
MAX_NOISE_VALUES = 2**26  # random numbers held at once, at most


@dataclass
class RowSampler:
    """Samples the missing cells of rows, and counts evaluations of the network.

    Attributes:
        denoiser: The trained network.
        codec: Encodes and decodes rows.
        config: Sampling and guidance options.
        device: The device of the network.
        seed: The seed of the noise. The noise of a row depends only on the seed, its number and the draw.
        progress: Whether to show a progress bar, or a callback; an error that it raises ends the sampling.
        evaluations: Evaluations of the network so far, counted in rows.
    """

    denoiser: Denoiser
    codec: RowCodec
    config: Config
    device: torch.device
    seed: int = 0
    progress: Progress = False
    evaluations: int = field(default=0, init=False)

    @cached_property
    def at_max_noise(self) -> MaxNoiseModel:
        """The network at maximal noise."""
        return self.denoiser.at_max_noise()

    @cached_property
    def autoregressive(self) -> AutoregressiveSampler | None:
        """The autoregressive sampler, if the options ask for it and the network and the codec support it."""
        if not self.config.ar_steps or not self.at_max_noise.is_autoregressive:
            return None
        if not AutoregressiveSampler.supports(self.codec):
            return None
        return AutoregressiveSampler.from_codec(self.codec).to(self.device)

    def relations(self) -> list[tuple[str, Formula, float]]:
        """Return the relations of the model: target column, formula, and the fraction of rows in which it holds."""
        if not self.at_max_noise.is_autoregressive:
            return []
        bank = cast("DistributionModel", self.at_max_noise).relations
        names = [number.column.name for number in self.codec.numeric]
        return [
            (names[relation // bank.per_column], formula, float(bank.fractions[relation]))
            for relation, formula in bank.formulas(self.codec.units).items()
        ]

    def posterior_means(self, rows: Columns, decode: Callable[[Floats], Decoded]) -> list[Decoded]:
        """Decode E[x_0 | observed cells], chunk by chunk: one evaluation at maximal noise.

        Rows are encoded and decoded in chunks of several batches, because a column of a chunk costs hardly more than
        one of a batch.
        """
        width, height = self.codec.width, n_rows(rows)
        size = _batch_size(self.config.sampling_batch_size, width)
        per_thread = -(-height // torch.get_num_threads())
        chunk_size = _batch_size(min(per_thread, BATCHES_PER_CHUNK * size), width * BATCHES_PER_CHUNK)
        chunks = list(_batches(height, max(size, chunk_size)))
        on_step = step_callback(sum(-(-count // size) for _, count in chunks), height, self.progress)

        def decode_chunk(chunk: tuple[Index, int]) -> Decoded:
            index, filled = chunk
            observed, means = self.codec.to_batch(take(rows, index)), []
            for batch, count in _batches(filled, size):
                means.append(self._posterior_mean(observed[torch.from_numpy(batch)].to(self.device))[:count])
                on_step()
            return decode(np.concatenate(means))

        self.evaluations += height
        return map_batches(decode_chunk, chunks, self.device)

    @torch.no_grad()
    def _posterior_mean(self, observed: EncodedRows) -> Floats:
        x0_hat: Floats = self.at_max_noise.posterior_mean(observed).cpu().double().numpy()
        return x0_hat

    def sample(
        self,
        given: Columns,
        index: Index,
        *,
        draw: int = Stream.CELLS,
        penalty: Penalty | None = None,
        guidance_scale: float | None = None,
        resampler: SMCResampler | None = None,
    ) -> Columns:
        """Sample the missing cells of rows; observed cells are returned unchanged.

        Args:
            given: The rows.
            index: The number of each row, on which its noise depends.
            draw: The number of the draw or the key of a stream, on which the noise depends too.
            penalty: Guides the rows, besides the observed cells for a network that is not conditioned on them.
            guidance_scale: η; that of the options by default.
            resampler: Corrects the bias of guidance by importance weights.
        """
        if penalty is None and self.autoregressive is not None:
            return self._sample_autoregressive(self.autoregressive, given, index, draw)
        config, solver = self.config, SOLVERS[self.config.solver]
        times = self.denoiser.schedule.times(config.sampling_steps)
        noises = len(times) if solver.stochastic else 1
        size = _batch_size(config.sampling_batch_size, noises * self.codec.width)
        if resampler is not None:
            size = max(1, size // resampler.n_particles) * resampler.n_particles

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Columns:
            observed = self.codec.to_batch(rows).to(self.device)
            noise = row_noise(self.seed, index[batch], noises, self.codec.width, draw=draw).to(self.device)
            kind = Guidance if resampler is None else TwistedGuidance
            x = reverse_process(
                self.denoiser,
                noise,
                times=times,
                initial_noise=INITIAL_NOISE[config.initial_noise],
                solver=solver,
                given=observed,
                guidance=self._guidance(observed, penalty, guidance_scale, kind),
                resampler=None if resampler is None else resampler.starting_at(int(index[batch[0]])),
                on_step=on_step,
            )
            _check_finite(x, config)
            return self._decode(rows, observed, x)

        # A penalty may be a function of the user, which need not be thread-safe.
        return self._map_batches(given, sample_batch, size, len(times) - 1, parallel=penalty is None)

    def gibbs_step(self, rows: Columns, given: Columns, index: Index, *, fraction: float, draw: int) -> Columns:
        """Resample a random fraction of the cells of each row, conditioned on the others.

        Cells that are observed in `given` stay. The step leaves the distribution of the model unchanged. If rows that
        violate a condition are discarded, it leaves the distribution under the condition unchanged.
        """
        noise = row_noise(self.seed, index, 1, len(rows), draw=Stream.GIBBS_MASK + draw)
        uniforms = torch.special.ndtr(noise)[0].numpy()
        kept = {
            name: replace(cells, missing=given[name].missing & (uniforms[:, column] < fraction))
            for column, (name, cells) in enumerate(rows.items())
        }
        return self.sample(kept, index, draw=draw)

    def _sample_autoregressive(
        self, sampler: AutoregressiveSampler, given: Columns, index: Index, draw: int
    ) -> Columns:
        model = cast("DistributionModel", self.at_max_noise)
        steps = min(self.config.ar_steps, len(sampler))
        formulas = model.relations.formulas(self.codec.units)

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Columns:
            observed = self.codec.to_batch(rows).to(self.device)
            noise = row_noise(self.seed, index[batch], UNIFORMS_PER_VARIABLE, len(sampler), draw=draw)
            uniforms = torch.special.ndtr(noise).to(self.device)
            x, relation_of = sampler.sample(model, observed, uniforms, steps, on_step)
            return apply_formulas(self._decode(rows, observed, x), self.codec, relation_of.cpu().numpy(), formulas)

        values_per_row = UNIFORMS_PER_VARIABLE * len(sampler) + model.n_rank_bins
        return self._map_batches(
            given, sample_batch, _batch_size(self.config.sampling_batch_size, values_per_row), steps
        )

    def _map_batches(
        self, given: Columns, sample_batch: SampleBatch, size: int, steps: int, *, parallel: bool = True
    ) -> Columns:
        """Sample all rows batch by batch, on several threads where that is allowed."""
        batches = list(_batches(n_rows(given), size))
        self.evaluations += n_rows(given) * steps
        progress = self.progress if batches else False
        with sampling_bar(len(batches) * steps, n_rows(given), progress) as on_step:

            def sample(batch: tuple[Index, int]) -> Columns:
                positions, count = batch
                return take(sample_batch(positions, take(given, positions), on_step), slice(count))

            parts = map_batches(sample, batches, self.device) if parallel else [sample(batch) for batch in batches]
        return concat(parts) if parts else dict(given)

    def _decode(self, given: Columns, observed: EncodedRows, x: torch.Tensor) -> Columns:
        """Decode a batch; observed cells are those of `given`, bit for bit."""
        return fill_missing(given, self.codec.decode(observed.fill(x).cpu().double().numpy()))

    def _guidance(
        self, observed: EncodedRows, penalty: Penalty | None, scale: float | None, kind: type[Guidance]
    ) -> Guidance | None:
        """Return the guidance by the penalty, and by observed cells if the network is not conditioned on them."""
        config = self.config
        penalties = [] if penalty is None else [penalty]
        if not self.denoiser.is_conditional and bool(observed.observed.any()):
            penalties.append(reconstruction_penalty(config.reconstruction_loss, observed, self.codec.slices))
        eta = config.guidance_scale if scale is None else scale
        if not penalties or not eta:
            return None
        schedule = GUIDANCE_SCHEDULES[config.guidance_schedule](eta)
        return kind(sum_penalties(penalties), schedule, config.max_guidance_norm)


def _check_finite(x: torch.Tensor, config: Config) -> None:
    invalid = int((~x.isfinite()).any(dim=1).sum())
    if invalid:
        raise SamplingFailed(
            f"Guidance made {invalid} of {len(x)} rows infinite: its gradients were too large. Use a smaller "
            f"guidance_scale than {config.guidance_scale:g}, or reconstruction_loss='mae', whose gradients are bounded."
        )


def _batches(rows: int, size: int) -> Iterator[tuple[Index, int]]:
    """Yield the positions of each batch and how many of them count; a small batch is padded with its own rows.

    Matrix products of a few rows are summed in another order, which a guided loop amplifies: a row would depend on
    how many others are sampled with it.
    """
    for start in range(0, rows, size):
        batch = np.arange(start, min(start + size, rows))
        yield np.resize(batch, max(len(batch), MIN_BATCH_ROWS)), len(batch)


def _batch_size(requested: int, values_per_row: int) -> int:
    """Return the requested batch size, or less if the random numbers of a batch would be too many."""
    return max(1, min(requested, MAX_NOISE_VALUES // values_per_row))
