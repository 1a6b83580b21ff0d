"""From text to a condition.

    >>> parse("10 <= age < 12 and workclass in ('State-gov', 'Local-gov')")
    (col("age") >= 10) & (col("age") < 12) & col("workclass").is_in(["State-gov", "Local-gov"])

sqlglot reads the text (its SQLite dialect); what it finds is turned, node by node, into the tree of
`harpoon.conditions.expressions`. Whatever has no counterpart there is refused by name, and nothing is ever run. The nodes are
told apart by their `key`, so that sqlglot is only imported when there is text to read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from harpoon._text import shorten
from harpoon.conditions.expressions import (
    INTERVALS,
    And,
    Arithmetic,
    Between,
    Call,
    ColumnName,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Predicate,
    Term,
    as_predicate,
)
from harpoon.exceptions import InvalidCondition

MAX_LENGTH = 500_000  # characters
SUPPORTED = (
    "A condition is made of column names (odd ones in double quotes), numbers, 'text', true, false, "
    "DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00', INTERVAL '3' DAY, + - * /, abs, least, greatest, log, ln, "
    "exp, = != < <= > >=, between, in (...), like, ilike, is null, and, or, not, and parentheses."
)
COMPARISONS = {"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
HINTS = {
    "null": "Write `x is null` or `x is not null`. ",
    "is": "Write `x = true` or `x = false`. ",
    "column": "A name with a dot in it goes in double quotes. ",
    "in": "`in` takes a list of one or more plain values. ",
}
TIME_PARSERS: dict[str, Callable[[str], Any]] = {
    "DATE": dt.date.fromisoformat,
    "TIMESTAMP": dt.datetime.fromisoformat,
    "DATETIME": dt.datetime.fromisoformat,
    "TIMESTAMPTZ": dt.datetime.fromisoformat,
}


def to_predicate(where: object) -> Predicate:
    """What a user gave as `where`: text, or an expression of `col`."""
    if isinstance(where, str):
        return parse(where)
    if isinstance(where, Predicate | ColumnName):
        return as_predicate(where)
    wanted = "A condition is text such as \"age >= 50\", or an expression such as col('age') >= 50"
    if isinstance(where, Term):
        raise InvalidCondition(f"{wanted}. {where!r} is a value; compare it with something.")
    if isinstance(where, bool):
        raise InvalidCondition(
            f"{wanted}, got {where}. Did Python work it out? Join conditions with & and |, not with `and` and `or`, "
            "and start them with col(...)."
        )
    if callable(where):
        raise InvalidCondition(f"{wanted}, got a function. Give a penalty of your own as loss=.")
    raise InvalidCondition(f"{wanted}, got {type(where).__name__}.")


def parse(text: str) -> Predicate:
    """The condition that a text spells, as in the WHERE of SQL.

    >>> parse('"capital-gain" - "capital-loss" > 0 or married')
    (col("capital-gain") - col("capital-loss") > 0) | (col("married") == True)
    """
    if not isinstance(text, str):
        raise InvalidCondition(f"A condition must be text, got {type(text).__name__}.")
    if not text.strip():
        raise InvalidCondition(f"The condition is empty. {SUPPORTED}")
    if len(text) > MAX_LENGTH:
        raise InvalidCondition(f"A condition may have {MAX_LENGTH:,} characters, this one has {len(text):,}.")
    try:
        return _predicate(_syntax(text))
    except RecursionError:
        raise InvalidCondition(f"The condition is nested too deeply: {shorten(text)}. Split it.") from None


def _syntax(text: str) -> Any:  # noqa: ANN401
    """The text as sqlglot understands it."""
    from sqlglot import Dialect, exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        found = Dialect.get_or_raise("sqlite").parse_into(exp.Condition, text)
    except ParseError as error:
        spot = error.errors[0] if error.errors else {}
        near = f" near {spot['highlight']!r}{_spot(spot, len(spot['highlight']))}" if spot else ""
        raise InvalidCondition(f"The condition cannot be read{near}: {shorten(text)}. {SUPPORTED}") from None
    except SqlglotError:
        raise InvalidCondition(f"The condition cannot be read; is a quote not closed? {shorten(text)}") from None
    if len(found) != 1 or found[0] is None:
        raise InvalidCondition(f"One condition was asked for, and {shorten(text)} is not one. Join several with `and`.")
    return found[0]


def _predicate(node: Any) -> Predicate:  # noqa: ANN401, PLR0911
    """A node of sqlglot as a predicate."""
    key = node.key
    if key in COMPARISONS:
        return _comparison(node)
    if key in ("and", "or"):
        parts = tuple(map(_predicate, _in_order(node, {key})[::2]))
        return And(parts) if key == "and" else Or(parts)
    if key == "paren":
        return _predicate(node.this)
    if key == "not":
        return Not(_predicate(node.this))
    if key == "between" and not node.args.get("symmetric"):
        return Between(_value(node.this), _value(node.args["low"]), _value(node.args["high"]))
    if key == "in" and node.expressions:
        return In(_value(node.this), tuple(map(_literal, node.expressions)))
    if key in ("like", "ilike"):
        like = Like(_value(node.this), _pattern(node.expression), ignore_case=key == "ilike")
        return Not(like) if node.args.get("negate") else like
    if key == "is" and node.expression.key == "null":
        return IsNull(_value(node.this))
    if key in ("column", "boolean"):
        return as_predicate(_value(node))
    raise _unsupported(node)


def _comparison(node: Any) -> Predicate:  # noqa: ANN401
    """A comparison, or a chain of them: 10 <= age < 12 means what it says."""
    chain = _in_order(node, set(COMPARISONS))
    values = [_value(operand) for operand in chain[::2]]
    links = zip(chain[1::2], values[:-1], values[1:], strict=True)
    parts = tuple(Comparison(COMPARISONS[key], left, right) for key, left, right in links)
    return parts[0] if len(parts) == 1 else And(parts)


def _in_order(node: Any, keys: set[str]) -> list[Any]:  # noqa: ANN401
    """The operands of nested binary nodes and, between them, the keys of those, in the order of the text.

    A chain may be thousands long, so this is a loop.
    """
    found: list[Any] = []
    todo = [node]
    while todo:
        item = todo.pop()
        if not isinstance(item, str) and item.key in keys:
            todo += [item.expression, item.key, item.this]
        else:
            found.append(item)
    return found


def _value(node: Any) -> Term:  # noqa: ANN401, PLR0911
    """A node of sqlglot as a value."""
    key = node.key
    if key == "paren":
        return _value(node.this)
    if key == "column" and _is_plain(node):
        return ColumnName(node.name)
    if key in ARITHMETIC:
        return Arithmetic(ARITHMETIC[key], _value(node.this), _value(node.expression))
    if key == "neg" and not _is_number(node.this):
        return Negative(_value(node.this))
    if key in ("abs", "ln", "exp"):
        return Call(key, (_value(node.this),))
    if key == "log":
        return _logarithm(node)
    if key in ("least", "greatest") and node.args.get("ignore_nulls") is not False:  # False: min or max
        return Call(key, tuple(map(_value, [node.this, *node.expressions])))
    return _literal(node)


def _logarithm(node: Any) -> Call:  # noqa: ANN401
    """log(x) or log10(x), which sqlglot reads as log(10, x)."""
    base, argument = (node.this, node.expression) if node.expression else (None, node.this)
    if base is not None and not (_is_number(base) and base.name == "10"):
        raise _unsupported(node)
    return Call("log", (_value(argument),))


def _literal(node: Any) -> Literal:  # noqa: ANN401
    """A node of sqlglot as a plain value."""
    if node.key == "paren":
        return _literal(node.this)
    if node.key == "boolean":
        return Literal(bool(node.this))
    if node.key == "literal":
        return Literal(node.name if node.is_string else _number(node.name))
    if node.key == "neg" and _is_number(node.this):
        return Literal(_number(f"-{node.this.name}"))
    if node.key == "cast" and node.this.key == "literal" and node.this.is_string:
        return _moment(node)
    if node.key == "interval" and node.this is not None and node.this.key in ("literal", "neg"):
        return _interval(node)
    raise _unsupported(node)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise InvalidCondition(f"{shorten(text)} cannot be read as a number.") from None


def _moment(node: Any) -> Literal:  # noqa: ANN401
    """DATE '...' or TIMESTAMP '...'."""
    kind, text = node.args["to"].this.name, node.this.name
    if kind not in TIME_PARSERS:
        raise _unsupported(node)
    try:
        moment = TIME_PARSERS[kind](text)
    except ValueError:
        moment = None
    if moment is None or (kind == "TIMESTAMPTZ" and moment.tzinfo is None):
        raise InvalidCondition(
            f"'{shorten(text)}' is no {kind.lower()}. Write DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00' or "
            "TIMESTAMPTZ '2024-01-31 12:00:00+01:00'."
        )
    return Literal.of(moment)


def _interval(node: Any) -> Literal:  # noqa: ANN401
    """INTERVAL '3' DAY."""
    unit = str(node.args.get("unit") or "").lower().removesuffix("s")
    try:
        return Literal(int(node.this.name) * INTERVALS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InvalidCondition(
            f"`{shorten(node.sql('sqlite'))}` is no interval. Write a whole number of one of {', '.join(INTERVALS)}: "
            "INTERVAL '3' DAY."
        ) from None


def _pattern(node: Any) -> str:  # noqa: ANN401
    if node.key == "paren":
        return _pattern(node.this)
    if node.key == "literal" and node.is_string:
        return str(node.name)
    raise InvalidCondition(f"A pattern is text in single quotes, such as 'State%', not {shorten(node.sql('sqlite'))}.")


def _is_number(node: Any) -> bool:  # noqa: ANN401
    return node.key == "literal" and not node.is_string


def _is_plain(column: Any) -> bool:  # noqa: ANN401
    """Whether a column is a name alone: no table before it, and no star."""
    return column.this.key == "identifier" and not any(column.args.get(part) for part in ("table", "db", "catalog"))


def _unsupported(node: Any) -> InvalidCondition:  # noqa: ANN401
    spot = _spot(node.meta, node.meta.get("end", 0) - node.meta.get("start", 0) + 1) if node.meta.get("col") else ""
    hint = HINTS.get(node.key, "")
    return InvalidCondition(f"`{shorten(node.sql('sqlite'))}`{spot} is not understood here. {hint}{SUPPORTED}")


def _spot(token: Any, length: int) -> str:  # noqa: ANN401
    """Where a token starts; sqlglot tells where it ends."""
    return f" (line {token['line']}, column {token['col'] - length + 1})"
