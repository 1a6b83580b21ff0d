"""The types of a summary: the content of a report, as plain data that JSON can hold.

A number is finite or None. None means that it could not be computed, for example because every cell is missing.
A fraction is from 0 to 1. "Real" rows are the user's. "Synthetic" rows are sampled from the model, or are the second
table of a comparison. The parts depend on the kind of the summary:

    evaluation   a model and test rows:  all parts; `condition` only if one is given
    comparison   two tables, no model:   columns, missingness, marginals, associations, fidelity
    description  a model alone:          columns, marginals, associations, training; `condition` only if one is given
"""

import math
from collections.abc import Iterable
from typing import Literal, NotRequired, TypedDict

# No `from __future__ import annotations` here: it would hide which keys are not required.
Grade = Literal["good", "fair", "poor", "none"]
Fractions = dict[str, list[float]]
SIGNIFICANT_DIGITS = 6


class Headline(TypedDict):
    """One of the few numbers that matter most."""

    name: str
    value: float | None
    text: str
    meaning: str
    grade: Grade
    """A rough verdict; "none" for values that are neither good nor bad."""


class Rows(TypedDict):
    """Numbers of rows: of the real table, those used, the complete among these, and of the synthetic table."""

    real: int | None
    used: int | None
    complete: int | None
    synthetic: int


class ColumnFacts(TypedDict):
    """Kind and content of a column."""

    name: str
    kind: str
    description: str
    """Range, categories, resolution, or why the column is not modelled."""
    modelled: bool
    missing: float | None
    """Fraction of missing cells in the real rows; in the training rows if there are no real rows."""


class MissingPattern(TypedDict):
    """Columns that are missing together, and no others."""

    columns: list[str]
    rows: int
    fraction: float


class Missingness(TypedDict):
    """Missing cells of the real rows."""

    fraction: float
    complete: float
    """Fraction of rows without a missing cell."""
    patterns: list[MissingPattern]
    """The most frequent patterns; complete rows come first."""
    more_patterns: int


class Spike(TypedDict):
    """A value of a numeric column that is so frequent that it is left out of the histogram."""

    value: str
    fractions: dict[str, float]


class Picture(TypedDict):
    """The distribution of a column in one or more tables. Fractions sum to 1, spikes included."""

    shape: Literal["histogram", "bars"]
    """Numeric and temporal columns have a histogram, categories have bars."""
    fractions: Fractions
    """For each table, the fraction of each bin or category."""
    edges: list[float]
    """Edges of the bins, in the units of the table (days or ticks for times); empty for categories."""
    ticks: list[str]
    """First, middle and last value as text. "≤" and "≥" mean that the first and the last bin hold a long tail."""
    categories: list[str]
    spikes: list[Spike]


class Marginal(TypedDict):
    """One column, real and synthetic."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]
    """Kolmogorov–Smirnov distance of numeric and temporal columns, total variation of categories."""
    distance: float | None
    """From 0 (the same distribution) to 1."""
    picture: Picture


class ColumnPair(TypedDict):
    """The association of two columns."""

    left: str
    right: str
    real: float | None
    synthetic: float | None


class Associations(TypedDict):
    """Associations of columns: Spearman, Cramér's V or correlation ratio (`harpoon.metrics.association`)."""

    columns: list[str]
    """The columns of the matrices below. If there are many columns, those that differ most."""
    real: list[list[float | None]] | None
    synthetic: list[list[float | None]]
    difference: float | None
    """Mean of |synthetic - real| over all pairs of columns, also those that are not in the matrices."""
    pairs: list[ColumnPair]
    """The pairs that differ most; without real rows, the strongest associations."""
    columns_left_out: int


class ImputationScore(TypedDict):
    """Scores of imputed cells that had been hidden; None without such cells."""

    hidden: float
    """Fraction of cells that were hidden, completely at random."""
    cells: int
    mse: float | None
    """Mean squared error of numeric cells, in variances of their columns."""
    mse_of_mean: float | None
    """The same if each cell is imputed by the mean of the observed cells."""
    accuracy: float | None
    """Fraction of categories that were imputed correctly."""
    accuracy_of_mode: float | None
    """The same if each cell is imputed by the most frequent observed category."""


class ColumnImputation(TypedDict):
    """One column: numeric columns have errors, categories have accuracies."""

    name: str
    kind: str
    scores: list[ImputationScore]


class Imputation(TypedDict):
    """Imputation of real cells that had been hidden."""

    rows: int
    gain: float | None
    """Fraction of the loss of mean and mode imputation that the model avoids, averaged over columns."""
    gain_at: float
    """The fraction of hidden cells that `gain` refers to."""
    scores: list[ImputationScore]
    columns: list[ColumnImputation]


class ColumnCoverage(TypedDict):
    """Prediction intervals of one numeric column."""

    name: str
    cells: int
    coverage: float | None
    attainable: float | None
    """Fraction of draws inside the interval of the other draws: the coverage if the truth were one of the draws. It is
    more than the level if values repeat, such as zeros."""


class Intervals(TypedDict):
    """Prediction intervals from several draws."""

    level: float
    draws: int
    rows: int
    hidden: float
    coverage: float | None
    attainable: float | None
    columns: list[ColumnCoverage]


class Score(TypedDict):
    """A score of whole rows."""

    key: str
    """Which score it is: "detection", "linear_detection", "alpha_precision", "beta_recall" or "authenticity"."""
    name: str
    value: float
    ideal: float | None
    """The score of new rows from the same distribution, approximately."""
    meaning: str


class ClosestRecord(TypedDict):
    """Distances to the closest real row, in the unit cube."""

    edges: list[float]
    fractions: Fractions
    """Of "synthetic" rows to the closest real row, and of "real" rows to the closest other real row."""
    median: dict[str, float]
    equal: dict[str, float]
    """Fraction of rows that are equal to a real row."""


class Fidelity(TypedDict):
    """Whole synthetic rows compared with whole real rows."""

    rows: int
    scores: list[Score]
    copies_of: str | None
    """The rows in which copies were searched for, "training rows" or "real rows"; None if not (see `copies_note`)."""
    copies_note: str
    closest: ClosestRecord | None


class Epoch(TypedDict):
    """Losses after an epoch."""

    number: int
    loss: float
    validation_loss: float | None
    seconds: float


class Training(TypedDict):
    """The training of the model."""

    preset: str
    seconds: float
    stopped_by: str
    epochs: list[Epoch]


class Change(TypedDict):
    """The effect of a condition on one column: rows "before" it is applied, and rows "after"."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]
    effect: float | None
    """The distance between before and after: 0 is no change, 1 is nothing in common."""
    shift: str
    """The change of the mean, or of the fraction that changed most, as text."""
    shift_size: float | None
    """The change of the mean in standard deviations of before, or the largest change of a fraction."""
    distance_to_real: float | None
    """The distance between synthetic and real rows that satisfy the condition; None if there are few of the latter."""
    picture: Picture


class Condition(TypedDict):
    """A condition, how it was satisfied, and its effect."""

    text: str
    strategy: str
    rows: int
    sampled: int
    violations: float
    guided_violations: float | None
    """Fraction of guided rows (Algorithm 1) that do not satisfy it, before any check."""
    guided_rows: int
    seconds: float
    synthetic_fraction: float
    """Fraction of unconditional samples that satisfy it."""
    real_fraction: float | None
    real_rows: int | None
    meanings: list[str]
    region: list[Change]
    """The columns in the condition; "before" is the real table if there is one."""
    what_if: list[Change]
    """All other columns, the strongest change first."""


class Summary(TypedDict):
    """The content of a report."""

    kind: Literal["evaluation", "comparison", "description"]
    version: str
    rows: Rows
    notes: list[str]
    """Sentences about what was left out or could not be computed."""
    headlines: list[Headline]
    columns: list[ColumnFacts]
    missingness: NotRequired[Missingness]
    marginals: NotRequired[list[Marginal]]
    associations: NotRequired[Associations]
    imputation: NotRequired[Imputation]
    intervals: NotRequired[Intervals]
    fidelity: NotRequired[Fidelity]
    training: NotRequired[Training]
    condition: NotRequired[Condition]


def finite_or_none(value: float) -> float | None:
    """Round a number to the digits that a summary keeps; None if it is not finite."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None


def nan_if_none(value: float | None) -> float:
    """Undo `finite_or_none`, to compute with the number."""
    return math.nan if value is None else value


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """Return the mean of the numbers that are not None; None without any."""
    numbers = [value for value in values if value is not None]
    return finite_or_none(sum(numbers) / len(numbers)) if numbers else None
