"""Rules that hold in all rows of a training table, or in all but a few, beyond chance.

    range        the values of a number or a time lie between two ends
    order        a column is never above another one of the same kind: start <= end
    determines   each label of a column occurs with one label of another one: a city lies in one country
    implies      a label of a column occurs with one label of another one: a husband is male
    excludes     a label of a column never occurs with some labels of another one
    sum          a number is a sum, a difference or a product of others (`harpoon.relations`)

A rule of two columns must be surprising if the columns were independent. Its number of exceptions then had a binomial
distribution, whose probability of an exception is that of independent columns. A rule is kept if as few exceptions as
there are have a probability of at most `SIGNIFICANCE`, divided by the number of rules that were tried (Bonferroni). Of
a column that determines another one, the first row of each label is no test, and does not count. A range is kept from
`MIN_RANGE_ROWS` values on: with 95 % confidence, at most 5 % of new values are then outside (Wilks, 1941).

Candidates are proposed by a sample of the table, and counted in all rows, also in those of other processes. Rules hold
labels, and the ends of ranges, which the schema has too, but no rows. From 1 to 4 exceptions are stored as 4.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from harpoon.conditions import bind, evaluate, negate
from harpoon.conditions.language.expressions import And, Comparison, In, Literal, Not, Predicate, Term
from harpoon.conditions.language.functions import col
from harpoon.data import NANOSECONDS, Column, ColumnArray, Columns, Kind, Schema
from harpoon.data.bins import suppress
from harpoon.data.chance import chance_of_difference
from harpoon.data.date_parts import to_local
from harpoon.relations import Formula
from harpoon.relations.formula import HALF_STEP
from harpoon.rules.rule_set import Rule, RuleSet

Counts = NDArray[np.int64]

SIGNIFICANCE = 0.01
MIN_RANGE_ROWS = 93
MAX_EXCEPTIONS = 0.005  # as a fraction of the rows in which a rule could be broken
MAX_LABELS = 200  # of a column whose labels are searched
MAX_INTEGERS = 32  # distinct values of an integer column that are labels
MAX_LABEL_COLUMNS, MAX_ORDER_COLUMNS = 40, 60
MAX_LISTED_LABELS = 20  # that a rule excludes
MAX_FOUND = 300  # rules, apart from ranges
SUM_TOLERANCE = 1e-5  # of the largest value
SOURCE = "discovered"


@dataclass(frozen=True)
class Candidate:
    """A rule that may hold, and how likely an exception is by chance."""

    rule: Rule
    schema: Schema
    chance: float  # the probability that an independent row breaks it; 0: the rule is not tested against chance
    scope: Predicate | None = None  # rows in which it can be broken; None: all
    n_free: int = 0  # rows that cannot break it, because they define it

    def count(self, rows: Columns) -> tuple[int, int]:
        """Return in how many rows the rule can be broken, and how many break it."""
        bound = bind(self.rule.predicate, self.schema)
        broken = evaluate(negate(bound), rows)
        known = broken | evaluate(bound, rows)
        if self.scope is not None:
            known &= evaluate(bind(self.scope, self.schema), rows)
        return int(known.sum()), int((broken & known).sum())

    def p_value(self, support: int, exceptions: int) -> float:
        """Return the probability of so few exceptions by chance."""
        trials = max(support - self.n_free, 0)
        return float(binom.cdf(min(exceptions, trials), trials, self.chance)) if trials else 1.0


@dataclass(frozen=True)
class Candidates:
    """Proposed rules, and how many were tried."""

    found: tuple[Candidate, ...]
    n_tried: int


@dataclass(frozen=True)
class _Labels:
    """A column of labels: the code of each cell, -1 if it is missing, and the labels."""

    column: Column
    codes: Counts
    labels: tuple[Any, ...]

    @property
    def name(self) -> str:
        return self.column.name


def propose_rules(
    schema: Schema, rows: Columns, formulas: Sequence[Formula] = (), names: Sequence[str] = (), *, min_rows: int = 1
) -> Candidates:
    """Propose rules that rows of a table obey, or all but a few of them.

    `formulas` are relations that hold, and `names` those of their columns by position.
    Labels that occur together in fewer than `min_rows` rows are not named.
    """
    proposed = [*_ranges(schema, rows)]
    orders, n_orders = _orders(schema, rows)
    labels = [each for column in schema.modelled if (each := _labels(column, rows[column.name])) is not None]
    labels = labels[:MAX_LABEL_COLUMNS]
    joints = {(a.name, b.name): _joint(a, b, min_rows) for a, b in permutations(labels, 2)}
    n_tried = n_orders + sum(joint.size + len(joint) + 1 for joint in joints.values()) + len(formulas)
    found = [*orders, *_label_rules(schema, labels, joints, n_tried), *_sums(schema, rows, formulas, names)]
    return Candidates((*proposed, *found), max(n_tried, 1))


def count_rules(candidates: Candidates, rows: Columns) -> Counts:
    """Return the support and the exceptions of candidates in rows, (candidates, 2); counts of parts are added."""
    counts = [candidate.count(rows) for candidate in candidates.found]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def select_rules(candidates: Candidates, counts: Counts) -> RuleSet:
    """Return the candidates that hold beyond chance, the surest of each kind first, without those that others imply."""
    kept: list[tuple[Candidate, float]] = []
    for candidate, (support, exceptions) in zip(candidates.found, counts.tolist(), strict=True):
        rule = replace(candidate.rule, support=support, exceptions=int(suppress(np.array(exceptions))))
        if not candidate.chance:
            kept += [(replace(candidate, rule=rule), 0.0)] if support >= MIN_RANGE_ROWS and not exceptions else []
            continue
        p = candidate.p_value(support, exceptions)
        if support and exceptions <= MAX_EXCEPTIONS * support and p * candidates.n_tried <= SIGNIFICANCE:
            kept.append((replace(candidate, rule=rule), p))
    ranges = [candidate.rule for candidate, _ in kept if not candidate.chance]
    others = sorted((each for each in kept if each[0].chance), key=lambda each: each[1])[:MAX_FOUND]
    order = {id(candidate): position for position, (candidate, _) in enumerate(kept)}
    others.sort(key=lambda each: order[id(each[0])])
    return RuleSet.of(_named_apart([*ranges, *(candidate.rule for candidate, _ in others)]))


def _named_apart(rules: Sequence[Rule]) -> list[Rule]:
    """Number the rules that share a name: a column may be the product of several pairs of others."""
    counts: Counter[str] = Counter()
    named = []
    for rule in rules:
        counts[rule.name] += 1
        named.append(rule if counts[rule.name] == 1 else replace(rule, name=f"{rule.name} {counts[rule.name]}"))
    return named


def _rule(name: str, predicate: Predicate) -> Rule:
    return Rule(name, predicate, SOURCE)


def _ranges(schema: Schema, rows: Columns) -> Iterator[Candidate]:
    for column in schema.modelled:
        if column.kind.numeric and column.kind.spec.arrow_type is not None and column.minimum is not None:
            low, high = (_literal(column, end) for end in (column.minimum, column.maximum))
            if low is not None and high is not None and column.name in rows:
                predicate = col(column.name).between(low, high)
                yield Candidate(_rule(f"range({column.name})", predicate), schema, 0.0)


def _literal(column: Column, value: Any) -> Any:  # noqa: ANN401
    """Return a number of a column as a value of a condition; None if it has none."""
    if not column.kind.temporal:
        return int(value) if column.kind.integral else float(value)
    unit: Any = column.unit or ("D" if column.kind is Kind.DATE else "us")
    if unit == "ns":  # Python's times have microseconds: the range would not hold exactly
        return None
    if column.kind is Kind.DURATION:
        return np.timedelta64(int(value), unit).astype("m8[us]").item()
    time = np.datetime64(int(value), unit)
    if column.kind is Kind.DATE:
        return time.astype("M8[D]").item()
    moment = time.astype("M8[us]").item()
    if not column.zoned:
        return moment
    local = to_local(np.array([int(value)]), NANOSECONDS[unit], column.zone)[0]
    offset = np.timedelta64(local - int(value), unit).astype("m8[us]").item()
    return moment.replace(tzinfo=dt.UTC).astimezone(dt.timezone(offset))  # as the clocks of its zone show it


def _orders(schema: Schema, rows: Columns) -> tuple[list[Candidate], int]:
    """Return orders between columns of the same kind, without those that others imply, and how many were tried."""
    groups: dict[tuple[Any, ...], list[Column]] = {}
    for column in schema.modelled:
        if column.kind.numeric and not column.is_flag:
            kind = "number" if column.kind in (Kind.NUMBER, Kind.INTEGER) else column.kind
            groups.setdefault((kind, column.unit, column.zoned), []).append(column)
    found: dict[tuple[str, str], Candidate] = {}
    n_tried = 0
    for columns in groups.values():
        for a, b in combinations(columns[:MAX_ORDER_COLUMNS], 2):
            for low, high in ((a, b), (b, a)):
                n_tried += 1
                candidate = _order(schema, rows, low.name, high.name)
                if candidate is not None:
                    found[low.name, high.name] = candidate
    names = {name for pair in found for name in pair}
    implied = {(a, c) for a, c in found for b in names if (a, b) in found and (b, c) in found}
    return [candidate for pair, candidate in found.items() if pair not in implied], n_tried


def _order(schema: Schema, rows: Columns, low: str, high: str) -> Candidate | None:
    known = ~rows[low].missing & ~rows[high].missing
    a, b = rows[low].values[known], rows[high].values[known]
    exceptions = int((a > b).sum())
    if not len(a) or exceptions > MAX_EXCEPTIONS * len(a) or np.array_equal(a, b):
        return None
    chance = float(np.searchsorted(np.sort(b), a, side="left").mean() / len(b))  # P(b < a) of independent columns
    is_strict = not exceptions and not (a == b).any()
    predicate = col(low) < col(high) if is_strict else col(low) <= col(high)
    return Candidate(_rule(f"order({low}, {high})", predicate), schema, chance) if chance else None


def _labels(column: Column, cells: ColumnArray) -> _Labels | None:
    """Return a column as labels; None if it has none, or too many."""
    labels: tuple[Any, ...] = column.categories or ()
    codes = np.asarray(cells.without_unseen().values)
    if column.kind.numeric:
        labels = column.values or _few_integers(column, cells)
        codes = np.searchsorted(np.array(labels), codes).clip(max=len(labels) - 1) if labels else codes
        if not labels or not (np.array(labels)[codes] == cells.values)[~cells.missing].all():
            return None
    if not 1 < len(labels) <= MAX_LABELS:
        return None
    return _Labels(column, np.where(cells.without_unseen().missing, -1, codes).astype(np.int64), labels)


def _few_integers(column: Column, cells: ColumnArray) -> tuple[Any, ...]:
    """Return the values of an integer column, if there are only a few: each may be determined by a label."""
    if column.kind is not Kind.INTEGER:
        return ()
    values = np.unique(cells.observed)
    return tuple(values.tolist()) if len(values) <= MAX_INTEGERS else ()


def _joint(a: _Labels, b: _Labels, min_rows: int = 1) -> Counts:
    """Return how many rows have each label of one column with each of another one, (labels of a, labels of b).

    A label of the first column that has fewer than `min_rows` rows counts as one that does not occur.
    """
    known = (a.codes >= 0) & (b.codes >= 0)
    size = len(a.labels), len(b.labels)
    joint = np.bincount(a.codes[known] * size[1] + b.codes[known], minlength=size[0] * size[1]).reshape(size)
    return np.where(joint.sum(axis=1, keepdims=True) >= min_rows, joint, 0)


def _label_rules(
    schema: Schema, labels: Sequence[_Labels], joints: dict[tuple[str, str], Counts], n_tried: int
) -> Iterator[Candidate]:
    """Yield dependencies, then implications that do not follow from one, then exclusions that follow from neither."""
    determined: set[tuple[str, str]] = set()
    for a, b in permutations(labels, 2):
        candidate = _dependency(schema, a, b, joints[a.name, b.name])
        if candidate is not None and _is_surprising(candidate, joints[a.name, b.name], n_tried):
            determined.add((a.name, b.name))
            yield candidate
    implying: dict[tuple[str, str], set[int]] = {}
    for a, b in permutations(labels, 2):
        if (a.name, b.name) in determined:
            continue
        for x, y, chance in _implications(joints[a.name, b.name], n_tried):
            implying.setdefault((a.name, b.name), set()).add(x)
            premise, conclusion = _is(a, [x]), _is(b, [y])
            name = f"implies({a.name} = {a.labels[x]}, {b.name} = {b.labels[y]})"
            yield Candidate(_rule(name, premise.implies(conclusion)), schema, chance, premise)
    for a, b in combinations(labels, 2):
        if not {(a.name, b.name), (b.name, a.name)} & determined:
            known = implying.get((a.name, b.name), set()), implying.get((b.name, a.name), set())
            yield from _exclusions(schema, (a, b), joints[a.name, b.name], known, n_tried)


def _is_surprising(candidate: Candidate, joint: Counts, n_tried: int) -> bool:
    support, exceptions = int(joint.sum()), int(joint.sum() - joint.max(axis=1).sum())
    return candidate.p_value(support, exceptions) * n_tried <= SIGNIFICANCE


def _dependency(schema: Schema, a: _Labels, b: _Labels, joint: Counts) -> Candidate | None:
    """Return the rule that each label of a column has one label of another one, if it holds in almost all rows."""
    total, of_label = int(joint.sum()), joint.sum(axis=1)
    used = np.flatnonzero(of_label)
    exceptions = total - int(joint.max(axis=1).sum())
    image = joint.argmax(axis=1)
    if len(used) < 2 or len(np.unique(image[used])) < 2 or exceptions > MAX_EXCEPTIONS * total:  # noqa: PLR2004
        return None
    parts = [_is(a, used[image[used] == y]).implies(_is(b, [y])) for y in np.unique(image[used]).tolist()]
    rule = _rule(f"determines({a.name}, {b.name})", And(tuple(parts)))
    return Candidate(rule, schema, chance_of_difference(joint.sum(axis=0)), n_free=len(used))


def _implications(joint: Counts, n_tried: int) -> Iterator[tuple[int, int, float]]:
    """Yield a label of a column, the label of the other one that it implies, and the chance of an exception."""
    total, of_label = int(joint.sum()), joint.sum(axis=1)
    shares = joint.sum(axis=0) / max(total, 1)
    for x in np.flatnonzero(of_label).tolist():
        y = int(joint[x].argmax())
        exceptions, chance = int(of_label[x] - joint[x, y]), float(1 - shares[y])
        p = float(binom.cdf(exceptions, of_label[x], chance))
        if exceptions <= MAX_EXCEPTIONS * of_label[x] and p * n_tried <= SIGNIFICANCE:
            yield x, y, chance


def _exclusions(
    schema: Schema,
    pair: tuple[_Labels, _Labels],
    joint: Counts,
    known: tuple[set[int], set[int]],
    n_tried: int,
) -> Iterator[Candidate]:
    """Yield for labels of a column those of another one that never occur with it, although chance would bring them."""
    a, b = pair
    total = max(int(joint.sum()), 1)
    shares, of_label = joint.sum(axis=0) / total, joint.sum(axis=1)
    p = (1 - shares)[None, :] ** of_label[:, None]
    never = (joint == 0) & (p * n_tried <= SIGNIFICANCE)
    never[list(known[0]), :] = False
    never[:, list(known[1])] = False
    for x in np.flatnonzero(never.any(axis=1)).tolist():
        excluded = np.flatnonzero(never[x])[:MAX_LISTED_LABELS]
        premise = _is(a, [x])
        rule = _rule(f"excludes({a.name} = {a.labels[x]}, {b.name})", premise.implies(Not(_is(b, excluded))))
        yield Candidate(rule, schema, float(shares[excluded].min()), premise)


def _is(column: _Labels, codes: Sequence[int] | Counts) -> Predicate:
    """Return the condition that a column has one of some labels."""
    values = [column.labels[code] for code in codes]
    if len(values) == 1:
        return Comparison("=", col(column.name), Literal.of(values[0]))
    return In(col(column.name), tuple(map(Literal.of, values)))


def _sums(schema: Schema, rows: Columns, formulas: Sequence[Formula], names: Sequence[str]) -> Iterator[Candidate]:
    """Yield sums and products of numbers; of one that is solved for several columns, that with most plus signs."""
    best: dict[frozenset[str], Formula] = {}
    for formula in formulas:
        columns = frozenset(names[index] for index in formula.columns)
        # The time between two timestamps is a number of the model, but no column.
        plain = all(name in schema.names and schema[name].kind in (Kind.NUMBER, Kind.INTEGER) for name in columns)
        if plain and all(abs(power) == 1 or formula.factor is None for power in formula.weights):
            other = best.get(columns)
            if other is None or sum(np.sign(formula.weights)) > sum(np.sign(other.weights)):
                best[columns] = formula
    for columns, formula in best.items():
        target = names[formula.target]
        predicate = _equation(schema[target], formula, names)
        kind = "sum" if formula.factor is None else "product"
        candidate = Candidate(_rule(f"{kind}({target})", predicate), schema, 1.0)
        cells = {name: rows[name] for name in columns}
        moved = {**cells, target: cells[target][np.roll(np.arange(len(cells[target])), len(cells[target]) // 2)]}
        support, broken = candidate.count(moved)  # with values of other rows: the columns are independent
        if broken:
            yield replace(candidate, chance=broken / (support + 1))


def _equation(target: Column, formula: Formula, names: Sequence[str]) -> Predicate:
    """Return a formula as a condition: exact for integers, else up to the resolution of the column or to rounding."""
    value = _sum_term(formula, names) if formula.factor is None else _product_term(formula, names)
    whole = all(float(weight).is_integer() for weight in (*formula.weights, formula.constant))
    if target.kind.integral and formula.factor is None and whole:
        return Comparison("=", col(target.name), value)
    largest = max(abs(float(target.minimum or 0)), abs(float(target.maximum or 0)))
    rounding = HALF_STEP * float(target.step or 0)
    tolerance = float(f"{max(rounding, SUM_TOLERANCE * largest):.3g}")
    return abs(col(target.name) - value) <= tolerance


def _sum_term(formula: Formula, names: Sequence[str]) -> Term:
    """Return the right side of a sum, positive terms first."""
    pairs = sorted(zip(formula.sources, formula.weights, strict=True), key=lambda pair: -math.copysign(1, pair[1]))
    terms = [(weight, col(names[source])) for source, weight in pairs]
    first, rest = terms[0], terms[1:]
    total: Term = _scaled(*first)
    for weight, column in rest:
        total = total + _scaled(weight, column) if weight > 0 else total - _scaled(-weight, column)
    return total + _number(formula.constant) if formula.constant else total


def _product_term(formula: Formula, names: Sequence[str]) -> Term:
    pairs = sorted(zip(formula.sources, formula.weights, strict=True), key=lambda pair: -pair[1])
    product: Term = Literal(_number(formula.factor or 1.0))
    for source, power in pairs:
        product = product * col(names[source]) if power > 0 else product / col(names[source])
    return product


def _scaled(weight: float, column: Term) -> Term:
    return column if weight == 1 else Literal(_number(weight)) * column


def _number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)
