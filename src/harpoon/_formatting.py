"""Text for people: numbers, per cent, lists of names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 5
MIN_GROUPED, MAX_GROUPED = 10**4, 10**9  # numbers in this range have commas between thousands; years have none


def closest_matches(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that are similar to a misspelt one, most similar first; case is ignored.

    >>> closest_matches("Agee", ["age", "wage", "job"])
    ['age', 'wage']
    """
    by_folded = {str(other).casefold(): str(other) for other in names}
    return [by_folded[match] for match in get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)]


def format_list(names: Iterable[object], *, shown: int = MAX_LISTED) -> str:
    """Return the first names as text, and the number of the others.

    >>> format_list(["a", "b", "c"], shown=2), format_list([])
    ("'a', 'b' and 1 more", 'none')
    """
    names = list(names)
    text = ", ".join(repr(name) for name in names[:shown])
    return f"{text} and {len(names) - shown} more" if len(names) > shown else text or "none"


def shorten(text: str, *, shown: int = 60) -> str:
    """Return a text, cut off after `shown` characters."""
    return text if len(text) <= shown else f"{text[:shown]}…"


def format_percent(fraction: float, digits: int = 3) -> str:
    """Return a fraction in per cent. Less than everything is never shown as 100 %.

    >>> format_percent(0.5), format_percent(0.986), format_percent(0.0004), format_percent(0.0)
    ('50 %', '98.6 %', '0.04 %', '0 %')
    >>> format_percent(0.9999), format_percent(0.9999, digits=2), format_percent(1.0, digits=2)
    ('99.9 %', '99 %', '100 %')
    """
    if fraction >= 1:
        return f"{100 * fraction:.0f} %"
    return f"{min(100 * fraction, 100 - 10.0 ** (2 - digits)):.{digits}g} %"


def format_rounded(value: float, digits: int = 4) -> str:
    """Return a number with a few significant digits, and with commas between thousands from 10,000.

    >>> format_rounded(1234.5), format_rounded(54321.7), format_rounded(0.000123456), format_rounded(-2.0)
    ('1234', '54,322', '0.0001235', '-2')
    >>> format_rounded(4201.75, digits=3), format_rounded(3e17)
    ('4202', '3e+17')
    """
    size = abs(value)
    if MIN_GROUPED <= size < MAX_GROUPED:
        return f"{value:,.0f}"
    without_decimals = size < MIN_GROUPED and (size >= 10**digits or float(value).is_integer())
    return f"{value:.0f}" if without_decimals else f"{value:.{digits}g}"
