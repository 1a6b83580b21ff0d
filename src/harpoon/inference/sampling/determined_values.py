"""Values that relations determine: copies, spikes, and numbers with few values.

A timestamp that is a copy is decided before its calendar parts are sampled, which would have to agree by chance.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.data import NO_INDEX
from harpoon.encoding.encoded_rows import MIN_RANK
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.heads.category_logits import DenseLogits
from harpoon.networks.heads.rank_head import ConditionalDistributions, ConditionalPredictor

MAX_SPIKE_DISTANCE = 0.25  # of the smallest distance of two spikes, from the spike that a relation gives
SPIKE_TOLERANCE = 1e-5  # relative difference below which two standardised values are equal in single precision


class SampledRows(NamedTuple):
    """Encoded rows, (n, d), and the relation that each number is a copy of, or `NO_INDEX`, (n, ranks)."""

    x: Tensor
    relation_of: Tensor


class Requested(NamedTuple):
    """Variables that are sampled in one step, and the rows of their predicted distributions, (m,) each."""

    row: Tensor
    variable: Tensor
    category_row: Tensor
    rank_row: Tensor
    not_copied: Tensor  # whether it is decided that the variable is a timestamp that is no copy


def copy_timestamps(
    variables: Variables,
    predictor: ConditionalPredictor,
    x: Tensor,
    mask: Tensor,
    *,
    not_copied: Tensor,
    uniform: Tensor,
) -> tuple[Tensor, ConditionalPredictor]:
    """Decide whether timestamps are copies before their parts are sampled, which would have to agree by chance.

    A timestamp that is a copy is requested in place of its part: `mask`, (n, variables), is changed in place.

    Returns:
        Of which timestamps it is decided that they are no copies, (n, timestamps), and the predictor, in which
        their parts have the probabilities of parts of timestamps that are no copies.
    """
    not_copied, copies = not_copied.clone(), predictor.copies
    log_p, values, deterministic = copies.log_p, copies.values, copies.deterministic
    for number, each in enumerate(variables.timestamps if values.shape[2] else ()):
        rank, parts = variables.ranks[each.variable], list(each.part_variables)
        excluded = ~each.has_parts(x, values[:, rank]) & ~deterministic[:, rank]
        of_copies = _exclude(log_p[:, rank], excluded)
        is_open = mask[:, parts].any(dim=1) & ~mask[:, each.variable] & ~not_copied[:, number]
        is_open &= (of_copies[:, 1:] > -torch.inf).any(dim=1)
        is_copy = is_open & (uniform[:, each.variable] > of_copies[:, 0].exp())
        mask[:, parts] &= ~is_copy[:, None]
        mask[:, each.variable] |= is_copy
        not_copied[:, number] |= is_open & ~is_copy
        of_copies = of_copies[:, 1:].exp() * not_copied[:, number, None]
        for variable, codes in zip(parts, each.part_codes(values[:, rank]), strict=True):
            positions = variables.categories[variable][variables.categories[variable] != NO_INDEX]
            logits = predictor.category_logits.dense()
            p = logits[:, positions].softmax(dim=1).scatter_add(1, codes, -of_copies)
            logits = logits.index_copy(1, positions, p.clamp(min=MIN_RANK).log())
            predictor = predictor._replace(category_logits=DenseLogits(logits))
    return not_copied, predictor


def exclude_copies(
    variables: Variables, x: Tensor, requested: Requested, distributions: ConditionalDistributions
) -> ConditionalDistributions:
    """Exclude timestamps that would be copies without the parts of their rows, or are decided to be none."""
    copies = distributions.copies
    log_p, values, deterministic = copies.log_p, copies.values, copies.deterministic
    if not variables.timestamps or not values.shape[1]:
        return distributions
    excluded = torch.zeros_like(deterministic)
    for each in variables.timestamps:
        index = (requested.variable == each.variable).nonzero()[:, 0]
        has_parts = each.has_parts(x[requested.row[index]], values[index])
        excluded[index] = ~has_parts | requested.not_copied[index, None]
    return distributions._replace(copies=copies._replace(log_p=_exclude(log_p, excluded & ~deterministic)))


def determined_spikes(
    variables: Variables,
    rows: SampledRows,
    requested: Requested,
    distributions: ConditionalDistributions,
    category: Tensor,
) -> Tensor:
    """Return the categories; for a number that a deterministic relation gives, the spike it equals, or none."""
    has_spikes = variables.is_ranked & (variables.first_category != NO_INDEX)
    spiked = has_spikes[requested.variable].nonzero()[:, 0]
    copies = distributions.copies.take(requested.rank_row[spiked])
    if not copies.deterministic.any():
        return category
    relation = copies.deterministic.to(copies.values.dtype).argmax(dim=1, keepdim=True)
    value, variable = copies.values.gather(1, relation), requested.variable[spiked]
    equal = (variables.spike_values(variable, value) - value).abs() <= SPIKE_TOLERANCE * (1 + value.abs())
    spike = torch.where(equal.any(dim=1), equal.to(value.dtype).argmax(dim=1), 0)
    determined = copies.deterministic.any(dim=1)
    at = (determined & (spike > 0)).nonzero()[:, 0]  # the formula decides between a spike and its neighbours
    index = copies.relations.gather(1, relation)[at, 0]
    rows.relation_of[requested.row[spiked[at]], variables.ranks[variable[at]]] = index
    return category.index_copy(0, spiked, torch.where(determined, spike, category[spiked]))


def determined_categories(
    variables: Variables, requested: Requested, distributions: ConditionalDistributions, category: Tensor
) -> Tensor:
    """Return the categories; for a number with few values that a relation determines, the spike it is next to.

    A value that is not close to any of them contradicts the relation, and its category stays.
    """
    known, values = distributions.few_valued
    if not known.any():
        return category
    few = variables.is_few_valued[requested.variable].nonzero()[:, 0]
    variable = requested.variable[few]
    position = variables.quantities[variable] - int(variables.is_ranked.sum())
    value = values[requested.category_row[few], position].unsqueeze(1)
    spikes = variables.spike_values(variable, value)
    distance, spike = (spikes - value).abs().min(dim=1)
    gap = spikes.sort(dim=1).values.diff(dim=1).nan_to_num(nan=torch.inf).amin(dim=1)
    determined = known[requested.category_row[few], position] & (distance <= MAX_SPIKE_DISTANCE * gap)
    return category.index_copy(0, few, torch.where(determined, spike, category[few]))


def _exclude(log_p: Tensor, excluded: Tensor) -> Tensor:
    """Exclude copies, (n, k), from the log probabilities of no copy and of each copy, (n, 1 + k)."""
    return log_p.masked_fill(functional.pad(excluded, (1, 0)), -torch.inf).log_softmax(dim=1)
