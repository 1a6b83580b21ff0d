"""Rules that a model carries: every sampled row obeys them, and imputed cells obey them as far as observed cells allow.

A rule that observed cells break, for any values of the others, cannot be obeyed in that row: it is left out there,
and a warning names the rows. All other rules hold in the completed row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from time import perf_counter

import numpy as np

from harpoon._utils.rng import Stream
from harpoon.conditions import BoundPredicate, evaluate
from harpoon.conditions.binding.bound import Constant, all_of
from harpoon.data import Columns, Index, Mask, concat, n_rows, scatter, take
from harpoon.exceptions import BrokenRuleWarning, warn
from harpoon.inference.conditional.completion import ConditionalCompletion
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.sampling.row_sampler import Complete, RowSampler
from harpoon.rules.rule_set import BoundRules, describe_rows

PILOT_ROWS = 1024  # the first rows, by which it is decided how to sample
MAX_BROKEN_FRACTION = 0.3  # of these: if more break a rule, the strategies for conditions are faster
MAX_NAMED_RULES = 5
ALWAYS = Constant(truth=True)


def sample_obeying(
    sampler: RowSampler, accepted: BoundPredicate, rows: Columns, row_offset: int
) -> tuple[Columns, SamplingInfo] | None:
    """Sample the missing cells of rows that all obey some rules; None if most rows break them, or some cannot.

    Rows are sampled without rules, and those that break one are sampled again, each until it obeys all: the
    distribution of the model given the rules. Rows do not depend on how many others are asked for.
    """
    started, n, before = perf_counter(), n_rows(rows), sampler.evaluations
    index = np.arange(row_offset, row_offset + n)
    found = sampler.sample(take(rows, slice(0, PILOT_ROWS)), index[:PILOT_ROWS])
    if evaluate(accepted, found).mean() < 1 - MAX_BROKEN_FRACTION:
        return None
    if n > PILOT_ROWS:
        found = concat([found, sampler.sample(take(rows, slice(PILOT_ROWS, None)), index[PILOT_ROWS:])])
    broken = np.flatnonzero(~evaluate(accepted, found))
    info = SamplingInfo("rejection", n, n, None, 0.0, 1, 0, 0.0, probability=1 - len(broken) / n)
    if len(broken):
        given, key = take(rows, broken), Stream.RULES
        completion = ConditionalCompletion(sampler, accepted, given, index=index[broken], draw=key)
        completed, satisfied, more = completion.sample()
        if not satisfied.all():
            return None
        found = scatter(found, completed, broken)
        info = replace(info, sampled=n + more.sampled, rounds=1 + more.rounds)
    seconds = perf_counter() - started
    return found, replace(info, evaluations=sampler.evaluations - before, seconds=seconds)


def complete_under_rules(
    sampler: RowSampler,
    rules: BoundRules,
    required: BoundPredicate,
    nullable: Collection[str],
    on_info: Callable[[SamplingInfo], None],
) -> Callable[..., tuple[Columns, Mask]]:
    """Return a function that completes partial rows, and says which of them then satisfy a required condition.

    Each row obeys the rules that its observed cells do not break. Where no completion is found that does, the row
    satisfies the required condition alone, and a warning names it.
    """

    def complete(part: Columns, index: Index, *, draw: int = 0) -> tuple[Columns, Mask]:
        completed, satisfied = dict(part), np.zeros(len(index), dtype=np.bool_)
        failed: list[int] = []
        key = Stream.RULES + draw
        for broken, rows in _by_pattern(rules.broken(part, partial=True)):
            # First under all rules that can hold, then, for rows of which none was found, without them.
            for wanted in (~broken, np.zeros_like(broken)):
                left = rows[~satisfied[rows]]
                if not len(left):
                    break
                predicate = all_of((required, rules.accept(wanted, nullable)))
                # Of rows with other cells than any training row, many can obey no rule: guidance would try each long.
                search = ConditionalCompletion(
                    sampler, predicate, take(part, left), index=index[left], draw=key, guided=required != ALWAYS
                )
                found, is_found, info = search.sample()
                on_info(info)
                satisfied[left] = is_found
                completed = scatter(completed, found, left)
                failed += [] if wanted.any() or not (~broken).any() else index[left].tolist()
        if failed:
            warn(BrokenRuleWarning(f"No values were found that obey all rules in {describe_rows(sorted(failed))}."))
        return completed, satisfied

    return complete


def correct_broken(
    fill: Complete, complete: Complete, rules: BoundRules, required: BoundPredicate, nullable: Collection[str]
) -> Complete:
    """Return a function that fills rows, and completes again those that then break a rule or the required condition."""
    accepted = rules.accepted(nullable)

    def corrected(part: Columns, index: Index, **draw: int) -> Columns:
        filled = fill(part, index, **draw)
        hopeless = rules.broken(part, partial=True)
        obeys = evaluate(required, filled)
        for rule, predicate in enumerate(accepted):
            obeys &= evaluate(predicate, filled) | hopeless[:, rule]
        wrong = np.flatnonzero(~obeys)
        if not len(wrong):
            return filled
        return scatter(filled, complete(take(part, wrong), index[wrong], **draw), wrong)

    return corrected


def warn_broken(rules: BoundRules, rows: Columns, row_offset: int) -> None:
    """Warn of rules that the observed cells of rows break."""
    broken = rules.broken(rows, partial=True)
    named = [
        f"{rule.name} in {describe_rows((np.flatnonzero(column) + row_offset).tolist())}"
        for rule, column in zip(rules.rules, broken.T, strict=True)
        if column.any()
    ]
    if named:
        more = f"; and {len(named) - MAX_NAMED_RULES} more rules" if len(named) > MAX_NAMED_RULES else ""
        problem = f"Observed cells break rules, and are kept: {'; '.join(named[:MAX_NAMED_RULES])}{more}"
        message = f"{problem} (counted from 0). model.check(table) lists all of them."
        warn(BrokenRuleWarning(message, code="broken_rules", problem=problem))


def _by_pattern(broken: Mask) -> Iterator[tuple[Mask, Index]]:
    """Yield the rows that break the same rules together: which rules, (rules,), and the positions of the rows."""
    patterns, inverse = np.unique(broken, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(inverse.reshape(-1) == number)
