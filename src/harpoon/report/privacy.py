"""Summary of a privacy audit."""

from __future__ import annotations

from harpoon._version import __version__
from harpoon.privacy import Audit
from harpoon.privacy.results import FAMILY_LEVEL, Light
from harpoon.report.summary import Grade, Headline, Summary

GRADES: dict[Light, Grade] = {"green": "good", "yellow": "fair", "red": "poor", "none": "none"}


def summarize_audit(audit: Audit) -> Summary:
    """Return the summary of an audit, from which `Page` makes a page.

    >>> summarize_audit(Audit((), {"train": 0, "holdout": 0, "synthetic": 0}))["headlines"][0]["text"]
    'none'
    """
    lights = [attack.light for attack in audit.attacks]
    counts = ", ".join(f"{lights.count(light)} {light}" for light in ("green", "yellow", "red") if light in lights)
    headline = Headline(
        name="Privacy audit",
        measure="the worst light of all attacks",
        value=None,
        text=audit.light,
        direction="none",
        ideal=None,
        target="",
        meaning=f"Of {len(lights)} attacks: {counts or 'none could be judged'}.",
        grade=GRADES[audit.light],
    )
    privacy = {
        **audit.to_json(),
        "level": FAMILY_LEVEL,
        "grades": {light: GRADES[light] for light in dict.fromkeys(lights)},
    }
    used = audit.rows["train"]
    return Summary(
        kind="audit",
        version=__version__,
        rows={"real": used, "used": used, "complete": None, "synthetic": audit.rows["synthetic"]},
        notes=[*audit.notes, *audit.recommendations],
        headlines=[headline],
        privacy=privacy,
    )
