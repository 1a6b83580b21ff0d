"""Rules from elsewhere: found in a table, or read from files and databases of other tools.

    discovery   rules that all rows of a training table obey, or all but a few (`Harpoon.rules`)
    formats     readers of rule files, one module per tool, and their registry

What a rule is, and what it means to obey one, is in `harpoon.conditions.rules`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harpoon.conditions.rules import Rule, RuleCheck, RuleSet
    from harpoon.rules.formats.registry import RULE_FORMATS, RuleFile, RuleFormat, read_rules
    from harpoon.rules.formats.translation import Untranslated

_CONDITIONS = ("Rule", "RuleCheck", "RuleSet")

__all__ = [
    "RULE_FORMATS",
    "Rule",
    "RuleCheck",
    "RuleFile",
    "RuleFormat",
    "RuleSet",
    "Untranslated",
    "read_rules",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "harpoon.conditions.rules" if name in _CONDITIONS else f"{__name__}.formats.registry"
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
