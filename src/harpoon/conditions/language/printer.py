"""Expressions as text: SQL, which the parser reads back, and Python, which builds an equal tree."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from typing import Any

from harpoon.conditions.language.expressions import (
    Arithmetic,
    Between,
    Call,
    Case,
    ColumnName,
    Comparison,
    In,
    InfixPredicate,
    IsNull,
    Junction,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Term,
)
from harpoon.conditions.language.scalars import INTERVALS, Scalar
from harpoon.conditions.language.sql_names import quote_name, text_literal
from harpoon.data.date_parts import PARTS

# Functions that are methods of a term in Python.
METHOD_NAMES = {"log": "log10", "ln": "ln", "exp": "exp", **{part: f"dt.{part}" for part in PARTS}}


def to_sql(node: Node, negation: str = "") -> str:  # noqa: PLR0911, PLR0912
    """Format a node in SQL; `negation` is "not " for the operand of a negation."""
    match node:
        case ColumnName(name):
            return quote_name(name)
        case Literal(value):
            return _sql_literal(value)
        case Negative(operand):
            unambiguous = isinstance(operand, ColumnName | Call)  # -(3) is not the number -3, and --x is a comment
            return f"-{operand}" if unambiguous else f"-({operand})"
        case Arithmetic(operator, left, right):
            precedence = _precedence(node)
            return f"{_parenthesize(left, precedence, str)} {operator} {_parenthesize(right, precedence + 1, str)}"
        case Call(function, arguments):
            return f"{function}({', '.join(map(str, arguments))})"
        case Case(conditions, results, otherwise):
            branches = zip(conditions, results, strict=True)
            text = " ".join(f"when {condition} then {_or_null(result)}" for condition, result in branches)
            return f"case {text}{'' if otherwise is None else f' else {otherwise}'} end"
        case Comparison(operator, left, right):
            return f"{left} {operator} {right}"
        case Between(operand, low, high):
            return f"{operand} {negation}between {low} and {high}"
        case In(operand, options):
            return f"{operand} {negation}in ({', '.join(map(str, options))})"
        case Like(operand, pattern, ignore_case):
            return f"{operand} {negation}{'ilike' if ignore_case else 'like'} {text_literal(pattern)}"
        case IsNull(operand):
            return f"{operand} is {negation}null"
        case Junction(members):
            return f" {node.operators[0]} ".join(f"({m})" if isinstance(m, Junction) else str(m) for m in members)
        case Not(operand):
            return to_sql(operand, "not ") if isinstance(operand, InfixPredicate) else f"not ({operand})"
    raise TypeError(f"{type(node).__name__} has no SQL text")


def _or_null(term: Term | None) -> str:
    return "null" if term is None else str(term)


def _sql_literal(value: Scalar) -> str:
    match value:
        case dt.datetime():
            return f"{'timestamp' if value.tzinfo is None else 'timestamptz'} '{value.isoformat(' ')}'"
        case dt.date():
            return f"date '{value.isoformat()}'"
        case dt.timedelta():
            unit, size = next((unit, size) for unit, size in INTERVALS.items() if not value % size)
            return f"interval '{value // size}' {unit}"
    return text_literal(value) if isinstance(value, str) else repr(value).lower()


def to_python(node: Node) -> str:  # noqa: PLR0911, PLR0912
    """Format a node in Python."""
    match node:
        case ColumnName(name):
            return f"col({_python_text(name)})"
        case Literal(value):
            return f"lit({_python_text(value)})"
        case Negative(negated):
            return f"-{_parenthesize(negated, 3, repr)}"
        case Arithmetic(operator, left, right):
            # Python would evaluate an operation of two bare numbers, so one of them is wrapped in lit().
            formatter = repr if isinstance(right, Literal) else _python_text
            precedence = _precedence(node)
            first = _parenthesize(left, precedence, formatter)
            return f"{first} {operator} {_parenthesize(right, precedence + 1, _python_text)}"
        case Call("abs", (argument,)):
            return f"abs({argument!r})"
        case Call("least" | "greatest" as function, arguments):
            return f"{function}({_python_list(arguments)})"
        case Call(function, (operand,)):
            call = f"{METHOD_NAMES[function]}()"
        case Case(conditions, results, otherwise):
            branches = zip(conditions, results, strict=True)
            pairs = [f"({condition!r}, {_python_text(result)})" for condition, result in branches]
            return f"case({', '.join([*pairs, f'otherwise={_python_text(otherwise)}'])})"
        case Comparison(operator, left, right):
            return f"{left!r} {'==' if operator == '=' else operator} {_python_text(right)}"
        case Junction(members):
            parts = (repr(m) if isinstance(m, InfixPredicate | Not) else f"({m!r})" for m in members)
            return f" {node.operators[1]} ".join(parts)
        case Not(predicate):
            return f"~{predicate!r}" if isinstance(predicate, InfixPredicate | Not) else f"~({predicate!r})"
        case Between(operand, low, high):
            call = f"between({_python_list((low, high))})"
        case In(operand, options):
            call = f"is_in([{_python_list(options)}])"
        case Like(operand, pattern, ignore_case):
            call = f"{'ilike' if ignore_case else 'like'}({_python_text(pattern)})"
        case IsNull(operand):
            call = "is_null()"
    return f"{_parenthesize(operand, 4, repr)}.{call}"


def _precedence(term: Term) -> int:
    """Return the precedence of an operator: 1 for sums, 2 for products, 3 for signs, 4 for everything else."""
    if isinstance(term, Arithmetic):
        return 1 if term.operator in "+-" else 2
    return 3 if isinstance(term, Negative) else 4


def _parenthesize(operand: Term, precedence: int, formatter: Callable[[Any], str]) -> str:
    """Format an operand, in parentheses if its precedence is below that of its context."""
    # An interval needs them too: sqlglot would read a term added to it as part of the interval.
    interval = formatter is str and isinstance(operand, Literal) and isinstance(operand.value, dt.timedelta)
    text = formatter(operand)
    return f"({text})" if _precedence(operand) < precedence or interval else text


def _python_text(given: object) -> str:
    """Format an operand in Python; a literal without lit()."""
    plain = given.value if isinstance(given, Literal) else given
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, str) else repr(plain)


def _python_list(operands: Iterable[Term]) -> str:
    return ", ".join(map(_python_text, operands))
