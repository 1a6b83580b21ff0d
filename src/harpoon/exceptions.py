"""Every error and warning of Harpoon.

    HarpoonError
      InvalidTable             a table cannot be used
      SchemaMismatch           a table does not fit the schema of the model
      InvalidOption            an argument has an invalid value
      InvalidCondition         a condition cannot be read, or does not fit the schema
      InfeasibleCondition      no row, or too few rows, satisfy a condition
      NotFitted                the model is not fitted
      TrainingFailed           training failed
      SamplingFailed           sampling failed
      ModelFileError           a model file cannot be read or written
      TableFileError           a table in a file or database cannot be read or written
      RuleFileError            a file of rules cannot be read
      MissingExtra             an optional package is not installed

    HarpoonWarning
      ColumnLeftOutWarning     a column is not modelled
      PersonalColumnWarning    columns look personal, and are not modelled
      ExtraColumnWarning       a table has columns that the model was not trained on
      ShortTrainingWarning     a time limit stopped a training after a few epochs
      RowsDroppedWarning       many rows are incomplete and not used for training
      CategoriesGroupedWarning a column has so many categories that rare ones are modelled in groups
      MixedTypesWarning        a column of a file holds values of several types
      StructuralMissingWarning imputed cells are always missing in training rows with the same categories
      UnknownCategoryWarning   a category that the model does not have is ignored as an input and kept
      TooFewDrawsWarning       there are too few draws for an interval of this level
      BrokenRuleWarning        rows break a rule that the model carries
      ExtrapolationWarning     hardly any training row supports an answer
      PrivacyWarning           differential privacy guarantees less than it seems, or the schema misses values

A message says what was required, what was got, and what to do. Each error also derives from the built-in exception
that describes it best, such as ValueError or OSError.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from harpoon._formatting import MAX_LISTED, closest_matches, format_list

# Codes of errors and warnings. A front end may have a sentence of its own for each, made from the facts.
CODES = (
    "already_exists",  # what
    "broken_rules",  # problem
    "checkpoint_mismatch",  # path
    "checkpoint_not_model",  # path
    "extrapolation",  # condition, and the attributes of `Support`
    "invalid_cell",  # problem, value
    "local_engine_workers",  # workers
    "mixed_offsets",  # name, columns
    "mixed_types",  # name, columns
    "model_instead_of_table",  # name
    "n_with_table",
    "needs_condition",  # options
    "no_overlap",  # column, other, cells
    "option_of_text_files",  # option, problem
    "option_out_of_range",  # option
    "option_without_effect",  # options
    "personal_columns",  # columns, example
    "rows_dropped",  # complete, rows
    "short_training",  # epochs
    "shortfall_of_given_rows",
    "structural_missing",  # problem
    "targets_missed",  # problem
    "too_few_complete_rows",  # complete, required
    "too_few_rows",  # rows
    "too_few_rows_found",  # problem
    "unknown_encoding",  # name, tried
    "unknown_format",  # name, suffixes
)
INSTALL = 'pip install -c constraints.txt ".[{extra}]"'  # in the folder of a clone, as there is no release yet
WRAPPERS = ("harpoon", "torch", "sklearn")  # packages whose functions lie between the user and a warning
HAS_COLUMNS = {"model": "was trained on", "schema": "names"}
LACKS_COLUMNS = {"model": "was not trained on", "schema": "does not name"}
_collected: ContextVar[tuple[list[str], Callable[[Any], str]] | None] = ContextVar("collected", default=None)
_held: ContextVar[tuple[type[HarpoonWarning], list[HarpoonWarning]] | None] = ContextVar("held", default=None)


class HarpoonError(Exception):
    """Base of all errors of Harpoon.

    Attributes:
        code: One of `CODES`, by which a front end finds its own sentence, or empty.
        facts: The values that the sentence is made from, by name.
    """

    def __init__(self, message: str = "", *, code: str = "", **facts: object) -> None:
        super().__init__(message)
        self.code, self.facts = code, facts


class InvalidTable(HarpoonError, ValueError):
    """A table cannot be used."""


class SchemaMismatch(HarpoonError, ValueError):
    """A table does not fit the schema of the model."""

    @classmethod
    def missing_columns(cls, missing: Sequence[str], present: Sequence[str], *, of: str = "model") -> SchemaMismatch:
        """Return the error for columns that the model or the schema has and the table has not."""
        near = [f"{match!r} for {name!r}" for name in missing for match in closest_matches(name, present)[:1]]
        hint = f" Did you mean {', '.join(near[:MAX_LISTED])}?" if near else ""
        return cls(
            f"The {of} {HAS_COLUMNS[of]} {_columns(missing)}, which the table does not have "
            f"(it has {format_list(present)}).{hint} Add {'it' if len(missing) == 1 else 'them'}, "
            "with missing cells if the values are unknown."
        )

    @classmethod
    def extra_columns(cls, extra: Sequence[str], expected: Sequence[str], *, of: str = "model") -> SchemaMismatch:
        """Return the error for columns that the table has and the model or the schema has not."""
        near = [
            f"{name!r} (did you mean {match!r}?)" for name in extra for match in closest_matches(name, expected)[:1]
        ]
        hint = f" Close names: {', '.join(near[:MAX_LISTED])}." if near else ""
        return cls(
            f"The table has {_columns(extra)}, which the {of} {LACKS_COLUMNS[of]} "
            f"(it has {format_list(expected)}).{hint} Drop or rename {'it' if len(extra) == 1 else 'them'}."
        )


class InvalidOption(HarpoonError, ValueError):
    """An argument has an invalid value."""

    @classmethod
    def one_of(cls, name: str, got: object, options: Iterable[object]) -> InvalidOption:
        """Return the error for an argument that must be one of a few values."""
        options = sorted(options, key=str)
        near = [
            option
            for match in closest_matches(str(got), map(str, options))
            for option in options
            if str(option) == match
        ]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return cls(f"{name} must be one of {format_list(options, shown=20)}, got {got!r}.{hint}")

    @classmethod
    def no_column(cls, owner: str, name: str, names: Sequence[str]) -> InvalidOption:
        """Return the error for the name of a column that a table or schema, the owner, does not have."""
        near = closest_matches(name, names)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(names)}."
        return cls(f"{owner} has no column {name!r}. {hint}")


class InvalidCondition(HarpoonError, ValueError):
    """A condition cannot be read, or does not fit the schema."""


class InfeasibleCondition(HarpoonError, ValueError):
    """No row, or too few rows, satisfy a condition."""


class NotFitted(HarpoonError, AttributeError):
    """The model is not fitted."""


class TrainingFailed(HarpoonError, RuntimeError):
    """Training failed, for example because the loss is not finite."""


class SamplingFailed(HarpoonError, RuntimeError):
    """Sampling failed, for example because values are not finite."""


class ModelFileError(HarpoonError, OSError):
    """A model file cannot be read or written."""


class TableFileError(HarpoonError, OSError):
    """A table in a file or database cannot be read or written."""

    @classmethod
    def unreadable(cls, name: str, error: object) -> TableFileError:
        """Return the error for a table that cannot be read, with the reason that the system or a library gives."""
        return cls(f"{name} cannot be read: {_reason(error)}.")

    @classmethod
    def already_exists(cls, what: str) -> TableFileError:
        """Return the error for an output that exists, without force=True."""
        return cls(f"{what}. Choose another name, or use force=True.", code="already_exists", what=what)

    @classmethod
    def unwritable(cls, name: str, error: object) -> TableFileError:
        """Return the error for a table that cannot be written, with the reason that the system or a library gives."""
        return cls(f"{name} cannot be written: {_reason(error)}.")


class RuleFileError(HarpoonError, OSError):
    """A file of rules cannot be read."""


class MissingExtra(HarpoonError, ImportError):
    """An optional package is not installed."""

    @classmethod
    def for_package(cls, package: str, extra: str, purpose: str) -> MissingExtra:
        """Return the error with the extra that installs the package."""
        return cls(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it in the folder of the clone of Harpoon: {INSTALL.format(extra=extra)}"
        )


class HarpoonWarning(UserWarning):
    """Base of all warnings of Harpoon; `code` and `facts` are those of `HarpoonError`."""

    def __init__(self, message: str = "", *, code: str = "", **facts: object) -> None:
        super().__init__(message)
        self.code, self.facts = code, facts


def warn(warning: Warning) -> None:
    """Issue a warning that points at the line of the user: the first one outside of `WRAPPERS`."""
    held, collected = _held.get(), _collected.get()
    if held is not None and isinstance(warning, held[0]):
        held[1].append(warning)
        return
    if collected is not None:
        sentences, sentence = collected
        sentences.append(sentence(warning))
        return
    frame: FrameType | None = sys._getframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in WRAPPERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level + 1)


@contextmanager
def collect_warnings(sentence: Callable[[Any], str] = str) -> Iterator[list[str]]:
    """Collect what would be warned of in this thread; `warnings.catch_warnings` concerns all threads.

    Args:
        sentence: Returns the sentence for a warning: a front end may have its own.
    """
    collected: list[str] = []
    token = _collected.set((collected, sentence))
    try:
        yield collected
    finally:
        _collected.reset(token)


@contextmanager
def hold_warnings(category: type[HarpoonWarning]) -> Iterator[list[HarpoonWarning]]:
    """Hold back warnings of a category in this thread, for a caller that issues one warning in place of many."""
    held: list[HarpoonWarning] = []
    token = _held.set((category, held))
    try:
        yield held
    finally:
        _held.reset(token)


class ColumnLeftOutWarning(HarpoonWarning):
    """A column is not modelled; the message says why."""


class PersonalColumnWarning(HarpoonWarning):
    """Columns look personal, such as names of people or e-mail addresses, and are not modelled."""

    @classmethod
    def of(cls, looks: Mapping[str, str]) -> PersonalColumnWarning:
        """Return the warning about columns, by name, and what they look like."""
        columns = ", ".join(f"{name!r} ({look})" for name, look in looks.items())
        example = next(iter(looks))
        advice = f'Model one all the same with Schema.infer(table, kinds={{{example!r}: "category"}}).'
        message = f"Left out, because they look personal: {columns}. {advice}"
        return cls(message, code="personal_columns", columns=columns, example=example)


class PrivacyWarning(HarpoonWarning):
    """Differential privacy guarantees too little, its noise hides too much, or cells are no values of the schema."""


class ExtraColumnWarning(HarpoonWarning):
    """A table has columns that the model was not trained on; they are kept as they are."""

    @classmethod
    def of(cls, extra: Sequence[str], expected: Sequence[str]) -> ExtraColumnWarning:
        """Return the warning, with the columns that may be meant."""
        near = [f"{match!r} for {name!r}" for name in extra for match in closest_matches(name, expected)[:1]]
        hint = f" Did you mean {', '.join(near[:MAX_LISTED])}?" if near else ""
        kept = "it is" if len(extra) == 1 else "they are"
        return cls(f"The model was not trained on {_columns(extra)}; {kept} returned unchanged.{hint}")


class ShortTrainingWarning(HarpoonWarning):
    """A time limit stopped a training after a few epochs, far from convergence."""


class RowsDroppedWarning(HarpoonWarning):
    """Many rows are incomplete and not used for training."""


class CategoriesGroupedWarning(HarpoonWarning):
    """A column has so many categories that rare ones are modelled in groups."""


class StructuralMissingWarning(HarpoonWarning):
    """Imputed cells are always missing in training rows with the same categories."""

    @classmethod
    def of(cls, counts: Mapping[str, int], causes: Mapping[str, str]) -> StructuralMissingWarning:
        """Return the warning about the number of such cells of each column, and beside what it is always missing."""
        count = sum(counts.values())
        cells = "1 cell" if count == 1 else f"{count:,} cells"
        shown = [f"{name!r}{f' ({causes[name]})' if name in causes else ''}" for name in list(counts)[:MAX_LISTED]]
        more = f" and {len(counts) - MAX_LISTED} more" if len(counts) > MAX_LISTED else ""
        such = "such training rows" if causes else "training rows with the same categories"
        problem = f"{cells} of {', '.join(shown)}{more}, always missing in {such}"
        message = f"Filled: {problem}. Use structural='keep' to leave such cells missing."
        return cls(message, code="structural_missing", problem=problem, counts=dict(counts), causes=dict(causes))


class UnknownCategoryWarning(HarpoonWarning):
    """A category that the model does not have is ignored as an input and kept."""


class MixedTypesWarning(HarpoonWarning):
    """A column of a file holds values of several types, or times of several offsets, and is read as one type."""


class TooFewDrawsWarning(HarpoonWarning):
    """There are too few draws for an interval of this level."""


class ExtrapolationWarning(HarpoonWarning):
    """Hardly any training row supports an answer under a condition."""


class BrokenRuleWarning(HarpoonWarning):
    """Rows of a table break a rule that the model carries."""


def _reason(error: object) -> str:
    first_line = next(iter(str(error).splitlines()), "").rstrip(".")
    return getattr(error, "strerror", None) or first_line or type(error).__name__


def _columns(names: Sequence[str]) -> str:
    return f"the column {names[0]!r}" if len(names) == 1 else f"the columns {format_list(names)}"
