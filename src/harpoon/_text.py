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

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 5


def closest_matches(name: str, names: Iterable[str]) -> list[str]:
    """The names a user may have meant, nearest first."""
    by_folded = {str(other).casefold(): str(other) for other in names}
    return [by_folded[match] for match in get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)]


def format_list(names: Iterable[object], *, shown: int = MAX_LISTED) -> str:
    """Names as a short text: the first few, then how many more there are."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:shown])
    return f"{text} and {len(names) - shown} more" if len(names) > shown else text or "none"


def shorten(text: str, *, shown: int = 60) -> str:
    """The beginning of a text that may be long."""
    return text if len(text) <= shown else f"{text[:shown]}…"
