"""The grade of an answer under a condition, from what the model file holds: its calibration and the support.

It needs no real rows, and is worth less than a comparison with them (`harpoon.report.agreement`): the calibration is
that of all held-out cells, not of those under the condition. Few supporting rows lower it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harpoon._utils.letter_grades import WORST_GRADE, worst_grade
from harpoon.inference.diagnostics.support import MIN_SUPPORT_ROWS, Support
from harpoon.training.calibration import Calibration

MIN_GRADED_ROWS = 30  # an answer that fewer training rows support has the grade C at best
OWN_CHECK = "from the model's calibration and support, not from a comparison with real rows"


@dataclass(frozen=True)
class AnswerGrade:
    """A grade from A to D ("": none), and one sentence, which says where it comes from."""

    grade: str
    sentence: str


def grade_answer(calibration: Calibration, support: Support) -> AnswerGrade:
    """Return the grade of an answer: that of the calibration; C at best of few or uncounted rows, D of hardly any.

    An answer to a contradiction has none.
    """
    if support.is_impossible:
        return AnswerGrade("", "No grade: no row can satisfy the condition.")
    met = f"{support.count_text} satisfy the condition"
    if support.is_extrapolation:
        few = f"{met}, fewer than {MIN_SUPPORT_ROWS}"
        return AnswerGrade(WORST_GRADE, f"Grade {WORST_GRADE}: {OWN_CHECK}; {few}.")
    if not calibration.grade:
        return AnswerGrade("", f"No grade: the model has none of its own; {met}.")
    is_small = support.count < MIN_GRADED_ROWS
    is_unsure = is_small or support.is_modelled  # the calibration is that of cells, not of differences between them
    grade = worst_grade(calibration.grade, "C") if is_unsure else calibration.grade
    met = f"{met}, which are fewer than {MIN_GRADED_ROWS}" if is_small else met
    return AnswerGrade(grade, f"Grade {grade}: {OWN_CHECK}; the calibration is {calibration.grade}, and {met}.")
