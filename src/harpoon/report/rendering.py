"""A summary as one page of HTML: templates, and the few functions that they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harpoon._text import shorten
from harpoon.report import svg
from harpoon.report.rows import figure, percent

NAME = 48
NONE = "—"
SHOWN = 9  # columns that are shown at once; the others are folded away
TITLES = {
    "evaluated": "How well the model knows its table",
    "compared": "Two tables, side by side",
    "described": "What the model has learnt",
}


def render(summary: Mapping[str, Any]) -> str:
    """The page of a summary. Everything that comes from a table is escaped."""
    environment = Environment(
        loader=PackageLoader("harpoon.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": _name, "tidy": _tidy, "percent": _percent, "figure": _figure, "fixed": _fixed}
    return environment.get_template("page.html").render(
        summary=summary, title=TITLES[summary["kind"]], charts=svg, shown=SHOWN
    )


def _name(name: str) -> str:
    return shorten(name, shown=NAME)


def _tidy(text: str) -> str:
    """A number and its sign stay on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _percent(share: float | None) -> str:
    return NONE if share is None else _tidy(percent(share))


def _figure(value: float | None) -> str:
    return NONE if value is None else figure(float(f"{value:.4g}"))


def _fixed(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}".replace("-", "−")
