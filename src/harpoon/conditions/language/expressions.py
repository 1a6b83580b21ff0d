"""Expression tree of conditions, and the operators that build it.

    >>> from harpoon import col
    >>> adults = (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> adults
    (col("age") >= 50) & col("workclass").is_in(["State-gov", "Local-gov"])
    >>> print(adults)
    age >= 50 and workclass in ('State-gov', 'Local-gov')

Trees are immutable and independent of any table; `harpoon.conditions.binding.binder.bind` checks them against a
schema. `repr` is Python, and `str` is SQL that `harpoon.conditions.language.parser.parse` turns back into an equal
tree. On a term, such as `col("age") + 1`, `==` builds a comparison, so terms are compared by their `key`. Predicates
are compared with `==`.

Where SQL engines differ, DuckDB is followed: `/` is never integer division, `like` is case-sensitive (`ilike` is not),
and `least` and `greatest` ignore missing cells. `log` is to base 10, as in SQLite, DuckDB and PostgreSQL.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from operator import eq, ge, gt, le, lt, ne
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

from harpoon.conditions.language.scalars import Scalar, to_python_scalar
from harpoon.data.date_parts import PARTS
from harpoon.exceptions import InvalidCondition

NodeT = TypeVar("NodeT")
Method = Callable[[Any, object], NodeT]  # of a node and the other operand

MAX_DEPTH = 100  # levels; functions of a tree are recursive, and Python allows 1000 nested calls
COMPARISONS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
SWAPPED_OPERATOR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
FUNCTIONS = ("abs", "least", "greatest", "log", "ln", "exp", *PARTS)


def _operator(build: Callable[[Any, Any], NodeT]) -> tuple[Method[NodeT], Method[NodeT]]:
    """Return the methods of a binary operator: for a node on the left, and for one on the right."""
    return build, lambda self, other: build(other, self)


def _arithmetic(operator: str) -> tuple[Method[Arithmetic], Method[Arithmetic]]:
    return _operator(lambda left, right: Arithmetic(operator, as_term(left), as_term(right)))


def _comparison(operator: str) -> Method[Comparison]:
    return lambda self, other: Comparison(operator, self, as_term(other))


def _method(function: str, doc: str) -> Callable[[Any], Call]:
    """Return a method of a term, or of its calendar parts, that calls a function."""

    def method(self: Term | CalendarParts) -> Call:
        return Call(function, (self.term if isinstance(self, CalendarParts) else self,))

    method.__doc__ = doc
    return method


@dataclass_transform(eq_default=False, frozen_default=True)
class Node:
    """Base of terms and predicates: frozen dataclasses with a bounded depth, a key, and no truth value."""

    __array_ufunc__ = None  # NumPy scalars defer to our operators

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

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

    def walk(self) -> Iterator[Node]:
        """Yield the node and all nodes below it."""
        yield self
        for child in self.children():
            yield from child.walk()

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

    __and__, __rand__ = _operator(lambda left, right: And((as_predicate(left), as_predicate(right))))
    __or__, __ror__ = _operator(lambda left, right: Or((as_predicate(left), as_predicate(right))))

    def __invert__(self) -> Not:
        return Not(as_predicate(self))

    def implies(self, other: object) -> Or:
        """Return the condition that `other` holds wherever this one does: `~self | other`.

        >>> from harpoon import col
        >>> col("age").is_null().implies(col("job").is_null())
        ~col("age").is_null() | col("job").is_null()
        """
        return Or((Not(as_predicate(self)), as_predicate(other)))

    def __str__(self) -> str:
        from harpoon.conditions.language.printer import to_sql  # it reads the classes of this module

        return to_sql(self)

    def __repr__(self) -> str:
        from harpoon.conditions.language.printer import to_python

        return to_python(self)


class Term(Node):
    """An expression with a value in each row. Comparing it builds a predicate."""

    __eq__ = _comparison("=")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __add__, __radd__ = _arithmetic("+")
    __sub__, __rsub__ = _arithmetic("-")
    __mul__, __rmul__ = _arithmetic("*")
    __truediv__, __rtruediv__ = _arithmetic("/")

    def __hash__(self) -> int:
        return hash(self.key)

    def __neg__(self) -> Negative:
        return Negative(self)

    abs = __abs__ = _method("abs", "Return the absolute value.")
    log10 = _method("log", "Return the logarithm to base 10, `log` in SQL.")
    ln = _method("ln", "Return the natural logarithm.")
    exp = _method("exp", "Return the exponential.")

    @property
    def dt(self) -> CalendarParts:
        """The calendar parts of a date or datetime: `col("t").dt.month()`."""
        return CalendarParts(self)

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


@dataclass(frozen=True)
class CalendarParts:
    """The calendar parts of a date or datetime, as integers, in the time zone of the column."""

    term: Term

    year = _method("year", "Return the year.")
    quarter = _method("quarter", "Return the quarter, 1 to 4.")
    month = _method("month", "Return the month, 1 to 12.")
    week = _method("week", "Return the week of the year (ISO 8601), 1 to 53.")
    day = _method("day", "Return the day of the month, 1 to 31.")
    dayofyear = _method("dayofyear", "Return the day of the year, 1 to 366.")
    weekday = _method("weekday", "Return the day of the week, Sunday = 0 to Saturday = 6, as in DuckDB.")
    isodow = _method("isodow", "Return the day of the week, Monday = 1 to Sunday = 7 (ISO 8601).")
    hour = _method("hour", "Return the hour, 0 to 23.")
    minute = _method("minute", "Return the minute, 0 to 59.")
    second = _method("second", "Return the second, 0 to 59, without its fraction.")


class Predicate(Node):
    """An expression that is true, false or unknown in each row."""

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


class ColumnName(Term):
    """The value of a named column."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidCondition(f'col takes a column name as text, such as col("age"), got {self.name!r}.')


class Literal(Term):
    """A constant; `Literal.of` also takes scalars of NumPy and pandas."""

    value: Scalar

    def __post_init__(self) -> None:
        if isinstance(self.value, int | float) and not abs(self.value) <= sys.float_info.max:
            raise InvalidCondition("A number in a condition must be finite and its magnitude below 1.8e308.")

    @classmethod
    def of(cls, given: object) -> Literal:
        """Convert a scalar; NumPy and pandas scalars become Python's, a time zone becomes its offset from UTC."""
        plain = to_python_scalar(given)
        if plain is None or (isinstance(plain, float) and math.isnan(plain)):
            raise InvalidCondition(f"A missing value, {given!r}, cannot be compared. Write .is_null().")
        if not isinstance(plain, Scalar):
            raise InvalidCondition(
                "A value in a condition must be a number, text, a boolean, a date, a datetime or a timedelta, got "
                f"{given!r}."
            )
        return cls(plain)


class Negative(Term):
    """The negative of a term; a negative number is a literal instead."""

    operand: Term


class Arithmetic(Term):
    """Two terms joined by +, -, * or /."""

    operator: str
    left: Term
    right: Term


class Call(Term):
    """A function of terms: abs, least, greatest, log, ln, exp, or a calendar part such as month."""

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


class Case(Term):
    """The result of the first condition that is true; `otherwise` if none is. None is a missing value."""

    conditions: tuple[Predicate, ...]
    results: tuple[Term | None, ...]
    otherwise: Term | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.conditions or len(self.conditions) != len(self.results):
            raise InvalidCondition("`case` takes at least one condition, each with a result.")


class Comparison(Predicate):
    """Two terms compared with =, !=, <, <=, > or >=. A literal is moved to the right side."""

    operator: str
    left: Term
    right: Term

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.left, Literal) and not isinstance(self.right, Literal):  # 10 <= age is age >= 10
            vars(self).update(operator=SWAPPED_OPERATOR[self.operator], left=self.right, right=self.left)


class Between(Predicate):
    """A term between two others, both ends included."""

    operand: Term
    low: Term
    high: Term


class In(Predicate):
    """A term that equals one of a list of literals."""

    operand: Term
    options: tuple[Literal, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.options:
            raise InvalidCondition(f"The list of values for {self.operand} is empty. Give at least one.")


class Like(Predicate):
    """A text that matches a pattern."""

    operand: Term
    pattern: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pattern, str):
            raise InvalidCondition(f"like takes a pattern as text, for example 'State%', got {self.pattern!r}.")


class IsNull(Predicate):
    """A term that is missing."""

    operand: Term


class Junction(Predicate):
    """Predicates joined by one operator; nested junctions of the same operator are flattened."""

    members: tuple[Predicate, ...]
    operators: ClassVar[tuple[str, str]]  # in SQL and in Python

    def __post_init__(self) -> None:
        flat = tuple(member for part in self.members for member in members_of(part, type(self)))
        if len(flat) < 2:  # noqa: PLR2004
            raise InvalidCondition(f"`{self.operators[0]}` joins at least two conditions, got {len(flat)}.")
        object.__setattr__(self, "members", flat)
        super().__post_init__()


class And(Junction):
    """A conjunction."""

    operators = ("and", "&")


class Or(Junction):
    """A disjunction."""

    operators = ("or", "|")


class Not(Predicate):
    """The negation of a predicate; unknown where the predicate is unknown."""

    operand: Predicate


InfixPredicate = Between | In | Like | IsNull  # negated inside in SQL (`x not in ...`), a method call in Python


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


def conjunction(parts: Iterable[Predicate]) -> Predicate:
    """Join one or more conditions by "and"; one alone stays as it is."""
    return _join(And, parts)


def disjunction(parts: Iterable[Predicate]) -> Predicate:
    """Join one or more conditions by "or"; one alone stays as it is."""
    return _join(Or, parts)


def members_of(predicate: Predicate, junction: type[Junction] = And) -> tuple[Predicate, ...]:
    """Return the conditions that "and" joins, or another junction; a condition that is none of it is its only member.

    >>> from harpoon import col
    >>> members_of((col("a") > 1) & (col("b") > 2)), members_of(col("a") > 1)
    ((col("a") > 1, col("b") > 2), (col("a") > 1,))
    """
    return predicate.members if isinstance(predicate, junction) else (predicate,)


def _join(junction: type[Junction], parts: Iterable[Predicate]) -> Predicate:
    members = tuple(parts)
    return members[0] if len(members) == 1 else junction(members)


def _key(part: object) -> object:
    if isinstance(part, tuple):
        return tuple(map(_key, part))
    return part.key if isinstance(part, Node) else repr(part)


def column_names(node: Node) -> set[str]:
    """Return the names of the columns that an expression uses."""
    return {each.name for each in node.walk() if isinstance(each, ColumnName)}
