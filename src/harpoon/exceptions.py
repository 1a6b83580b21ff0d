"""Every error and warning of Harpoon.

    HarpoonError
      InvalidTable      the table itself cannot be used
      SchemaMismatch    the table does not fit the one the model was trained on
      InvalidOption     an argument has a value it cannot have
      InvalidCondition  a condition cannot be read, or makes no sense for the table
      InfeasibleCondition  too few rows meet a condition
      NotFitted         the model has not been trained
      TrainingFailed    the training did not lead anywhere
      SamplingFailed    the reverse process did not lead to rows
      ModelFileError    a model file cannot be read or written
      TableFileError    a file or database with a table cannot be read or written
      MissingExtra      an optional package is not installed

    HarpoonWarning
      ColumnLeftOut     a column is not modelled, and why
      RowsDropped       many rows are incomplete and not trained on
      LabelsGrouped     a category has so many labels that the rare ones are learnt in groups
      UnseenCategory    a category the model does not know is treated as missing
      TooFewDraws       there are too few draws for an interval of this level

A message says what was required, what was got and what to do. The leaves also derive from the built-in
exception that a caller would have caught anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harpoon._text import MAX_LISTED, closest_matches, format_list

# Codes of errors and warnings. A front end may have a sentence of its own for each, made from the facts.
CODES = (
    "already_exists",  # what
    "checkpoint_mismatch",  # path
    "checkpoint_not_model",  # path
    "invalid_cell",  # problem, value
    "local_engine_workers",  # workers
    "n_with_table",
    "option_out_of_range",  # option
    "option_without_effect",  # options
    "rows_dropped",  # complete, rows
    "shortfall_of_given_rows",
    "too_few_complete_rows",  # complete, required
    "too_few_rows",  # rows
    "too_few_rows_found",  # problem
    "unknown_encoding",  # name, tried
    "unknown_format",  # name, suffixes
)
HOLDS = {"model": "was trained on", "schema": "names"}
LACKS = {"model": "was not trained on", "schema": "does not name"}


class HarpoonError(Exception):
    """Base of everything Harpoon raises on purpose.

    Attributes:
        code: One of `CODES`, by which a front end finds its own sentence, or empty.
        facts: The values that the sentence is made from, by name.
    """

    def __init__(self, message: str = "", *, code: str = "", **facts: object) -> None:
        super().__init__(message)
        self.code, self.facts = code, facts


class InvalidTable(HarpoonError, ValueError):
    """The table itself cannot be used."""


class SchemaMismatch(HarpoonError, ValueError):
    """The table does not fit the one the model was trained on."""

    @classmethod
    def missing_columns(cls, missing: Sequence[str], present: Sequence[str], *, of: str = "model") -> SchemaMismatch:
        """Columns that the model, or the schema, needs and the table does not have."""
        near = [f"{match!r} for {name!r}" for name in missing for match in closest_matches(name, present)[:1]]
        hint = f" Did you mean {', '.join(near[:MAX_LISTED])}?" if near else ""
        return cls(
            f"The {of} {HOLDS[of]} {_columns(missing)}, which the table does not have "
            f"(it has {format_list(present)}).{hint} Add {'it' if len(missing) == 1 else 'them'}, "
            "with empty cells if the values are not known."
        )

    @classmethod
    def extra_columns(cls, extra: Sequence[str], known: Sequence[str], *, of: str = "model") -> SchemaMismatch:
        """Columns that the model has never seen, or the schema does not name."""
        near = [f"{name!r} (did you mean {match!r}?)" for name in extra for match in closest_matches(name, known)[:1]]
        hint = f" Close names: {', '.join(near[:MAX_LISTED])}." if near else ""
        return cls(
            f"The table has {_columns(extra)}, which the {of} {LACKS[of]} "
            f"(it knows {format_list(known)}).{hint} Drop or rename {'it' if len(extra) == 1 else 'them'}."
        )


class InvalidOption(HarpoonError, ValueError):
    """An argument has a value it cannot have."""

    @classmethod
    def one_of(cls, name: str, got: object, options: Iterable[object]) -> InvalidOption:
        """An argument that takes one of a few values."""
        options = sorted(options, key=str)
        near = closest_matches(str(got), map(str, options))
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return cls(f"{name} must be one of {format_list(options, shown=20)}, got {got!r}.{hint}")


class InvalidCondition(HarpoonError, ValueError):
    """A condition cannot be read, or makes no sense for the table."""


class InfeasibleCondition(HarpoonError, ValueError):
    """No row, or too few rows, can be found that meet a condition."""


class NotFitted(HarpoonError, AttributeError):
    """The model has not been trained."""


class TrainingFailed(HarpoonError, RuntimeError):
    """The training did not lead anywhere."""


class SamplingFailed(HarpoonError, RuntimeError):
    """The reverse process did not lead to rows."""


class ModelFileError(HarpoonError, OSError):
    """A model file cannot be read or written."""


class TableFileError(HarpoonError, OSError):
    """A file or database with a table cannot be read or written."""

    @classmethod
    def unreadable(cls, name: str, error: object) -> TableFileError:
        """What the operating system, or the library that reads a format, has to say."""
        return cls(f"{name} cannot be read: {getattr(error, 'strerror', None) or _first_line(error)}.")

    @classmethod
    def taken(cls, said: str) -> TableFileError:
        """An output exists, and force=True was not given."""
        return cls(f"{said}. Choose another name, or use force=True.", code="already_exists", what=said)

    @classmethod
    def unwritable(cls, name: str, error: object) -> TableFileError:
        """The same for writing."""
        return cls(f"{name} cannot be written: {getattr(error, 'strerror', None) or _first_line(error)}.")


class MissingExtra(HarpoonError, ImportError):
    """An optional package is not installed."""

    @classmethod
    def named(cls, package: str, extra: str, purpose: str) -> MissingExtra:
        """The extra that brings the package."""
        return cls(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f'Install it with: pip install "tabharpoon[{extra}]"'
        )


class HarpoonWarning(UserWarning):
    """Base of everything Harpoon warns about; `code` and `facts` are those of `HarpoonError`."""

    def __init__(self, message: str = "", *, code: str = "", **facts: object) -> None:
        super().__init__(message)
        self.code, self.facts = code, facts


class ColumnLeftOutWarning(HarpoonWarning):
    """A column is not modelled, and why."""


class RowsDroppedWarning(HarpoonWarning):
    """Many rows are incomplete and not trained on."""


class CategoriesGroupedWarning(HarpoonWarning):
    """A category has so many labels that the rare ones are learnt in groups."""


class UnknownCategoryWarning(HarpoonWarning):
    """A category the model does not know is treated as missing."""


class MixedTypesWarning(HarpoonWarning):
    """A column of a file holds values of several types, and is read as one type."""


class TooFewDrawsWarning(HarpoonWarning):
    """There are too few draws for an interval of this level."""


def _first_line(error: object) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__


def _columns(names: Sequence[str]) -> str:
    return f"the column {names[0]!r}" if len(names) == 1 else f"the columns {format_list(names)}"
