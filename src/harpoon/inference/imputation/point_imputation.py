"""Point imputation: every unknown cell at its best single value, from one evaluation of the network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon.data import NO_INDEX, Columns, Floats, Index, concat, fill_missing
from harpoon.encoding import EncodedRows
from harpoon.exceptions import InvalidOption
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.relations import apply_formulas, follow_calendar


def fill_points(sampler: RowSampler, rows: Columns, _index: Index) -> Columns:
    """Return rows with every unknown cell at its best single value, by the option `point`.

    Categories are the most probable ones that agree with each other; each has probability 1 then.
    """
    rows, point = sampler.model.relations.solve(rows), sampler.config.point
    if point != "mean" and sampler.model.autoregressive is None:
        raise InvalidOption(f"point={point!r} needs predicted distributions of numbers: train with encoding='mixed'.")
    if point == "mean":
        parts = sampler.map_chunks(rows, partial(_means, sampler), partial(_decode_means, sampler))
    else:
        parts = sampler.map_chunks(rows, partial(_points, sampler, point), partial(_decode_points, sampler))
    filled = fill_missing(rows, concat(parts)) if parts else dict(rows)
    return follow_calendar(filled, rows, sampler.codec)


def _means(sampler: RowSampler, given: EncodedRows) -> tuple[torch.Tensor, ...]:
    """Return the posterior means of encoded rows, (n, d), with categories that agree."""
    mean, model = sampler.model.at_max_noise.posterior_mean(given), sampler.model.distributions
    if model is None:
        return (mean,)
    has_numbers = sampler.model.autoregressive is not None
    return (
        model.decisions.agreeing_means(mean, given)
        if has_numbers
        else model.decisions.resolve(mean, given, is_mean=True),
    )


def _decode_means(sampler: RowSampler, rows: Columns, mean: Floats) -> Columns:
    """Decode expectations; timestamps near each other go through the time between them."""
    codec = sampler.codec
    filled = fill_missing(rows, codec.decode(mean, is_mean=True))
    return sampler.model.relations.link_times(filled, rows, codec.decode_elapsed_times(mean, is_mean=True))


def _points(sampler: RowSampler, point: str, given: EncodedRows) -> tuple[torch.Tensor, ...]:
    """Return medians or modes of encoded rows, (n, d), and the relation that gives each number, (n, columns)."""
    model = sampler.model.distributions
    assert model is not None  # noqa: S101
    x, relation_of = model.point_estimates(given, point)
    return model.decisions.resolve(x, given, is_mean=True), relation_of


def _decode_points(sampler: RowSampler, rows: Columns, x: Floats, relation_of: NDArray[np.int64]) -> Columns:
    """Decode numbers as values; those that a relation gives are computed from the observed cells, exactly."""
    codec, relations = sampler.codec, sampler.model.relations
    filled, elapsed = fill_missing(rows, codec.decode_points(x)), codec.decode_elapsed_times(x)
    applied, _ = apply_formulas(filled | elapsed, codec, relation_of, relations.copied_formulas)
    found = {name: applied[name] for name in rows}
    settled = dict(rows)
    for each, relation in zip(codec.numeric, relation_of.T, strict=True):
        if each.columns:
            cells = rows[each.column.name]
            settled[each.column.name] = replace(cells, missing=cells.missing & (relation == NO_INDEX))
    return relations.link_times(found, rows, {name: applied[name] for name in elapsed}, settled)
