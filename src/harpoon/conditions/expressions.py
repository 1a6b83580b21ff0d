"""Expression tree of conditions, and the operators that build it.

    >>> from harpoon import col
    >>> adults = (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> adults
    (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> print(adults)
    age >= 50 and workclass in ('State-gov', 'Local-gov')

Trees are immutable and independent of any table; `harpoon.conditions.binder.bind` checks them against a schema. `repr`
is Python, and `str` is SQL that `harpoon.conditions.parser.parse` turns back into an equal tree. On a term, such as
`col("age") + 1`, `==` builds a comparison, so terms are compared by their `key`. Predicates are compared with `==`.

Where SQL engines differ, DuckDB is followed: `/` is never integer division, `like` is case-sensitive (`ilike` is not),
and `least` and `greatest` ignore missing cells. `log` is to base 10, as in SQLite, DuckDB and PostgreSQL.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, NoReturn

from harpoon.conditions.sql import quote_name, text_literal
from harpoon.exceptions import InvalidCondition

Scalar = bool | int | float | str | dt.date | dt.datetime | dt.timedelta


MAX_DEPTH = 100  # levels; functions of a tree are recursive, and Python allows 1000 nested calls
SWAPPED_OPERATOR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
FUNCTIONS = ("abs", "least", "greatest", "log", "ln", "exp")
METHOD_NAMES = {"log": "log10", "ln": "ln", "exp": "exp"}  # functions that are methods of a term in Python
INTERVALS = {
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
    "second": dt.timedelta(seconds=1),
    "millisecond": dt.timedelta(milliseconds=1),
    "microsecond": dt.timedelta(microseconds=1),
}


class Node:
    """Base of terms and predicates: a bounded depth, a key, and no truth value."""

    __array_ufunc__ = None  # NumPy scalars defer to our operators

    def __post_init__(self) -> None:
        if self.depth > MAX_DEPTH:
            raise InvalidCondition(
                f"A condition may be nested at most {MAX_DEPTH} levels deep, got {self.depth}. Split it, or list "
                "values with .is_in([...])."
            )

    def children(self) -> Iterator[Node]:
        """Yield the child nodes."""
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            yield from (v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Node))

    @cached_property
    def depth(self) -> int:
        """The number of levels of the tree."""
        return 1 + max((part.depth for part in self.children()), default=0)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The tree as nested tuples, equal for equal trees; 1, 1.0 and True differ."""
        return (type(self).__name__, *(_key(getattr(self, f.name)) for f in fields(self)))  # type: ignore[arg-type]

    def __bool__(self) -> NoReturn:
        raise InvalidCondition(
            f"{self!r} is an expression, neither true nor false, so it cannot be used with `and`, `or`, `not`, `in` or "
            "in a chained comparison. Write (a) & (b) for and, (a) | (b) for or, ~(a) for "
            'not, col("x").is_in([...]) for in, and col("x").between(low, high) or (low <= col("x")) & '
            '(col("x") < high) for a chain.'
        )

    def __contains__(self, item: object) -> NoReturn:
        raise InvalidCondition(
            f"`in` cannot be used with {self!r}. Write col(...).is_in([...]) to test for one of a list."
        )

    def __and__(self, other: object) -> And:
        return And((as_predicate(self), as_predicate(other)))

    def __rand__(self, other: object) -> And:
        return And((as_predicate(other), as_predicate(self)))

    def __or__(self, other: object) -> Or:
        return Or((as_predicate(self), as_predicate(other)))

    def __ror__(self, other: object) -> Or:
        return Or((as_predicate(other), as_predicate(self)))

    def __invert__(self) -> Not:
        return Not(as_predicate(self))


class Term(Node):
    """An expression with a value in each row. Comparing it builds a predicate."""

    precedence: ClassVar[int] = 4  # of operators: 1 sums, 2 products, 3 signs, 4 everything else

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("=", self, as_term(other))

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("!=", self, as_term(other))

    def __lt__(self, other: object) -> Comparison:
        return Comparison("<", self, as_term(other))

    def __le__(self, other: object) -> Comparison:
        return Comparison("<=", self, as_term(other))

    def __gt__(self, other: object) -> Comparison:
        return Comparison(">", self, as_term(other))

    def __ge__(self, other: object) -> Comparison:
        return Comparison(">=", self, as_term(other))

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: object) -> Arithmetic:
        return Arithmetic("+", self, as_term(other))

    def __radd__(self, other: object) -> Arithmetic:
        return Arithmetic("+", as_term(other), self)

    def __sub__(self, other: object) -> Arithmetic:
        return Arithmetic("-", self, as_term(other))

    def __rsub__(self, other: object) -> Arithmetic:
        return Arithmetic("-", as_term(other), self)

    def __mul__(self, other: object) -> Arithmetic:
        return Arithmetic("*", self, as_term(other))

    def __rmul__(self, other: object) -> Arithmetic:
        return Arithmetic("*", as_term(other), self)

    def __truediv__(self, other: object) -> Arithmetic:
        return Arithmetic("/", self, as_term(other))

    def __rtruediv__(self, other: object) -> Arithmetic:
        return Arithmetic("/", as_term(other), self)

    def __neg__(self) -> Negative:
        return Negative(self)

    def __abs__(self) -> Call:
        return Call("abs", (self,))

    def abs(self) -> Call:
        """Return the absolute value."""
        return Call("abs", (self,))

    def log10(self) -> Call:
        """Return the logarithm to base 10, `log` in SQL."""
        return Call("log", (self,))

    def ln(self) -> Call:
        """Return the natural logarithm."""
        return Call("ln", (self,))

    def exp(self) -> Call:
        """Return the exponential."""
        return Call("exp", (self,))

    def between(self, low: object, high: object) -> Between:
        """Test for `low <= value <= high`."""
        return Between(self, as_term(low), as_term(high))

    def is_in(self, options: Iterable[object]) -> In:
        """Test for one of a list of values."""
        if isinstance(options, str | bytes | Node) or not isinstance(options, Iterable):
            raise InvalidCondition(f"is_in takes a list of values, got {options!r}. Write .is_in([...]).")
        return In(self, tuple(Literal.of(option) for option in options))

    def like(self, pattern: str) -> Like:
        """Test for a pattern, in which % is any text and _ is any character."""
        return Like(self, pattern)

    def ilike(self, pattern: str) -> Like:
        """Test for a pattern, ignoring case."""
        return Like(self, pattern, ignore_case=True)

    def is_null(self) -> IsNull:
        """Test for a missing value."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """Test for a value that is not missing."""
        return Not(IsNull(self))


class Predicate(Node):
    """An expression that is true, false or unknown in each row."""

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


class InfixPredicate(Predicate, ABC):
    """A predicate that is negated inside in SQL (`x not in ...`) and is a method call in Python."""

    @abstractmethod
    def infix(self, negation: str = "") -> str:
        """Return the predicate in SQL; `negation` is "" or "not "."""

    def __str__(self) -> str:
        return self.infix()


@dataclass(frozen=True, eq=False, repr=False)
class ColumnName(Term):
    """The value of a named column."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidCondition(f'col takes a column name as text, such as col("age"), got {self.name!r}.')

    def __str__(self) -> str:
        return quote_name(self.name)

    def __repr__(self) -> str:
        return f"col({_python_text(self.name)})"


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Term):
    """A constant; `Literal.of` also takes scalars of NumPy and pandas."""

    value: Scalar

    def __post_init__(self) -> None:
        if isinstance(self.value, int | float) and not abs(self.value) <= sys.float_info.max:
            raise InvalidCondition("A number in a condition must be finite and its magnitude below 1.8e308.")

    @classmethod
    def of(cls, given: object) -> Literal:
        """Convert a scalar; NumPy and pandas scalars become Python's, a time zone becomes its offset from UTC."""
        plain = _to_python(given)
        if plain is None or (isinstance(plain, float) and math.isnan(plain)):
            raise InvalidCondition(f"A missing value, {given!r}, cannot be compared. Write .is_null().")
        if not isinstance(plain, Scalar):
            raise InvalidCondition(
                "A value in a condition must be a number, text, a boolean, a date, a datetime or a timedelta, got "
                f"{given!r}."
            )
        return cls(plain)

    def __str__(self) -> str:
        given = self.value
        if isinstance(given, dt.datetime):
            return f"{'timestamp' if given.tzinfo is None else 'timestamptz'} '{given.isoformat(' ')}'"
        if isinstance(given, dt.date):
            return f"date '{given.isoformat()}'"
        if isinstance(given, dt.timedelta):
            unit, size = next((u, size) for u, size in INTERVALS.items() if not given % size)
            return f"interval '{given // size}' {unit}"
        return text_literal(given) if isinstance(given, str) else repr(given).lower()

    def __repr__(self) -> str:
        return f"lit({_python_text(self.value)})"


@dataclass(frozen=True, eq=False, repr=False)
class Negative(Term):
    """The negative of a term; a negative number is a literal instead."""

    operand: Term
    precedence: ClassVar[int] = 3

    def __str__(self) -> str:
        unambiguous = isinstance(self.operand, ColumnName | Call)  # -(3) is not the number -3, and --x is a comment
        return f"-{self.operand}" if unambiguous else f"-({self.operand})"

    def __repr__(self) -> str:
        return f"-{_parenthesize(self.operand, 3, repr)}"


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Term):
    """Two terms joined by +, -, * or /."""

    operator: str
    left: Term
    right: Term

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Higher for products than for sums."""
        return 1 if self.operator in "+-" else 2

    def __str__(self) -> str:
        left = _parenthesize(self.left, self.precedence, str)
        return f"{left} {self.operator} {_parenthesize(self.right, self.precedence + 1, str)}"

    def __repr__(self) -> str:
        # Python would evaluate an operation of two bare numbers, so one of them is wrapped in lit().
        left = _parenthesize(self.left, self.precedence, repr if isinstance(self.right, Literal) else _python_text)
        return f"{left} {self.operator} {_parenthesize(self.right, self.precedence + 1, _python_text)}"


@dataclass(frozen=True, eq=False, repr=False)
class Call(Term):
    """A function of terms: abs, least, greatest, log, ln or exp."""

    function: str
    arguments: tuple[Term, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        variadic = self.function in ("least", "greatest")
        if self.function not in FUNCTIONS or not self.arguments or (len(self.arguments) > 1 and not variadic):
            raise InvalidCondition(
                f"{self} is not supported. The functions are {', '.join(FUNCTIONS)}; only least and greatest take "
                "several arguments."
            )

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"

    def __repr__(self) -> str:
        first = self.arguments[0]
        if self.function in METHOD_NAMES:
            return f"{_parenthesize(first, 4, repr)}.{METHOD_NAMES[self.function]}()"
        shown = [repr(first)] if self.function == "abs" else map(_python_text, self.arguments)
        return f"{self.function}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Predicate):
    """Two terms compared with =, !=, <, <=, > or >=. A literal is moved to the right side."""

    operator: str
    left: Term
    right: Term

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.left, Literal) and not isinstance(self.right, Literal):  # 10 <= age is age >= 10
            left, right = self.left, self.right
            object.__setattr__(self, "operator", SWAPPED_OPERATOR[self.operator])
            object.__setattr__(self, "left", right)
            object.__setattr__(self, "right", left)

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    def __repr__(self) -> str:
        operator = "==" if self.operator == "=" else self.operator
        return f"{self.left!r} {operator} {_python_text(self.right)}"


@dataclass(frozen=True, eq=False, repr=False)
class Between(InfixPredicate):
    """A term between two others, both ends included."""

    operand: Term
    low: Term
    high: Term

    def infix(self, negation: str = "") -> str:
        """Return the predicate in SQL; `negation` is "" or "not "."""
        return f"{self.operand} {negation}between {self.low} and {self.high}"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.between({_python_text(self.low)}, {_python_text(self.high)})"


@dataclass(frozen=True, eq=False, repr=False)
class In(InfixPredicate):
    """A term that equals one of a list of literals."""

    operand: Term
    options: tuple[Literal, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.options:
            raise InvalidCondition(f"The list of values for {self.operand} is empty. Give at least one.")

    def infix(self, negation: str = "") -> str:
        """Return the predicate in SQL; `negation` is "" or "not "."""
        return f"{self.operand} {negation}in ({', '.join(map(str, self.options))})"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.is_in([{', '.join(map(_python_text, self.options))}])"


@dataclass(frozen=True, eq=False, repr=False)
class Like(InfixPredicate):
    """A text that matches a pattern."""

    operand: Term
    pattern: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pattern, str):
            raise InvalidCondition(f"like takes a pattern as text, for example 'State%', got {self.pattern!r}.")

    def infix(self, negation: str = "") -> str:
        """Return the predicate in SQL; `negation` is "" or "not "."""
        return f"{self.operand} {negation}{'ilike' if self.ignore_case else 'like'} {text_literal(self.pattern)}"

    def __repr__(self) -> str:
        method = "ilike" if self.ignore_case else "like"
        return f"{_parenthesize(self.operand, 4, repr)}.{method}({_python_text(self.pattern)})"


@dataclass(frozen=True, eq=False, repr=False)
class IsNull(InfixPredicate):
    """A term that is missing."""

    operand: Term

    def infix(self, negation: str = "") -> str:
        """Return the predicate in SQL; `negation` is "" or "not "."""
        return f"{self.operand} is {negation}null"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.is_null()"


@dataclass(frozen=True, eq=False, repr=False)
class _Junction(Predicate):
    """Predicates joined by one operator; nested junctions of the same operator are flattened."""

    members: tuple[Predicate, ...]
    operators: ClassVar[tuple[str, str]]  # in SQL and in Python

    def __post_init__(self) -> None:
        flat = tuple(m for part in self.members for m in (part.members if isinstance(part, type(self)) else (part,)))
        if len(flat) < 2:  # noqa: PLR2004
            raise InvalidCondition(f"`{self.operators[0]}` joins at least two conditions, got {len(flat)}.")
        object.__setattr__(self, "members", flat)
        super().__post_init__()

    def __str__(self) -> str:
        return f" {self.operators[0]} ".join(f"({m})" if isinstance(m, _Junction) else str(m) for m in self.members)

    def __repr__(self) -> str:
        return f" {self.operators[1]} ".join(
            repr(m) if isinstance(m, InfixPredicate | Not) else f"({m!r})" for m in self.members
        )


class And(_Junction):
    """A conjunction."""

    operators = ("and", "&")


class Or(_Junction):
    """A disjunction."""

    operators = ("or", "|")


@dataclass(frozen=True, eq=False, repr=False)
class Not(Predicate):
    """The negation of a predicate; unknown where the predicate is unknown."""

    operand: Predicate

    def __str__(self) -> str:
        return self.operand.infix("not ") if isinstance(self.operand, InfixPredicate) else f"not ({self.operand})"

    def __repr__(self) -> str:
        return f"~{self.operand!r}" if isinstance(self.operand, InfixPredicate | Not) else f"~({self.operand!r})"


def col(name: str) -> ColumnName:
    """Refer to a column by name, to build a condition.

    >>> print((col("price") / col("carat") <= 4000) & ~col("cut").like("Very%"))
    price / carat <= 4000 and cut not like 'Very%'
    """
    return ColumnName(name)


def lit(value: object) -> Literal:
    """Make an expression of a constant. Only needed in an expression without columns: `lit(2) * 3`."""
    return Literal.of(value)


def least(*values: object) -> Call:
    """Return the smallest of several values, ignoring missing ones.

    >>> least(col("a"), col("b"), 10) > 3
    least(col("a"), col("b"), 10) > 3
    """
    return Call("least", tuple(map(as_term, values)))


def greatest(*values: object) -> Call:
    """Return the largest of several values, ignoring missing ones."""
    return Call("greatest", tuple(map(as_term, values)))


def as_term(given: object) -> Term:
    """Convert an operand to a term."""
    if isinstance(given, Predicate):
        raise InvalidCondition(
            f"{given!r} is a condition and cannot be compared or added. Combine conditions with & or |."
        )
    return given if isinstance(given, Term) else Literal.of(given)


def as_predicate(given: object) -> Predicate:
    """Convert an operand to a predicate; a column alone means `column = true`."""
    if isinstance(given, Predicate):
        return given
    if isinstance(given, ColumnName) or (isinstance(given, Literal) and isinstance(given.value, bool)):
        return Comparison("=", given, Literal(value=True))
    raise InvalidCondition(
        f"{given!r} is not a condition. &, | and ~ take conditions and bind tighter than comparisons, so put each "
        'comparison in parentheses: (col("age") >= 50) & (col("hours") < 40).'
    )


def _parenthesize(operand: Term, precedence: int, formatter: Any) -> str:  # noqa: ANN401
    """Format an operand, in parentheses if its precedence is below that of its context."""
    # An interval needs them too: sqlglot would read a term added to it as part of the interval.
    interval = formatter is str and isinstance(operand, Literal) and isinstance(operand.value, dt.timedelta)
    return f"({formatter(operand)})" if operand.precedence < precedence or interval else str(formatter(operand))


def _python_text(given: object) -> str:
    """Format an operand in Python; a literal without lit()."""
    plain = given.value if isinstance(given, Literal) else given
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, str) else repr(plain)


def _to_python(given: Any) -> Any:  # noqa: ANN401
    """Convert a scalar of NumPy or pandas to Python's without importing either; None if it is missing."""
    if isinstance(given, dt.datetime) and given != given:  # noqa: PLR0124  # pandas.NaT is a datetime
        return None
    if getattr(given, "ndim", 1) == 0 and given.dtype.kind in "mM":
        given = given.astype(f"{given.dtype.kind}8[us]")  # item() of nanoseconds is an integer
    if getattr(given, "ndim", 1) == 0:
        given = given.item()
    if hasattr(given, "to_pydatetime"):
        given = given.to_pydatetime()
    if hasattr(given, "to_pytimedelta"):
        given = given.to_pytimedelta()
    if not isinstance(given, dt.datetime):
        return given
    offset = given.utcoffset()
    return given.replace(tzinfo=None if offset is None else dt.timezone(offset), fold=0)


def _key(part: object) -> object:
    if isinstance(part, tuple):
        return tuple(map(_key, part))
    return part.key if isinstance(part, Node) else repr(part)


def column_names(node: Node) -> set[str]:
    """Return the names of the columns that an expression uses."""
    return {node.name} if isinstance(node, ColumnName) else set().union(*map(column_names, node.children()))
