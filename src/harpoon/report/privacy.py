"""Summary of a privacy audit."""

from __future__ import annotations

from harpoon._version import __version__
from harpoon.privacy import Audit
from harpoon.privacy.attack_results import FAMILY_LEVEL, Light, signal_of
from harpoon.report.headlines import fact
from harpoon.report.summary import Grade, Headline, Summary

GRADES_OF_LIGHTS: dict[Light, Grade] = {"green": "good", "yellow": "fair", "red": "poor", "none": "none"}


def summarize_audit(audit: Audit) -> Summary:
    """Return the summary of an audit, from which `Page` makes a page.

    >>> summarize_audit(Audit((), {"train": 0, "holdout": 0, "synthetic": 0}))["headlines"][0]["text"]
    'not judged'
    """
    privacy = {
        **audit.to_json(),
        "level": FAMILY_LEVEL,
        "grades": {light: GRADES_OF_LIGHTS[light] for light in dict.fromkeys(attack.light for attack in audit.attacks)},
        "signals": {attack.name: attack.signal for attack in audit.attacks},
    }
    used = audit.rows["train"]
    summary = Summary(
        kind="audit",
        version=__version__,
        rows={"real": used, "used": used, "complete": None, "synthetic": audit.rows["synthetic"]},
        notes=list(audit.notes),
        headlines=[_light(audit), _largest_risk(audit)],
        privacy=privacy,
    )
    if audit.recommendations:
        summary["advice"] = list(audit.recommendations)
    if audit.facts:
        summary["subject"] = audit.facts
    return summary


def _light(audit: Audit) -> Headline:
    lights = [attack.light for attack in audit.attacks]
    counts = ", ".join(f"{lights.count(light)} {signal_of(light)}" for light in GRADES_OF_LIGHTS if light in lights)
    meaning = f"Of {len(lights)} attacks: {counts or 'none'}."
    found = fact("Privacy audit", "the worst light of all attacks", None, audit.signal, meaning)
    return {**found, "grade": GRADES_OF_LIGHTS[audit.light]}


def _largest_risk(audit: Audit) -> Headline:
    """Return the headline of the attack whose risk is certainly the largest: by the lower end of its interval."""
    judged = [attack for attack in audit.attacks if attack.interval is not None and attack.light != "none"]
    worst = max(judged, key=lambda attack: attack.interval[0] if attack.interval else 0.0, default=None)
    low, high = (worst.interval if worst else None) or (0.0, 0.0)
    return Headline(
        name="Largest risk",
        measure="excess of an attack on training rows over hold-out rows",
        value=None if worst is None else worst.risk,
        text="none" if worst is None or worst.risk is None else f"{worst.risk:.2f}",
        direction="lower",
        ideal=0.0,
        target="" if worst is None else f"interval: {low:.2f} to {high:.2f}",
        meaning="No attack was judged." if worst is None else f"{worst.title}.",
        grade="none",
    )
