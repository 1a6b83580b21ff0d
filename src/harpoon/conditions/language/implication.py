"""Implications in the text of a condition, written out in SQL.

SQL has no implication, and its readers do not know one. `a implies b`, `a => b` and `if a then b` are rewritten as
`not (a) or (b)`, and `if a then b else c` as `(not (a) or (b)) and ((a) or (c))`, before SQL is parsed. An implication
binds weaker than `and` and `or`, and `a implies b implies c` is `a implies (b implies c)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from harpoon.exceptions import InvalidCondition

MAX_EXPANDED = 1_000_000  # characters of a condition that is written out
WORDS = re.compile(r"\b(implies|then)\b|=>", re.IGNORECASE)
GROUPS = {"L_PAREN": "R_PAREN", "CASE": "END"}  # tokens that open a group, and those that close it
NAMES = ("IDENTIFIER", "STRING")  # tokens in quotes


class _Item(NamedTuple):
    """A token, or a group of tokens whose implications are written out."""

    word: str  # in lower case; "" for a group and for anything in quotes
    text: str


def expand_implications(text: str) -> str:
    """Return a condition with its implications written out in SQL; other conditions are returned as they are.

    >>> expand_implications("a > 1 implies b = 'x' or c = 2")
    "(not (a > 1) or (b = 'x' or c = 2))"
    >>> expand_implications("if a > 1 then b = 'x'")
    "(not (a > 1) or (b = 'x'))"
    """
    if not WORDS.search(text):
        return text
    from sqlglot import Dialect
    from sqlglot.errors import SqlglotError

    try:
        tokens = Dialect.get_or_raise("sqlite").tokenize(text)
    except SqlglotError:  # the parser has the better error
        return text
    kinds = [token.token_type.name for token in tokens]
    words = [text[token.start : token.end + 1] for token in tokens]
    items, end = _group(kinds, words, 0, "")
    return _write_out(items) if end == len(words) else text


def _group(kinds: Sequence[str], words: Sequence[str], start: int, closing: str) -> tuple[list[_Item], int]:
    """Return the items from `start` to the token that closes the group, and the position of that token."""
    items: list[_Item] = []
    position = start
    while position < len(words) and not (closing and kinds[position] == closing):
        kind, word = kinds[position], words[position]
        if kind in GROUPS:
            inner, end = _group(kinds, words, position + 1, GROUPS[kind])
            inside = _write_out(inner) if kind == "L_PAREN" else " ".join(item.text for item in inner)
            items.append(_Item("", f"{word}{' ' if kind == 'CASE' else ''}{inside} {''.join(words[end : end + 1])}"))
            position = end + 1
            continue
        items.append(_Item("" if kind in NAMES else word.lower(), word))
        position += 1
    return items, position


def _write_out(items: Sequence[_Item]) -> str:
    """Return the text of the items of one group, without implications."""
    words = [item.word for item in items]
    if words[:1] == ["if"] and "then" in words:
        then = words.index("then")
        otherwise = _position_of_else(words, then + 1)
        premise, conclusion = _write_out(items[1:then]), _write_out(items[then + 1 : otherwise])
        text = f"(not ({premise}) or ({conclusion}))"
        return _checked(
            text if otherwise is None else f"({text} and (({premise}) or ({_write_out(items[otherwise + 1 :])})))"
        )
    position = next((i for i, word in enumerate(words[1:-1], start=1) if word in ("implies", "=>")), None)
    if position is None:
        return " ".join(item.text for item in items)
    return _checked(f"(not ({_write_out(items[:position])}) or ({_write_out(items[position + 1 :])}))")


def _position_of_else(words: Sequence[str], start: int) -> int | None:
    """Return the position of the `else` of an `if`; one belongs to the nearest `if` before it."""
    nested = 0
    for position in range(start, len(words)):
        if words[position] == "else" and not nested:
            return position
        nested += (words[position] == "if") - (words[position] == "else")
    return None


def _checked(text: str) -> str:
    if len(text) > MAX_EXPANDED:
        raise InvalidCondition("The condition has too many nested `if`. Split it into several.")
    return text
