"""A summary as a page: to look at in a notebook, or to send as one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from harpoon._utils.files import replace_atomically
from harpoon.exceptions import InvalidOption, MissingExtra

FRAME_HEIGHT = 820


class Page:
    """One self-contained page of HTML: no script, no network, light and dark.

    Args:
        summary: What `evaluated`, `compared` or `described` gave, or the same read back from JSON.

    >>> import pyarrow as pa
    >>> from harpoon.report import compared
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "b", "b"]})
    >>> page = Page(compared(table, table))
    >>> page.html.startswith("<!doctype html>")
    True
    """

    def __init__(self, summary: Mapping[str, Any]) -> None:
        if not isinstance(summary, Mapping) or not {"kind", "headlines", "columns"} <= set(summary):
            raise InvalidOption("A page shows a summary, as evaluated, compared or described give it.")
        self.summary = summary

    @cached_property
    def html(self) -> str:
        """The page as text."""
        try:
            from harpoon.report.rendering import render
        except ImportError:
            raise MissingExtra.named("jinja2", "report", "The page of a report") from None
        return render(self.summary)

    def save(self, path: str | os.PathLike[str], *, force: bool = True) -> None:
        """Write the page to a file, whole or not at all.

        Args:
            path: Where to, such as "report.html".
            force: Whether a file that is there may be replaced.
        """
        target, text = Path(path), self.html
        if not force and target.exists():
            raise InvalidOption(f"There is a file {str(target)!r} already. Choose another name, or use force=True.")
        try:
            with replace_atomically(target.resolve() if target.is_symlink() else target) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"The report cannot be written to {str(target)!r}: {getattr(error, 'strerror', None) or error}. "
                "Choose a file in a folder that exists and that you may write to."
            ) from None

    def _repr_html_(self) -> str:
        """In a notebook, in a frame of its own: neither style touches the other."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="" title="Harpoon report" '
            f'style="width: 100%; height: {FRAME_HEIGHT}px; border: 0; border-radius: 8px"></iframe>'
        )

    def __repr__(self) -> str:
        words = "; ".join(f"{one['name']}: {one['shown']}" for one in self.summary["headlines"])
        return f"Page({self.summary['kind']}: {words})"
