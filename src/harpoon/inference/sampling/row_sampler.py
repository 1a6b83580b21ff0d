"""Missing cells sampled, or their posterior means computed, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon._utils.progress import Progress, sampling_bar, step_callback
from harpoon._utils.rng import Stream, generator, row_noise
from harpoon._utils.threads import map_batches
from harpoon.config import Config
from harpoon.data import Columns, Floats, Index, Mask, fill_missing, n_rows, null_as_unknown, scatter, take
from harpoon.diffusion import INITIAL_NOISE, SOLVERS, Denoiser, MaxNoiseModel, SMCResampler, reverse_process
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance, TwistedGuidance
from harpoon.diffusion.reconstruction_penalty import reconstruction_penalty, sum_penalties
from harpoon.encoding import EncodedRows, Penalty, RowCodec
from harpoon.exceptions import SamplingFailed
from harpoon.inference.sampling.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler, DistributionModel
from harpoon.inference.sampling.batches import batch_positions, batch_size, join_batches
from harpoon.inference.sampling.fitted_relations import FittedRelations
from harpoon.networks.heads.rank_head import ConditionalPredictor
from harpoon.relations import apply_formulas, follow_calendar

# fill: every unknown cell gets a value, given the observed cells. as_trained: a cell is null as often as in the
# training table. complete: as trained, and then null cells get values given the rest of their row.
MISSING = ("fill", "as_trained", "complete")
Decoded = TypeVar("Decoded")
Sampled = TypeVar("Sampled")
Complete = Callable[..., Columns]  # (given, index, draw=) to rows without missing cells
SampleBatch = Callable[[Index, Columns, Callable[[], None]], Sampled]  # (positions, given cells, on_step) to rows
MAX_COMPLETIONS = 3  # of rows that contradict a relation
BATCHES_PER_CHUNK = 16  # batches that are encoded and decoded together, at most


@dataclass
class RowSampler:
    """Samples the missing cells of rows. The noise of a row depends only on the seed, its number and the draw."""

    denoiser: Denoiser
    codec: RowCodec
    config: Config
    device: torch.device
    seed: int = 0
    progress: Progress = False  # an error that a callback raises ends the sampling
    missing: str = "fill"  # what becomes of unknown cells of columns with missing training cells: see `MISSING`
    draws_parameters: bool = False  # whether each draw has parameters of its own (proper multiple imputation)
    evaluations: int = field(default=0, init=False)  # of the network so far, counted in rows

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

    def structural_nulls(self, rows: Columns) -> dict[str, Mask]:
        """Return which unknown cells are structurally missing, (n,), for each column that has such cells.

        In training, such a cell is always missing beside the observed categories of its row.
        """
        indicators = self.codec.indicators
        if not indicators or self.distributions is None:
            return {}
        given = self.codec.to_batch(rows).to(self.device)
        null = self.distributions.structurally_missing(given).cpu().numpy()
        columns = {
            column.name: null[:, index] & rows[column.name].unknown
            for index, codec in enumerate(indicators)
            for column in codec.indicated
        }
        return {name: mask for name, mask in columns.items() if mask.any()}

    def is_possible(self, rows: Columns, given: Columns | None = None) -> Mask:
        """Return which rows have no labels that exclude each other, (n,): guidance may violate that.

        Rows whose given cells contradict each other already are possible.
        """
        if self.distributions is None:
            return np.ones(n_rows(rows), dtype=np.bool_)
        possible = self.distributions.is_possible(self._without_indicators(self.codec.to_batch(rows)))
        mask: Mask = possible.cpu().numpy()
        return mask if given is None else mask | ~self.is_possible(given)

    def _without_indicators(self, rows: EncodedRows) -> EncodedRows:
        """Return encoded rows in which missing indicators count as unobserved, unless cells may stay missing."""
        rows = rows.to(self.device)
        if self._nulls:
            return rows
        observed = rows.observed.clone()
        for part in self.codec.slices:
            if part.column in self.codec.indicator_of.values():
                observed[:, part.start : part.stop] = False
        return EncodedRows(rows.x, observed)

    @cached_property
    def distributions(self) -> DistributionModel | None:
        """The network at maximal noise, if it predicts the conditional distribution of every cell."""
        return cast("DistributionModel", self.at_max_noise) if self.at_max_noise.is_autoregressive else None

    @cached_property
    def relations(self) -> FittedRelations:
        """The relations that the network keeps."""
        return FittedRelations(self.codec, self.distributions)

    def posterior_means(self, rows: Columns, decode: Callable[[Floats], Decoded]) -> list[Decoded]:
        """Decode E[x_0 | observed cells], chunk by chunk: one evaluation at maximal noise."""

        def evaluate(given: EncodedRows) -> tuple[torch.Tensor, ...]:
            return (self.at_max_noise.posterior_mean(given),)

        return self.map_chunks(rows, evaluate, lambda _, mean: decode(mean))

    def map_chunks(
        self,
        rows: Columns,
        evaluate: Callable[[EncodedRows], tuple[torch.Tensor, ...]],
        decode: Callable[..., Decoded],
    ) -> list[Decoded]:
        """Evaluate a function of encoded rows batch by batch, and decode its results chunk by chunk.

        Rows are encoded and decoded in chunks of several batches, because a column of a chunk costs hardly more than
        one of a batch.

        Args:
            rows: The rows.
            evaluate: Called with the encoded rows of a batch.
            decode: Called with the rows of a chunk, and with each result of `evaluate` for all of them.
        """
        width, height = self.codec.width, n_rows(rows)
        size = batch_size(self.config.sampling_batch_size, width)
        per_thread = -(-height // torch.get_num_threads())
        chunk_size = batch_size(min(per_thread, BATCHES_PER_CHUNK * size), width * BATCHES_PER_CHUNK)
        chunks = list(batch_positions(height, max(size, chunk_size)))
        on_step = step_callback(sum(-(-count // size) for _, count in chunks), height, self.progress)

        @torch.no_grad()
        def decode_chunk(chunk: tuple[Index, int]) -> Decoded:
            index, filled = chunk
            part = take(rows, index)
            observed, results = self.codec.to_batch(part), []
            for batch, count in batch_positions(filled, size):
                given = observed[torch.from_numpy(batch)].to(self.device)
                results.append([_to_numpy(result[:count]) for result in evaluate(given)])
                on_step()
            return decode(take(part, slice(filled)), *map(np.concatenate, zip(*results, strict=True)))

        self.evaluations += height
        return map_batches(decode_chunk, chunks, self.device)

    def predict(
        self, rows: Columns, read: Callable[[ConditionalPredictor, EncodedRows], tuple[torch.Tensor, ...]]
    ) -> tuple[Floats, ...]:
        """Run the network once at maximal noise on rows that are known in part, and read its distributions.

        `read` gets the predictor of a batch and its encoded rows. It returns tensors with a line for each row, which
        are concatenated.
        """
        model = cast("DistributionModel", self.distributions)
        parts = self.map_chunks(rows, lambda given: read(model.predict(given), given), lambda _, *arrays: arrays)
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

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
        """Sample the unknown cells of rows; observed cells are returned unchanged.

        Args:
            given: The rows.
            index: The number of each row, on which its noise depends.
            draw: The number of the draw or the key of a stream, on which the noise depends too.
            penalty: Guides the rows, besides the observed cells for a network that is not conditioned on them.
            guidance_scale: η; that of the options by default.
            resampler: Corrects the bias of guidance by importance weights.
        """
        how: dict[str, Any] = {"penalty": penalty, "guidance_scale": guidance_scale, "resampler": resampler}
        if not (self.codec.indicator_of and self.missing in ("as_trained", "complete")):
            return self._sample_once(given, index, draw=draw, **how)
        sampler = replace(self, missing="as_trained")
        rows = sampler._sample_once(given, index, draw=draw, **how)
        self.evaluations += sampler.evaluations
        return self._with_values_for_nulls(rows, given, index, draw=draw, attempts=0 if penalty else MAX_COMPLETIONS)

    def _with_values_for_nulls(
        self, rows: Columns, given: Columns, index: Index, *, draw: int, attempts: int
    ) -> Columns:
        """Return rows whose nulls could have values that keep the relations; with these values, if they are asked for.

        A part that is null leaves its total a value that the part can have. Rows in which it does not are sampled
        again with the same nulls, so that rows are the same with and without their nulls. A cell that cannot have a
        value, which is structurally missing, has to keep no relation.
        """
        is_complete, related = self.missing == "complete", self.relations.columns
        filled = self._fill_nulls(rows, index, set(rows) if is_complete else related, draw)
        for attempt in range(1, 1 + attempts):
            failed = np.flatnonzero(self.relations.violated_by(self._without_structural(filled, rows)))
            if not len(failed):
                break
            # In the end, the columns of relations have no nulls: without them, relations can always be kept.
            kept = set(rows) - related if attempt == attempts else set(rows)
            part, nulls, number = take(given, failed), take(rows, failed), attempt * Stream.COMPLETIONS + draw
            pattern = {name: part[name].with_null(part[name].unknown & nulls[name].is_null) for name in kept}
            new = self._fill(part | pattern, index[failed], number)
            rows = scatter(rows, new, failed)
            filled = scatter(filled, self._fill_nulls(new, index[failed], set(rows), number), failed)
        return filled if is_complete else rows

    def _without_structural(self, filled: Columns, rows: Columns) -> Columns:
        """Return filled rows in which cells that cannot have a value are null again."""
        structural = self.structural_nulls(null_as_unknown(rows))
        return filled | {name: filled[name].with_null(mask & rows[name].is_null) for name, mask in structural.items()}

    def _fill_nulls(self, rows: Columns, index: Index, columns: Collection[str], draw: int) -> Columns:
        """Fill all nulls of the rows that have one in some columns, given the rest of their row."""
        has_null = np.zeros(n_rows(rows), dtype=np.bool_)
        for name in columns:
            has_null |= rows[name].is_null
        null = np.flatnonzero(has_null)
        return scatter(rows, self._fill(null_as_unknown(take(rows, null)), index[null], Stream.FILL + draw), null)

    def _fill(self, rows: Columns, index: Index, draw: int) -> Columns:
        """Sample values for all unknown cells."""
        filler = replace(self, missing="fill", progress=False)
        filled = filler._sample_once(rows, index, draw=draw, penalty=None, guidance_scale=None, resampler=None)
        self.evaluations += filler.evaluations
        return filled

    def _sample_once(
        self,
        given: Columns,
        index: Index,
        *,
        draw: int,
        penalty: Penalty | None,
        guidance_scale: float | None,
        resampler: SMCResampler | None,
    ) -> Columns:
        if penalty is None and self.autoregressive is not None:
            return self._sample_autoregressive(self.autoregressive, given, index, draw)
        parts = self._diffuse(
            given,
            index,
            partial(self._decode_resolved, calendar=penalty is None),
            draw=draw,
            penalty=penalty,
            guidance_scale=guidance_scale,
            resampler=resampler,
        )
        return join_batches(parts, given)

    def sample_encoded(
        self, given: Columns, index: Index, *, draw: int = Stream.CELLS, penalty: Penalty | None = None
    ) -> Floats:
        """Sample rows by reverse diffusion and return them before they are decoded and rounded, (n, d)."""
        parts = self._diffuse(given, index, _encoded, draw=draw, penalty=penalty)
        return np.concatenate([np.zeros((0, self.codec.width)), *(x[:count] for x, count in parts)])

    def _diffuse(
        self,
        given: Columns,
        index: Index,
        finish: Callable[[Columns, EncodedRows, torch.Tensor], Sampled],
        *,
        draw: int,
        penalty: Penalty | None,
        guidance_scale: float | None = None,
        resampler: SMCResampler | None = None,
    ) -> list[tuple[Sampled, int]]:
        """Run the reverse process batch by batch; return what `finish` makes of each, and how many rows count."""
        config, solver = self.config, SOLVERS[self.config.solver]
        times = self.denoiser.schedule.times(config.sampling_steps)
        noises = len(times) if solver.stochastic else 1
        size = batch_size(config.sampling_batch_size, noises * self.codec.width)
        if resampler is not None:
            size = max(1, size // resampler.n_particles) * resampler.n_particles

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Sampled:
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
            return finish(rows, observed, x)

        # A penalty may be a function of the user, which need not be thread-safe.
        return self._map_batches(given, sample_batch, size, len(times) - 1, parallel=penalty is None)

    def gibbs_step(self, rows: Columns, given: Columns, index: Index, *, fraction: float, draw: int) -> Columns:
        """Resample a random fraction of the cells of each row, conditioned on the others.

        Cells that are observed in `given` stay. The step leaves the distribution of the model unchanged. If rows that
        violate a condition are discarded, it leaves the distribution under the condition unchanged.
        """
        noise = row_noise(self.seed, index, 1, len(rows), draw=Stream.GIBBS_MASK + draw)
        uniforms = torch.special.ndtr(noise)[0].numpy()
        kept = {}
        for column, (name, cells) in enumerate(rows.items()):
            resampled = given[name].unknown & (uniforms[:, column] < fraction)
            null = cells.is_null & ~resampled
            kept[name] = replace(cells, missing=resampled | null, null=null if null.any() else None)
        return self.sample(kept, index, draw=draw)

    def _sample_autoregressive(
        self, sampler: AutoregressiveSampler, given: Columns, index: Index, draw: int
    ) -> Columns:
        model = cast("DistributionModel", self._model_of_draw(draw))
        steps = min(self.config.ar_steps, len(sampler))
        formulas = model.relations.formulas(self.codec.units)
        if not self._nulls:
            given = self.relations.solve(given, min_fraction=1.0)

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Columns:
            sampled = sample_rows(rows, index[batch], draw, on_step)
            return self.relations.resample(sample_rows, sampled, rows, index[batch], draw)

        def sample_rows(
            rows: Columns, numbers: Index, key: int, on_step: Callable[[], None] = lambda: None
        ) -> tuple[Columns, Mask]:
            observed = self.codec.to_batch(rows).to(self.device)
            noise = row_noise(self.seed, numbers, UNIFORMS_PER_VARIABLE, len(sampler), draw=key)
            uniforms = torch.special.ndtr(noise).to(self.device)
            x, relation_of = sampler.sample(model, observed, uniforms, steps, on_step, nulls=self._nulls)
            elapsed = self.codec.decode_elapsed_times(_encoded(rows, observed, x))
            decoded = self._decode(rows, observed, x) | elapsed
            applied, clipped = apply_formulas(decoded, self.codec, relation_of.cpu().numpy(), formulas)
            return {name: applied[name] for name in rows}, clipped

        values_per_row = UNIFORMS_PER_VARIABLE * len(sampler) + model.n_rank_bins
        size = batch_size(self.config.sampling_batch_size, values_per_row)
        return join_batches(self._map_batches(given, sample_batch, size, steps), given)

    def _model_of_draw(self, draw: int) -> MaxNoiseModel:
        if not self.draws_parameters:
            return self.at_max_noise
        return self.at_max_noise.draw_parameters(generator(self.seed, Stream.PARAMETERS, first=draw))

    def _map_batches(
        self, given: Columns, sample_batch: SampleBatch[Sampled], size: int, steps: int, *, parallel: bool = True
    ) -> list[tuple[Sampled, int]]:
        """Sample all rows batch by batch, on several threads where that is allowed.

        Returns each batch, and how many of its rows count.
        """
        batches = list(batch_positions(n_rows(given), size))
        self.evaluations += n_rows(given) * steps
        progress = self.progress if batches else False
        with sampling_bar(len(batches) * steps, n_rows(given), progress) as on_step:

            def sample(batch: tuple[Index, int]) -> tuple[Sampled, int]:
                positions, count = batch
                return sample_batch(positions, take(given, positions), on_step), count

            return map_batches(sample, batches, self.device) if parallel else [sample(batch) for batch in batches]

    def _decode(self, given: Columns, observed: EncodedRows, x: torch.Tensor, *, calendar: bool = True) -> Columns:
        """Decode a batch; observed cells are those of `given`, bit for bit."""
        decoded = self.codec.decode(_encoded(given, observed, x), nulls=self._nulls, calendar=calendar)
        return fill_missing(given, decoded)

    def _decode_resolved(self, given: Columns, observed: EncodedRows, x: torch.Tensor, *, calendar: bool) -> Columns:
        """Decode a batch of the reverse process, which does not keep exclusions, so that its labels agree.

        A penalty guides the number of a timestamp and not its calendar parts: then only the number counts.
        """
        if self.distributions is not None:
            x = self.distributions.resolve(x, self._without_indicators(observed), is_mean=False)
        return follow_calendar(self._decode(given, observed, x, calendar=calendar), given, self.codec)

    @property
    def _nulls(self) -> bool:
        return self.missing == "as_trained"

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


def _encoded(_given: Columns, observed: EncodedRows, x: torch.Tensor) -> Floats:
    """Return the encoded rows of a batch, (n, d), with their observed cells."""
    encoded: Floats = observed.fill(x).cpu().double().numpy()
    return encoded


def _to_numpy(x: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as an array, numbers in double precision."""
    array: NDArray[Any] = (x.double() if x.is_floating_point() else x).cpu().numpy()
    return array


def _check_finite(x: torch.Tensor, config: Config) -> None:
    invalid = int((~x.isfinite()).any(dim=1).sum())
    if invalid:
        raise SamplingFailed(
            f"Guidance made {invalid} of {len(x)} rows infinite: its gradients were too large. Use a smaller "
            f"guidance_scale than {config.guidance_scale:g}, or reconstruction_loss='mae', whose gradients are bounded."
        )
