"""Subscripts of formulas, made while the docs are built.

In `<div class="equation">` and `<var>`, the text after `_` becomes a subscript, so that pages need no script.
"""

from __future__ import annotations

import re

FORMULA = re.compile(r'<div class="equation">.*?</div>|<var>.*?</var>')
SUBSCRIPT = re.compile(r"_(?:\{([^}]*)\}|([a-zA-Zα-ω]+))")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the subscripts of a page; called by mkdocs."""
    return FORMULA.sub(lambda match: SUBSCRIPT.sub(r"<sub>\1\2</sub>", match[0]), markdown)
