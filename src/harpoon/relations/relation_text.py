"""Relations as lines of text, as `Harpoon.relations` returns them."""

from __future__ import annotations

from collections.abc import Sequence

from harpoon._formatting import format_percent
from harpoon.relations.formula import Formula, quote_column


def describe(formula: Formula, names: Sequence[str], fraction: float) -> str:
    """Return one line for a relation, with the fraction of the rows in which it holds."""
    rounded = ", rounded" if formula.is_rounded else ""
    return f"{quote_column(names[formula.target])} = {formula.describe(names)}{rounded} ({format_percent(fraction)})"


def describe_dependency(source: str, target: str) -> str:
    """Return one line for a column whose labels determine those of another; exceptions are not allowed.

    >>> describe_dependency("education", "education-num")
    '"education-num" is determined by education (100 %)'
    """
    return f"{quote_column(target)} is determined by {quote_column(source)} ({format_percent(1.0)})"


def describe_calendar_column(name: str, source: str, *, is_value: bool) -> str:
    """Return one line for a column that a timestamp determines; exceptions are not allowed.

    >>> describe_calendar_column("month", "month(t)", is_value=True)
    'month = month(t) (100 %)'
    """
    word = "=" if is_value else "is determined by"
    return f"{quote_column(name)} {word} {source} ({format_percent(1.0)})"
