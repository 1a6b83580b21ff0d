"""Letter grades: A is the best and D the worst."""

from __future__ import annotations

from collections.abc import Mapping

WORST_GRADE = "D"


def grade_of(loss: float, bounds: Mapping[str, float]) -> str:
    """Return the grade of a loss, given the largest one of each grade, the best first; D above all of them.

    >>> grade_of(0.04, {"A": 0.02, "B": 0.05}), grade_of(0.06, {"A": 0.02, "B": 0.05})
    ('B', 'D')
    """
    return next((grade for grade, bound in bounds.items() if loss <= bound), WORST_GRADE)


def worst_grade(*grades: str) -> str:
    """Return the worst of some grades: that of the latest letter."""
    return max(grades)
