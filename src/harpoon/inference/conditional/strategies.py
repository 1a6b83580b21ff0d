"""Strategies for finding rows that satisfy a condition.

    rejection     Sample unconditionally and keep the rows that satisfy the condition: the conditional distribution of
                  the model, exactly.
    conditioning  Split the condition into disjoint branches. In each, sample the columns that it names one after
                  another, each restricted to what can still satisfy it, and choose rows by their importance weights.
                  Then condition the rest of the row on these columns, and choose one row of 3 to 12 by its likelihood
                  in a random order of the variables, which is how unconditional rows are sampled.
    guidance      Guide rows by the gradient of a penalty (Algorithm 1) and correct the bias by importance weights.
                  Then resample the columns that the condition does not name, and run Gibbs steps, which leave the
                  conditional distribution unchanged.
    paper         Algorithm 1 with the paper's penalties alone: rows may violate the condition.
    auto          The first that works: rejection for common conditions, conditioning for rare ones, guidance for
                  branches that are rare themselves.

All but "paper" return only rows that satisfy the condition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harpoon._utils.rng import Stream, generator
from harpoon.conditions import evaluate
from harpoon.data import Columns, Mask, concat, n_rows, repeat_row, take
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional.conditional_sampler import ConditionalSampler, is_unsatisfiable
from harpoon.inference.diagnostics.sampling_info import SamplingInfo

COMMON_PROBABILITY = 0.1  # above it rejection samples no more rows than conditioning, which needs 3 to 12 for each
RARE_PROBABILITY = 0.005  # conditions below it never are
MAX_REJECTION_ROWS = 25_000  # rows that rejection may sample in between: its rows have the exact distribution


def check_strategy(strategy: str) -> None:
    """Raise InvalidOption unless there is such a strategy."""
    if strategy not in STRATEGIES:
        raise InvalidOption.one_of("strategy", strategy, STRATEGIES)


def sample_conditional(query: ConditionalSampler, n: int, strategy: str) -> tuple[Columns, SamplingInfo]:
    """Return at most n rows, which all satisfy the condition (not for "paper"), and diagnostics.

    Guidance replaces the strategy where it is the only one: for a loss, or for a network that is not conditional.
    """
    needs_conditioning = strategy in ("auto", "conditioning")
    only_guidance = query.loss is not None or (needs_conditioning and not query.can_condition)
    name = "guidance" if only_guidance and strategy != "paper" else strategy
    rows = query.no_rows()
    if not is_unsatisfiable(query.predicate, query.given):
        query.strategy = name
        rows = take(STRATEGIES[name](query, n), slice(0, n))
    return rows, query.info(query.strategy, evaluate(query.predicate, rows))


def auto(query: ConditionalSampler, n: int) -> Columns:
    """Reject if the condition is common enough, else condition on its branches."""
    query.strategy = "rejection"
    pilot, satisfied = query.sample_pilot()
    p = float(satisfied.mean())
    if p >= COMMON_PROBABILITY or (p >= RARE_PROBABILITY and n / p <= MAX_REJECTION_ROWS):
        return _keep(query, n, pilot, satisfied)
    return conditioning(query, n)


def rejection(query: ConditionalSampler, n: int) -> Columns:
    """Keep the unconditional rows that satisfy the condition."""
    return _keep(query, n, *query.sample_pilot())


def _keep(query: ConditionalSampler, n: int, pilot: Columns, satisfied: Mask) -> Columns:
    """Keep unconditional rows, the pilot rows first, that satisfy the condition and the relations of the table."""
    kept = satisfied & ~query.sampler.model.relations.violated_by(pilot)
    return query.reject(n, query.unconditional, take(pilot, kept), len(satisfied), is_patient=True)


def conditioning(query: ConditionalSampler, n: int) -> Columns:
    """Sample from every branch in proportion to its probability.

    A branch all rows of which break a relation leaves its rows to the others; such branches come first.
    """
    query.strategy = "conditioning"
    if query.pilot is None:
        query.sample_pilot()
    pilots = sorted(query.branch_pilots(), key=lambda pilot: bool(pilot.hits.any()))
    p, random = np.array([pilot.probability for pilot in pilots]), generator(query.sampler.seed, Stream.BRANCHES)
    shares, parts, left = p / np.cumsum(p[::-1])[::-1], [query.no_rows()], n  # of this branch and those after it
    for pilot, share in zip(pilots, shares, strict=True):
        count = int(random.binomial(left, share))
        parts.append(query.sample_branch(count, pilot))
        left -= 0 if query.broken_relations and not n_rows(parts[-1]) else count
    rows = concat(parts)
    return take(rows, random.permutation(n_rows(rows)))


def guidance(query: ConditionalSampler, n: int) -> Columns:
    """Guide by the whole condition; fill up by rejection."""
    rows = query.guide(n, lambda _start, count: repeat_row(query.given, count), query.predicate)
    is_short = n_rows(rows) < n and query.loss is None
    return query.reject(n, query.unconditional, rows) if is_short else rows


def paper(query: ConditionalSampler, n: int) -> Columns:
    """Run Algorithm 1 on the whole condition and return its rows as they are."""
    given = repeat_row(query.given, n)
    rows = query.count(query.sample_guided(query.sampler, query.predicate, given, np.arange(n)))
    query.count_guided(evaluate(query.predicate, rows))
    return rows


STRATEGIES: dict[str, Callable[[ConditionalSampler, int], Columns]] = {
    "auto": auto,
    "rejection": rejection,
    "conditioning": conditioning,
    "guidance": guidance,
    "paper": paper,
}
