"""Conditions as immutable trees, and the operators that build them.

    >>> from harpoon import col
    >>> adults = (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> adults
    (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> print(adults)
    age >= 50 and workclass in ('State-gov', 'Local-gov')

A tree has two spellings: `repr` is Python, `str` is SQL that `harpoon.conditions.parser.parse` reads back as an equal tree. It
knows no table; `harpoon.conditions.binder.bind` holds it against one. Values (`col("age") + 1`) use `==` to build a comparison,
so they are compared by their `key`; predicates are compared with `==`, as anything else.

Three readings of SQL differ between engines, and DuckDB's is used for each: `/` is never whole-number division,
`like` minds upper and lower case (`ilike` does not), and `least` and `greatest` look past missing cells. `log` is to
base 10, as in SQLite, DuckDB and PostgreSQL.
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


MAX_DEPTH = 100  # levels; every walk over a tree is recursive, and Python allows 1000 calls
SWAPPED_OPERATOR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
FUNCTIONS = ("abs", "least", "greatest", "log", "ln", "exp")
METHOD_NAMES = {"log": "log10", "ln": "ln", "exp": "exp"}  # the functions that Python spells as methods
INTERVALS = {
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
    "second": dt.timedelta(seconds=1),
    "millisecond": dt.timedelta(milliseconds=1),
    "microsecond": dt.timedelta(microseconds=1),
}


class Node:
    """What values and predicates share: a depth that is bounded, a key, and no truth value."""

    __array_ufunc__ = None  # so that NumPy's scalars leave comparisons to us

    def __post_init__(self) -> None:
        if self.depth > MAX_DEPTH:
            raise InvalidCondition(
                f"A condition may be nested {MAX_DEPTH} levels deep, and this one is deeper. Split it, or list values "
                "with .is_in([...])."
            )

    def children(self) -> Iterator[Node]:
        """The nodes right below this one."""
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            yield from (v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Node))

    @cached_property
    def depth(self) -> int:
        """How many levels the tree has."""
        return 1 + max((part.depth for part in self.children()), default=0)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The tree as plain tuples, equal for equal trees; 1, 1.0 and True are told apart."""
        return (type(self).__name__, *(_key(getattr(self, f.name)) for f in fields(self)))  # type: ignore[arg-type]

    def __bool__(self) -> NoReturn:
        raise InvalidCondition(
            f"{self!r} is a condition on rows that are yet to come: it is neither true nor false, so `and`, `or`, "
            "`not`, `in` and chained comparisons cannot use it. Write (a) & (b) for and, (a) | (b) for or, ~(a) for "
            'not, col("x").is_in([...]) for in, and col("x").between(low, high) or (low <= col("x")) & '
            '(col("x") < high) for a chain.'
        )

    def __contains__(self, item: object) -> NoReturn:
        raise InvalidCondition(f"`in` cannot look into {self!r}. Write col(...).is_in([...]) to ask for one of a list.")

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
    """An expression with a value in every row. Comparing it builds a predicate."""

    precedence: ClassVar[int] = 4  # how tightly: 1 sums, 2 products, 3 signs, 4 all else

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
        """Its distance from zero."""
        return Call("abs", (self,))

    def log10(self) -> Call:
        """Its logarithm to base 10, which is `log` in SQL."""
        return Call("log", (self,))

    def ln(self) -> Call:
        """Its natural logarithm."""
        return Call("ln", (self,))

    def exp(self) -> Call:
        """The exponential function of it."""
        return Call("exp", (self,))

    def between(self, low: object, high: object) -> Between:
        """Whether it lies from `low` to `high`, both included."""
        return Between(self, as_term(low), as_term(high))

    def is_in(self, options: Iterable[object]) -> In:
        """Whether it is one of a list."""
        if isinstance(options, str | bytes | Node) or not isinstance(options, Iterable):
            raise InvalidCondition(f"is_in takes a list of plain values, got {options!r}. Write .is_in([...]).")
        return In(self, tuple(Literal.of(option) for option in options))

    def like(self, pattern: str) -> Like:
        """Whether it looks like a pattern, in which % is any text and _ is any letter."""
        return Like(self, pattern)

    def ilike(self, pattern: str) -> Like:
        """Whether it looks like a pattern, upper or lower case."""
        return Like(self, pattern, ignore_case=True)

    def is_null(self) -> IsNull:
        """Whether it is missing."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """Whether it is not missing."""
        return Not(IsNull(self))


class Predicate(Node):
    """An expression that is true, false or unknown in every row."""

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


class InfixPredicate(Predicate, ABC):
    """A predicate that SQL negates in the middle (`x not in ...`) and Python spells as a call."""

    @abstractmethod
    def infix(self, no: str = "") -> str:
        """The predicate in SQL, with `no` where its negation goes."""

    def __str__(self) -> str:
        return self.infix()


@dataclass(frozen=True, eq=False, repr=False)
class ColumnName(Term):
    """The cell of a named column."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidCondition(f'col takes the name of a column as text, such as col("age"), got {self.name!r}.')

    def __str__(self) -> str:
        return quote_name(self.name)

    def __repr__(self) -> str:
        return f"col({_python_text(self.name)})"


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Term):
    """A plain value; `Literal.of` makes one of anything that stands for a plain value."""

    value: Scalar

    def __post_init__(self) -> None:
        if isinstance(self.value, int | float) and not abs(self.value) <= sys.float_info.max:
            raise InvalidCondition("A number in a condition must be finite and below 1e308.")

    @classmethod
    def of(cls, given: object) -> Literal:
        """NumPy and pandas scalars become Python's, and a time zone its offset from UTC."""
        plain = _to_python(given)
        if plain is None or (isinstance(plain, float) and math.isnan(plain)):
            raise InvalidCondition(f"Nothing compares with a missing value, got {given!r}. Write .is_null().")
        if not isinstance(plain, Scalar):
            raise InvalidCondition(
                "A condition compares with numbers, text, true and false, dates, datetimes and timedeltas, got "
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
    """The negative of a value; a negative number is a literal."""

    operand: Term
    precedence: ClassVar[int] = 3

    def __str__(self) -> str:
        bare = isinstance(self.operand, ColumnName | Call)  # -(3) is not the number -3, and --x is a comment
        return f"-{self.operand}" if bare else f"-({self.operand})"

    def __repr__(self) -> str:
        return f"-{_parenthesize(self.operand, 3, repr)}"


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Term):
    """Two values joined by +, -, * or /."""

    operator: str
    left: Term
    right: Term

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Products bind tighter than sums."""
        return 1 if self.operator in "+-" else 2

    def __str__(self) -> str:
        return f"{_parenthesize(self.left, self.precedence, str)} {self.operator} {_parenthesize(self.right, self.precedence + 1, str)}"

    def __repr__(self) -> str:
        # Python would work out two plain numbers, so one of them is wrapped.
        left = _parenthesize(self.left, self.precedence, repr if isinstance(self.right, Literal) else _python_text)
        return f"{left} {self.operator} {_parenthesize(self.right, self.precedence + 1, _python_text)}"


@dataclass(frozen=True, eq=False, repr=False)
class Call(Term):
    """A function of values: abs, least, greatest, log, ln or exp."""

    function: str
    arguments: tuple[Term, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        many = self.function in ("least", "greatest")
        if self.function not in FUNCTIONS or not self.arguments or (len(self.arguments) > 1 and not many):
            raise InvalidCondition(f"{self} is no function of a condition; there are {', '.join(FUNCTIONS)}.")

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
    """Two values compared with =, !=, <, <=, > or >=. A literal stands on the right."""

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
    """A value from a low one to a high one, both included."""

    operand: Term
    low: Term
    high: Term

    def infix(self, no: str = "") -> str:
        """The predicate in SQL, with `no` where its negation goes."""
        return f"{self.operand} {no}between {self.low} and {self.high}"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.between({_python_text(self.low)}, {_python_text(self.high)})"


@dataclass(frozen=True, eq=False, repr=False)
class In(InfixPredicate):
    """A value that is one of a list of literals."""

    operand: Term
    options: tuple[Literal, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.options:
            raise InvalidCondition(f"The list of values that {self.operand} may have is empty. Give at least one.")

    def infix(self, no: str = "") -> str:
        """The predicate in SQL, with `no` where its negation goes."""
        return f"{self.operand} {no}in ({', '.join(map(str, self.options))})"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.is_in([{', '.join(map(_python_text, self.options))}])"


@dataclass(frozen=True, eq=False, repr=False)
class Like(InfixPredicate):
    """A text that looks like a pattern."""

    operand: Term
    pattern: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pattern, str):
            raise InvalidCondition(f"like takes a pattern as text, for example 'State%', got {self.pattern!r}.")

    def infix(self, no: str = "") -> str:
        """The predicate in SQL, with `no` where its negation goes."""
        return f"{self.operand} {no}{'ilike' if self.ignore_case else 'like'} {text_literal(self.pattern)}"

    def __repr__(self) -> str:
        method = "ilike" if self.ignore_case else "like"
        return f"{_parenthesize(self.operand, 4, repr)}.{method}({_python_text(self.pattern)})"


@dataclass(frozen=True, eq=False, repr=False)
class IsNull(InfixPredicate):
    """A value that is missing."""

    operand: Term

    def infix(self, no: str = "") -> str:
        """The predicate in SQL, with `no` where its negation goes."""
        return f"{self.operand} is {no}null"

    def __repr__(self) -> str:
        return f"{_parenthesize(self.operand, 4, repr)}.is_null()"


@dataclass(frozen=True, eq=False, repr=False)
class _Junction(Predicate):
    """Predicates joined by one word; those joined by the same word inside are taken in."""

    members: tuple[Predicate, ...]
    words: ClassVar[tuple[str, str]]

    def __post_init__(self) -> None:
        flat = tuple(m for part in self.members for m in (part.members if isinstance(part, type(self)) else (part,)))
        if len(flat) < 2:  # noqa: PLR2004
            raise InvalidCondition(f"`{self.words[0]}` joins at least two conditions, got {len(flat)}.")
        object.__setattr__(self, "members", flat)
        super().__post_init__()

    def __str__(self) -> str:
        return f" {self.words[0]} ".join(f"({m})" if isinstance(m, _Junction) else str(m) for m in self.members)

    def __repr__(self) -> str:
        return f" {self.words[1]} ".join(
            repr(m) if isinstance(m, InfixPredicate | Not) else f"({m!r})" for m in self.members
        )


class And(_Junction):
    """All of its members."""

    words = ("and", "&")


class Or(_Junction):
    """At least one of its members."""

    words = ("or", "|")


@dataclass(frozen=True, eq=False, repr=False)
class Not(Predicate):
    """The opposite of a predicate; unknown where that is unknown."""

    operand: Predicate

    def __str__(self) -> str:
        return self.operand.infix("not ") if isinstance(self.operand, InfixPredicate) else f"not ({self.operand})"

    def __repr__(self) -> str:
        return f"~{self.operand!r}" if isinstance(self.operand, InfixPredicate | Not) else f"~({self.operand!r})"


def col(name: str) -> ColumnName:
    """The column of that name, to start a condition with.

    >>> print((col("price") / col("carat") <= 4000) & ~col("cut").like("Very%"))
    price / carat <= 4000 and cut not like 'Very%'
    """
    return ColumnName(name)


def lit(plain: object) -> Literal:
    """A plain value as an expression. Only needed where no column is near: `lit(2) * 3`."""
    return Literal.of(plain)


def least(*values: object) -> Call:
    """The smallest of several values.

    >>> least(col("a"), col("b"), 10) > 3
    least(col("a"), col("b"), 10) > 3
    """
    return Call("least", tuple(map(as_term, values)))


def greatest(*values: object) -> Call:
    """The largest of several values."""
    return Call("greatest", tuple(map(as_term, values)))


def as_term(given: object) -> Term:
    """An operand: a value as it is, a plain one as a literal."""
    if isinstance(given, Predicate):
        raise InvalidCondition(
            f"{given!r} is a condition and cannot be compared or added. Join conditions with & or |."
        )
    return given if isinstance(given, Term) else Literal.of(given)


def as_predicate(given: object) -> Predicate:
    """A predicate as it is; a bare column means that it is true."""
    if isinstance(given, Predicate):
        return given
    if isinstance(given, ColumnName) or (isinstance(given, Literal) and isinstance(given.value, bool)):
        return Comparison("=", given, Literal(value=True))
    raise InvalidCondition(
        f"{given!r} is no condition: &, | and ~ join comparisons, and they bind tighter than those. Put each "
        'comparison in parentheses: (col("age") >= 50) & (col("hours") < 40).'
    )


def _parenthesize(operand: Term, precedence: int, spell: Any) -> str:  # noqa: ANN401
    """An operand, in parentheses if it precedence less tightly than what is around it."""
    # An interval goes in them too: sqlglot takes what is added to one for a further part of it.
    interval = spell is str and isinstance(operand, Literal) and isinstance(operand.value, dt.timedelta)
    return f"({spell(operand)})" if operand.precedence < precedence or interval else str(spell(operand))


def _python_text(given: object) -> str:
    """A value as it stands in Python beside an expression: a literal is just itself."""
    plain = given.value if isinstance(given, Literal) else given
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, str) else repr(plain)


def _to_python(given: Any) -> Any:  # noqa: ANN401
    """A scalar of NumPy or pandas as Python's own, without knowing either; None if it is a missing one."""
    if isinstance(given, dt.datetime) and given != given:  # noqa: PLR0124  # NaT is one, and answers nothing else
        return None
    if getattr(given, "ndim", 1) == 0 and given.dtype.kind in "mM":
        given = given.astype(f"{given.dtype.kind}8[us]")  # in nanoseconds, NumPy would give an integer
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
    """The columns that a condition names."""
    if isinstance(node, ColumnName):
        return {node.name}
    held = [getattr(node, field.name) for field in fields(node)]  # type: ignore[arg-type]
    inner = [part for value in held for part in (value if isinstance(value, tuple) else (value,))]
    return set().union(*(column_names(part) for part in inner if isinstance(part, Node)))
