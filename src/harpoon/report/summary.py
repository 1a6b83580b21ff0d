"""The types of a summary: the content of a report, as plain data that JSON can hold.

A number is finite or None. None means that it could not be computed, for example because every cell is missing.
A fraction is from 0 to 1. "Real" rows are the user's. "Synthetic" rows are sampled from the model, or are the second
table of a comparison. The parts depend on the kind of the summary:

    evaluation   a model and test rows:  all parts; `condition` only if one is given
    comparison   two tables, no model:   columns, missingness, marginals, associations, fidelity
    description  a model alone:          columns, marginals, associations, training; `condition` only if one is given
    audit        attacks on a model:     privacy
"""

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Literal, NotRequired, TypedDict

# No `from __future__ import annotations` here: it would hide which keys are not required.
Grade = Literal["good", "fair", "poor", "none"]
Direction = Literal["higher", "lower", "level", "none"]  # which values are better; "level": those near the ideal
Fractions = dict[str, list[float]]
SIGNIFICANT_DIGITS = 6


class Target(TypedDict):
    """Which values of a measure are good."""

    direction: Direction
    ideal: float | None  # the value of a perfect model, approximately
    target: str  # both as text


class Headline(Target):
    """One of the few numbers that matter most."""

    name: str  # the standard name of the measure
    measure: str  # how it is defined, in a few words
    value: float | None
    text: str
    meaning: str  # one plain sentence
    grade: Grade  # a rough verdict; "none" for values that are neither good nor bad


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
    description: str  # range, categories, resolution, or why the column is not modelled
    modelled: bool
    missing: float | None  # fraction of missing cells in the real rows; in the training rows if there are no real rows


class MissingPattern(TypedDict):
    """Columns that are missing together, and no others."""

    columns: list[str]
    rows: int
    fraction: float


class Missingness(TypedDict):
    """Missing cells of the real rows."""

    fraction: float
    complete: float  # fraction of rows without a missing cell
    patterns: list[MissingPattern]  # the most frequent patterns; complete rows come first
    more_patterns: int


class Spike(TypedDict):
    """A value of a numeric column that is so frequent that it is left out of the histogram."""

    value: str
    fractions: dict[str, float]


class Tick(TypedDict):
    """A value on the axis of a histogram."""

    at: float  # from 0 (left end) to 1
    text: str  # "≤" and "≥": the outer bins hold a long tail


class Picture(TypedDict):
    """The distribution of a column in one or more tables. Fractions of observed cells sum to 1, spikes included."""

    shape: Literal["histogram", "bars"]  # numeric and temporal columns have a histogram, categories have bars
    fractions: Fractions  # for each table, the fraction of each bin or category
    edges: list[float]  # edges of the bins, in the units of the table (days or ticks for times); empty for categories
    ticks: list[Tick]
    unit: str  # of the ticks: "minutes", for example, if the column is a duration
    categories: list[str]
    spikes: list[Spike]
    missing: dict[str, float]  # for each table, the fraction of missing cells, which the other fractions leave out


class Marginal(TypedDict):
    """One column, real and synthetic."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]  # Kolmogorov–Smirnov for numeric and temporal columns, total variation for categories
    distance: float | None  # from 0 (the same distribution) to 1
    noise: float | None  # the distance that two samples of one distribution exceed once in twenty times
    picture: Picture


class ColumnPair(TypedDict):
    """The association of two columns."""

    left: str
    right: str
    real: float | None
    synthetic: float | None
    noise: float | None  # the difference that two samples of one distribution exceed, in any pair, once in twenty times


class Associations(TypedDict):
    """Associations of columns: Spearman, Cramér's V or correlation ratio (`harpoon.metrics.association`)."""

    columns: list[str]  # the columns of the matrices below; if there are many columns, those that differ most
    real: list[list[float | None]] | None
    synthetic: list[list[float | None]]
    difference: float | None  # mean of |synthetic - real| over all pairs, also those that are not in the matrices
    pairs: list[ColumnPair]  # the pairs that differ most beyond chance; without real rows, the strongest associations
    columns_left_out: int


class ImputationScore(TypedDict):
    """Scores of imputed cells that had been hidden; None without such cells."""

    hidden: float  # fraction of cells that were hidden, completely at random
    cells: int
    mse: float | None  # mean squared error of numeric cells, in variances of their columns
    mse_of_mean: float | None  # the same if each cell is imputed by the mean of the observed cells
    accuracy: float | None  # fraction of categories that were imputed correctly
    accuracy_of_mode: float | None  # the same if each cell is imputed by the most frequent observed category


class ColumnImputation(TypedDict):
    """One column: numeric columns have errors, categories have accuracies."""

    name: str
    kind: str
    scores: list[ImputationScore]


class Imputation(TypedDict):
    """Imputation of real cells that had been hidden."""

    rows: int
    gain: float | None  # fraction of the loss of mean and mode imputation that the model avoids, averaged over columns
    gain_at: float  # the fraction of hidden cells that `gain` refers to
    scores: list[ImputationScore]
    columns: list[ColumnImputation]


class ColumnCoverage(TypedDict):
    """Prediction intervals of one numeric column."""

    name: str
    cells: int
    coverage: float | None
    attainable: float | None  # the coverage if the truth were one of the draws; above the level if values repeat


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
    """A score of whole rows, from the registry `harpoon.metrics.METRICS`."""

    key: str  # "detection", "linear_detection", "alpha_precision", "beta_recall", "authenticity", or as in the registry
    name: str
    value: float | None
    direction: Direction
    ideal: float | None  # the score of new rows from the same distribution, approximately
    meaning: str
    rows: int  # of each table: all, or the complete ones if the score cannot read missing cells
    range: NotRequired[list[float | None]]  # smallest and largest possible value if not 0 and 1; None: unbounded


class ClosestRecord(TypedDict):
    """Distances to the closest real row, in the unit cube."""

    edges: list[float]
    fractions: Fractions  # "synthetic": to the closest real row; "real": to the closest other real row
    median: dict[str, float]
    equal: dict[str, float]  # fraction of rows that are equal to a real row


class Fidelity(TypedDict):
    """Whole synthetic rows compared with whole real rows."""

    rows: int  # of each table
    complete: int  # of each table: those without a missing cell
    real: int  # rows of the real table
    scores: list[Score]
    copies_of: str | None  # the rows that were searched for copies: "training rows" or "real rows"
    copies_note: str  # why none were
    closest: ClosestRecord | None


class Epoch(TypedDict):
    """Losses after an epoch."""

    number: int
    loss: float
    validation_loss: float | None
    seconds: float


class RuleFacts(TypedDict):
    """A rule that the model carries, and how many real rows break it; None if there are no real rows."""

    name: str
    text: str
    broken: int | None


class PrivateTraining(TypedDict, total=False):
    """The training of a model with differential privacy, whose losses and time are not kept."""

    steps: int
    budget: str  # one sentence


class Training(PrivateTraining):
    """The training of the model, and the rules that it carries."""

    preset: str
    seconds: float
    stopped_by: str
    grade: str  # of the calibration on held-out cells, from A to D; empty if it was not measured
    calibration: str  # one sentence
    epochs: list[Epoch]
    rules: list[RuleFacts]


class Change(TypedDict):
    """The effect of a condition on one column: rows "before" it is applied, and rows "after"."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]
    effect: float | None  # the distance between before and after: 0 is no change, 1 is nothing in common
    noise: float  # the distance that two samples of one distribution exceed once in twenty times
    shift: str  # the change of the mean, or of the fraction that changed most, as text
    shift_size: float | None  # the change of the mean in standard deviations, or the largest change of a fraction
    interval: list[float] | None  # of the mean or the fraction under the condition, 95 %; None if not known
    interval_text: str  # the same as text, or why there is none
    distance_to_real: float | None  # to the real rows that satisfy the condition; None if there are few
    picture: Picture


class Agreement(TypedDict):
    """Rows that are sampled under a condition, compared with the real rows that satisfy it, or graded without any."""

    source: Literal["real rows", "model"]  # "model": its calibration and support, where there are too few real rows
    grade: str  # from A to D; empty if there is none
    rows: int  # real rows that satisfy the condition
    column: str | None  # the one that differs most beyond chance
    excess: float | None  # its distance beyond chance
    sentence: str


class Condition(TypedDict):
    """A condition, how it was satisfied, and its effect."""

    text: str
    strategy: str
    rows: int
    sampled: int
    violations: float
    guided_violations: float | None  # fraction of guided rows (Algorithm 1) that do not satisfy it, before any check
    guided_rows: int
    seconds: float
    synthetic_fraction: float  # fraction of unconditional samples that satisfy it
    real_fraction: float | None
    real_rows: int | None
    support: dict[str, Any] | None  # `harpoon.inference.diagnostics.support.Support` as plain data
    agreement: Agreement | None  # None if the model has no grade of its own, and there are no real rows
    meanings: list[str]
    interval_rows: str  # the rows whose error the intervals contain; empty: none are known, so there are no intervals
    region: list[Change]  # the columns in the condition; "before" is the real table if there is one
    what_if: list[Change]  # all other columns, the strongest change beyond chance first


class Summary(TypedDict):
    """The content of a report."""

    kind: Literal["evaluation", "comparison", "description", "audit"]
    version: str
    rows: Rows
    notes: list[str]  # sentences about what was left out or could not be computed
    headlines: list[Headline]
    columns: NotRequired[list[ColumnFacts]]
    missingness: NotRequired[Missingness]
    marginals: NotRequired[list[Marginal]]
    associations: NotRequired[Associations]
    imputation: NotRequired[Imputation]
    intervals: NotRequired[Intervals]
    fidelity: NotRequired[Fidelity]
    training: NotRequired[Training]
    condition: NotRequired[Condition]
    privacy: NotRequired[dict[str, Any]]  # `harpoon.privacy.Audit` as plain data
    advice: NotRequired[list[str]]  # sentences about what to do
    subject: NotRequired[dict[str, str]]  # what was audited


def finite_or_none(value: float | None) -> float | None:
    """Round a number to the digits that a summary keeps; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def finite_or_zero(value: float) -> float:
    """Round a number to the digits that a summary keeps; 0 if it is not finite."""
    return finite_or_none(value) or 0.0


def nan_if_none(value: float | None) -> float:
    """Undo `finite_or_none`, to compute with the number."""
    return math.nan if value is None else value


def mean_or_none(values: Iterable[float | None], weights: Iterable[int] = repeat(1)) -> float | None:
    """Return the weighted mean of the numbers that are not None; None without any."""
    pairs = [(value, weight) for value, weight in zip(values, weights, strict=False) if value is not None and weight]
    return finite_or_none(sum(v * w for v, w in pairs) / sum(w for _, w in pairs)) if pairs else None
