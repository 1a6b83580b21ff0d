"""Headlines: the few numbers that matter most, each with a verdict and a sentence, from the parts of a summary."""

from __future__ import annotations

from collections.abc import Iterator

from harpoon._text import format_percent, format_rounded, shorten
from harpoon.report.summary import (
    Associations,
    Fidelity,
    Grade,
    Headline,
    Imputation,
    Intervals,
    Marginal,
    Score,
    Summary,
    Training,
    mean_or_none,
    nan_if_none,
)

MAX_NAME_CHARACTERS = 40
# A loss up to the first bound is good, up to the second fair. Scores that should be large have their sign changed.
GRADE_BOUNDS = {
    "marginals": (0.05, 0.15),
    "associations": (0.03, 0.08),
    "detection": (0.6, 0.75),
    "intervals": (0.03, 0.08),
    "imputation": (-0.15, -0.02),
    "authenticity": (-0.45, -0.3),
    "beta_recall": (-0.4, -0.25),
}


def headlines(summary: Summary) -> list[Headline]:
    """Return at most five headlines, depending on the parts of the summary."""
    return list(_headlines(summary))


def _headlines(summary: Summary) -> Iterator[Headline]:
    if summary["kind"] != "description":
        yield from _marginals(summary.get("marginals", []))
        if "associations" in summary:
            yield from _associations(summary["associations"])
        if "fidelity" in summary:
            yield from _detection(summary["fidelity"])
    if summary["kind"] == "comparison" and "fidelity" in summary:
        yield from _variety_and_copies(summary["fidelity"])
    if "imputation" in summary:
        yield from _imputation(summary["imputation"])
    if "intervals" in summary:
        yield from _intervals(summary["intervals"])
    if summary["kind"] == "description":
        modelled = sum(column["modelled"] for column in summary["columns"])
        meaning = f"The model has learnt {modelled} of the {len(summary['columns'])} columns of its training table."
        yield Headline(name="Columns", value=modelled, text=str(modelled), meaning=meaning, grade="none")
        yield from _training(summary["training"])


def _marginals(marginals: list[Marginal]) -> Iterator[Headline]:
    distance = mean_or_none(one["distance"] for one in marginals)
    if distance is None:
        return
    worst = marginals[0]
    yield Headline(
        name="Column similarity",
        value=1 - distance,
        text=format_percent(1 - distance),
        meaning=f"The distribution of a column differs by {format_percent(distance)} on average between synthetic and "
        f"real rows. The largest difference is {format_percent(nan_if_none(worst['distance']))}, in "
        f"{_name(worst['name'])}.",
        grade=_grade("marginals", distance),
    )


def _associations(associations: Associations) -> Iterator[Headline]:
    difference = associations["difference"]
    if difference is None:
        return
    pair = associations["pairs"][0]
    yield Headline(
        name="Association error",
        value=difference,
        text=f"{difference:.3f}",
        meaning="The association of two columns, on a scale from 0 to 1, differs by this much on average. "
        f"The largest difference is between {_name(pair['left'])} and {_name(pair['right'])}: "
        f"{_signed(pair['real'])} in real rows, {_signed(pair['synthetic'])} in synthetic rows.",
        grade=_grade("associations", difference),
    )


def _detection(fidelity: Fidelity) -> Iterator[Headline]:
    """Yield the result of the classifier that does best."""
    best = max((score for score in fidelity["scores"] if "detection" in score["key"]), key=lambda score: score["value"])
    yield _of_100("Detection", best, _grade("detection", best["value"]))


def _variety_and_copies(fidelity: Fidelity) -> Iterator[Headline]:
    scores = {score["key"]: score for score in fidelity["scores"]}
    for key, name in (("beta_recall", "Variety"), ("authenticity", "No copies")):
        if key in scores:
            yield _of_100(name, scores[key], _grade(key, -scores[key]["value"]))


def _of_100(name: str, score: Score, grade: Grade) -> Headline:
    text = f"{100 * score['value']:.0f} of 100"
    return Headline(name=name, value=score["value"], text=text, meaning=score["meaning"], grade=grade)


def _imputation(imputation: Imputation) -> Iterator[Headline]:
    gain = imputation["gain"]
    if gain is None:
        return
    score = next(one for one in imputation["scores"] if one["hidden"] == imputation["gain_at"])
    more_or_less = "less" if gain >= 0 else "more"
    meaning = (
        f"With {format_percent(score['hidden'])} of the cells hidden, the error is {format_percent(abs(gain))} "
        f"{more_or_less} than with means and modes."
    )
    if score["mse"] is not None:
        of_mean = nan_if_none(score["mse_of_mean"])
        meaning += f" Numeric columns: {score['mse']:.2f} of the variance remains (means: {of_mean:.2f})."
    if score["accuracy"] is not None:
        of_mode = 100 * nan_if_none(score["accuracy_of_mode"])
        meaning += f" Categories: {100 * score['accuracy']:.0f} of 100 are right (modes: {of_mode:.0f})."
    yield Headline(
        name="Imputation",
        value=gain,
        text=f"{100 * abs(gain):.0f} % {more_or_less} error",
        meaning=meaning,
        grade=_grade("imputation", -gain),
    )


def _intervals(intervals: Intervals) -> Iterator[Headline]:
    coverage, attainable, level = intervals["coverage"], intervals["attainable"], intervals["level"]
    if coverage is None or attainable is None:
        return
    because = ", because values repeat" if attainable > level + GRADE_BOUNDS["intervals"][0] else ""
    yield Headline(
        name=f"{format_percent(level)} intervals",
        value=coverage,
        text=format_percent(coverage),
        meaning=f"{100 * coverage:.0f} of 100 hidden numbers are inside their {format_percent(level)} interval. With a "
        f"perfect model {100 * attainable:.0f} would be{because}.",
        grade=_grade("intervals", abs(coverage - attainable)),
    )


def _training(training: Training) -> Iterator[Headline]:
    seconds, epochs = training["seconds"], training["epochs"]
    n_epochs = epochs[-1]["number"] if epochs else 0
    yield Headline(
        name="Training",
        value=seconds,
        text=f"{format_rounded(round(seconds))} s",
        meaning=f"{format_rounded(n_epochs)} epochs, stopped by {training['stopped_by']}.",
        grade="none",
    )
    losses = [epoch["validation_loss"] for epoch in epochs if epoch["validation_loss"] is not None]
    if losses:
        yield Headline(
            name="Validation loss",
            value=losses[-1],
            text=format_rounded(losses[-1], digits=3),
            meaning="The loss at the end of the training, on rows that were not used for it.",
            grade="none",
        )


def _grade(key: str, loss: float) -> Grade:
    good, fair = GRADE_BOUNDS[key]
    return "good" if loss <= good else "fair" if loss <= fair else "poor"


def _name(name: str) -> str:
    return shorten(name, shown=MAX_NAME_CHARACTERS)


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}".replace("-", "−")
