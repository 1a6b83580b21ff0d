"""Write docs/options.md from the declarations in harpoon.config: python docs/options.py."""

from __future__ import annotations

import math
from pathlib import Path

from harpoon.config import GROUPS, PRESETS, Option, declared

PAGE = Path(__file__).with_name("options.md")
INTRODUCTION = """# Options

<!-- Written by docs/options.py from harpoon.config. Do not edit. -->

Every option of a model, with its default in each preset. Give any of them to `Harpoon(...)`, to `harpoon fit --option
NAME=VALUE`, or, for the groups *sampling* and *guidance*, to a single call of `impute` or `sample`. An option that
would have no effect on a call is an error.
"""
ABOUT = {
    "model": "The encoded row, the network and its noise. (anchored): used by the anchored network only.",
    "training": "Optimisation, limits and validation.",
    "sampling": "How cells are sampled. Also for a single call.",
    "guidance": "Gradient guidance and the penalty of a condition. Also for a single call.",
}


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for group, config in GROUPS.items():
        rows = [
            f"| `{name}` | {_value(name, 'anchored')} | {_value(name, 'paper')} | {_range(option)} | {option.help} |"
            for name, option in declared(config)
        ]
        head = ["| option | anchored | paper | values | what it does |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"## {group.capitalize()}", "", ABOUT[group], "", *head, *rows, ""]))
    return "\n".join(parts)


def _value(name: str, preset: str) -> str:
    value = getattr(PRESETS[preset], name)
    return f"`{value!r}`" if isinstance(value, str) else str(value)


def _range(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice!r}`" for choice in option.choices)
    if option.boolean:
        return "True, False"
    high = "" if option.high == math.inf else f" to {option.high:g}"
    values = f"{'integer' if option.integer else 'number'}, {option.low:g}{high or ' or more'}"
    return f"{values}, or None" if option.nullable else values


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
