"""Examples in docstrings become code blocks, wherever in the docstring they stand."""

from __future__ import annotations

import re

import griffe

EXAMPLE = re.compile(r"((?:^>>> .*\n?(?:^(?!>>> |\s*$).*\n?)*)+)", flags=re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences doctests; google's style would want a heading above each."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Called for each function, class and module."""
        if obj.docstring is not None:
            fenced = EXAMPLE.sub(lambda found: f"```pycon\n{found[1].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = fenced
