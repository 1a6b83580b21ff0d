"""Missing cells sampled, or their posterior means computed, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon._utils.progress import Progress, sampling_bar, step_callback
from harpoon._utils.rng import Stream, generator, row_noise
from harpoon._utils.threads import map_batches
from harpoon.config import Config
from harpoon.data import Columns, Floats, Index, concat, fill_missing, n_rows, null_as_unknown, scatter, take
from harpoon.diffusion import INITIAL_NOISE, SOLVERS, Denoiser, MaxNoiseModel, SMCResampler, reverse_process
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance, TwistedGuidance
from harpoon.diffusion.reconstruction import reconstruction_penalty, sum_penalties
from harpoon.encoding import EncodedRows, Penalty, RowCodec
from harpoon.exceptions import SamplingFailed
from harpoon.inference.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler, DistributionModel
from harpoon.networks.copy_head import COPY_CERTAIN_PROBABILITY
from harpoon.relations import Exclusions, Formula, RelationBank, apply_formulas, close_sums, solve, violates

# fill: every unknown cell gets a value, given the observed cells. as_trained: a cell is null as often as in the
# training table. complete: as trained, and then null cells get values given the rest of their row.
MISSING = ("fill", "as_trained", "complete")
Decoded = TypeVar("Decoded")
Sampled = TypeVar("Sampled")
Mask = NDArray[np.bool_]
Complete = Callable[..., Columns]  # (given, index, draw=) to rows without missing cells
SampleBatch = Callable[[Index, Columns, Callable[[], None]], Sampled]  # (positions, given cells, on_step) to rows
MIN_BATCH_ROWS = 64
MAX_RETRIES, MAX_COMPLETIONS = 7, 3  # of rows that contradict a relation
BATCHES_PER_CHUNK = 16  # batches that are encoded and decoded together, at most
MAX_NOISE_VALUES = 2**26  # random numbers held at once, at most


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

    def relations(self) -> list[tuple[str, Formula, float]]:
        """Return the relations of the model: target column, formula, and the fraction of rows in which it holds."""
        if self._distributions is None:
            return []
        names, banks = [each.column.name for each in self.codec.quantities], self._banks
        return [
            (names[bank.first + relation // bank.per_column], formula, float(bank.fractions[relation]))
            for bank in banks
            for relation, formula in bank.formulas(self.codec.units).items()
        ]

    @property
    def _banks(self) -> list[RelationBank]:
        """The relations of numeric columns with a normal score, and of those with few values."""
        model = self._distributions
        return [] if model is None else [model.relations, model.few_valued_relations]

    def _formulas(self, min_fraction: float) -> list[tuple[int, Formula]]:
        """Return the formulas that hold in at least a fraction of the training rows, with the index of their target."""
        units = self.codec.units
        return [formula for bank in self._banks for formula in bank.targeted_formulas(units, min_fraction)]

    @cached_property
    def _exact_formulas(self) -> list[tuple[int, Formula]]:
        """The formulas that all training rows keep exactly; products of other numbers than labels are rounded."""
        n_ranked, formulas = len(self.codec.numeric), self._formulas(1.0)
        return [each for each in formulas if each[1].factor is None or max(each[0], *each[1].sources) >= n_ranked]

    def structural_nulls(self, rows: Columns) -> dict[str, Mask]:
        """Return which unknown cells are structurally missing, (n,), for each column that has such cells.

        In training, such a cell is always missing beside the observed categories of its row.
        """
        indicators = self.codec.indicators
        if not indicators or self._distributions is None:
            return {}
        given = self.codec.to_batch(rows).to(self.device)
        null = self._distributions.structurally_missing(given).cpu().numpy()
        columns = {
            column.name: null[:, index] & rows[column.name].unknown
            for index, codec in enumerate(indicators)
            for column in codec.indicated
        }
        return {name: mask for name, mask in columns.items() if mask.any()}

    @property
    def exclusions(self) -> Exclusions | None:
        """The labels that exclude or determine each other; None if the network does not keep them."""
        return None if self._distributions is None else self._distributions.exclusions

    def exact_sums(self) -> list[tuple[int, Formula]]:
        """Return the sums that every sampled row keeps exactly, with the index of their target."""
        return [(target, formula) for target, formula in self._exact_formulas if formula.factor is None]

    def dependencies(self) -> list[tuple[str, str]]:
        """Return the columns whose labels determine those of another column, and these."""
        return [] if self._distributions is None else self._distributions.exclusions.dependencies()

    def is_possible(self, rows: Columns, given: Columns | None = None) -> Mask:
        """Return which rows have no labels that exclude each other, (n,): guidance may violate that.

        Rows whose given cells contradict each other already are possible.
        """
        if self._distributions is None:
            return np.ones(n_rows(rows), dtype=np.bool_)
        possible = self._distributions.is_possible(self._without_indicators(self.codec.to_batch(rows)))
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
    def _distributions(self) -> DistributionModel | None:
        """The network at maximal noise, if it predicts the conditional distribution of every cell."""
        return cast("DistributionModel", self.at_max_noise) if self.at_max_noise.is_autoregressive else None

    def posterior_means(
        self, rows: Columns, decode: Callable[[Floats], Decoded], *, resolve: bool = False
    ) -> list[Decoded]:
        """Decode E[x_0 | observed cells], chunk by chunk: one evaluation at maximal noise.

        Rows are encoded and decoded in chunks of several batches, because a column of a chunk costs hardly more than
        one of a batch.

        Args:
            rows: The rows.
            decode: What to do with the expectations of a chunk.
            resolve: Whether labels that exclude or determine each other must agree in each row, as in a table that is
                completed; each has probability 1 then.
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
                given = observed[torch.from_numpy(batch)].to(self.device)
                means.append(self._posterior_mean(given, resolve=resolve)[:count])
                on_step()
            return decode(np.concatenate(means))

        self.evaluations += height
        return map_batches(decode_chunk, chunks, self.device)

    def fill_means(self, rows: Columns, _index: Index) -> Columns:
        """Return rows with every unknown cell at its expected number or its most probable category."""
        rows = self.solve_relations(rows)
        parts = self.posterior_means(rows, partial(self.codec.decode, is_mean=True), resolve=True)
        return fill_missing(rows, concat(parts)) if parts else dict(rows)

    def solve_relations(self, rows: Columns) -> Columns:
        """Fill the unknown cells that relations determine, such as a total: exactly, and before all others."""
        return solve(rows, self.codec, self._formulas(COPY_CERTAIN_PROBABILITY))

    @torch.no_grad()
    def _posterior_mean(self, observed: EncodedRows, *, resolve: bool) -> Floats:
        x0_hat = self.at_max_noise.posterior_mean(observed)
        if resolve and self._distributions is not None:
            x0_hat = self._distributions.resolve(x0_hat, observed, is_mean=True)
        mean: Floats = x0_hat.cpu().double().numpy()
        return mean

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
        if self.missing == "complete" and self.codec.indicator_of:
            complete = partial(self._complete, penalty=penalty, guidance_scale=guidance_scale, resampler=resampler)
            rows = complete(given, index, draw=draw)
            for attempt in range(1, 1 + MAX_COMPLETIONS if penalty is None else 1):
                failed = np.flatnonzero(violates(rows, self.codec, self._exact_formulas))
                if not len(failed):
                    break
                new = complete(take(given, failed), index[failed], draw=attempt * Stream.COMPLETIONS + draw)
                rows = scatter(rows, new, failed)
            return rows
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
        return _join(parts, given)

    def _complete(
        self,
        given: Columns,
        index: Index,
        *,
        draw: int,
        penalty: Penalty | None,
        guidance_scale: float | None,
        resampler: SMCResampler | None,
    ) -> Columns:
        """Sample rows in which cells may be null, and then fill these given the rest of their row."""
        as_trained = replace(self, missing="as_trained")
        rows = as_trained.sample(
            given, index, draw=draw, penalty=penalty, guidance_scale=guidance_scale, resampler=resampler
        )
        filler = replace(self, missing="fill", progress=False)
        filled = filler.sample(null_as_unknown(rows), index, draw=Stream.FILL + draw)
        self.evaluations += as_trained.evaluations + filler.evaluations
        return filled

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
        size = _batch_size(config.sampling_batch_size, noises * self.codec.width)
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
            given = solve(given, self.codec, self._formulas(1.0))

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Columns:
            sampled = sample_rows(rows, index[batch], draw, on_step)
            return self._resample(sample_rows, sampled, rows, index[batch], draw)

        def sample_rows(
            rows: Columns, numbers: Index, key: int, on_step: Callable[[], None] = lambda: None
        ) -> tuple[Columns, Mask]:
            observed = self.codec.to_batch(rows).to(self.device)
            noise = row_noise(self.seed, numbers, UNIFORMS_PER_VARIABLE, len(sampler), draw=key)
            uniforms = torch.special.ndtr(noise).to(self.device)
            x, relation_of = sampler.sample(model, observed, uniforms, steps, on_step, nulls=self._nulls)
            return apply_formulas(self._decode(rows, observed, x), self.codec, relation_of.cpu().numpy(), formulas)

        values_per_row = UNIFORMS_PER_VARIABLE * len(sampler) + model.n_rank_bins
        size = _batch_size(self.config.sampling_batch_size, values_per_row)
        return _join(self._map_batches(given, sample_batch, size, steps), given)

    def _model_of_draw(self, draw: int) -> MaxNoiseModel:
        if not self.draws_parameters:
            return self.at_max_noise
        return self.at_max_noise.draw_parameters(generator(self.seed, Stream.PARAMETERS, first=draw))

    def _resample(
        self,
        sample: Callable[[Columns, Index, int], tuple[Columns, Mask]],
        sampled: tuple[Columns, Mask],
        given: Columns,
        index: Index,
        draw: int,
    ) -> Columns:
        """Return rows, of which those that contradict a relation of all training rows are sampled again.

        Such a row has a total outside of the range of its column, or a number of items that is none of the few that
        occur. `sample` returns rows, and in which of them a value had to be clipped. Of the few rows that remain, such
        as those beside a given total at the end of its range, parts are changed so that the sums hold.
        """
        (rows, clipped), formulas = sampled, self._exact_formulas
        for attempt in range(1, 1 + MAX_RETRIES):
            failed = np.flatnonzero(clipped | violates(rows, self.codec, formulas))
            if not len(failed):
                break
            padded = np.resize(failed, max(len(failed), MIN_BATCH_ROWS))
            new, again = sample(take(given, padded), index[padded], attempt * Stream.RETRIES + draw)
            rows, clipped = scatter(rows, take(new, slice(len(failed))), failed), np.zeros_like(clipped)
            clipped[failed] = again[: len(failed)]
        failed = np.flatnonzero(violates(rows, self.codec, formulas))
        if not len(failed):
            return rows
        return scatter(rows, close_sums(take(rows, failed), take(given, failed), self.codec, formulas), failed)

    def _map_batches(
        self, given: Columns, sample_batch: SampleBatch[Sampled], size: int, steps: int, *, parallel: bool = True
    ) -> list[tuple[Sampled, int]]:
        """Sample all rows batch by batch, on several threads where that is allowed.

        Returns each batch, and how many of its rows count.
        """
        batches = list(_batches(n_rows(given), size))
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
        if self._distributions is not None:
            x = self._distributions.resolve(x, self._without_indicators(observed), is_mean=False)
        return self._decode(given, observed, x, calendar=calendar)

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


def _join(parts: list[tuple[Columns, int]], given: Columns) -> Columns:
    """Join the rows that count of each batch; without batches return the given rows."""
    return concat([take(rows, slice(count)) for rows, count in parts]) if parts else dict(given)


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
