"""Strategies for finding rows that satisfy a condition.

    rejection     Sample unconditionally and keep the rows that satisfy the condition: the conditional distribution of
                  the model, exactly.
    conditioning  Split the condition into disjoint branches. In each, sample the columns that it names one after
                  another, each restricted to what can still satisfy it, and choose rows by their importance weights.
                  Then condition the rest of the row on these columns.
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
from harpoon.data import Columns, concat, n_rows, repeat_row, take
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional import PILOT_ROWS, ConditionalSampler, is_unsatisfiable
from harpoon.inference.diagnostics import SamplingInfo

COMMON_PROBABILITY = 0.5  # conditions above it are always met by rejection
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
    pilot = query.pilot = query.count(query.unconditional(0, PILOT_ROWS))
    satisfied = evaluate(query.predicate, pilot)
    p = float(satisfied.mean())
    if p >= COMMON_PROBABILITY or (p >= RARE_PROBABILITY and n / p <= MAX_REJECTION_ROWS):
        return query.reject(n, query.unconditional, take(pilot, satisfied), len(satisfied))
    return conditioning(query, n)


def rejection(query: ConditionalSampler, n: int) -> Columns:
    """Keep the unconditional rows that satisfy the condition."""
    return query.reject(n, query.unconditional, is_patient=True)


def conditioning(query: ConditionalSampler, n: int) -> Columns:
    """Sample from every branch in proportion to its probability."""
    query.strategy = "conditioning"
    pilots = query.branch_pilots()
    if not pilots:
        return query.no_rows()
    p = np.array([branch.probability * (hits.sum() + 0.5) / (len(hits) + 1) for branch, _, hits in pilots])
    random = generator(query.sampler.seed, Stream.BRANCHES)
    counts = random.multinomial(n, p / p.sum())
    rows = concat([query.sample_branch(int(count), *pilot) for pilot, count in zip(pilots, counts, strict=True)])
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
