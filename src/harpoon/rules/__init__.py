"""Rules: conditions that every row must obey.

rule_set    what a rule is, sets of rules, and what it means to obey one
discovery   rules that all rows of a training table obey, or all but a few (`Harpoon.rules`)
formats     readers of rule files, one module per tool, and their registry
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harpoon.rules.formats.registry import RULE_FORMATS, RuleFile, RuleFormat, read_rules
    from harpoon.rules.formats.translation import Untranslated
    from harpoon.rules.rule_set import Rule, RuleCheck, RuleSet

_OF_RULE_SET = ("Rule", "RuleCheck", "RuleSet")

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
    module = "harpoon.rules.rule_set" if name in _OF_RULE_SET else f"{__name__}.formats.registry"
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
