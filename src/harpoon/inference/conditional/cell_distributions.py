"""Conditional distributions of one column over its possible values, given rows that are known in part.

The possible values of a column are a list of cells: its labels, its spikes, and intervals of its other numbers. The
network gives the probability of each, so that a condition restricts the column exactly: the cells that it excludes get
the probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data import Columns, Floats
from harpoon.encoding import ColumnCodec, ColumnSlice, EncodedRows, ValueCells
from harpoon.encoding.row_codec import Array
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.networks.heads.rank_head import ConditionalPredictor
from harpoon.networks.one_step_prediction import Evaluation
from harpoon.networks.point_estimates import RankMixture
from harpoon.relations import has_given_parts

N_INTERVALS = 512  # of equal probability that the numbers of a column are divided into, at least


class CellDistribution(NamedTuple):
    """The distribution of one column in n rows over m cells.

    The cells of a column of labels are their codes. NaN is a missing cell. A cell with `low` < `high` is an interval.
    """

    probabilities: Floats  # (n, m)
    low: Floats  # the least value of each cell, (1, m) or (n, m)
    high: Floats  # the largest one
    values: NDArray[Any] | None = None  # those of the first cells as they are stored, if they are single values


@dataclass(frozen=True)
class CellPredictor:
    """Predicts the distribution of one column."""

    sampler: RowSampler
    codec: ColumnCodec
    cells: ValueCells | None  # of a number

    @classmethod
    def create(cls, sampler: RowSampler, codec: ColumnCodec) -> CellPredictor | None:
        """Return the predictor of a column; None if the model has no such distribution."""
        if sampler.model.distributions is None:
            return None
        if codec.column.kind.discrete:
            return cls(sampler, codec, None) if codec.has_probabilities else None
        cells = codec.value_cells(N_INTERVALS)
        return None if cells is None else cls(sampler, codec, cells)

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.codec.column.name

    @property
    def n_cells(self) -> int:
        """The number of cells without those that differ between rows."""
        return len(self.codec.column.categories or ()) if self.cells is None else len(self.cells.low)

    def predict(self, rows: Columns) -> CellDistribution:
        """Return the distribution of the column in rows where it is unknown."""
        found, null = self._predict_labels(rows) if self.cells is None else self._predict_numbers(rows, self.cells)
        if not null.shape[1]:
            return found
        p = np.concatenate([found.probabilities * (1 - null), null], axis=1)
        low, high = (np.pad(end, ((0, 0), (0, 1)), constant_values=np.nan) for end in (found.low, found.high))
        return CellDistribution(p, low, high, found.values)

    def marginal(self) -> CellDistribution | None:
        """Return the distribution of a number in the training rows; None for labels, and if it can be missing.

        With nothing known it is exact, and the network's is not.
        """
        if self.cells is None or self.name in self.sampler.codec.nullable:
            return None
        spikes, mean = np.zeros(0), self.sampler.model.denoiser.mean.double().cpu().numpy()
        if self._spikes is not None:
            spikes = mean[self._spikes.start : self._spikes.stop][1:]
        p = np.concatenate([spikes, max(1.0 - float(spikes.sum()), 0.0) * np.diff(self.cells.edges)])[None]
        low, high = (end.astype(np.float64)[None] for end in (self.cells.low, self.cells.high))
        return CellDistribution(p / p.sum(), low, high, self.cells.low)

    def _predict_labels(self, rows: Columns) -> tuple[CellDistribution, Floats]:
        """Return the probabilities of labels, and of a missing cell, (n, 1), or (n, 0) if there can be none."""
        codec, name = self.sampler.codec, self.name

        def decode(x: Floats) -> tuple[Floats, Floats]:
            return codec.expectation(x)[1][name], self._null_probability(x) if self._can_be_null else x[:, :0]

        p, null = map(np.concatenate, zip(*self.sampler.posterior_means(rows, decode), strict=True))
        codes = np.arange(p.shape[1], dtype=np.float64)[None]
        return CellDistribution(p, codes, codes), null

    def _predict_numbers(self, rows: Columns, cells: ValueCells) -> tuple[CellDistribution, Floats]:
        """Return the probabilities of spikes, of intervals and of the values that relations predict in each row.

        And that of a missing cell, (n, 1), or (n, 0) if there can be none.
        """
        p, p_copies, copies, null = self.sampler.predict(rows, self._read)
        if self.codec.column.kind.temporal:  # only times that have the known calendar columns of their row
            has_parts = has_given_parts(self.codec, rows, self.sampler.codec, cells.low)
            p = np.where(has_parts.any(axis=1, keepdims=True), p * has_parts, p)
        low, high = (end.astype(np.float64)[None] for end in (cells.low, cells.high))
        if not p_copies.any():
            return CellDistribution(p, low, high, cells.low), null
        copied = self.codec.standardised_values(copies).astype(np.float64)
        low, high = (np.hstack([np.broadcast_to(end, p.shape), copied]) for end in (low, high))
        return CellDistribution(np.hstack([p, p_copies]), low, high, cells.low), null

    @property
    def _can_be_null(self) -> bool:
        return self.sampler.missing == "as_trained" and self.name in self.sampler.codec.nullable

    def _null_probability(self, mean: Array) -> Array:
        """Return the probability of a missing cell in expected rows, (n, d) to (n, 1)."""
        return self.sampler.codec.null_probabilities(mean)[self.name][:, None]

    @property
    def _spikes(self) -> ColumnSlice | None:
        """The part of an encoded row that says whether a number is a spike; None if it has none."""
        codec = self.sampler.codec
        return next(
            (part for part in codec.slices if part.is_categorical and codec.codecs[part.column] is self.codec), None
        )

    def _read(self, found: Evaluation, given: EncodedRows) -> tuple[Tensor, ...]:
        """Return probabilities of cells, (n, m), and of values that relations predict, (n, k), and these, (n, k).

        And that of a missing cell, (n, 1), or (n, 0) if there can be none.
        """
        model, null = self.sampler.model.distributions, given.x[:, :0]
        if model is not None and self._can_be_null:
            null = self._null_probability(model.mean(given, found).double())
        return (*self._read_numbers(found.predictor.condition_copies(), given), null)

    def _read_numbers(self, predictor: ConditionalPredictor, given: EncodedRows) -> tuple[Tensor, ...]:
        assert self.cells is not None  # noqa: S101
        n, head = len(given.x), predictor.head
        of_spikes = self._spike_probabilities(predictor, given)
        position = self.sampler.codec.codecs.index(self.codec)
        if position not in head.columns:  # every value is a spike
            is_spike, none = of_spikes[:, 1:], of_spikes[:, :0]
            return is_spike / is_spike.sum(dim=1, keepdim=True), none, none
        requested = torch.zeros(n, len(head.columns), dtype=torch.bool, device=given.x.device)
        requested[:, head.columns.index(position)] = True
        found = predictor.distributions(requested)
        edges = torch.from_numpy(self.cells.edges).to(given.x.device).expand(n, -1)
        inside = RankMixture.from_distributions(found).cdf(edges).diff(dim=1).clamp(min=0)
        p_copies = found.copies.log_p.double().exp()
        p = torch.cat([of_spikes[:, 1:], of_spikes[:, :1] * p_copies[:, :1] * inside], dim=1)
        return p, of_spikes[:, :1] * p_copies[:, 1:], found.copies.values

    def _spike_probabilities(self, predictor: ConditionalPredictor, given: EncodedRows) -> Tensor:
        """Return the probabilities of no spike and of each spike, (n, 1 + spikes), or (n, 1) without any."""
        model, part = self.sampler.model.distributions, self._spikes
        if model is None or part is None:
            return torch.ones(len(given.x), 1, dtype=torch.float64, device=given.x.device)
        before = [other for other in self.sampler.codec.slices if other.is_categorical and other.stop <= part.start]
        start = sum(other.stop - other.start for other in before)
        categories = slice(start, start + part.stop - part.start)
        logits = predictor.category_logits.dense()[:, categories].double()
        excluded = model.excluded_categories(given.x * given.observed)
        if excluded is not None:
            is_excluded = excluded[:, categories].bool()
            logits = logits.masked_fill(is_excluded & ~is_excluded.all(dim=1, keepdim=True), -torch.inf)
        return logits.softmax(dim=1)

    def to_values(self, values: Floats) -> NDArray[Any]:
        """Return values of the column next to numbers, (n,); the codes of labels are exact."""
        if self.cells is None:
            return values.astype(np.int64)
        return self.codec.nearest_values(values)
