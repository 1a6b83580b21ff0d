"""Explanations of contradictions: which parts of a condition exclude each other, and why, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from harpoon._formatting import format_list
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import BoundPredicate, columns_of
from harpoon.conditions.binding.branches import overlapping_branches
from harpoon.conditions.language.expressions import And, IsNull, Like, Predicate
from harpoon.conditions.language.sql_names import quote_name, text_literal
from harpoon.conditions.logic.calendar_values import (
    PartValues,
    date_parts_of,
    describe_possible,
    describe_values,
    excludes_all_values,
    possible_values,
)
from harpoon.conditions.logic.contradictions import (
    Domain,
    find_contradictions,
    is_contradiction,
    label_domain,
    minimal_subset,
    parts_by_column,
)
from harpoon.conditions.logic.invariants import Invariant, Invariants, LabelAxis, LabelInvariant
from harpoon.data import Column, Schema, format_number
from harpoon.data.column import format_value

NO_PART_VALUES: Mapping[str, PartValues] = {}
MAX_NAMED_LABELS = 3


def explain_contradiction(
    tree: Predicate,
    schema: Schema,
    *,
    nullable: Collection[str] | None = None,
    free: Collection[str] = (),
    part_values: Mapping[str, PartValues] = NO_PART_VALUES,
    invariants: Invariants | None = None,
) -> str:
    """Return which parts of a condition exclude each other, in words; "" if some row may satisfy the condition.

    `nullable`, `free`, `part_values` and `invariants` are those of `Domain`.

    >>> from harpoon import Kind
    >>> from harpoon.conditions.language.parser import parse
    >>> schema = Schema((Column("x", Kind.INTEGER), Column("y", Kind.NUMBER, minimum=0.0, maximum=2.5)))
    >>> explain_contradiction(parse("x > 5 and y > 0 and x < 6"), schema)
    'x > 5 and x < 6 exclude each other, because x is an integer'
    >>> explain_contradiction(parse("x > 5 and y > 3"), schema)
    'y > 3 is never true, because y is from 0 to 2.5 in the training table'
    """
    domain = Domain(schema, nullable, free, part_values, invariants or Invariants())
    parts = find_contradictions(tree, domain)
    problems = ("exclude each other" if isinstance(part, And) else "is never true" for part in parts)
    return "; ".join(f"{part} {what}{_because(part, domain)}" for part, what in zip(parts, problems, strict=True))


def contradicts_itself(tree: Predicate, schema: Schema) -> bool:
    """Return whether no row of any table with these columns satisfies a condition.

    >>> from harpoon import Kind
    >>> from harpoon.conditions.language.parser import parse
    >>> schema = Schema((Column("x", Kind.NUMBER, minimum=0.0, maximum=2.5),))
    >>> contradicts_itself(parse("x > 1 and x < 0"), schema), contradicts_itself(parse("x > 3"), schema)
    (True, False)
    """
    parts = find_contradictions(tree, Domain(schema, free=[c.name for c in schema if not c.kind.discrete]))
    # An unknown label is an error, but a pattern may match a label of another table.
    return bool(parts) and not any(isinstance(node, Like) for part in parts for node in part.walk())


def _because(part: Predicate, domain: Domain) -> str:
    """Return why no row satisfies a part of a condition, where that is not plain from its text."""
    predicate = bind(part, domain.schema)
    names = sorted(columns_of(predicate))
    match part:
        case IsNull() if names:
            return f", because {_why_never_null(domain.schema[names[0]])}"
        case Like(_, pattern) if names:
            return f", because no value of {names[0]} {_describe_pattern(pattern)}{_values_of(domain.schema[names[0]])}"
    if why := _why_no_part(predicate, domain, is_plain=isinstance(part, And)):
        return f", because {why}"
    if reasons := list(_reasons(predicate, domain)):
        return f", because {', and '.join(reasons)}"
    discrete = [domain.schema[name] for name in names if domain.schema[name].kind.discrete]
    if len(discrete) == len(names) == 1 and not isinstance(part, And):
        return f", because {names[0]} has no other value{_values_of(discrete[0])}"
    return ""


def _why_no_part(predicate: BoundPredicate, domain: Domain, *, is_plain: bool) -> str:
    """Return which values a calendar part can have, if a condition on it alone has no solution.

    `is_plain`: it is plain from the text which values of any time exclude each other.
    """
    for term in sorted(date_parts_of(predicate), key=str):
        possible, known = possible_values(term.part), domain.known_values(term)
        if excludes_all_values([predicate], term, possible):
            return "" if is_plain or possible is None else describe_possible(term)
        if known is not None and excludes_all_values([predicate], term, known):
            return f"{describe_values(term, known)} in the training table"
    return ""


def _reasons(predicate: BoundPredicate, domain: Domain) -> Iterator[str]:
    """Yield what of a domain makes a condition a contradiction: invariants, ranges and resolutions."""
    # The shortest explanation uses columns of the condition only.
    invariants = sorted(domain.invariants.all, key=lambda invariant: len(invariant.columns - columns_of(predicate)))
    needed = minimal_subset(
        len(invariants),
        lambda kept: is_contradiction(predicate, domain.with_invariants([invariants[i] for i in kept])),
    )
    yield from filter(None, (_describe_invariant(invariants[i], predicate, domain) for i in needed))
    domain = domain.with_invariants([invariants[i] for i in needed])
    names = sorted(columns_of(predicate).union(*(invariant.columns for invariant in domain.invariants.all)))
    limited = [column for name in names if domain.limits(column := domain.schema[name])]
    needed = minimal_subset(
        len(limited), lambda kept: is_contradiction(predicate, domain.with_limits([limited[i].name for i in kept]))
    )
    if needed:
        yield f"{' and '.join(_describe_range(limited[i]) for i in needed)} in the training table"
    domain = domain.with_limits([limited[i].name for i in needed])
    if not is_contradiction(predicate, replace(domain, has_steps=False)):
        columns = [domain.schema[name] for name in names if domain.schema[name].kind.numeric]
        yield " and ".join(_describe_step(column, domain.step(column)) for column in columns if domain.step(column))


def _describe_invariant(invariant: Invariant, predicate: BoundPredicate, domain: Domain) -> str:
    """Return an invariant in words: of labels, those that are found with the only one that a condition leaves."""
    branches = overlapping_branches(predicate)
    if not isinstance(invariant, LabelInvariant) or len(branches) != 1:
        return invariant.text
    for axis, other, possible in invariant.directions:
        left = np.flatnonzero(label_domain(axis, parts_by_column(branches[0].parts), domain).allowed)
        if len(left) == 1 and 0 < possible[left[0]].sum() <= MAX_NAMED_LABELS:
            found = [label_text(other, label, domain.schema) for label in np.flatnonzero(possible[left[0]]).tolist()]
            return f"{label_text(axis, int(left[0]), domain.schema)} is only found with {' or '.join(found)}"
    return invariant.text


def label_text(axis: LabelAxis, label: int, schema: Schema) -> str:
    """Return a label as a condition."""
    name, column = quote_name(axis.column), schema[axis.column]
    if axis.values is None:
        return f"{name} is null" if label else f"{name} is not null"
    value = axis.values[label]
    if np.isnan(value):
        return f"other values of {name}"
    if not column.kind.discrete:
        return f"{name} = {format_number(int(value) if float(value).is_integer() else float(value))}"
    category = (column.categories or (False, True))[int(value)]
    return f"{name} = {text_literal(category) if isinstance(category, str) else category}"


def _describe_step(column: Column, step: float) -> str:
    return f"{column.name} is {'an integer' if step == 1 else f'a multiple of {format_number(step)}'}"


def _why_never_null(column: Column) -> str:
    if column.missing:
        return f"every cell of {column.name} is filled here"
    return f"{column.name} is never missing in the training table"


def _describe_pattern(pattern: str) -> str:
    """Return the pattern of `like` in words."""
    inner = pattern.strip("%")
    if not inner or "%" in inner or "_" in inner or inner == pattern:
        return f"is like {text_literal(pattern)}"
    words = {(False, True): "begins with", (True, False): "ends with"}
    return f"{words.get((pattern.startswith('%'), pattern.endswith('%')), 'contains')} {text_literal(inner)}"


def _values_of(column: Column) -> str:
    return f" (it has {format_list(column.categories or ())})"


def _describe_range(column: Column) -> str:
    if column.values:
        values = [format_value(column, value) for value in column.values]
        return f"{column.name} has only the values {', '.join(values)}"
    low, high = (format_value(column, end) for end in (column.minimum or 0, column.maximum or 0))
    return f"{column.name} is from {low} to {high}"
