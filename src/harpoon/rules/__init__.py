"""Rules: conditions that every row must obey.

rule_set    what a rule is, sets of rules, and what it means to obey one
discovery   rules that all rows of a training table obey, or all but a few (`Harpoon.rules`)
formats     readers of rule files, one module per tool, and their registry
"""

from typing import TYPE_CHECKING

from harpoon._utils.lazy_names import lazy_names

if TYPE_CHECKING:
    from harpoon.rules.formats.registry import RULE_FORMATS, RuleFile, RuleFormat, read_rules
    from harpoon.rules.formats.translation import Untranslated
    from harpoon.rules.rule_set import Rule, RuleCheck, RuleSet

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "formats.registry": ("RULE_FORMATS", "RuleFile", "RuleFormat", "read_rules"),
        "formats.translation": ("Untranslated",),
        "rule_set": ("Rule", "RuleCheck", "RuleSet"),
    },
)
