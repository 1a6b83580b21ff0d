"""Headlines: the few numbers that matter most, each with its standard name, direction, grade and one plain sentence."""

from __future__ import annotations

from collections.abc import Callable

from harpoon._formatting import format_percent, format_rounded, shorten
from harpoon.report.summary import Direction, Grade, Headline, Summary, Target, mean_or_none, nan_if_none

MAX_NAME_CHARACTERS = 40
MIN_GRADED_ROWS = 100  # of each table, for scores of whole rows: with fewer they are mostly noise
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
    """Return at most five headlines, depending on the kind and the parts of the summary."""
    found = [make(summary) for make in HEADLINES[summary["kind"]]]
    return [headline for headline in found if headline is not None]


def _marginals(summary: Summary) -> Headline | None:
    marginals = summary.get("marginals", [])
    distance = mean_or_none(one["distance"] for one in marginals)
    if distance is None:
        return None
    worst = marginals[0]
    excess = nan_if_none(worst["distance"]) - (worst["noise"] or 0.0)
    most = (
        f"{_name(worst['name'])} differs most ({format_percent(nan_if_none(worst['distance']), 2)}, of which chance "
        f"explains up to {format_percent(worst['noise'] or 0.0, 2)})"
        if excess > 0
        else "no column differs by more than chance explains"
    )
    return Headline(
        name="Marginal similarity",
        measure="1 − KS or TV distance, mean of all columns",
        value=1 - distance,
        text=format_percent(1 - distance),
        **_target("higher", 1.0, "100 %"),
        meaning=f"Columns of synthetic rows are distributed like real ones up to {format_percent(distance, 2)} on "
        f"average; {most}.",
        grade=_grade("marginals", distance) if excess > 0 else "good",
    )


def _associations(summary: Summary) -> Headline | None:
    if "associations" not in summary or summary["associations"]["difference"] is None:
        return None
    associations, pair = summary["associations"], summary["associations"]["pairs"][0]
    difference = nan_if_none(associations["difference"])
    is_chance = abs(nan_if_none(pair["real"]) - nan_if_none(pair["synthetic"])) <= nan_if_none(pair["noise"])
    most = (
        "for no two columns by more than chance explains"
        if is_chance
        else f"most beyond chance for {_name(pair['left'])} and {_name(pair['right'])} (real "
        f"{_signed(pair['real'])}, synthetic {_signed(pair['synthetic'])})"
    )
    return Headline(
        name="Association error",
        measure="mean absolute difference of correlations",
        value=difference,
        text=f"{difference:.3f}",
        **_target("lower", 0.0, "0"),
        meaning="The association of two columns (a correlation from −1 to 1, with categories a strength from 0 to 1) "
        f"is off by this much on average; {most}.",
        grade="good" if is_chance else _grade("associations", difference),
    )


def _row_score(name: str, measure: str, *keys: str, sign: int = 1) -> Callable[[Summary], Headline | None]:
    """Return a function that makes a headline of the largest of some scores of whole rows."""

    def make(summary: Summary) -> Headline | None:
        scores = summary["fidelity"]["scores"] if "fidelity" in summary else []
        found = [score for score in scores if score["key"] in keys and score["value"] is not None]
        if not found:
            return None
        # A score of few complete rows does not take the place of one of all rows.
        score = max(found, key=lambda one: (one["rows"], nan_if_none(one["value"])))
        value, ideal = nan_if_none(score["value"]), nan_if_none(score["ideal"])
        return Headline(
            name=name,
            measure=measure,
            value=value,
            text=f"{value:.2f}",
            **_target(score["direction"], ideal, f"{ideal:g}"),
            meaning=score["meaning"],
            grade=_grade(keys[0], sign * value) if score["rows"] >= MIN_GRADED_ROWS else "none",
        )

    return make


def _imputation(summary: Summary) -> Headline | None:
    if "imputation" not in summary or summary["imputation"]["gain"] is None:
        return None
    gain, hidden = summary["imputation"]["gain"], format_percent(summary["imputation"]["gain_at"])
    more_or_less = "less" if gain >= 0 else "more"
    return Headline(
        name="Imputation skill score",
        measure="1 − error of the model / error of mean or mode",
        value=gain,
        text=f"{100 * gain:.0f} %".replace("-", "−"),
        **_target("higher", 1.0, "100 %"),
        meaning=f"With {hidden} of the cells hidden, the model fills them with {100 * abs(gain):.0f} % {more_or_less} "
        "error than the mean or the most frequent category of the column, whose score is 0 %.",
        grade=_grade("imputation", -gain),
    )


def _intervals(summary: Summary) -> Headline | None:
    if "intervals" not in summary:
        return None
    intervals = summary["intervals"]
    coverage, attainable, level = intervals["coverage"], intervals["attainable"], intervals["level"]
    if coverage is None or attainable is None:
        return None
    because = ", because values repeat" if attainable > level + GRADE_BOUNDS["intervals"][0] else ""
    return Headline(
        name="Interval coverage",
        measure=f"of {format_percent(level)} prediction intervals",
        value=coverage,
        text=format_percent(coverage),
        **_target("level", attainable, format_percent(attainable, 2)),
        meaning=f"{format_percent(coverage)} of the hidden numbers are inside their {format_percent(level)} interval; "
        f"a perfect model would reach {format_percent(attainable, 2)}{because}.",
        grade=_grade("intervals", abs(coverage - attainable)),
    )


def _columns(summary: Summary) -> Headline:
    modelled = sum(column["modelled"] for column in summary["columns"])
    meaning = f"The model has learnt {modelled} of the {len(summary['columns'])} columns of its training table."
    return fact("Columns", "modelled", modelled, str(modelled), meaning)


def _training(summary: Summary) -> Headline:
    training = summary["training"]
    if "steps" in training:
        steps = training["steps"]
        return fact("Training", "steps", steps, format_rounded(steps), training["budget"])
    n_epochs = training["epochs"][-1]["number"] if training["epochs"] else 0
    seconds = f"{format_rounded(round(training['seconds']))} s"
    epochs = "1 epoch" if n_epochs == 1 else f"{format_rounded(n_epochs)} epochs"
    meaning = f"The training took {epochs} and was stopped by {training['stopped_by']}."
    return fact("Training time", "seconds", training["seconds"], seconds, meaning)


def _validation_loss(summary: Summary) -> Headline | None:
    losses = [epoch["validation_loss"] for epoch in summary["training"]["epochs"]]
    last = next((loss for loss in reversed(losses) if loss is not None), None)
    if last is None:
        return None
    meaning = "The loss at the end of the training, on rows that were not used for it; it compares models of one table."
    found = fact("Validation loss", "of the denoiser", last, format_rounded(last, digits=3), meaning)
    return {**found, **_target("lower")}


def _calibration(summary: Summary) -> Headline | None:
    training = summary["training"]
    if not training["grade"]:
        return None
    meaning = training["calibration"].partition(". ")[2]
    found = fact("Calibration", "of single held-out cells, from A to D", None, training["grade"], meaning)
    return {**found, "grade": verdict_of(training["grade"])}


def verdict_of(letter: str) -> Grade:
    """Return what a grade from A to D means; "" is none."""
    verdicts: dict[str, Grade] = {"A": "good", "B": "good", "C": "fair", "D": "poor"}
    return verdicts.get(letter, "none")


def fact(name: str, measure: str, value: float | None, text: str, meaning: str) -> Headline:
    """Return a headline that is neither good nor bad."""
    return Headline(
        name=name, measure=measure, value=value, text=text, **_target("none"), meaning=meaning, grade="none"
    )


def _target(direction: Direction, ideal: float | None = None, ideal_text: str = "") -> Target:
    """Return which values of a measure are good, for programs and as text."""
    words = {"higher": "higher is better", "lower": "lower is better", "level": "", "none": ""}[direction]
    texts = [words, f"{ideal_text} is ideal" if ideal_text else ""]
    return Target(direction=direction, ideal=ideal, target=", ".join(filter(None, texts)))


def _grade(key: str, loss: float) -> Grade:
    good, fair = GRADE_BOUNDS[key]
    return "good" if loss <= good else "fair" if loss <= fair else "poor"


def _name(name: str) -> str:
    return shorten(name, shown=MAX_NAME_CHARACTERS)


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}".replace("-", "−")


_DETECTION = _row_score("Detection AUC", "area under the ROC curve of a classifier", "detection", "linear_detection")
_TABLES = (_marginals, _associations, _DETECTION)
HEADLINES: dict[str, tuple[Callable[[Summary], Headline | None], ...]] = {
    "evaluation": (*_TABLES, _imputation, _intervals),
    "comparison": (
        *_TABLES,
        _row_score("β-recall", "variety of the synthetic rows", "beta_recall", sign=-1),
        _row_score("Authenticity", "synthetic rows that are no copies", "authenticity", sign=-1),
    ),
    "description": (_columns, _training, _validation_loss, _calibration),
}
