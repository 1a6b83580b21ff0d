"""Harpoon: train one diffusion model on a table, then impute any missing cell and sample rows under any condition."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from harpoon._version import __version__

if _TYPE_CHECKING:
    from harpoon.conditions import case, col, cols, greatest, least, lit
    from harpoon.data import Column, Kind, Schema
    from harpoon.estimator import Harpoon, load
    from harpoon.exceptions import (
        BrokenRuleWarning,
        CategoriesGroupedWarning,
        ColumnLeftOutWarning,
        ExtraColumnWarning,
        ExtrapolationWarning,
        HarpoonError,
        HarpoonWarning,
        InfeasibleCondition,
        InvalidCondition,
        InvalidOption,
        InvalidTable,
        MissingExtra,
        MixedTypesWarning,
        ModelFileError,
        NotFitted,
        PersonalColumnWarning,
        PrivacyWarning,
        RowsDroppedWarning,
        RuleFileError,
        SamplingFailed,
        SchemaMismatch,
        ShortTrainingWarning,
        StructuralMissingWarning,
        TableFileError,
        TooFewDrawsWarning,
        TrainingFailed,
        UnknownCategoryWarning,
    )
    from harpoon.inference.conditional.feasibility import Feasibility
    from harpoon.inference.diagnostics.sampling_info import SamplingInfo
    from harpoon.inference.diagnostics.support import Support
    from harpoon.inference.imputation.comparison import ModelComparison
    from harpoon.inference.imputation.pooling import Pooled
    from harpoon.inference.imputation.results import Expectation, MultipleImputation
    from harpoon.inference.imputation.sensitivity import TippingPoint, tipping_point
    from harpoon.privacy.differential.budget import Privacy, PrivacyRecord
    from harpoon.rules.rule_set import Rule, RuleCheck, RuleSet
    from harpoon.training.calibration import Calibration

# The modules of the public names; all other names are errors and warnings. They are imported on first use, so that
# `harpoon --help` answers at once.
_MODULES = {
    "conditions": ("case", "col", "cols", "greatest", "least", "lit"),
    "rules.rule_set": ("Rule", "RuleCheck", "RuleSet"),
    "data": ("Column", "Kind", "Schema"),
    "estimator": ("Harpoon", "load"),
    "inference.imputation.comparison": ("ModelComparison",),
    "inference.diagnostics.sampling_info": ("SamplingInfo",),
    "inference.conditional.feasibility": ("Feasibility",),
    "inference.imputation.results": ("Expectation", "MultipleImputation"),
    "inference.imputation.pooling": ("Pooled",),
    "inference.imputation.sensitivity": ("TippingPoint", "tipping_point"),
    "inference.diagnostics.support": ("Support",),
    "privacy.differential.budget": ("Privacy", "PrivacyRecord"),
    "training.calibration": ("Calibration",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_PUBLIC_MODULES = ("duckdb", "engines", "io", "metrics", "mlflow", "plots", "report", "rules", "sdv", "sklearn")


# `harpoon._utils.lazy_names` is not used here: importing it would make `harpoon._utils` an attribute of the package.
def __getattr__(name: str) -> object:
    """Import a public name or module on first use."""
    if name in __all__:
        value = getattr(_import_module(f"{__name__}.{_MODULE_OF.get(name, 'exceptions')}"), name)
        globals()[name] = value
        return value
    if name in _PUBLIC_MODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BrokenRuleWarning",
    "Calibration",
    "CategoriesGroupedWarning",
    "Column",
    "ColumnLeftOutWarning",
    "Expectation",
    "ExtraColumnWarning",
    "ExtrapolationWarning",
    "Feasibility",
    "Harpoon",
    "HarpoonError",
    "HarpoonWarning",
    "InfeasibleCondition",
    "InvalidCondition",
    "InvalidOption",
    "InvalidTable",
    "Kind",
    "MissingExtra",
    "MixedTypesWarning",
    "ModelComparison",
    "ModelFileError",
    "MultipleImputation",
    "NotFitted",
    "PersonalColumnWarning",
    "Pooled",
    "Privacy",
    "PrivacyRecord",
    "PrivacyWarning",
    "RowsDroppedWarning",
    "Rule",
    "RuleCheck",
    "RuleFileError",
    "RuleSet",
    "SamplingFailed",
    "SamplingInfo",
    "Schema",
    "SchemaMismatch",
    "ShortTrainingWarning",
    "StructuralMissingWarning",
    "Support",
    "TableFileError",
    "TippingPoint",
    "TooFewDrawsWarning",
    "TrainingFailed",
    "UnknownCategoryWarning",
    "__version__",
    "case",
    "col",
    "cols",
    "greatest",
    "least",
    "lit",
    "load",
    "tipping_point",
]
