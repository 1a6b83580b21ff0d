"""The few numbers that matter, each with a sentence of verdict, read off the other parts of a summary."""

from __future__ import annotations

from collections.abc import Iterator

from harpoon._text import shorten
from harpoon.report.rows import figure, known, mean, percent
from harpoon.report.summary import Grade, Headline, Intervals, Marginal, Summary, Training

NAME = 40
BOUNDS = {  # up to the first it is good, up to the second fair
    "columns": (0.05, 0.15),
    "associations": (0.03, 0.08),
    "detection": (0.6, 0.75),
    "intervals": (0.03, 0.08),
    "filling": (-0.15, -0.02),
    "copies": (-0.45, -0.3),
    "variety": (-0.4, -0.25),
}


def headlines(summary: Summary) -> list[Headline]:
    """Five at the most; which ones depends on what the summary holds."""
    return list(_all(summary))


def _all(summary: Summary) -> Iterator[Headline]:
    if "likeness" in summary or summary["kind"] != "described":
        yield from _columns(summary.get("marginals", []))
        yield from _associations(summary)
        yield from _detection(summary)
    if summary["kind"] == "compared":
        yield from _variety_and_copies(summary)
    yield from _filling(summary)
    if "intervals" in summary:
        yield from _intervals(summary["intervals"])
    if summary["kind"] == "described":
        modelled = sum(fact["modelled"] for fact in summary["columns"])
        meaning = f"The model learnt {modelled} of the {len(summary['columns'])} columns of its training table."
        yield Headline(name="Columns", value=modelled, shown=str(modelled), meaning=meaning, grade="plain")
        yield from _training(summary["training"])


def _columns(marginals: list[Marginal]) -> Iterator[Headline]:
    away = mean([one["distance"] for one in marginals])
    if away is None:
        return
    worst = shorten(marginals[0]["name"], shown=NAME)
    meaning = (
        f"The distributions of a column in drawn and in real rows differ by {percent(away)} on average. The farthest "
        f"is {worst}, by {percent(known(marginals[0]['distance']))}."
    )
    yield Headline(
        name="Columns alike", value=1 - away, shown=percent(1 - away), meaning=meaning, grade=_grade("columns", away)
    )


def _associations(summary: Summary) -> Iterator[Headline]:
    found = summary.get("associations")
    apart = found["difference"] if found else None
    if found is None or apart is None:
        return
    pair = found["pairs"][0]
    names = " and ".join(shorten(name, shown=NAME) for name in (pair["left"], pair["right"]))
    meaning = (
        "How strongly two columns go together differs by this much on average, on a scale from 0 to 1. Most for "
        f"{names}: {_signed(pair['real'])} in real rows, {_signed(pair['drawn'])} in drawn ones."
    )
    yield Headline(
        name="Relations off by",
        value=apart,
        shown=f"{apart:.3f}",
        meaning=meaning,
        grade=_grade("associations", apart),
    )


def _detection(summary: Summary) -> Iterator[Headline]:
    if "likeness" in summary:
        score = max(summary["likeness"]["scores"][:2], key=lambda one: one["value"])
        yield Headline(
            name="Told apart",
            value=score["value"],
            shown=f"{100 * score['value']:.0f} in 100",
            meaning=score["meaning"],
            grade=_grade("detection", score["value"]),
        )


def _variety_and_copies(summary: Summary) -> Iterator[Headline]:
    if "likeness" not in summary:
        return
    variety, copies = summary["likeness"]["scores"][3:5]
    for key, name, score in (("variety", "Variety", variety), ("copies", "No copies", copies)):
        yield Headline(
            name=name,
            value=score["value"],
            shown=f"{100 * score['value']:.0f} in 100",
            meaning=score["meaning"],
            grade=_grade(key, -score["value"]),
        )


def _filling(summary: Summary) -> Iterator[Headline]:
    found = summary.get("filling")
    if found is None or found["gain"] is None:
        return
    gain = found["gain"]
    at = next(one for one in found["by_share"] if one["missing"] == found["gain_at"])
    details = []
    if at["error"] is not None:
        details.append(
            f"numbers have {at['error']:.2f} of their variance as error (means: {known(at['error_of_mean']):.2f})"
        )
    if at["accuracy"] is not None:
        details.append(
            f"{100 * at['accuracy']:.0f} of 100 labels are right (modes: {100 * known(at['accuracy_of_mode']):.0f})"
        )
    amount = f"{percent(abs(gain))} {'less' if gain >= 0 else 'more'} is lost than by filling in means and modes"
    yield Headline(
        name="Filled cells",
        value=gain,
        shown=f"{100 * abs(gain):.0f} % {'less' if gain >= 0 else 'more'} lost",
        meaning=f"With {percent(at['missing'])} of the cells hidden, {amount}: {', and '.join(details)}.",
        grade=_grade("filling", -gain),
    )


def _intervals(found: Intervals) -> Iterator[Headline]:
    inside, attainable, level = found["inside"], found["attainable"], found["level"]
    if inside is None or attainable is None:
        return
    repeat = ", since values repeat" if attainable > level + BOUNDS["intervals"][0] else ""
    meaning = (
        f"{100 * inside:.0f} of 100 hidden numbers lie inside their {percent(level)} interval. If the draws were "
        f"perfect, {100 * attainable:.0f} would{repeat}."
    )
    grade = _grade("intervals", abs(inside - attainable))
    yield Headline(
        name=f"{percent(level)} intervals",
        value=inside,
        shown=percent(inside),
        meaning=meaning,
        grade=grade,
    )


def _training(training: Training) -> Iterator[Headline]:
    seconds = training["seconds"]
    passes = training["curve"][-1]["number"] if training["curve"] else 0
    meaning = f"{figure(passes)} passes over the training rows, ended by {training['stopped_by']}."
    yield Headline(name="Training", value=seconds, shown=f"{figure(round(seconds))} s", meaning=meaning, grade="plain")
    held_out = next(
        (one["held_out_loss"] for one in reversed(training["curve"]) if one["held_out_loss"] is not None), None
    )
    if held_out is not None:
        meaning = "The loss on rows that the training did not see, at its end. It falls as the model learns."
        yield Headline(
            name="Held-out loss", value=held_out, shown=figure(float(f"{held_out:.3g}")), meaning=meaning, grade="plain"
        )


def _grade(what: str, value: float) -> Grade:
    good, fair = BOUNDS[what]
    return "good" if value <= good else "fair" if value <= fair else "poor"


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}".replace("-", "−")
