"""Page: a summary as one file of HTML, from Jinja templates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from harpoon._formatting import format_percent, format_rounded, shorten
from harpoon._utils.files import replace_atomically
from harpoon.exceptions import InvalidOption, MissingExtra
from harpoon.report.headlines import verdict_of

FRAME_HEIGHT_PIXELS = 820
MAX_NAME_CHARACTERS = 48
MAX_COLUMNS_UNFOLDED = 9
NO_VALUE = "—"
TITLES = {
    "evaluation": "Evaluation of a model",
    "comparison": "Comparison of two tables",
    "description": "Description of a model",
    "audit": "Privacy audit of a model",
}


class Page:
    """One self-contained page of HTML: no script, no network, light and dark.

    Args:
        summary: The result of `evaluate`, `compare`, `describe` or `summarize_audit`, or the same read back from JSON.

    >>> import pyarrow as pa
    >>> from harpoon.report import compare
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "b", "b"]})
    >>> page = Page(compare(table, table))
    >>> page.html.startswith("<!doctype html>")
    True
    """

    def __init__(self, summary: Mapping[str, Any]) -> None:
        if not isinstance(summary, Mapping) or summary.get("kind") not in TITLES:
            raise InvalidOption("`summary` must be the result of evaluate, compare, describe or summarize_audit.")
        self.summary = summary

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return _render(self.summary)

    def save(self, path: str | os.PathLike[str], *, force: bool = True) -> None:
        """Write the page to a file, such as "report.html", completely or not at all; `force` replaces an old one."""
        target, text = Path(path), self.html
        if not force and target.exists():
            raise InvalidOption(f"The file {str(target)!r} exists. Choose another name, or use force=True.")
        try:
            with replace_atomically(target) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"The report cannot be written to {str(target)!r}: {getattr(error, 'strerror', None) or error}. "
                "Choose a file in an existing folder that you may write to."
            ) from None

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame, so that their styles do not mix."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="" title="Harpoon report" '
            f'style="width: 100%; height: {FRAME_HEIGHT_PIXELS}px; border: 0; border-radius: 8px"></iframe>'
        )

    def __repr__(self) -> str:
        texts = "; ".join(f"{one['name']}: {one['text']}" for one in self.summary["headlines"])
        return f"Page({self.summary['kind']}: {texts})"


def _render(summary: Mapping[str, Any]) -> str:
    """Render the templates. All text of the summary is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        from harpoon.report import svg  # needs markupsafe, which comes with Jinja
    except ImportError:
        raise MissingExtra.for_package("jinja2", "report", "The page of a report") from None
    environment = Environment(
        loader=PackageLoader("harpoon.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "name": lambda name: shorten(name, shown=MAX_NAME_CHARACTERS),
        "unbroken": _unbroken,
        "first_upper": lambda text: text[:1].upper() + text[1:],
        "percent": lambda fraction: NO_VALUE if fraction is None else _unbroken(format_percent(fraction)),
        "rounded": lambda value: NO_VALUE if value is None else format_rounded(float(f"{value:.4g}")),
        "fixed": _fixed,
        "verdict": verdict_of,
    }
    return environment.get_template("page.html").render(
        summary=summary, title=TITLES[summary["kind"]], svg=svg, max_unfolded=MAX_COLUMNS_UNFOLDED
    )


def _unbroken(text: str) -> str:
    """Keep each number and its per cent sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _fixed(value: float | None, digits: int = 2) -> str:
    return NO_VALUE if value is None else f"{value:.{digits}f}".replace("-", "−")
