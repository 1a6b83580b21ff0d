"""Parser of conditions: SQL text to an expression tree.

    >>> parse("10 <= age < 12 and workclass in ('State-gov', 'Local-gov')")
    (col("age") >= 10) & (col("age") < 12) & col("workclass").is_in(["State-gov", "Local-gov"])

sqlglot parses the text in its SQLite dialect. Its nodes are converted one by one to those of
`harpoon.conditions.language.expressions`. A node without a counterpart there is an error that quotes it; nothing is
executed. Nodes are distinguished by their `key`, so that sqlglot is imported only when a text is parsed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from harpoon._formatting import closest_matches, shorten
from harpoon.conditions.language import expressions as ex
from harpoon.conditions.language.expressions import Literal, Predicate, Term, as_predicate, column_names
from harpoon.conditions.language.functions import ColumnTuple
from harpoon.conditions.language.implication import expand_implications
from harpoon.conditions.language.scalars import INTERVALS
from harpoon.conditions.language.sql_names import quote_name
from harpoon.data.date_parts import PARTS
from harpoon.exceptions import InvalidCondition

SqlNode = Any  # a node of sqlglot

MAX_LENGTH = 500_000  # characters
SUPPORTED = (
    "A condition consists of column names (unusual ones in double quotes), numbers, 'text', true, false, "
    "DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00', INTERVAL '3' DAY, + - * /, abs, least, greatest, log, ln, "
    f"exp, {', '.join(PARTS)}, case when, = != < <= > >=, between, in (...), like, ilike, is null, and, or, not, "
    "implies, if ... then ..., and parentheses."
)
FUNCTIONS = ("abs", "least", "greatest", "log", "ln", "exp", "extract", "date_part", *PARTS)
COMPARISONS = {"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
# Nodes of sqlglot, and other names of the parts of a time.
PART_NODES = {
    "dayofweek": "weekday",
    "dayofweekiso": "isodow",
    **{part: part for part in PARTS if part not in ("weekday", "isodow")},
}
PART_ALIASES = {"dow": "weekday", "dayofweek": "weekday", "doy": "dayofyear", "weekofyear": "week", "dayofmonth": "day"}
HINTS = {
    "null": "Write `x is null` or `x is not null`. ",
    "is": "Write `x = true` or `x = false`. ",
    "column": "Put a name that contains a dot in double quotes. ",
    "in": "`in` takes a list of one or more literal values. ",
}
_DAY = "For one day, write t >= DATE '2024-01-31' and t < DATE '2024-02-01'; year(t), month(t) and day(t) are parts."
_NOW = "Write the time itself, such as DATE '2024-01-31'."
# What to write for functions that conditions do not have. Others are compared with `FUNCTIONS`.
FUNCTION_HINTS = {
    **dict.fromkeys(("now", "today", "getdate", "current_date", "current_time", "current_timestamp"), _NOW),
    **dict.fromkeys(("date", "datetime", "date_trunc", "strftime"), _DAY),
    "cast": f"Leave the cast out: a column has a kind, and a value is written as one. {_DAY}",
    **dict.fromkeys(("count", "sum", "avg", "mean"), "A condition is about one row; `target` is about all of them."),
    "max": "Did you mean `greatest`?",
    "min": "Did you mean `least`?",
    **dict.fromkeys(("extract", "date_part"), f"The parts of a time are {', '.join(PARTS)}."),
}
FUNCTION_CALL = re.compile(r"(\w+)\(|(CURRENT_\w+)$")
# Operators of other languages, and how to write them. A longer one comes before its parts.
OTHER_OPERATORS = {
    "&&": "Write `and` for &&. ",
    "||": "Write `or` for ||. ",
    "=>": "Write >= for =>. (Between two conditions, => means implies.) ",
    "=<": "Write <= for =<. ",
    "&": "Write `and` for &. ",
    "|": "Write `or` for |. ",
}
KEYWORDS = ("and", "or", "not", "between", "in", "like", "ilike", "is null", "is not null", "implies")
QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]""")
TIME_PARSERS: dict[str, Callable[[str], Any]] = {
    "DATE": dt.date.fromisoformat,
    "TIMESTAMP": dt.datetime.fromisoformat,
    "DATETIME": dt.datetime.fromisoformat,
    "TIMESTAMPNTZ": dt.datetime.fromisoformat,  # that of DuckDB
    "TIMESTAMPTZ": dt.datetime.fromisoformat,
}


def to_predicate(where: object, names: Collection[str] = ()) -> Predicate:
    """Return the condition that a user passed as `where`: text, an expression of `col`, or a list of these.

    All conditions of a list must hold.
    If a text cannot be read, or uses unknown columns, the error says which of the column `names` it should quote.

    >>> from harpoon import col
    >>> to_predicate("age >= 50") == to_predicate(col("age") >= 50)
    True
    >>> to_predicate("hour-of-day > 12", ["hour-of-day"])
    Traceback (most recent call last):
    harpoon.exceptions.InvalidCondition: There is no column 'day'. Put the column name in double quotes: "hour-of-day".
    """
    if isinstance(where, str):
        return _parse_with_hint(where, names)
    if isinstance(where, Predicate | ex.ColumnName):
        return as_predicate(where)
    if isinstance(where, list | tuple):
        if not where:
            raise InvalidCondition("The list of conditions is empty. Give at least one, or leave it out.")
        return ex.conjunction(to_predicate(member, names) for member in where)
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


def parse(text: str, dialect: str = "sqlite") -> Predicate:
    """Parse a condition, written as in the WHERE clause of SQL; `dialect` is one of sqlglot.

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
        return _predicate(_parse_sql(expand_implications(text), dialect))
    except InvalidCondition as error:
        hint = OTHER_OPERATORS["=>"]
        if "=>" not in QUOTED.sub(" ", text) or hint in str(error):
            raise
        raise InvalidCondition(f"The condition cannot be read: {shorten(text)}. {hint}".strip()) from None
    except RecursionError:
        raise InvalidCondition(f"The condition is nested too deeply: {shorten(text)}. Split it into several.") from None


def parse_terms(text: str) -> tuple[Term, ...]:
    """Parse values that are separated by commas, such as the arguments of a function.

    >>> parse_terms("age, abs(x - 2)")
    (col("age"), abs(col("x") - 2))
    """
    try:
        node = _parse_sql(f"({text})", "sqlite")
        return tuple(map(_term, node.expressions if node.key == "tuple" else [node]))
    except RecursionError:
        raise InvalidCondition(f"A value is nested too deeply: {shorten(text)}.") from None


def from_sql_node(node: SqlNode) -> Predicate:
    """Convert a node of sqlglot, such as a CHECK constraint, to an expression tree."""
    try:
        return _predicate(node)
    except RecursionError:
        raise InvalidCondition(f"The condition is nested too deeply: {_quote(node)}.") from None


def _parse_with_hint(text: str, names: Collection[str]) -> Predicate:
    unquoted = QUOTED.sub(" ", text)
    found = [name for name in names if quote_name(name) != name and _occurs(name, unquoted)]
    hint = f"Put the column name in double quotes: {quote_name(max(found, key=len))}." if found else ""
    try:
        tree = parse(text)
    except InvalidCondition:
        if not hint:
            raise
        raise InvalidCondition(f"The condition cannot be read: {shorten(text)}. {hint}") from None
    unknown = column_names(tree) - set(names)
    if hint and unknown:
        raise InvalidCondition(f"There is no column {min(unknown)!r}. {hint}")
    return tree


def _occurs(name: str, text: str) -> bool:
    """Return whether a name is a whole word, or several, of a text."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _parse_sql(text: str, dialect: str) -> SqlNode:
    from sqlglot import Dialect, exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        nodes = Dialect.get_or_raise(dialect).parse_into(exp.Condition, text)
    except ParseError as error:
        position = error.errors[0] if error.errors else {}
        near = f" near {position['highlight']!r}{_position(position, len(position['highlight']))}" if position else ""
        hint = _operator_hint(text) or _word_hint(str(position.get("highlight", ""))) or SUPPORTED
        raise InvalidCondition(f"The condition cannot be read{near}: {shorten(text)}. {hint}".strip()) from None
    except SqlglotError:
        raise InvalidCondition(f"The condition cannot be read: {shorten(text)}. Is a quote not closed?") from None
    if len(nodes) != 1 or nodes[0] is None:
        raise InvalidCondition(f"One condition is required, got {shorten(text)}. Combine several with `and`.")
    return nodes[0]


def _predicate(node: SqlNode) -> Predicate:  # noqa: PLR0911
    node = node.unnest()
    key = node.key
    if key in COMPARISONS:
        return _comparison(node)
    if key in ("and", "or"):
        members = tuple(map(_predicate, _flatten_chain(node, {key})[::2]))
        return ex.And(members) if key == "and" else ex.Or(members)
    if key == "not":
        return ex.Not(_predicate(node.this))
    if key == "between" and not node.args.get("symmetric"):
        return ex.Between(_term(node.this), _term(node.args["low"]), _term(node.args["high"]))
    if key == "in" and node.expressions and node.this.key == "tuple":
        return _tuple_in(node)
    if key == "case":
        return _case_predicate(node)
    if key == "in" and node.expressions:
        return ex.In(_term(node.this), tuple(map(_literal, node.expressions)))
    if key in ("like", "ilike"):
        like = ex.Like(_term(node.this), _pattern(node.expression.unnest()), ignore_case=key == "ilike")
        return ex.Not(like) if node.args.get("negate") else like
    if key == "is" and node.expression.key == "null":
        return ex.IsNull(_term(node.this))
    if key in ("column", "boolean"):
        return as_predicate(_term(node))
    raise _unsupported(node)


def _comparison(node: SqlNode) -> Predicate:
    """Convert a comparison, or a chain such as 10 <= age < 12, which becomes a conjunction."""
    chain = _flatten_chain(node, set(COMPARISONS))
    terms = [_term(operand) for operand in chain[::2]]
    links = zip(chain[1::2], terms[:-1], terms[1:], strict=True)
    return ex.conjunction(ex.Comparison(COMPARISONS[key], left, right) for key, left, right in links)


def _tuple_in(node: SqlNode) -> Predicate:
    """Convert (a, b) in ((1, 'x'), (2, 'y'))."""
    terms = tuple(map(_term, node.this.expressions))
    rows = [option.unnest() for option in node.expressions]
    if any(row.key != "tuple" or len(row.expressions) != len(terms) for row in rows):
        raise InvalidCondition(f"`{_quote(node)}`: give {len(terms)} values in parentheses for each tuple of the list.")
    return ColumnTuple(terms).is_in([_literal(value).value for value in row.expressions] for row in rows)


def _case(node: SqlNode) -> ex.Case:
    """Convert case when ... end, or case x when ... end, whose results are values."""
    conditions, results, otherwise = _case_parts(node)
    values = [None if result is None or result.key == "null" else _term(result) for result in (*results, otherwise)]
    return ex.Case(conditions, tuple(values[:-1]), values[-1])


def _case_predicate(node: SqlNode) -> Predicate:
    """Convert a case whose results are conditions: the result of the branch that is chosen must hold."""
    conditions, results, otherwise = _case_parts(node)
    numbers = tuple(map(Literal, range(len(results))))
    chosen = ex.Case(conditions, numbers, Literal(len(results)))
    branches = [*zip(numbers, results, strict=True), (Literal(len(results)), otherwise)]
    members: list[Predicate] = []
    for number, result in branches:
        is_chosen = ex.Comparison("=", chosen, number)
        if result is not None and result.key == "boolean":
            members += [is_chosen] if result.this else []
        elif result is not None and result.key != "null":
            members.append(ex.And((is_chosen, _predicate(result))))
    nothing = [None if result is None or result.key == "null" else Literal(0) for _, result in branches]
    if any(value is None for value in nothing):  # where that branch is chosen, the outcome is unknown
        members.append(ex.Comparison("!=", ex.Case(conditions, tuple(nothing[:-1]), nothing[-1]), Literal(0)))
    if not members:  # all results are false
        return ex.Comparison("<", chosen, Literal(0))
    return ex.disjunction(members)


def _case_parts(node: SqlNode) -> tuple[tuple[Predicate, ...], list[SqlNode], SqlNode | None]:
    """Return the conditions and the results of a case, and the result if no condition is true."""
    branches, subject, otherwise = node.args["ifs"], node.this, node.args.get("default")
    if subject is None:
        conditions = tuple(_predicate(branch.this) for branch in branches)
    else:
        conditions = tuple(ex.Comparison("=", _term(subject), _term(branch.this)) for branch in branches)
    results = [branch.args["true"].unnest() for branch in branches]
    return conditions, results, None if otherwise is None else otherwise.unnest()


def _flatten_chain(node: SqlNode, keys: set[str]) -> list[Any]:
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


def _term(node: SqlNode) -> Term:  # noqa: PLR0911
    node = node.unnest()
    key = node.key
    if key == "column" and node.this.key == "identifier" and len(node.parts) == 1:  # not a star, no table before it
        return ex.ColumnName(node.name)
    if key in ARITHMETIC:
        return ex.Arithmetic(ARITHMETIC[key], _term(node.this), _term(node.expression))
    if key == "neg" and not _is_number(node.this):
        return ex.Negative(_term(node.this))
    if key in ("abs", "ln", "exp") or (key == "log" and not node.expression):
        return ex.Call(key, (_term(node.this),))
    if key == "log" and _is_number(node.this) and node.this.name == "10":  # log10(x) is parsed as log(10, x)
        return ex.Call(key, (_term(node.expression),))
    if key in ("least", "greatest") and node.args.get("ignore_nulls") is not False:  # False: min or max
        return ex.Call(key, tuple(map(_term, [node.this, *node.expressions])))
    if key in PART_NODES or key in ("extract", "anonymous"):
        return _date_part(node)
    return _case(node) if key == "case" else _literal(node)


def _date_part(node: SqlNode) -> Term:
    """Convert month(t), extract(month from t) or date_part('month', t)."""
    part, arguments = PART_NODES.get(node.key, ""), [node.this]
    if node.key == "extract":
        part, arguments = node.name.lower(), [node.expression]
    elif node.key == "anonymous":
        part, arguments = node.name.lower(), node.expressions
        if part in ("date_part", "datepart") and len(arguments) == 2 and arguments[0].is_string:  # noqa: PLR2004
            part, arguments = arguments[0].name.lower(), arguments[1:]
    part = PART_ALIASES.get(part, part)
    if part not in PARTS or len(arguments) != 1:
        raise _unsupported(node)
    return ex.Call(part, (_term(arguments[0]),))


def _literal(node: SqlNode) -> Literal:
    node = node.unnest()
    if node.key == "boolean":
        return Literal(bool(node.this))
    if node.key == "literal":
        return Literal(node.name if node.is_string else _number(node.name))
    if node.key == "neg" and _is_number(node.this):
        return Literal(_number(f"-{node.this.name}"))
    if node.key == "cast" and node.this.is_string:
        return _time(node)
    if node.key == "interval" and node.this is not None and node.this.key in ("literal", "neg"):
        return _interval(node)
    raise _unsupported(node)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise InvalidCondition(f"{shorten(text)} cannot be read as a number.") from None


def _time(node: SqlNode) -> Literal:
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
            f"'{shorten(text)}' is not a {type_name.lower().replace('ntz', '')}. Write DATE '2024-01-31', "
            "TIMESTAMP '2024-01-31 12:00:00' or TIMESTAMPTZ '2024-01-31 12:00:00+01:00'."
        )
    return Literal.of(time)


def _interval(node: SqlNode) -> Literal:
    """Convert INTERVAL '3' DAY."""
    unit = str(node.args.get("unit") or "").lower().removesuffix("s")
    try:
        return Literal(int(node.this.name) * INTERVALS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InvalidCondition(
            f"`{_quote(node)}` is not an interval. Write an integer and one of {', '.join(INTERVALS)}: "
            "INTERVAL '3' DAY."
        ) from None


def _pattern(node: SqlNode) -> str:
    if not node.is_string:
        raise InvalidCondition(f"A pattern must be text in single quotes, such as 'State%', got {_quote(node)}.")
    return str(node.name)


def _is_number(node: SqlNode) -> bool:
    return node.key == "literal" and not node.is_string


def _operator_hint(text: str) -> str:
    """Return how to write an operator of another language that a condition has."""
    unquoted = QUOTED.sub(" ", text)
    return next((hint for operator, hint in OTHER_OPERATORS.items() if operator in unquoted), "")


def _word_hint(word: str) -> str:
    """Return the words of conditions that a misspelled one resembles, as a question."""
    found = [] if word.lower() in KEYWORDS else closest_matches(word, KEYWORDS)
    return f"Did you mean {' or '.join(f'`{each}`' for each in found)}? " if found else ""


def _unsupported(node: SqlNode) -> InvalidCondition:
    meta = node.meta
    hint = HINTS.get(node.key) or _operator_hint(_quote(node))
    hint = _function_hint(node) or f"{hint}{SUPPORTED}"
    position = _position(meta, meta.get("end", 0) - meta.get("start", 0) + 1) if meta.get("col") else ""
    return InvalidCondition(f"`{_quote(node)}`{position} is not supported. {hint}")


def _function_hint(node: SqlNode) -> str:
    """Return what to write in the place of a function that conditions do not have; empty if the node calls none."""
    call = FUNCTION_CALL.match(node.sql("sqlite"))
    if call is None or node.key in ("select", "exists"):
        return ""
    name = (call[1] or call[2]).lower()
    if name in FUNCTION_HINTS:
        return FUNCTION_HINTS[name]
    if name in FUNCTIONS:
        return f"`{name}` takes one value."
    near = closest_matches(name, FUNCTIONS)
    meant = f"Did you mean {' or '.join(f'`{each}`' for each in near)}?"
    known = f"The functions are {', '.join(FUNCTIONS)}."
    return f"There is no function `{name}`. {meant if near else known}"


def _quote(node: SqlNode) -> str:
    return shorten(node.sql("sqlite"))


def _position(token: Mapping[str, Any], length: int) -> str:
    """Describe where a token starts; sqlglot gives its end."""
    return f" (line {token['line']}, column {token['col'] - length + 1})"
