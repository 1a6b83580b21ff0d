"""Parser of conditions: SQL text to an expression tree.

    >>> parse("10 <= age < 12 and workclass in ('State-gov', 'Local-gov')")
    (col("age") >= 10) & (col("age") < 12) & col("workclass").is_in(["State-gov", "Local-gov"])

sqlglot parses the text in its SQLite dialect. Its nodes are converted one by one to those of
`harpoon.conditions.expressions`. A node without a counterpart there is an error that quotes it; nothing is executed.
Nodes are distinguished by their `key`, so that sqlglot is imported only when a text is parsed.
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
    "A condition consists of column names (unusual ones in double quotes), numbers, 'text', true, false, "
    "DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00', INTERVAL '3' DAY, + - * /, abs, least, greatest, log, ln, "
    "exp, = != < <= > >=, between, in (...), like, ilike, is null, and, or, not, and parentheses."
)
COMPARISONS = {"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
HINTS = {
    "null": "Write `x is null` or `x is not null`. ",
    "is": "Write `x = true` or `x = false`. ",
    "column": "Put a name that contains a dot in double quotes. ",
    "in": "`in` takes a list of one or more literal values. ",
}
TIME_PARSERS: dict[str, Callable[[str], Any]] = {
    "DATE": dt.date.fromisoformat,
    "TIMESTAMP": dt.datetime.fromisoformat,
    "DATETIME": dt.datetime.fromisoformat,
    "TIMESTAMPTZ": dt.datetime.fromisoformat,
}


def to_predicate(where: object) -> Predicate:
    """Return the condition that a user passed as `where`, either text or an expression of `col`.

    >>> from harpoon import col
    >>> to_predicate("age >= 50") == to_predicate(col("age") >= 50)
    True
    """
    if isinstance(where, str):
        return parse(where)
    if isinstance(where, Predicate | ColumnName):
        return as_predicate(where)
    expected = "A condition must be text such as \"age >= 50\", or an expression such as col('age') >= 50"
    if isinstance(where, Term):
        raise InvalidCondition(f"{expected}. {where!r} is a value; compare it with another.")
    if isinstance(where, bool):
        raise InvalidCondition(
            f"{expected}, got {where}. Python has evaluated it: combine conditions with & and |, not with `and` and "
            "`or`, and start each with col(...)."
        )
    if callable(where):
        raise InvalidCondition(f"{expected}, got a function. Pass a loss function as loss=.")
    raise InvalidCondition(f"{expected}, got {type(where).__name__}.")


def parse(text: str) -> Predicate:
    """Parse a condition, written as in the WHERE clause of SQL.

    >>> parse('"capital-gain" - "capital-loss" > 0 or married')
    (col("capital-gain") - col("capital-loss") > 0) | (col("married") == True)
    """
    if not isinstance(text, str):
        raise InvalidCondition(f"A condition must be text, got {type(text).__name__}.")
    if not text.strip():
        raise InvalidCondition(f"The condition is empty. {SUPPORTED}")
    if len(text) > MAX_LENGTH:
        raise InvalidCondition(f"A condition may have at most {MAX_LENGTH:,} characters, got {len(text):,}.")
    try:
        return _predicate(_parse_sql(text))
    except RecursionError:
        raise InvalidCondition(f"The condition is nested too deeply: {shorten(text)}. Split it into several.") from None


def _parse_sql(text: str) -> Any:  # noqa: ANN401
    """Parse the text with sqlglot."""
    from sqlglot import Dialect, exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        nodes = Dialect.get_or_raise("sqlite").parse_into(exp.Condition, text)
    except ParseError as error:
        position = error.errors[0] if error.errors else {}
        near = f" near {position['highlight']!r}{_position(position, len(position['highlight']))}" if position else ""
        raise InvalidCondition(f"The condition cannot be read{near}: {shorten(text)}. {SUPPORTED}") from None
    except SqlglotError:
        raise InvalidCondition(f"The condition cannot be read: {shorten(text)}. Is a quote not closed?") from None
    if len(nodes) != 1 or nodes[0] is None:
        raise InvalidCondition(f"One condition is required, got {shorten(text)}. Combine several with `and`.")
    return nodes[0]


def _predicate(node: Any) -> Predicate:  # noqa: ANN401, PLR0911
    """Convert a node of sqlglot to a predicate."""
    key = node.key
    if key in COMPARISONS:
        return _comparison(node)
    if key in ("and", "or"):
        parts = tuple(map(_predicate, _flatten_chain(node, {key})[::2]))
        return And(parts) if key == "and" else Or(parts)
    if key == "paren":
        return _predicate(node.this)
    if key == "not":
        return Not(_predicate(node.this))
    if key == "between" and not node.args.get("symmetric"):
        return Between(_term(node.this), _term(node.args["low"]), _term(node.args["high"]))
    if key == "in" and node.expressions:
        return In(_term(node.this), tuple(map(_literal, node.expressions)))
    if key in ("like", "ilike"):
        like = Like(_term(node.this), _pattern(node.expression), ignore_case=key == "ilike")
        return Not(like) if node.args.get("negate") else like
    if key == "is" and node.expression.key == "null":
        return IsNull(_term(node.this))
    if key in ("column", "boolean"):
        return as_predicate(_term(node))
    raise _unsupported(node)


def _comparison(node: Any) -> Predicate:  # noqa: ANN401
    """Convert a comparison, or a chain such as 10 <= age < 12, which becomes a conjunction."""
    chain = _flatten_chain(node, set(COMPARISONS))
    terms = [_term(operand) for operand in chain[::2]]
    links = zip(chain[1::2], terms[:-1], terms[1:], strict=True)
    parts = tuple(Comparison(COMPARISONS[key], left, right) for key, left, right in links)
    return parts[0] if len(parts) == 1 else And(parts)


def _flatten_chain(node: Any, keys: set[str]) -> list[Any]:  # noqa: ANN401
    """Return the operands of nested binary nodes, with the keys of the nodes between them, in text order.

    This is a loop because a chain may be thousands of nodes long.
    """
    flat: list[Any] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if not isinstance(item, str) and item.key in keys:
            stack += [item.expression, item.key, item.this]
        else:
            flat.append(item)
    return flat


def _term(node: Any) -> Term:  # noqa: ANN401, PLR0911
    """Convert a node of sqlglot to a term."""
    key = node.key
    if key == "paren":
        return _term(node.this)
    if key == "column" and _is_bare_name(node):
        return ColumnName(node.name)
    if key in ARITHMETIC:
        return Arithmetic(ARITHMETIC[key], _term(node.this), _term(node.expression))
    if key == "neg" and not _is_number(node.this):
        return Negative(_term(node.this))
    if key in ("abs", "ln", "exp"):
        return Call(key, (_term(node.this),))
    if key == "log":
        return _logarithm(node)
    if key in ("least", "greatest") and node.args.get("ignore_nulls") is not False:  # False: min or max
        return Call(key, tuple(map(_term, [node.this, *node.expressions])))
    return _literal(node)


def _logarithm(node: Any) -> Call:  # noqa: ANN401
    """Convert log(x), or log10(x), which sqlglot parses as log(10, x)."""
    base, argument = (node.this, node.expression) if node.expression else (None, node.this)
    if base is not None and not (_is_number(base) and base.name == "10"):
        raise _unsupported(node)
    return Call("log", (_term(argument),))


def _literal(node: Any) -> Literal:  # noqa: ANN401
    """Convert a node of sqlglot to a literal."""
    if node.key == "paren":
        return _literal(node.this)
    if node.key == "boolean":
        return Literal(bool(node.this))
    if node.key == "literal":
        return Literal(node.name if node.is_string else _number(node.name))
    if node.key == "neg" and _is_number(node.this):
        return Literal(_number(f"-{node.this.name}"))
    if node.key == "cast" and node.this.key == "literal" and node.this.is_string:
        return _time(node)
    if node.key == "interval" and node.this is not None and node.this.key in ("literal", "neg"):
        return _interval(node)
    raise _unsupported(node)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise InvalidCondition(f"{shorten(text)} cannot be read as a number.") from None


def _time(node: Any) -> Literal:  # noqa: ANN401
    """Convert DATE '...' or TIMESTAMP '...'."""
    type_name, text = node.args["to"].this.name, node.this.name
    if type_name not in TIME_PARSERS:
        raise _unsupported(node)
    try:
        time = TIME_PARSERS[type_name](text)
    except ValueError:
        time = None
    if time is None or (type_name == "TIMESTAMPTZ" and time.tzinfo is None):
        raise InvalidCondition(
            f"'{shorten(text)}' is not a {type_name.lower()}. Write DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00' "
            "or TIMESTAMPTZ '2024-01-31 12:00:00+01:00'."
        )
    return Literal.of(time)


def _interval(node: Any) -> Literal:  # noqa: ANN401
    """Convert INTERVAL '3' DAY."""
    unit = str(node.args.get("unit") or "").lower().removesuffix("s")
    try:
        return Literal(int(node.this.name) * INTERVALS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InvalidCondition(
            f"`{shorten(node.sql('sqlite'))}` is not an interval. Write an integer and one of {', '.join(INTERVALS)}: "
            "INTERVAL '3' DAY."
        ) from None


def _pattern(node: Any) -> str:  # noqa: ANN401
    if node.key == "paren":
        return _pattern(node.this)
    if node.key == "literal" and node.is_string:
        return str(node.name)
    raise InvalidCondition(
        f"A pattern must be text in single quotes, such as 'State%', got {shorten(node.sql('sqlite'))}."
    )


def _is_number(node: Any) -> bool:  # noqa: ANN401
    return node.key == "literal" and not node.is_string


def _is_bare_name(column: Any) -> bool:  # noqa: ANN401
    """Whether a column is a name alone, without a table before it and not a star."""
    return column.this.key == "identifier" and not any(column.args.get(part) for part in ("table", "db", "catalog"))


def _unsupported(node: Any) -> InvalidCondition:  # noqa: ANN401
    position = (
        _position(node.meta, node.meta.get("end", 0) - node.meta.get("start", 0) + 1) if node.meta.get("col") else ""
    )
    hint = HINTS.get(node.key, "")
    return InvalidCondition(f"`{shorten(node.sql('sqlite'))}`{position} is not supported. {hint}{SUPPORTED}")


def _position(token: Any, length: int) -> str:  # noqa: ANN401
    """Describe where a token starts; sqlglot gives its end."""
    return f" (line {token['line']}, column {token['col'] - length + 1})"
