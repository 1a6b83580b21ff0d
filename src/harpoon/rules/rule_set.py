"""Rules: named conditions that rows should obey, with the meaning of CHECK constraints in SQL.

A row breaks a rule where the rule is false. A rule that is unknown, because a cell that it needs is missing, is not
broken; a row satisfies a condition (`where=`) only where it is true.

    >>> rules = RuleSet.of(["age >= 18", "if job = 'chef' then hours < 60"])
    >>> [rule.name for rule in rules]
    ['age >= 18', "if job = 'chef' then hours < 60"]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import closest_matches, format_list
from harpoon._utils import cards
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import BoundPredicate, all_of, assume_complete, complement, negate
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.language.expressions import IsNull, Predicate, column_names, conjunction, disjunction
from harpoon.conditions.language.functions import col
from harpoon.conditions.language.parser import parse, to_predicate
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.data import Columns, Mask, Schema, n_rows
from harpoon.data.bins import SUPPRESSED
from harpoon.exceptions import BrokenRuleWarning, InfeasibleCondition, InvalidCondition, InvalidOption, warn

NO_RULES = "The model carries no rules, so nothing was checked."
GIVE_RULES = (
    "Give it some: `model.with_rules(model.rules())` takes those that it found, and `with_rules` also your own."
)
MAX_RULES = 10_000
RULE_FIGURES = ("rows", "exceptions")  # columns of a card


@dataclass(frozen=True)
class Rule:
    """A named condition.

    Attributes:
        name: Its name, by which it is accepted, left out and reported.
        predicate: The condition.
        source: Where it comes from: "" if it was written, "discovered", or the name of a format.
        support: Of a discovered rule: in how many training rows it could have been broken; else None.
        exceptions: Of a discovered rule: how many of them break it; from 1 to 4 are stored as 4.
    """

    name: str
    predicate: Predicate
    source: str = ""
    support: int | None = None
    exceptions: int = 0

    @property
    def text(self) -> str:
        """The condition in SQL."""
        return str(self.predicate)

    @property
    def is_written(self) -> bool:
        """Whether the name is the condition as it was written."""
        try:
            return self.name == self.text or (not self.source and parse(self.name) == self.predicate)
        except InvalidCondition:
            return False

    def __str__(self) -> str:
        named = self.name if self.is_written else f"{self.name}: {self.text}"
        if self.support is None:
            return named
        rows, exceptions = self._evidence()
        counted = f"{exceptions} exceptions" if self.exceptions else "no exception"
        return f"{named} ({counted} in {rows} rows)"

    def _evidence(self) -> tuple[str, str]:
        """Return the support and the number of exceptions of a discovered rule as text; empty texts of another."""
        if self.support is None:
            return "", ""
        at_most = "at most " if self.exceptions == SUPPRESSED else ""
        return f"{self.support:,}", f"{at_most}{self.exceptions}" if self.exceptions else "none"

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        data: dict[str, Any] = {"name": self.name, "text": self.text}
        data |= {"source": self.source} if self.source else {}
        return data if self.support is None else {**data, "support": self.support, "exceptions": self.exceptions}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Restore a rule from `to_json`; raise one of the errors of damaged content."""
        name, text, source = data["name"], data["text"], data.get("source", "")
        support, exceptions = data.get("support"), data.get("exceptions", 0)
        if not all(isinstance(value, str) for value in (name, text, source)):
            raise TypeError("the name and the text of a rule must be text")
        if not isinstance(support, int | None) or not isinstance(exceptions, int):
            raise TypeError("the support of a rule must be a number of rows")
        return cls(name, parse(text), source, support, exceptions)


@dataclass(frozen=True)
class RuleSet(cards.Displayed, Sequence[Rule]):
    """Rules in order, each with a name of its own."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, given: object, names: Collection[str] = ()) -> RuleSet:
        """Return the rules that a user gave: a condition, a rule, a list of these, or a mapping of names to these.

        Conditions are named as they are written; equal rules are kept once. `names` are the columns of the table.
        """
        found: dict[str, Rule] = {}
        for rule in _read(given, names):
            other = found.setdefault(rule.name, rule)
            if other.predicate != rule.predicate:
                raise InvalidCondition(f"Two rules have the name {rule.name!r}: {other.text}, and {rule.text}.")
        if len(found) > MAX_RULES:
            raise InvalidCondition(f"There may be at most {MAX_RULES:,} rules, got {len(found):,}.")
        return cls(tuple(found.values()))

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        return RuleSet(self.rules[index]) if isinstance(index, slice) else self.rules[index]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    def _card(self) -> cards.Html:
        rows = [(rule.name, cards.code(rule.text), *rule._evidence()) for rule in self.rules]
        title = f"{len(self)} {'rule' if len(self) == 1 else 'rules'}"
        return cards.card(
            title,
            cards.table(["rule", "condition", "rows", "exceptions"], rows, figures=RULE_FIGURES, what="rules"),
        )

    @property
    def names(self) -> list[str]:
        """The names of the rules."""
        return [rule.name for rule in self.rules]

    @property
    def predicate(self) -> Predicate | None:
        """All rules as one condition; None without any."""
        return conjunction(rule.predicate for rule in self.rules) if self.rules else None

    def select(self, *names: str, where: Callable[[Rule], bool] = lambda _rule: True) -> RuleSet:
        """Return the rules with these names, or all; of these, those for which `where` is true.

        `rules.select("range(age)", "order(start, end)")` and
        `rules.select(where=lambda rule: not rule.exceptions)` are examples.
        """
        for name in names:
            if name not in self.names:
                near = closest_matches(name, self.names)
                hint = f"Did you mean {near[0]!r}?" if near else f"There are {format_list(self.names)}."
                raise InvalidOption(f"There is no rule {name!r}. {hint}")
        return RuleSet(tuple(rule for rule in self.rules if (not names or rule.name in names) and where(rule)))

    def bind(self, schema: Schema) -> BoundRules:
        """Bind the rules to a schema; raise `InvalidCondition` that names the rule at fault."""
        predicates = []
        for rule in self.rules:
            try:
                predicates.append(bind(rule.predicate, schema))
            except InvalidCondition as error:
                named = "" if rule.name == rule.text else f" {rule.name!r}"
                raise InvalidCondition(f"The rule{named} cannot be used. {error}") from None
        return BoundRules(self, schema, tuple(predicates))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rules as plain data."""
        return [rule.to_json() for rule in self.rules]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]], schema: Schema) -> RuleSet:
        """Restore rules from `to_json`; raise one of the errors of damaged content."""
        if not isinstance(data, list):
            raise TypeError("rules must be a list")
        rules = cls.of([Rule.from_json(each) for each in data])
        rules.bind(schema)
        return rules


@dataclass(frozen=True)
class BoundRules:
    """Rules that are bound to a schema."""

    rules: RuleSet
    schema: Schema
    predicates: tuple[BoundPredicate, ...]

    def __bool__(self) -> bool:
        return bool(self.predicates)

    @cached_property
    def columns(self) -> set[str]:
        """The columns that the rules use."""
        return set().union(*(column_names(rule.predicate) for rule in self.rules))

    def accepted(self, nullable: Collection[str] = ()) -> tuple[BoundPredicate, ...]:
        """Return of each rule the condition of the rows that do not break it.

        That is the rule itself, or, of columns that may have missing cells, that a missing cell leaves it unknown.
        """
        return tuple(
            assume_complete(complement(negate(predicate), nullable), nullable) for predicate in self.predicates
        )

    def broken(self, rows: Columns, *, partial: bool = False) -> Mask:
        """Return which rows break which rule, (n, rules); of `partial` rows, for any values of their unknown cells."""
        found = [evaluate(negate(predicate), rows, partial=partial) for predicate in self.predicates]
        return np.stack(found, axis=1) if found else np.zeros((n_rows(rows), 0), dtype=np.bool_)

    def condition(self, nullable: Collection[str] = ()) -> Predicate | None:
        """Return the rules as a condition that is true, not only unknown, in every row that obeys them."""
        members = []
        for rule in self.rules:
            missing = [IsNull(col(name)) for name in sorted(column_names(rule.predicate) & set(nullable))]
            members.append(disjunction((rule.predicate, *missing)))
        return conjunction(members) if members else None

    def check_consistent(self, nullable: Collection[str]) -> None:
        """Raise InfeasibleCondition if no row obeys all rules; it names the smallest set that excludes itself.

        Warn of a column that can only be missing then, because a missing cell breaks no rule.
        """
        condition = self.condition(nullable)
        why = "" if condition is None else explain_contradiction(condition, self.schema, nullable=nullable)
        if why:
            raise InfeasibleCondition(f"No row obeys all rules: {why}. Leave one of them out.")
        for name in sorted(self.columns & set(nullable) - self._null_columns):
            others = set(nullable) - {name}
            condition = cast("Predicate", self.condition(others))
            why = explain_contradiction(condition, self.schema, nullable=others)
            if why:
                message = f"The rules leave no value to column {name!r}: {why}. A missing cell breaks no rule, so that"
                warn(BrokenRuleWarning(f"{message} all sampled cells of {name!r} will be missing. Leave a rule out."))

    @cached_property
    def _null_columns(self) -> set[str]:
        """The columns that a rule allows or requires to be missing, by name."""
        nodes = (node for rule in self.rules for node in rule.predicate.walk())
        return {name for node in nodes if isinstance(node, IsNull) for name in column_names(node)}

    def accept(self, wanted: Mask, nullable: Collection[str]) -> BoundPredicate:
        """Return the condition of the rows that do not break any of some rules, (rules,)."""
        return all_of(part for part, is_wanted in zip(self.accepted(nullable), wanted, strict=True) if is_wanted)


@dataclass(frozen=True)
class RuleCheck(cards.Displayed):
    """Which rows of a table break which rule.

    Attributes:
        rules: The rules.
        broken: Which rows break which rule, (rows, rules).
        row_offset: The number of the first row.
        table: One line for each row and rule that it breaks: `row` and `rule`, in the dataframe library of the rows.
    """

    rules: RuleSet
    broken: Mask = field(repr=False)
    row_offset: int = 0
    table: Any = field(default=None, repr=False, compare=False)

    @property
    def n_rows(self) -> int:
        """The number of rows that were checked."""
        return len(self.broken)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The numbers of the rows that break a rule, (k,), counted from 0."""
        return np.flatnonzero(self.broken.any(axis=1)) + self.row_offset

    @property
    def counts(self) -> dict[str, int]:
        """How many rows break each rule."""
        return dict(zip(self.rules.names, self.broken.sum(axis=0).tolist(), strict=True))

    @property
    def ok(self) -> bool:
        """Whether no row breaks a rule."""
        return not self.broken.any()

    def pairs(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the number of each row that breaks a rule, and the name of the rule; row after row."""
        rows, rules = np.nonzero(self.broken)
        return rows + self.row_offset, [self.rules.names[rule] for rule in rules]

    def with_table(self, table: object) -> RuleCheck:
        """Return the check with its lines as a dataframe."""
        return replace(self, table=table)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        rules = [{**rule.to_json(), "broken": self.counts[rule.name]} for rule in self.rules]
        return {"rows": self.n_rows, "broken_rows": len(self.rows), "ok": self.ok, "rules": rules}

    def __str__(self) -> str:
        if self.ok:
            return self._verdict
        lines = [self._verdict]
        for rule, column in zip(self.rules, self.broken.T, strict=True):
            rows = np.flatnonzero(column)
            if len(rows):
                lines.append(f"  {rule.name}: {describe_rows((rows + self.row_offset).tolist())}")
        return "\n".join(lines)

    @property
    def _verdict(self) -> str:
        if not self.rules:
            return f"{NO_RULES} {GIVE_RULES}"
        if not self.ok:
            return f"{len(self.rows):,} of {self.n_rows:,} rows {'breaks' if len(self.rows) == 1 else 'break'} a rule."
        rules = "the rule" if len(self.rules) == 1 else f"the {len(self.rules)} rules"
        return f"The row obeys {rules}." if self.n_rows == 1 else f"All {self.n_rows:,} rows obey {rules}."

    def _card(self) -> cards.Html:
        if not self.rules:
            return cards.card(NO_RULES, cards.paragraph(GIVE_RULES))
        offset = self.row_offset
        first = (describe_rows((np.flatnonzero(column) + offset).tolist()) for column in self.broken.T)
        found = zip(self.rules, self.counts.values(), first, strict=True)
        rows = [(rule.name, f"{count:,}", text if count else "") for rule, count, text in found]
        head = ["rule", "broken", "where"]
        return cards.card(
            self._verdict,
            cards.table(head, sorted(rows, key=lambda row: not row[2]), figures=["broken"], what="rules"),
            badge="" if self.ok else "broken",
        )


def describe_rows(rows: Sequence[int]) -> str:
    """Return row numbers in words.

    >>> describe_rows([3]), describe_rows([0, 2, 7, 8, 9, 11])
    ('row 3', 'rows 0, 2, 7, 8, 9 and 1 more')
    """
    return f"{'row' if len(rows) == 1 else 'rows'} {format_list(rows)}"


def _read(given: object, names: Collection[str]) -> Iterator[Rule]:
    """Yield the rules that a user gave."""
    if isinstance(given, Rule):
        yield given
    elif isinstance(given, Mapping):
        for name, each in given.items():
            if not isinstance(name, str) or not name:
                raise InvalidCondition(f"The name of a rule must be text, got {name!r}.")
            yield replace(each, name=name) if isinstance(each, Rule) else Rule(name, to_predicate(each, names))
    elif isinstance(given, str | Predicate) or not isinstance(given, Iterable):
        predicate = to_predicate(given, names)
        yield Rule(" ".join(given.split()) if isinstance(given, str) else str(predicate), predicate)
    else:
        for each in given:
            yield from _read(each, names)
