"""Results of attacks: what each measures, and the thresholds of its light.

A light rests on the interval of the excess risk: how much more often an attack succeeds on training rows than on
hold-out rows.

    red      the whole interval lies above the bound of the attack: the risk is real and large
    green    the interval contains 0, or lies below it, and ends below the bound: no such risk, up to chance
    yellow   all else: a risk that is real and small, or too few rows to tell
    none     the attack was not run; the sentence says why

The intervals of all attacks hold together with a probability of 95 % (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from harpoon.privacy.rates import Estimate, Rate, excess_risk

Light = Literal["green", "yellow", "red", "none"]
ORDER: tuple[Light, ...] = ("none", "green", "yellow", "red")
NOT_JUDGED = "not judged"
FAMILY_LEVEL = 0.95  # of the intervals of all attacks together


@dataclass(frozen=True)
class AttackType:
    """What an attack is called, what its two rates are, and from which excess risk on its light is red."""

    title: str
    measure: str
    red: float


ATTACKS = {
    "membership_distance": AttackType(
        "Membership by distance", "AUC of the distance to the closest synthetic row", red=0.1
    ),
    "membership_likelihood": AttackType(
        "Membership by likelihood", "AUC of the likelihood of a row under the model", red=0.1
    ),
    "singling_out": AttackType("Singling out by one column", "descriptions that fit exactly one row", red=0.1),
    "singling_out_combined": AttackType(
        "Singling out by several columns", "descriptions that fit exactly one row", red=0.1
    ),
    "linkability": AttackType("Linkability", "rows whose two halves lead to the same synthetic row", red=0.1),
    "attribute_inference": AttackType(
        "Attribute inference", "unknown cells that the closest synthetic row reveals", red=0.1
    ),
    "exact_copies": AttackType("Exact copies", "real rows that a synthetic row equals", red=0.02),
    "near_copies": AttackType("Near copies", "real rows among the 5 % closest to a synthetic row", red=0.05),
    "rare_values": AttackType("Rare values", "rare labels and extremes that synthetic rows have", red=0.3),
}
SHADOW_MODELS = "membership_shadow_models"  # the attack that is run only if it is asked for
ALL_ATTACKS = {
    **ATTACKS,
    SHADOW_MODELS: AttackType(
        "Membership by shadow models", "AUC of the likelihood less that under models without the row", red=0.1
    ),
}
LEVEL = 1 - (1 - FAMILY_LEVEL) / len(ALL_ATTACKS)  # of the interval of one attack


@dataclass(frozen=True)
class Attack:
    """The result of one attack.

    Attributes:
        name: A key of `ALL_ATTACKS`.
        light: "green", "yellow", "red" or "none".
        sentence: The result in one plain sentence.
        risk: The excess risk: 0 if training rows are attacked no better than hold-out rows, 1 if always; None if the
            attack was not run.
        interval: Of the risk; it may begin below 0, and ends at 1 at most.
        rate: How often the attack succeeds on training rows; the AUC of membership attacks.
        baseline: How often it succeeds on hold-out rows; the AUC of one half of them against the other.
        baseline_interval: Of the baseline.
        attacks: How many training rows, or descriptions, were attacked.
        details: Further numbers.
    """

    name: str
    light: Light
    sentence: str
    risk: float | None = None
    interval: tuple[float, float] | None = None
    rate: float | None = None
    baseline: float | None = None
    baseline_interval: tuple[float, float] | None = None
    attacks: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def judged(
        cls,
        name: str,
        sentence: str,
        *,
        risk: Estimate,
        rate: float,
        baseline: Estimate,
        attacks: int,
        details: Mapping[str, Any],
    ) -> Attack:
        """Return the result of an attack that was run; its light follows from the risk."""
        return cls(
            name,
            light_of(risk, ALL_ATTACKS[name].red),
            sentence,
            risk.value,
            (risk.low, risk.high),
            rate,
            baseline.value,
            (baseline.low, baseline.high),
            attacks,
            dict(details),
        )

    @classmethod
    def of_rates(
        cls,
        name: str,
        rates: Sequence[Rate],
        sentence: str,
        details: Mapping[str, Any] | None = None,
        *,
        least_error: float = 0.0,
    ) -> Attack:
        """Return the result of an attack that succeeds or fails: its rates on training rows and on hold-out rows."""
        attack, baseline = rates
        centre, error = baseline.wilson(LEVEL)
        return cls.judged(
            name,
            sentence,
            risk=excess_risk(attack, baseline, LEVEL, least_error=least_error),
            rate=attack.value,
            baseline=Estimate(baseline.value, max(centre - error, 0.0), min(centre + error, 1.0)),
            attacks=attack.total,
            details=details or {},
        )

    @property
    def title(self) -> str:
        """The name for people."""
        return ALL_ATTACKS[self.name].title

    @property
    def is_open(self) -> bool:
        """Whether there were too few rows to find a risk, or to exclude a large one."""
        return self.light == "yellow" and (self.interval is None or self.interval[0] <= 0)

    @property
    def verdict(self) -> str:
        """What the light means here, in a few words."""
        if self.light == "yellow":
            return "too few rows to exclude a risk" if self.is_open else "a risk that is measurable"
        return {"green": "no risk found", "red": "a large risk", "none": NOT_JUDGED}[self.light]

    @property
    def signal(self) -> str:
        """The light in words for people."""
        return signal_of(self.light)

    @property
    def lead(self) -> str:
        """The title and, if there is one, the verdict."""
        return self.title if self.light == "none" else f"{self.title}: {self.verdict}"

    @classmethod
    def not_run(cls, name: str, reason: str) -> Attack:
        """Return the result of an attack that was not run."""
        return cls(name, "none", f"Not measured: {reason}.")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, with the title and the bound of the red light."""
        kind = ALL_ATTACKS[self.name]
        return {**asdict(self), "verdict": self.verdict, "title": kind.title, "measure": kind.measure, "red": kind.red}


def signal_of(light: Light) -> str:
    """Return a light in words for people: "none" could be read as "no risk"."""
    return NOT_JUDGED if light == "none" else light


def light_of(risk: Estimate, red: float) -> Light:
    """Return the light of an excess risk.

    >>> [light_of(Estimate(*risk), 0.1) for risk in [(0.0, -0.05, 0.05), (0.02, 0.01, 0.03), (0.2, 0.15, 0.25)]]
    ['green', 'yellow', 'red']
    """
    if not math.isfinite(risk.low) or not math.isfinite(risk.high):
        return "none"
    if risk.low > red:
        return "red"
    return "green" if risk.low <= 0 and risk.high < red else "yellow"


def worst_light(lights: Iterable[Light]) -> Light:
    """Return the worst of some lights; "none" is better than all others.

    >>> worst_light(["green", "none", "yellow"])
    'yellow'
    """
    return max(lights, key=ORDER.index, default="none")
