"""Missing cells of rows sampled, variable by variable or by reverse diffusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from harpoon._utils.rng import Stream, generator, row_noise
from harpoon.data import Columns, Index, Mask, fill_missing, n_rows, take
from harpoon.diffusion import SMCResampler
from harpoon.encoding import EncodedRows, Penalty
from harpoon.inference.sampling.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.inference.sampling.batch_evaluation import BatchEvaluator
from harpoon.inference.sampling.batches import batch_size, join_batches
from harpoon.inference.sampling.null_completion import MAX_COMPLETIONS, NullCompletion
from harpoon.inference.sampling.reverse_diffusion import ReverseDiffusion, to_encoded
from harpoon.relations import apply_formulas, follow_calendar

# fill: every unknown cell gets a value, given the observed cells. as_trained: a cell is null as often as in the
# training table. complete: as trained, and then null cells get values given the rest of their row.
MISSING = ("fill", "as_trained", "complete")
Complete = Callable[..., Columns]  # (given, index, draw=) to rows without missing cells


@dataclass
class RowSampler(BatchEvaluator):
    """Samples the missing cells of rows. The noise of a row depends only on the seed, its number and the draw."""

    missing: str = "fill"  # what becomes of unknown cells of columns with missing training cells: see `MISSING`
    draws_parameters: bool = False  # whether each draw has parameters of its own (proper multiple imputation)

    @property
    def autoregressive(self) -> AutoregressiveSampler | None:
        """The autoregressive sampler, if the options ask for it and the network and the codec support it."""
        return self.model.autoregressive if self.config.ar_steps else None

    def structural_nulls(self, rows: Columns) -> dict[str, Mask]:
        """Return which unknown cells are structurally missing, (n,), for each column that has such cells.

        In training, such a cell is always missing beside the observed categories of its row.
        """
        distributions = self.model.distributions
        may_be = [] if distributions is None else distributions.may_be_structural
        number_of = {
            column.name: number
            for number, codec in enumerate(self.codec.indicators)
            for column in codec.indicated
            if may_be and may_be[number] and rows[column.name].unknown.any()
        }
        if distributions is None or not number_of:
            return {}
        index = np.flatnonzero(np.any([rows[name].unknown for name in number_of], axis=0))
        null = np.zeros((n_rows(rows), len(may_be)), dtype=np.bool_)
        size = self._chunk_size(len(index), self.config.sampling_batch_size)
        for chunk in np.split(index, range(size, len(index), size)):
            given = self.codec.to_batch(take(rows, chunk)).to(self.device)
            null[chunk] = distributions.structurally_missing(given).cpu().numpy()
        columns = {name: null[:, number] & rows[name].unknown for name, number in number_of.items()}
        return {name: mask for name, mask in columns.items() if mask.any()}

    def is_possible(self, rows: Columns, given: Columns | None = None) -> Mask:
        """Return which rows have no labels that exclude each other, (n,): guidance may violate that.

        Rows whose given cells contradict each other already are possible.
        """
        if self.model.distributions is None:
            return np.ones(n_rows(rows), dtype=np.bool_)
        possible = self.model.distributions.decisions.is_possible(self._without_indicators(self.codec.to_batch(rows)))
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
        guidance = {"penalty": penalty, "guidance_scale": guidance_scale, "resampler": resampler}
        if not (self.codec.indicator_of and self.missing in ("as_trained", "complete")):
            return self._sample_once(given, index, draw, guidance)
        rows = self._sample_as(given, index, draw, guidance, missing="as_trained")
        fill = partial(self._sample_as, missing="fill", progress=False)
        return NullCompletion(self.model.relations, fill, self.structural_nulls).with_possible_values(
            rows, given, index, draw, complete=self.missing == "complete", attempts=0 if penalty else MAX_COMPLETIONS
        )

    def _sample_as(
        self,
        given: Columns,
        index: Index,
        draw: int,
        guidance: Mapping[str, Any] | None = None,
        **changes: Any,  # noqa: ANN401
    ) -> Columns:
        """Sample with other attributes of the sampler."""
        sampler = replace(self, **changes)
        rows = sampler._sample_once(given, index, draw, guidance or {})
        self.evaluations += sampler.evaluations
        return rows

    def _sample_once(self, given: Columns, index: Index, draw: int, guidance: Mapping[str, Any]) -> Columns:
        """Sample autoregressively if that is possible; else by reverse diffusion, with its arguments of guidance."""
        is_guided = guidance.get("penalty") is not None
        if not is_guided and self.autoregressive is not None:
            return self._sample_autoregressive(self._sampler_of_draw(self.autoregressive, draw), given, index, draw)
        finish = partial(self._decode_resolved, calendar=not is_guided)
        return join_batches(ReverseDiffusion(self, **guidance).sample(given, index, draw, finish), given)

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
        steps, relations = min(self.config.ar_steps, len(sampler)), self.model.relations
        if not self._nulls:
            given = relations.solve(given, min_fraction=1.0)

        def sample_batch(batch: Index, rows: Columns, on_step: Callable[[], None]) -> Columns:
            sampled = sample_rows(rows, index[batch], draw, on_step)
            return relations.resample(sample_rows, sampled, rows, index[batch], draw)

        def sample_rows(
            rows: Columns, numbers: Index, key: int, on_step: Callable[[], None] = lambda: None
        ) -> tuple[Columns, Mask]:
            observed = self.codec.to_batch(rows).to(self.device)
            noise = row_noise(self.seed, numbers, UNIFORMS_PER_VARIABLE, len(sampler), draw=key)
            uniforms = torch.special.ndtr(noise).to(self.device)
            x, relation_of = sampler.sample(observed, uniforms, steps, on_step, nulls=self._nulls)
            elapsed = self.codec.decode_elapsed_times(to_encoded(observed, x))
            decoded = self._decode(rows, observed, x) | elapsed
            applied, clipped = apply_formulas(decoded, self.codec, relation_of.cpu().numpy(), relations.copied_formulas)
            return {name: applied[name] for name in rows}, clipped

        values_per_row = UNIFORMS_PER_VARIABLE * len(sampler) + sampler.model.n_rank_bins
        size = batch_size(self.config.sampling_batch_size, values_per_row)
        return join_batches(self.sample_batches(given, sample_batch, size, steps), given)

    def _sampler_of_draw(self, sampler: AutoregressiveSampler, draw: int) -> AutoregressiveSampler:
        if not self.draws_parameters:
            return sampler
        return replace(
            sampler, model=sampler.model.draw_parameters(generator(self.seed, Stream.PARAMETERS, first=draw))
        )

    def _decode(self, given: Columns, observed: EncodedRows, x: torch.Tensor, *, calendar: bool = True) -> Columns:
        """Decode a batch; observed cells are those of `given`, bit for bit."""
        decoded = self.codec.decode(to_encoded(observed, x), nulls=self._nulls, calendar=calendar)
        return fill_missing(given, decoded)

    def _decode_resolved(self, given: Columns, observed: EncodedRows, x: torch.Tensor, *, calendar: bool) -> Columns:
        """Decode a batch of the reverse process, which does not keep exclusions, so that its labels agree.

        A penalty guides the number of a timestamp and not its calendar parts: then only the number counts.
        """
        if self.model.distributions is not None:
            x = self.model.distributions.decisions.resolve(x, self._without_indicators(observed), is_mean=False)
        return follow_calendar(self._decode(given, observed, x, calendar=calendar), given, self.codec)

    @property
    def _nulls(self) -> bool:
        return self.missing == "as_trained"
