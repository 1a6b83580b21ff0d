"""Harpoon: train one diffusion model on a table, then fill any hole and draw rows under any condition."""

from harpoon._version import __version__
from harpoon.conditions import col, greatest, least, lit
from harpoon.errors import (
    ColumnLeftOut,
    HarpoonError,
    HarpoonWarning,
    InfeasibleCondition,
    InvalidCondition,
    InvalidOption,
    InvalidTable,
    LabelsGrouped,
    MissingExtra,
    ModelFileError,
    NotFitted,
    RowsDropped,
    SamplingFailed,
    SchemaMismatch,
    TrainingFailed,
    UnseenCategory,
)
from harpoon.feasibility import Feasibility
from harpoon.imputation import Expectation, MultipleImputation, Pooled
from harpoon.kinds import Column, Kind
from harpoon.model import Harpoon
from harpoon.reports import Report
from harpoon.schema import Schema

load = Harpoon.load

__all__ = [
    "Column",
    "ColumnLeftOut",
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
    "LabelsGrouped",
    "MissingExtra",
    "ModelFileError",
    "MultipleImputation",
    "NotFitted",
    "Pooled",
    "Report",
    "RowsDropped",
    "SamplingFailed",
    "Schema",
    "SchemaMismatch",
    "TrainingFailed",
    "UnseenCategory",
    "__version__",
    "col",
    "greatest",
    "least",
    "lit",
    "load",
]
