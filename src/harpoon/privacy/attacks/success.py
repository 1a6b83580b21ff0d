"""Attacks that succeed or fail: the result from both rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harpoon.privacy.attack_results import LEVEL, Attack
from harpoon.privacy.rates import Estimate, Rate, excess_risk


def attack_of_rates(
    name: str,
    rates: Sequence[Rate],
    sentence: str,
    details: dict[str, Any] | None = None,
    *,
    least_error: float = 0.0,
) -> Attack:
    """Return the result of an attack with two rates: on training rows and on hold-out rows."""
    attack, baseline = rates
    risk = excess_risk(attack, baseline, LEVEL, least_error=least_error)
    centre, error = baseline.wilson(LEVEL)
    return Attack.judged(
        name,
        sentence,
        risk=risk,
        rate=attack.value,
        baseline=Estimate(baseline.value, max(centre - error, 0.0), min(centre + error, 1.0)),
        attacks=attack.total,
        details=details or {},
    )
