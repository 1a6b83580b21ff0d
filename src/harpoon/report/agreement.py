"""Agreement of rows that are sampled under a condition with the real rows that satisfy it: a sentence and a grade.

The grade is that of the column that differs most beyond chance. Two samples of one distribution differ, too, so the
distance that they exceed once in twenty times, in any of the columns, is subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harpoon._formatting import format_percent, shorten
from harpoon._utils.letter_grades import grade_of, worst_grade
from harpoon.data import Column, Table, as_category, coerce
from harpoon.inference.diagnostics.answer_grade import AnswerGrade
from harpoon.metrics.marginals import NOISE_LEVEL
from harpoon.report.distributions import (
    category_fractions,
    distance,
    distance_noise,
    format_category,
    format_rounded_value,
)
from harpoon.report.summary import Agreement

MIN_REAL_ROWS = 30  # rows that satisfy the condition; with fewer the distances to them are noise
MIN_ROWS_FOR_A = 100  # fewer have little power: small differences look like chance
AGREEMENT_BOUNDS = {"A": 0.03, "B": 0.07, "C": 0.15}  # the largest distance beyond chance by grade
MAX_NAME_CHARACTERS = 40


@dataclass(frozen=True)
class _Difference:
    column: Column
    excess: float  # the distance beyond chance


def agreement(
    columns: Sequence[Column], sampled: Table, real: Table | None, own: AnswerGrade | None = None
) -> Agreement | None:
    """Compare rows that are sampled under a condition with the real rows that satisfy it.

    With too few of them, the grade is the model's own, if it has one; None without both.
    """
    found = None if real is None else _compare(columns, sampled, real)
    if own is None or (found is not None and found["grade"]):
        return found
    n_real = 0 if real is None else real.n_rows
    # Both counts would be confusing where the real rows are not the training rows: why they are not compared is enough.
    few = f" A comparison needs {MIN_REAL_ROWS} real rows that satisfy it, and there {_are(n_real)}."
    sentence = own.sentence if found is None or n_real >= MIN_REAL_ROWS else own.sentence + few
    return Agreement(source="model", grade=own.grade, rows=n_real, column=None, excess=None, sentence=sentence)


def _are(rows: int) -> str:
    return "is one" if rows == 1 else f"are {rows or 'none'}"


def _compare(columns: Sequence[Column], sampled: Table, real: Table) -> Agreement:
    rows = f"{real.n_rows:,} real row{'' if real.n_rows == 1 else 's'}"
    if not sampled.n_rows or real.n_rows < MIN_REAL_ROWS:
        met = f"{rows} satisf{'ies' if real.n_rows == 1 else 'y'} the condition"
        few = f"No grade: {met}, and a comparison needs {MIN_REAL_ROWS}."
        return Agreement(source="real rows", grade="", rows=real.n_rows, column=None, excess=None, sentence=few)
    found = [_difference(as_category(column), sampled, real, NOISE_LEVEL / len(columns)) for column in columns]
    worst = max((one for one in found if one is not None), key=lambda one: one.excess, default=None)
    if worst is None:
        sentence = "No grade: no column has observed cells in both."
        return Agreement(source="real rows", grade="", rows=real.n_rows, column=None, excess=None, sentence=sentence)
    grade, has_few = grade_of(worst.excess, AGREEMENT_BOUNDS), real.n_rows < MIN_ROWS_FOR_A
    grade = worst_grade(grade, "B") if has_few else grade
    few = " That is few rows, which have little power: they show only large differences." if has_few else ""
    both = _both_values(worst.column, sampled, real)
    if worst.excess <= 0:
        sentence = (
            f"Grade {grade}: no column differs from the {rows} that satisfy it by more than chance explains.{few}"
        )
    else:
        measure = "KS" if worst.column.kind.numeric else "TV"
        sentence = (
            f"Grade {grade}: compared with the {rows} that satisfy it, {_name(worst.column)} differs most: {both}. "
            f"That is a {measure} distance of {format_percent(worst.excess, 2)} beyond chance.{few}"
        )
    excess = float(max(worst.excess, 0.0))
    return Agreement(
        source="real rows",
        grade=grade,
        rows=real.n_rows,
        column=worst.column.name,
        excess=excess,
        sentence=sentence,
    )


def _difference(column: Column, sampled: Table, real: Table, level: float) -> _Difference | None:
    found = distance(column, real, sampled)
    return None if found is None else _Difference(column, found - distance_noise(column, real, sampled, level))


def _both_values(column: Column, sampled: Table, real: Table) -> str:
    """Return the mean, or the category fraction that differs most, of sampled and of real rows."""
    cells = [table.column(column.name) for table in (sampled, real)]
    if column.kind.discrete:
        ours, theirs = (category_fractions(column, one) for one in cells)
        category = max({**ours, **theirs}, key=lambda one: (abs(ours.get(one, 0) - theirs.get(one, 0)), str(one)))
        values = [format_percent(one.get(category, 0.0)) for one in (ours, theirs)]
        what = f"{shorten(format_category(category), shown=MAX_NAME_CHARACTERS)} in"
    else:
        means = [float(coerce(one, column).observed.astype(np.float64).mean()) for one in cells]
        values = [format_rounded_value(column, mean, largest=max(map(abs, means))) for mean in means]
        what = "mean"
    return f"{what} {values[0]} of the sampled and {values[1]} of the real rows"


def _name(column: Column) -> str:
    return shorten(column.name, shown=MAX_NAME_CHARACTERS)
