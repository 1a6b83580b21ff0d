"""The names in a summary, in one place: what a report holds, as plain data that JSON can hold.

A number is finite or None; None says that there is no such number, for example because every cell is missing. A share
is from 0 to 1. Which parts there are depends on what was asked:

    evaluated    a model and test rows:  all parts but `condition`, which needs one
    compared     two tables, no model:   columns, missingness, marginals, associations, likeness
    described    a model alone:          columns, marginals, associations, training, and `condition` with one
"""

from typing import Literal, NotRequired, TypedDict

# No `from __future__ import annotations` here: it would hide which names need not be there.
Grade = Literal["good", "fair", "poor", "plain"]
Shares = dict[str, list[float]]


class Headline(TypedDict):
    """One of the few numbers that matter."""

    name: str
    """What is judged, in a word or two."""
    value: float | None
    """The number itself."""
    shown: str
    """The number as people write it."""
    meaning: str
    """A sentence that says what this value means."""
    grade: Grade
    """A rough verdict; "plain" where there is none to give."""


class Rows(TypedDict):
    """How many rows went into the report."""

    real: int | None
    """Rows of the real table; None without one."""
    used: int | None
    """Those of them that were looked at, chosen at random."""
    complete: int | None
    """Those of the used ones that have no missing cell."""
    drawn: int
    """Drawn rows that they were compared with."""


class Fact(TypedDict):
    """What a column is."""

    name: str
    kind: str
    about: str
    """Range, labels, grid, or why it is not modelled."""
    modelled: bool
    missing: float | None
    """Share of the real rows in which it is missing; of the training rows where there are no real ones."""


class Pattern(TypedDict):
    """Columns that are missing together, and no others."""

    columns: list[str]
    rows: int
    share: float


class Missingness(TypedDict):
    """Which cells of the real rows are missing."""

    share: float
    """Of all cells."""
    complete: float
    """The share of rows without a missing cell."""
    patterns: list[Pattern]
    """The most frequent patterns, complete rows first if there are any."""
    others: int
    """How many more patterns there are."""


class Spike(TypedDict):
    """A value that so many rows have that it is told apart from the rest of the picture."""

    value: str
    shares: dict[str, float]


class Picture(TypedDict):
    """The distribution of a column in one or more tables, as shares that sum to 1 (with the spike)."""

    shape: Literal["steps", "bars"]
    """Numbers and times come in steps, labels in bars."""
    shares: Shares
    """For each table, the share of each bin or label."""
    edges: list[float]
    """The ends of the bins, in the units of the table (days or ticks for times); empty for labels."""
    ticks: list[str]
    """The first, the middle and the last edge as text; "≤" and "≥" say that the tail is in the last bin."""
    labels: list[str]
    """The labels, the most frequent first; empty for numbers."""
    spike: Spike | None


class Marginal(TypedDict):
    """One column, real against drawn."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]
    """The Kolmogorov–Smirnov distance of numbers and times, the total variation of labels; 0 is the same."""
    distance: float | None
    picture: Picture


class Pair(TypedDict):
    """Two columns, and how strongly they go together."""

    left: str
    right: str
    real: float | None
    drawn: float | None


class Associations(TypedDict):
    """How strongly columns go together: Spearman, Cramér's V or correlation ratio (`harpoon.metrics.association`)."""

    columns: list[str]
    """The columns of the squares below; of many columns, those that differ most."""
    real: list[list[float | None]] | None
    drawn: list[list[float | None]]
    difference: float | None
    """The mean of |drawn - real| over all pairs of columns, those left out of the squares too."""
    pairs: list[Pair]
    """The pairs that differ most; without real rows, those that go together most."""
    left_out: int


class Filled(TypedDict):
    """How well hidden cells were filled; a number that there is no cell for is None."""

    missing: float
    """The share of cells that was hidden, completely at random."""
    cells: int
    error: float | None
    """Mean squared error of numbers, in variances of their columns."""
    error_of_mean: float | None
    """The same if each is filled with the mean of the cells that were left."""
    accuracy: float | None
    """The share of labels that were filled with the true one."""
    accuracy_of_mode: float | None
    """The same if each is filled with the most frequent label that was left."""


class FilledColumn(TypedDict):
    """One column: numbers have errors, labels have accuracies."""

    name: str
    kind: str
    by_share: list[Filled]


class Filling(TypedDict):
    """Imputation, scored on real cells that were hidden."""

    rows: int
    gain: float | None
    """The loss that filling with means and modes has and the model has not, a share, averaged over columns."""
    gain_at: float
    """The share of hidden cells that `gain` is for."""
    by_share: list[Filled]
    columns: list[FilledColumn]


class Covered(TypedDict):
    """Hidden numbers inside their intervals."""

    name: str
    cells: int
    inside: float | None
    attainable: float | None
    """The share of draws inside the interval of the other draws: what true values drawn alike would reach. It is more
    than the level where values repeat, such as zeros."""


class Intervals(TypedDict):
    """Whether several draws say how sure they are."""

    level: float
    draws: int
    rows: int
    missing: float
    """The share of cells that was hidden."""
    inside: float | None
    """The share of hidden numbers inside their interval."""
    attainable: float | None
    columns: list[Covered]


class Score(TypedDict):
    """A number that judges whole rows."""

    name: str
    value: float
    ideal: float | None
    """What rows of the same law would score, about."""
    meaning: str


class Closest(TypedDict):
    """How far rows are from the nearest real one, in a cube of side 1."""

    edges: list[float]
    shares: Shares
    """Of "drawn" rows to the nearest real one, and of "real" rows to the nearest other one."""
    median: dict[str, float]
    same: dict[str, float]
    """The share of rows that are equal to a real one."""


class Likeness(TypedDict):
    """Drawn rows against real ones, as wholes."""

    rows: int
    """Complete rows of each table that were compared."""
    against: str
    """Which real rows copies were looked for in: "training rows", "test rows" or "real rows"."""
    scores: list[Score]
    closest: Closest


class Pass(TypedDict):
    """The state after some passes over the training rows."""

    number: int
    loss: float
    held_out_loss: float | None
    seconds: float


class Training(TypedDict):
    """How the model was trained."""

    preset: str
    seconds: float
    stopped_by: str
    curve: list[Pass]


class Change(TypedDict):
    """What a condition did to one column: "before" are plain rows, "after" those that meet it."""

    name: str
    kind: str
    measure: Literal["KS", "TV"]
    effect: float | None
    """The distance between before and after: 0 is no change, 1 is nothing in common."""
    shift: str
    """The change of the mean, or of the share that changed most, in words."""
    shift_size: float | None
    """The change of the mean in deviations of before, or the largest change of a share."""
    from_real: float | None
    """The distance between drawn and real rows that meet the condition; None with few of these."""
    picture: Picture


class Condition(TypedDict):
    """What a condition asks, how it was met, and what it did."""

    text: str
    strategy: str
    rows: int
    tried: int
    violations: float
    guided_violations: float | None
    """The share of rows that failed straight out of the guided loop (Algorithm 1)."""
    guided_rows: int
    """How many rows were drawn to see that."""
    seconds: float
    share_of_drawn: float
    """The share of plain drawn rows that meet it."""
    share_of_real: float | None
    real_rows: int | None
    """How many of the used real rows meet it."""
    meanings: list[str]
    region: list[Change]
    """The columns that the condition names; before is the real table where there is one."""
    what_if: list[Change]
    """All other columns, the strongest change first."""


class Summary(TypedDict):
    """Everything that a report shows."""

    kind: Literal["evaluated", "compared", "described"]
    version: str
    rows: Rows
    notes: list[str]
    """What was cut, left out or could not be measured, in sentences."""
    headlines: list[Headline]
    columns: list[Fact]
    missingness: NotRequired[Missingness]
    marginals: NotRequired[list[Marginal]]
    associations: NotRequired[Associations]
    filling: NotRequired[Filling]
    intervals: NotRequired[Intervals]
    likeness: NotRequired[Likeness]
    training: NotRequired[Training]
    condition: NotRequired[Condition]
