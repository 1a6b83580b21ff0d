"""What all readers of rules share: what was translated and what was not, and conditions of common checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harpoon._formatting import shorten
from harpoon.conditions.language.expressions import (
    Comparison,
    In,
    Like,
    Literal,
    Not,
    Predicate,
    Term,
    as_term,
    conjunction,
)
from harpoon.conditions.language.functions import col
from harpoon.exceptions import InvalidCondition, RuleFileError
from harpoon.io import Location
from harpoon.rules.rule_set import MAX_RULES, Rule, RuleSet

SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")  # characters with a meaning in regular expressions
WILDCARDS = re.compile(r"[%_]")
MAX_SHOWN = 200
SEVERAL_ROWS = "it is a condition on several rows, or on another table"


@dataclass(frozen=True)
class Untranslated:
    """A part of a file that is not among the rules, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass
class Translation:
    """Collects rules and what cannot be one."""

    source: str
    rules: dict[str, Rule] = field(default_factory=dict)
    untranslated: list[Untranslated] = field(default_factory=list)

    def add(self, name: str, predicate: Predicate | None, why: str = "it has no condition on single rows") -> None:
        """Add a rule; None is listed as not translated."""
        if predicate is None:
            self.skip(name, why)
            return
        unique, number = name, 2
        while unique in self.rules and self.rules[unique].predicate != predicate:
            unique, number = f"{name} ({number})", number + 1
        self.rules[unique] = Rule(unique, predicate, self.source)
        if len(self.rules) > MAX_RULES:
            raise RuleFileError(f"A file may have at most {MAX_RULES:,} rules. Split it.")

    def skip(self, what: str, why: str) -> None:
        """List a part that is not translated."""
        reason = why.partition(". ")[0].rstrip(".")  # the rest of an error says what to do
        entry = Untranslated(shorten(str(what), shown=MAX_SHOWN), shorten(reason, shown=MAX_SHOWN))
        if entry not in self.untranslated:
            self.untranslated.append(entry)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """List a part whose translation fails."""
        try:
            yield
        except InvalidCondition as error:
            self.skip(what, str(error))

    @property
    def rule_set(self) -> RuleSet:
        """The rules."""
        return RuleSet.of(self.rules.values())


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """Return an object of a file; raise RuleFileError if it is none, or if a key is not text."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise RuleFileError(f"{what} must be an object with names, got {shorten(type(value).__name__)}.")
    return value


def sequence(value: object, what: str) -> list[Any]:
    """Return a list of a file; raise RuleFileError if it is none."""
    if not isinstance(value, list | tuple):
        raise RuleFileError(f"{what} must be a list, got {type(value).__name__}.")
    return list(value)


def text(value: object, what: str) -> str:
    """Return a text of a file; raise RuleFileError if it is none."""
    if not isinstance(value, str):
        raise RuleFileError(f"{what} must be text, got {type(value).__name__}.")
    return value


def literal(value: object) -> Literal:
    """Return a value of a file as a literal; raise InvalidCondition if it cannot be compared."""
    if isinstance(value, Mapping | list | tuple | set):
        raise InvalidCondition(f"a {type(value).__name__} cannot be compared with a cell")
    return Literal.of(value)


def compare(column: str, operator: str, value: object) -> Predicate:
    """Return a comparison of a column with a value of a file."""
    return Comparison(operator, col(column), literal(value))


def comparison(operator: str) -> Check:
    """Return the check that compares a column with a value of a file."""
    return lambda column, value: compare(column, operator, value)


def between(
    column: str, low: object, high: object, *, low_strict: bool = False, high_strict: bool = False
) -> Predicate:
    """Return the condition that a column lies between two ends; None: there is no such end."""
    parts = [] if low is None else [compare(column, ">" if low_strict else ">=", low)]
    parts += [] if high is None else [compare(column, "<" if high_strict else "<=", high)]
    if not parts:
        raise InvalidCondition("it has neither a lower nor an upper end")
    return conjunction(parts)


def one_of(column: str, values: object) -> Predicate:
    """Return the condition that a column has one of some values; a missing one among them changes nothing."""
    if not isinstance(values, list | tuple | set):
        raise InvalidCondition("its values must be a list")
    options = tuple(literal(value) for value in values if value is not None)
    return In(col(column), options)


def matches(column: str, pattern: object, *, starts: bool = False, ends: bool = False) -> Predicate:
    """Return a regular expression as a condition, if it is a literal text, or a choice of some.

    `starts` and `ends`: whether it must match from the start, and to the end of a text.

    >>> print(matches("job", "^chef"), matches("job", "^(chef|nurse)$"), sep="; ")
    job like 'chef%'; job in ('chef', 'nurse')
    """
    if not isinstance(pattern, str):
        raise InvalidCondition("a pattern must be text")
    starts, ends = starts or pattern.startswith("^"), ends or (pattern.endswith("$") and not pattern.endswith("\\$"))
    inner = pattern.removeprefix("^")
    inner = inner.removesuffix("$") if ends and inner.endswith("$") else inner
    inner = re.fullmatch(r"\((?:\?:)?([^()]*)\)", inner)[1] if re.fullmatch(r"\((?:\?:)?([^()]*)\)", inner) else inner  # type: ignore[index]
    choices = inner.split("|") if starts and ends else [inner]
    if any(SPECIAL.search(choice) for choice in choices):
        raise InvalidCondition("regular expressions have no counterpart in a condition, except for literal texts")
    if starts and ends:
        return one_of(column, choices)
    return like(column, f"{'' if starts else '%'}{inner}{'' if ends else '%'}", inner)


def like(column: str, pattern: str, content: str = "") -> Predicate:
    """Return a pattern of `like`; its `content` must not hold wildcards, which cannot be quoted."""
    if WILDCARDS.search(content):
        raise InvalidCondition("a pattern for a text with % or _ cannot be written with `like`")
    return Like(col(column), pattern)


def not_null(column: str) -> Predicate:
    """Return the condition that a column has a value."""
    return Not(col(column).is_null())


def total(columns: Iterable[str]) -> Term:
    """Return the sum of columns."""
    terms = [as_term(col(name)) for name in columns]
    result: Term = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def database_file(location: Location) -> Path:
    """Return the file of a database; raise RuleFileError if there is none."""
    path = location.path or Path()
    if not path.is_file():
        raise RuleFileError("there is no such file.")
    return path


Check = Callable[[str, Any], Predicate]  # (column, the value of the check) to a condition
BOUNDS: dict[str, Check] = {  # in JSON Schema and in Frictionless
    "minimum": comparison(">="),
    "maximum": comparison("<="),
    "exclusiveMinimum": comparison(">"),
    "exclusiveMaximum": comparison("<"),
}
