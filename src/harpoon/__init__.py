"""Harpoon: train one diffusion model on a table, then impute any missing cell and sample rows under any condition."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from harpoon._version import __version__

if _TYPE_CHECKING:
    from harpoon.conditions.expressions import col, greatest, least, lit
    from harpoon.data.column import Column, Kind
    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon, load
    from harpoon.exceptions import (
        CategoriesGroupedWarning,
        ColumnLeftOutWarning,
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
        RowsDroppedWarning,
        SamplingFailed,
        SchemaMismatch,
        TableFileError,
        TooFewDrawsWarning,
        TrainingFailed,
        UnknownCategoryWarning,
    )
    from harpoon.inference.diagnostics import SamplingInfo
    from harpoon.inference.feasibility import Feasibility
    from harpoon.inference.imputation import Expectation, MultipleImputation
    from harpoon.inference.pooling import Pooled

# The modules of the public names. They are imported on first use, so that `harpoon --help` answers at once.
_MODULES = {
    "conditions.expressions": ("col", "greatest", "least", "lit"),
    "data.column": ("Column", "Kind"),
    "data.schema": ("Schema",),
    "estimator": ("Harpoon", "load"),
    "exceptions": (
        "CategoriesGroupedWarning",
        "ColumnLeftOutWarning",
        "HarpoonError",
        "HarpoonWarning",
        "InfeasibleCondition",
        "InvalidCondition",
        "InvalidOption",
        "InvalidTable",
        "MissingExtra",
        "MixedTypesWarning",
        "ModelFileError",
        "NotFitted",
        "RowsDroppedWarning",
        "SamplingFailed",
        "SchemaMismatch",
        "TableFileError",
        "TooFewDrawsWarning",
        "TrainingFailed",
        "UnknownCategoryWarning",
    ),
    "inference.diagnostics": ("SamplingInfo",),
    "inference.feasibility": ("Feasibility",),
    "inference.imputation": ("Expectation", "MultipleImputation"),
    "inference.pooling": ("Pooled",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_PUBLIC_MODULES = ("engines", "io", "metrics", "plots", "report", "sklearn")


def __getattr__(name: str) -> object:
    """Import a public name or module on first use."""
    if name in _MODULE_OF:
        value = getattr(_import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in _PUBLIC_MODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CategoriesGroupedWarning",
    "Column",
    "ColumnLeftOutWarning",
    "Expectation",
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
    "ModelFileError",
    "MultipleImputation",
    "NotFitted",
    "Pooled",
    "RowsDroppedWarning",
    "SamplingFailed",
    "SamplingInfo",
    "Schema",
    "SchemaMismatch",
    "TableFileError",
    "TooFewDrawsWarning",
    "TrainingFailed",
    "UnknownCategoryWarning",
    "__version__",
    "col",
    "greatest",
    "least",
    "lit",
    "load",
]
