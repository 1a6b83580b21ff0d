"""Sensitivity of pooled conclusions to cells that are missing not at random.

Draws assume that cells are missing at random. A pattern-mixture model (Little, 1993) lets missing values differ from
observed ones by a number that the table cannot tell, here called the shift. Delta adjustment (van Buuren, 2018, section
3.8) imputes under a range of shifts; a tipping point is the smallest shift that changes the conclusion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon._utils import cards
from harpoon._utils.progress import one_bar
from harpoon._utils.rng import RandomState, Stream, check_random_state, row_noise, to_seed
from harpoon._utils.validation import check_count
from harpoon.data import Column, Columns, Floats, Index, Schema, take
from harpoon.exceptions import InvalidOption
from harpoon.inference.imputation.pooling import Estimator, Pooled
from harpoon.inference.sampling.row_sampler import Complete, RowSampler

if TYPE_CHECKING:
    from harpoon.inference.imputation.results import MultipleImputation

Shift = Mapping[str, float | Mapping[Any, float]]
TOLERANCE = 0.01  # of a tipping point, in standard deviations or log-odds


@dataclass(frozen=True)
class TippingPoint(cards.Displayed):
    """How a pooled estimate depends on the shift of the missing cells of one column. It prints as a sentence.

    Attributes:
        column: The column.
        category: The category whose log-odds are shifted; None if the column is numeric.
        term: The name of the parameter.
        value: The value that the interval does or does not contain.
        level: The level of the interval.
        shifts: The shifts in ascending order, in standard deviations or log-odds, (n,).
        estimate: The pooled estimate at each shift, (n,).
        low: The lower end of its interval, (n,).
        high: The upper end of its interval, (n,).
        downwards: The first negative shift that changes the conclusion, or None in the searched range.
        upwards: The first positive one.
    """

    column: str
    category: Any
    term: str
    value: float
    level: float
    shifts: Floats
    estimate: Floats
    low: Floats
    high: Floats
    downwards: float | None
    upwards: float | None

    @property
    def nearest(self) -> float | None:
        """The tipping point: the smaller of the two in absolute value, or None in the searched range."""
        found = [shift for shift in (self.downwards, self.upwards) if shift is not None]
        return min(found, key=abs) if found else None

    def __str__(self) -> str:
        start = int(np.flatnonzero(self.shifts == 0)[0])
        low, high = self.low[start], self.high[start]
        contains = low <= self.value <= high
        now = (
            f"The {100 * self.level:g} % interval of {self.term}, {low:.4g} to {high:.4g}, "
            f"{'contains' if contains else 'does not contain'} {self.value:g}."
        )
        unit = "standard deviations" if self.category is None else "log-odds"
        of = self.column if self.category is None else f"{self.column} = {self.category}"
        if self.nearest is None:
            reach = f"{self.shifts[0]:g} to {self.shifts[-1]:g} {unit}"
            return f"{now} That does not change if missing values of {of} are shifted by {reach}."
        return f"{now} That changes if missing values of {of} are shifted by {self.nearest:+.2f} {unit}."

    def _card(self) -> cards.Html:
        head = ["shift", "estimate", f"{100 * self.level:g} % from", "to"]
        numbers = zip(self.shifts, self.estimate, self.low, self.high, strict=True)
        rows = [[f"{shift:+.2f}", *(f"{value:.4g}" for value in others)] for shift, *others in numbers]
        shifts = cards.folded("estimate at each shift", cards.table(head, rows, figures=head, what="shifts"))
        return cards.card(f"Tipping point of {self.term}", cards.paragraph(self), shifts)


def tipping_point(
    model: Any,  # noqa: ANN401
    data: object,
    estimator: Estimator,
    column: str,
    *,
    category: object = None,
    term: str | int = 0,
    value: float = 0.0,
    max_shift: float = 2.0,
    steps: int = 8,
    draws: int = 20,
    level: float = 0.95,
    random_state: RandomState = None,
    **pooling: Any,  # noqa: ANN401
) -> TippingPoint:
    """Search for the shift of a column's missing cells at which a pooled conclusion changes.

    The conclusion is whether the interval of a parameter contains a value, or on which side of it it lies. Shifts are
    tried in even steps, and the first that changes the conclusion is refined by bisection. All use the same random
    numbers, so that differences are due to the shift.

    Args:
        model: A fitted `Harpoon`.
        data: The table with missing cells.
        estimator: A function of a table, as for `MultipleImputation.pool`.
        column: The column whose missing cells are shifted.
        category: The category, or the value of a number with few values, whose log-odds are shifted; leave it out for
            other numbers.
        term: The parameter of the estimator, by name or number.
        value: The value that the interval should contain, or not.
        max_shift: How far to search, in standard deviations or log-odds.
        steps: Into how many steps the range on each side of 0 is divided.
        draws: The number of completed tables.
        level: The level of the interval.
        random_state: A seed or a NumPy generator for this call.
        **pooling: Other arguments of `MultipleImputation.pool`, such as `bootstrap`.
    """
    if not isinstance(max_shift, int | float) or not 0 < max_shift < math.inf:
        raise InvalidOption(f"max_shift must be a finite number above 0, got {max_shift!r}.")
    steps = check_count(steps, "steps")
    if category is None and column in model.schema_.names and (labels := _labels(model.schema_[column])):
        raise InvalidOption(
            f"Column {column!r} is shifted in log-odds of one of its values: pass category, such as {labels[-1]!r}."
        )
    seed = to_seed(check_random_state(random_state))
    by_shift: dict[float, Pooled] = {}
    with one_bar(model.progress):
        impute = _shifted_imputation(model, data, column, category, draws=draws, seed=seed)

        def pooled(shift: float) -> Pooled:
            if shift not in by_shift:
                by_shift[shift] = impute(shift).pool(estimator, **pooling)
            return by_shift[shift]

        number = _term_number(pooled(0.0), term)

        def side(shift: float) -> int:
            """Return -1 if the interval lies below the value, 1 if above, 0 if it contains it."""
            low, high = pooled(shift).interval(level)
            return int(low[number] > value) - int(high[number] < value)

        grids = [[sign * step / steps * max_shift for step in range(steps + 1)] for sign in (-1, 1)]
        down, up = (_first_change(side, grid) for grid in grids)
        shifts = sorted({*grids[0], *grids[1], *by_shift})
        ends = [pooled(shift).interval(level) for shift in shifts]
    return TippingPoint(
        column,
        category,
        pooled(0.0).names[number],
        value,
        level,
        shifts=np.array(shifts),
        estimate=np.array([pooled(shift).estimate[number] for shift in shifts]),
        low=np.array([low[number] for low, _ in ends]),
        high=np.array([high[number] for _, high in ends]),
        downwards=down,
        upwards=up,
    )


def check_shift(shift: object, schema: Schema) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return the shifts of numbers, and the log-odds added to each label of the other columns, (labels,).

    The labels are the categories of a column, or the values of a number that has only few.
    """
    if not isinstance(shift, Mapping):
        raise InvalidOption(f"shift must be a mapping of columns to shifts, got {shift!r}.")
    numbers: dict[str, float] = {}
    log_odds: dict[str, Floats] = {}
    for name, by in shift.items():
        if name not in (names := [column.name for column in schema.modelled]):
            raise InvalidOption.one_of("A column to shift", name, names)
        labels = _labels(schema[name])
        if not labels:
            numbers[name] = _check_number(by, f"The shift of column {name!r}, in standard deviations,")
            continue
        what = "categories" if schema[name].kind.discrete else f"values, because it has only {len(labels)}"
        if not isinstance(by, Mapping):
            raise InvalidOption(
                f"The shift of column {name!r} must be in log-odds of {what}: {{{labels[-1]!r}: 0.5}}, got {by!r}."
            )
        log_odds[name] = np.zeros(len(labels))
        for label, odds in by.items():
            if label not in labels:
                raise InvalidOption.one_of(f"A label of column {name!r} to shift", label, labels)
            checked = _check_number(odds, f"The shift of {label!r} in column {name!r}, in log-odds,")
            log_odds[name][labels.index(label)] = checked
    return numbers, log_odds


def check_missing_cells(shift: Mapping[str, object], missing: Mapping[str, NDArray[np.bool_]]) -> None:
    """Raise InvalidOption unless each column to shift has missing cells: a shift has no effect on others."""
    for name in shift:
        if not missing[name].any():
            raise InvalidOption(f"Column {name!r} has no missing cells in this table, so that a shift has no effect.")


def _labels(column: Column) -> tuple[Any, ...]:
    """Return the categories of a column, or the values of a number that has only few; () of other numbers."""
    if not column.kind.numeric:
        return column.categories or ()
    # An integer stands for itself: {1: 0.5}, not {1.0: 0.5}.
    values = (column.values or ()) if column.clip else ()
    return tuple(int(value) if value == int(value) else value for value in values)


def shifted_sampler(sampler: RowSampler, log_odds: Mapping[str, Floats]) -> Complete:
    """Return a function that samples missing cells with shifted log-odds of labels: categories, or few values.

    Cells of the shifted columns are sampled first, from p(label | observed cells) · exp(shift), normalised. The other
    cells are conditioned on them. This is the exponential tilt of the joint distribution of the missing cells: the
    odds of the label given any other cells are multiplied by exp(shift), and everything else stays.
    """
    if log_odds and not sampler.model.denoiser.is_conditional:
        raise InvalidOption(
            "Shifted log-odds need a network that is conditioned on observed cells, such as preset='anchored'."
        )

    def complete(given: Columns, index: Index, *, draw: int = 0) -> Columns:
        given = dict(given)
        noise = row_noise(sampler.seed, index, 1, max(len(log_odds), 1), draw=Stream.SHIFTED + draw)
        uniforms = torch.special.ndtr(noise.double())[0].numpy()
        for number, (name, added) in enumerate(log_odds.items()):
            cells, rows = given[name], np.flatnonzero(given[name].missing)
            if not len(rows):
                continue
            decode = partial(sampler.codec.label_probabilities, name=name)
            p = np.concatenate(sampler.posterior_means(take(given, rows), decode))
            cumulative = (p * np.exp(added - added.max())).cumsum(axis=1)
            labels = (cumulative < uniforms[rows, number, None] * cumulative[:, -1:]).sum(axis=1)
            values, column = cells.values.copy(), sampler.codec.schema[name]
            values[rows] = labels if column.kind.discrete else np.array(column.values)[labels]
            given[name] = cells.with_values(values)
        return sampler.sample(given, index, draw=draw)

    return complete if log_odds else sampler.sample


def _shifted_imputation(
    model: Any,  # noqa: ANN401
    data: object,
    column: str,
    category: object,
    *,
    draws: int,
    seed: int,
) -> Callable[[float], MultipleImputation]:
    """Return a function of a shift that returns draws; numbers are sampled once and shifted afterwards."""
    if category is not None:
        return lambda by: model.impute(data, draws=draws, shift={column: {category: by}}, random_state=seed)
    check_shift({column: 0.0}, model.schema_)
    unshifted = model.impute(data, draws=draws, shift={column: 0.0}, random_state=seed)
    return lambda by: unshifted.shift({column: by})


def _first_change(side: Callable[[float], int], shifts: list[float]) -> float | None:
    """Return the first shift at which the side differs from that of the first, or None."""
    for before, after in pairwise(shifts):
        if side(after) == side(shifts[0]):
            continue
        same, other = before, after
        while abs(other - same) > TOLERANCE:
            middle = (same + other) / 2
            same, other = (middle, other) if side(middle) == side(shifts[0]) else (same, middle)
        return other
    return None


def _term_number(pooled: Pooled, term: str | int) -> int:
    if isinstance(term, int) and 0 <= term < len(pooled.names):
        return term
    if term not in pooled.names:
        raise InvalidOption.one_of("term", term, pooled.names)
    return pooled.names.index(str(term))


def _check_number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise InvalidOption(f"{name} must be a finite number, got {value!r}.")
    return float(value)
