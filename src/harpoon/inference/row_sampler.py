"""Drawing cells: in turn, by the reverse loop, or in a single evaluation, on rows of which something is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch

from harpoon._utils.progress import Progress, sampling_bar, step_callback
from harpoon._utils.rng import row_noise
from harpoon._utils.threads import map_batches
from harpoon.config import Config
from harpoon.data.column_array import Columns, Index, concat, fill_missing, n_rows, take
from harpoon.data.statistics import Floats
from harpoon.diffusion.denoiser import Denoiser, MaxNoiseModel
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance, TwistedGuidance
from harpoon.diffusion.penalties import reconstruction_penalty, sum_penalties
from harpoon.diffusion.samplers import INITIAL_NOISE, reverse_process
from harpoon.diffusion.smc import SMCResampler
from harpoon.diffusion.solvers import SOLVERS
from harpoon.encoding.batch import EncodedRows, Penalty
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import SamplingFailed
from harpoon.inference.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.networks.at_max_noise import FusedMaxNoiseModel
from harpoon.relations.formula import apply_formulas

Read = TypeVar("Read")
MIN_BATCH_ROWS = 64
BATCHES_PER_CHUNK = 16  # batches are encoded and read together, at the most


MOVING = 2**48  # tells the chances that a cell is drawn again from those of what is drawn
MAX_NOISE_VALUES = 2**26  # at most this many random numbers are held at once, whatever the number of columns


@dataclass
class RowSampler:
    """Draws the unknown cells of rows, and counts what that costs.

    Attributes:
        denoiser: The trained network.
        codec: From rows to what the network sees, and back.
        settings: How to draw.
        device: Where the network is.
        seed: Of the noise; a row has its noise from the seed, its number and the number of the draw alone.
        progress: Whether to show a bar, or a function that is told of each step; what it raises ends the drawing.
        evaluations: How often the network has looked at a row.
    """

    denoiser: Denoiser
    codec: RowCodec
    config: Config
    device: torch.device
    seed: int = 0
    progress: Progress = False
    evaluations: int = field(default=0, init=False)

    def posterior_means(self, rows: Columns, decode: Callable[[Floats], Read]) -> list[Read]:
        """What `reading` makes of E[x_0 | known cells], sheet after sheet: one evaluation where there is only noise.

        Rows are encoded and read in sheets of several batches, because a column of a sheet costs hardly more than one
        of a batch.
        """
        width, height = self.codec.width, n_rows(rows)
        size = _batch_rows(self.config.sampling_batch_size, width)
        each = -(-height // torch.get_num_threads())  # so that all threads have as much to do
        sheets = list(
            _batches(height, max(size, _batch_rows(min(each, BATCHES_PER_CHUNK * size), width * BATCHES_PER_CHUNK)))
        )
        on_step = step_callback(sum(-(-count // size) for _, count in sheets), height, self.progress)

        def read(sheet: tuple[Index, int]) -> Read:
            index, filled = sheet
            known, parts = self.codec.to_batch(take(rows, index)), []
            for batch, count in _batches(filled, size):
                parts.append(self._posterior_mean(known[torch.from_numpy(batch)].to(self.device))[:count])
                on_step()
            return decode(np.concatenate(parts))

        self.evaluations += height
        return map_batches(read, sheets, self.device)

    @torch.no_grad()
    def _posterior_mean(self, known: EncodedRows) -> Floats:
        """E[x_0 | known cells] of one batch."""
        x0_hat: Floats = self.at_max_noise.posterior_mean(known).cpu().double().numpy()
        return x0_hat

    def sample(
        self,
        rows: Columns,
        index: Index,
        *,
        draw: int = 0,
        penalty: Penalty | None = None,
        guidance_scale: float | None = None,
        resampler: SMCResampler | None = None,
    ) -> Columns:
        """Rows with every cell drawn, numbered by `index`; the cells that are known come back as they are.

        Args:
            rows: What is known.
            index: The number of each row, which its noise depends on.
            draw: The number of the draw, likewise.
            penalty: What pulls the rows, besides what is known of them where the network does not see that.
            strength: Of the pull; that of the settings by default.
            selection: Which rows go on at each step, for a law that pulling alone would bend.
        """
        if penalty is None and self.autoregressive is not None and isinstance(self.at_max_noise, FusedMaxNoiseModel):
            return self._sample_autoregressive(self.at_max_noise, self.autoregressive, rows, index, draw)
        settings = self.config
        times = self.denoiser.schedule.times(settings.sampling_steps)
        solver = SOLVERS[settings.solver]
        noises = len(times) if solver.stochastic else 1
        size = _batch_rows(settings.sampling_batch_size, noises * self.codec.width)
        if resampler is not None:
            size = max(1, size // resampler.n_particles) * resampler.n_particles

        def drawn(batch: Index, given: Columns, on_step: Callable[[], None]) -> Columns:
            known = self.codec.to_batch(given).to(self.device)
            noise = row_noise(self.seed, index[batch], noises, self.codec.width, draw=draw).to(self.device)
            x = reverse_process(
                self.denoiser,
                noise,
                times=times,
                initial_noise=INITIAL_NOISE[settings.initial_noise],
                solver=solver,
                given=known,
                guidance=self._guidance(
                    known, penalty, guidance_scale, Guidance if resampler is None else TwistedGuidance
                ),
                resampler=None if resampler is None else resampler.starting_at(int(batch[0])),
                on_step=on_step,
            )
            _check_finite(x, settings)
            return self._decode(given, known, x)

        # A penalty may be the user's function, and knows nothing of threads.
        return self._map_batches(rows, drawn, size, len(times) - 1, alone=penalty is not None)

    @cached_property
    def at_max_noise(self) -> MaxNoiseModel:
        """The network where there is only noise."""
        return self.denoiser.at_max_noise()

    @cached_property
    def autoregressive(self) -> AutoregressiveSampler | None:
        """How cells are drawn in turn, if they are."""
        suited = self.config.ar_steps and AutoregressiveSampler.supports(self.codec)
        return AutoregressiveSampler.from_codec(self.codec).to(self.device) if suited else None

    def _sample_autoregressive(
        self, network: FusedMaxNoiseModel, in_turn: AutoregressiveSampler, rows: Columns, index: Index, draw: int
    ) -> Columns:
        turns = min(self.config.ar_steps, len(in_turn))
        recipes = network.denoiser.rank_head.copies.relations.formulas(self.codec.units)

        def drawn(batch: Index, given: Columns, on_step: Callable[[], None]) -> Columns:
            known = self.codec.to_batch(given).to(self.device)
            noise = row_noise(self.seed, index[batch], UNIFORMS_PER_VARIABLE, len(in_turn), draw=draw)
            chances = torch.special.ndtr(noise).to(self.device)
            x, form_of = in_turn.sample(network, known, chances, turns, on_step)
            return apply_formulas(self._decode(given, known, x), self.codec, form_of.cpu().numpy(), recipes)

        slots = network.denoiser.rank_head.width
        size = _batch_rows(self.config.sampling_batch_size, UNIFORMS_PER_VARIABLE * len(in_turn) + slots)
        return self._map_batches(rows, drawn, size, turns)

    def _map_batches(
        self,
        rows: Columns,
        drawn: Callable[[Index, Columns, Callable[[], None]], Columns],
        size: int,
        steps: int,
        *,
        alone: bool = False,
    ) -> Columns:
        """Rows with every cell drawn, batch after batch or abreast: `drawn` makes rows of what is known."""
        batches = list(_batches(n_rows(rows), size))

        def decoded(batch: Index, count: int, on_step: Callable[[], None]) -> Columns:
            return take(drawn(batch, take(rows, batch), on_step), slice(count))

        self.evaluations += n_rows(rows) * steps
        progress = self.progress if batches else False
        with sampling_bar(len(batches) * steps, n_rows(rows), progress) as on_step:
            if alone:
                parts = [decoded(*batch, on_step) for batch in batches]
            else:
                parts = map_batches(lambda batch: decoded(*batch, on_step), batches, self.device)
        return concat(parts) if parts else dict(rows)

    def gibbs_step(self, rows: Columns, known: Columns, index: Index, *, fraction: float, draw: int) -> Columns:
        """Rows of which a share of the cells is drawn again: other rows of the same law, near these if it is small.

        What is `known` stays. This is a step of Gibbs sampling: it leaves the law of the model as it is, and with rows
        refused that break a condition it leaves the law under the condition as it is.
        """
        chances = torch.special.ndtr(row_noise(self.seed, index, 1, len(rows), draw=MOVING ^ draw))[0].numpy()
        kept = {
            name: replace(cells, missing=known[name].missing & (chances[:, place] < fraction))
            for place, (name, cells) in enumerate(rows.items())
        }
        return self.sample(kept, index, draw=draw)

    def _decode(self, given: Columns, known: EncodedRows, x: torch.Tensor) -> Columns:
        """The rows of a batch, with what is given of them as it is."""
        return fill_missing(given, self.codec.decode(known.fill(x).cpu().double().numpy()))

    def _guidance(
        self, known: EncodedRows, penalty: Penalty | None, strength: float | None, kind: type[Guidance]
    ) -> Guidance | None:
        """What pulls: the penalty, and the known cells of a network that does not see them."""
        penalties = [] if penalty is None else [penalty]
        if not self.denoiser.is_conditional and bool(known.observed.any()):
            penalties.append(reconstruction_penalty(self.config.reconstruction_loss, known, self.codec.slices))
        eta = self.config.guidance_scale if strength is None else strength
        if not penalties or not eta:
            return None
        return kind(
            sum_penalties(penalties),
            GUIDANCE_SCHEDULES[self.config.guidance_schedule](eta),
            self.config.max_guidance_norm,
        )


def _check_finite(x: torch.Tensor, settings: Config) -> None:
    lost = int((~x.isfinite()).any(dim=1).sum())
    if lost:
        raise SamplingFailed(
            f"The guidance threw {lost} of {len(x)} rows out of the range of numbers: its gradients were too large. "
            f"Use a smaller guidance_scale than {settings.guidance_scale:g}, or reconstruction_loss='mae', whose gradients are bounded."
        )


def _batches(rows: int, size: int) -> Iterator[tuple[Index, int]]:
    """The rows of each batch and how many of them count; a small batch is padded with its own rows.

    With a handful of rows, products of matrices are summed in another order, and a guided loop makes that visible: a
    row would depend on how many others are drawn with it.
    """
    for start in range(0, rows, size):
        batch = np.arange(start, min(start + size, rows))
        yield np.resize(batch, max(len(batch), MIN_BATCH_ROWS)), len(batch)


def _batch_rows(asked: int, numbers: int) -> int:
    """Rows per batch: as asked, but never more than there is room for with so many numbers per row."""
    return max(1, min(asked, MAX_NOISE_VALUES // numbers))
