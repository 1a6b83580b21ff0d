"""The values that calendar parts can have, and conditions on one part that no value of it satisfies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harpoon._formatting import MAX_LISTED
from harpoon.conditions.binding import bound
from harpoon.conditions.binding.bound import BoundPredicate, DatePart, all_of, leaves, map_leaves
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.data import Column, ColumnArray
from harpoon.data.date_parts import DAY, RANGES, TIMES_OF_DAY, Ints, date_part, to_local

PartValues = Mapping[str, Sequence[int]]  # the values of calendar parts in the training table, by name
MAX_DAYS = 200_000  # of a column, in which combinations of parts are searched
OF_DAYS = ("week", "dayofyear")  # parts that follow from the days of a range
DERIVED: dict[str, tuple[str, Callable[[Ints], Ints]]] = {  # parts that follow from another one
    "quarter": ("month", lambda month: (month + 2) // 3),
    "isodow": ("weekday", lambda weekday: (weekday - 1) % 7 + 1),
}


def possible_values(part: str) -> Ints | None:
    """Return the values that a part of any time can have, or None if there is no limit."""
    if part not in RANGES:
        return None
    low, high = RANGES[part]
    return np.arange(low, high + 1)


def known_values(term: DatePart, column: Column, training: PartValues) -> Ints | None:
    """Return the values that a part has in the training table, or None if that is not known."""
    if term.part == "year" and column.clip and column.minimum is not None and column.maximum is not None:
        ends = np.array([column.minimum, column.maximum], dtype=np.int64)
        first, last = date_part("year", to_local(ends, term.tick, term.zone), term.tick)
        return np.arange(first, last + 1)
    if term.part in DERIVED:
        source, derive = DERIVED[term.part]
        return np.unique(derive(np.array(training[source]))) if source in training else None
    if term.part in OF_DAYS and term.part not in training:
        days = _possible_days(column, term, training)
        return None if days is None else np.unique(date_part(term.part, days, DAY))
    return np.array(training[term.part]) if term.part in training else None


def _possible_days(column: Column, term: DatePart, training: PartValues) -> Ints | None:
    """Return the local days of the range of a column whose parts occur, or None if it has no range or a very long one.

    Training values of the day, month and weekday are known, but not those of the week.
    """
    if not column.clip or column.minimum is None or column.maximum is None:
        return None
    ends = to_local(np.array([column.minimum, column.maximum], dtype=np.int64), term.tick, term.zone)
    first, last = np.floor_divide(ends, DAY // term.tick)
    if last - first > MAX_DAYS:
        return None
    days = np.arange(first, last + 1)
    for name, values in training.items():
        days = days[np.isin(date_part(name, days, DAY), values)] if name not in TIMES_OF_DAY else days
    return days


def date_parts_of(predicate: BoundPredicate) -> set[DatePart]:
    """Return the calendar parts of columns that a condition compares with numbers."""
    return {term for term in _compared_parts(predicate) if term is not None}


def excludes_all_values(parts: Iterable[BoundPredicate], term: DatePart, values: Ints | None) -> bool:
    """Return whether no value of a calendar part satisfies all parts of a condition that compare it alone."""
    column = term.operand
    decidable = [part for part in parts if set(_compared_parts(part)) == {term}]
    if values is None or not decidable or not isinstance(column, bound.ColumnRef):
        return False
    cells = ColumnArray("integer", values, np.zeros(len(values), dtype=np.bool_))
    replaced = all_of(_replace_term(part, column) for part in decidable)
    return not evaluate(replaced, {column.column: cells}).any()


def excludes_all_days(parts: Iterable[BoundPredicate], column: Column, training: PartValues) -> bool:
    """Return whether no day of a column's range satisfies all parts of a condition that compare dates alone."""
    decidable = [part for part in parts if _is_of_days(part)]
    if len({term.part for part in decidable for term in date_parts_of(part)}) < 2:  # noqa: PLR2004
        return False
    days = _possible_days(column, next(iter(date_parts_of(decidable[0]))), training)
    if days is None:
        return False
    cells = ColumnArray("date", days, np.zeros(len(days), dtype=np.bool_))
    return not evaluate(all_of(map(_on_days, decidable)), {column.name: cells}).any()


def _is_of_days(predicate: BoundPredicate) -> bool:
    return all(term is not None and term.part not in TIMES_OF_DAY for term in _compared_parts(predicate))


def _on_days(predicate: BoundPredicate) -> BoundPredicate:
    """Return a condition on calendar parts of times for local days."""

    def on_days(leaf: BoundPredicate) -> BoundPredicate:
        match leaf:
            case bound.Compare(_, DatePart() as term):
                return replace(leaf, left=replace(term, tick=DAY, zone=""))
        return leaf

    return map_leaves(predicate, on_days)


def describe_possible(term: DatePart) -> str:
    """Return the values of a part of any time in words: "month(t) is between 1 and 12"."""
    low, high = RANGES[term.part]
    return f"{_name(term)} is between {low} and {high}"


def describe_values(term: DatePart, values: Ints) -> str:
    """Return the values of a calendar part in words: "hour(t) is from 8 to 17"."""
    name = _name(term)
    runs = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1)
    texts = [f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    if len(values) == 1:
        return f"{name} is always {texts[0]}"
    return f"{name} is from {texts[0]}" if len(runs) == 1 else f"{name} has only the values {_join(texts)}"


def _join(texts: Sequence[str]) -> str:
    rest = len(texts) - MAX_LISTED
    return ", ".join(texts[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _name(term: DatePart) -> str:
    return f"{term.part}({next(iter(bound.columns_of(term)))})"


def _compared_parts(predicate: BoundPredicate) -> Iterator[DatePart | None]:
    """Yield the calendar part that each leaf of a condition compares with a number, and None for other leaves."""
    for leaf in leaves(predicate):
        match leaf:
            case bound.Compare(_, DatePart(_, bound.ColumnRef()) as term, bound.NumberLiteral()):
                yield term
            case _:
                yield None


def _replace_term(predicate: BoundPredicate, column: bound.ColumnRef) -> BoundPredicate:
    """Return a condition in which a column stands for its calendar part."""
    return map_leaves(predicate, lambda leaf: replace(leaf, left=column) if isinstance(leaf, bound.Compare) else leaf)
