"""Registry of metrics: name, function, direction, range, one line of help, and what a report says of a value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Literal

from harpoon._formatting import format_percent
from harpoon.metrics.classifiers import detection, utility
from harpoon.metrics.constraints import violation_rate
from harpoon.metrics.imputation import accuracy, coverage, standardised_mse
from harpoon.metrics.marginals import correlation_similarity, ks, total_variation
from harpoon.metrics.neighbours import alpha_precision, authenticity, beta_recall, distance_to_closest, identifiability


@dataclass(frozen=True)
class Metric:
    """A score."""

    title: str  # the name in tables
    function: Callable[..., float]  # of the schema and the `inputs`
    direction: Literal["higher", "lower", "level"]  # which is better; "level": a certain value, not an extreme one
    minimum: float = 0.0  # the smallest possible value
    maximum: float = 1.0  # the largest possible value
    ideal: float | None = None  # the approximate score of new real rows, which the report marks; None if not known
    reads_missing: bool = False  # whether rows may have missing cells; otherwise the report gives it the complete rows
    in_report: bool = True  # whether the report shows it, if its `inputs` are real and synthetic rows
    report_key: str = ""  # its key in the report, if another than here; of one key, the first that can run is shown
    package: str = ""  # what must be installed to compute it
    finds_copies: bool = False  # whether its real rows are those that could have been copied: the training rows
    meaning: str = ""  # of a value, with places for `of_100`, `percent` and `originals`; `help` if it is empty
    low: tuple[float, str] = (-inf, "")  # a bound, and what values below it mean

    @property
    def help(self) -> str:
        """What it measures, in one line: the first line of the docstring of the function.

        >>> METRICS["violation"].help
        'The fraction of rows that do not satisfy a condition.'
        """
        function = self.function.func if isinstance(self.function, partial) else self.function
        text = (inspect.getdoc(function) or "").partition("\n")[0].removeprefix("Return ")
        return text[:1].upper() + text[1:]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The required arguments of the function after the schema.

        >>> METRICS["ks"].inputs, METRICS["violation"].inputs
        (('real', 'synthetic'), ('rows', 'where'))
        """
        parameters = list(inspect.signature(self.function).parameters.values())
        return tuple(parameter.name for parameter in parameters[1:] if parameter.default is parameter.empty)

    @property
    def is_random(self) -> bool:
        """Whether the function takes a seed."""
        return "random_state" in inspect.signature(self.function).parameters

    def explain(self, value: float, originals: str) -> str:
        """Return what a value means, in one sentence or two; `originals` are the rows that could have been copied.

        >>> METRICS["beta"].explain(0.5, "training rows").partition(";")[0]
        '50 of 100 real rows have a synthetic row at least as close as the closest other real row'
        """
        filled = self.meaning.format(of_100=f"{100 * value:.0f}", percent=format_percent(value), originals=originals)
        bound, sentence = self.low
        return (filled or self.help) + (f" {sentence}" if value < bound else "")

    def best(self, values: list[float]) -> float | None:
        """Return the best of some values, or None if there is none.

        >>> METRICS["mse"].best([0.5, float("nan"), 0.4]), METRICS["coverage"].best([0.5])
        (0.4, None)
        """
        numbers = [value for value in values if value == value]  # noqa: PLR0124 - NaN differs from itself
        if not numbers or self.direction == "level":
            return None
        return max(numbers) if self.direction == "higher" else min(numbers)


def _detection(classifier: str, function: Callable[..., float], **facts: Any) -> Metric:  # noqa: ANN401
    """Return the metric of a classifier that tells real from synthetic rows: an AUC."""
    return Metric(
        f"detection by {classifier}",
        function,
        "lower",
        ideal=0.5,
        meaning=f"Given a real and a synthetic row, {classifier} picks the synthetic one in {{of_100}} of 100 pairs; "
        "guessing would be right in 50.",
        low=(0.45, "Fewer than 50 mean that the same rows are in both tables."),
        **facts,
    )


METRICS = {
    "mse": Metric("MSE", standardised_mse, "lower", maximum=inf),
    "accuracy": Metric("accuracy", accuracy, "higher"),
    "coverage": Metric("interval coverage", coverage, "level"),
    "violation": Metric("violation rate", violation_rate, "lower"),
    "detection_xgboost": _detection(
        "XGBoost", detection, reads_missing=True, report_key="detection", package="xgboost"
    ),
    "detection_boosted": _detection(
        "a boosted classifier of scikit-learn",
        partial(detection, classifier="boosted"),
        reads_missing=True,
        report_key="detection",
    ),
    "detection_linear": _detection(
        "a logistic regression", partial(detection, classifier="linear"), report_key="linear_detection"
    ),
    "alpha": Metric(
        "plausible rows (α-precision)",
        alpha_precision,
        "higher",
        ideal=0.98,
        report_key="alpha_precision",
        meaning="Synthetic rows are as typical, and as extreme, as real rows to {percent}; "
        "one half of a real table scores about 98 % against the other half.",
    ),
    "beta": Metric(
        "variety (β-recall)",
        beta_recall,
        "higher",
        ideal=0.5,
        report_key="beta_recall",
        meaning="{of_100} of 100 real rows have a synthetic row at least as close as the closest other real row; "
        "new real rows would reach about 50, only copies 100.",
    ),
    "authenticity": Metric(
        "no copies (authenticity)",
        authenticity,
        "higher",
        ideal=0.5,
        finds_copies=True,
        meaning="{of_100} of 100 synthetic rows are farther from the closest of the {originals} than that row is from "
        "its own closest neighbour; new rows of the same distribution score about 50, and far fewer is a sign of "
        "copies.",
    ),
    # Not in the report, which shows columns, pairs of columns and closest records one by one.
    "ks": Metric("KS similarity", ks, "higher", in_report=False),
    "tv": Metric("total variation similarity", total_variation, "higher", in_report=False),
    "correlation": Metric("pairwise correlation similarity", correlation_similarity, "higher", in_report=False),
    "identifiability": Metric("identifiability", identifiability, "lower", in_report=False),
    "closest": Metric(
        "distance to closest record", distance_to_closest, "level", maximum=inf, in_report=False, finds_copies=True
    ),
    "utility": Metric("utility (AUC)", partial(utility, score="auc"), "higher"),
    "utility_accuracy": Metric("utility (accuracy)", utility, "higher"),
}
