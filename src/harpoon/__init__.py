"""Harpoon: train one diffusion model on a table, then fill any hole and draw rows under any condition."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harpoon._version import __version__
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

if TYPE_CHECKING:
    from harpoon.conditions.expressions import col, greatest, least, lit
    from harpoon.data.column import Column, Kind
    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon, load
    from harpoon.inference.diagnostics import SamplingInfo
    from harpoon.inference.feasibility import Feasibility
    from harpoon.inference.imputation import Expectation, MultipleImputation
    from harpoon.inference.pooling import Pooled

# Where the names are that need NumPy or torch: imported when they are first asked for, so that `harpoon --help`
# answers at once.
_HOMES = {
    "Column": "data.column",
    "Expectation": "inference.imputation",
    "Feasibility": "inference.feasibility",
    "Harpoon": "estimator",
    "Kind": "data.column",
    "MultipleImputation": "inference.imputation",
    "Pooled": "inference.pooling",
    "Report": "inference.diagnostics",
    "Schema": "data.schema",
    "col": "conditions.expressions",
    "greatest": "conditions.expressions",
    "least": "conditions.expressions",
    "lit": "conditions.expressions",
    "load": "estimator",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """A public name, or a module of the package, on first use."""
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # the next time it is found at once
        return value
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
