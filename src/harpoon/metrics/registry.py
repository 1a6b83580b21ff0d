"""Registry of metrics: name, function, direction, range and one line of help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Literal

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

    def best(self, values: list[float]) -> float | None:
        """Return the best of some values, or None if there is none.

        >>> METRICS["mse"].best([0.5, float("nan"), 0.4]), METRICS["coverage"].best([0.5])
        (0.4, None)
        """
        numbers = [value for value in values if value == value]  # noqa: PLR0124 - NaN differs from itself
        if not numbers or self.direction == "level":
            return None
        return max(numbers) if self.direction == "higher" else min(numbers)


METRICS = {
    "mse": Metric("MSE", standardised_mse, "lower", maximum=inf),
    "accuracy": Metric("accuracy", accuracy, "higher"),
    "coverage": Metric("interval coverage", coverage, "level"),
    "violation": Metric("violation rate", violation_rate, "lower"),
    "detection_xgboost": Metric("detection by XGBoost", detection, "lower", ideal=0.5, reads_missing=True),
    "detection_boosted": Metric(
        "detection by a boosted classifier of scikit-learn",
        partial(detection, classifier="boosted"),
        "lower",
        ideal=0.5,
        reads_missing=True,
    ),
    "detection_linear": Metric(
        "detection by a logistic regression", partial(detection, classifier="linear"), "lower", ideal=0.5
    ),
    "alpha": Metric("plausible rows (α-precision)", alpha_precision, "higher", ideal=0.98),
    "beta": Metric("variety (β-recall)", beta_recall, "higher", ideal=0.5),
    "authenticity": Metric("no copies (authenticity)", authenticity, "higher", ideal=0.5),
    # Not in the report, which shows columns, pairs of columns and closest records one by one.
    "ks": Metric("KS similarity", ks, "higher", in_report=False),
    "tv": Metric("total variation similarity", total_variation, "higher", in_report=False),
    "correlation": Metric("pairwise correlation similarity", correlation_similarity, "higher", in_report=False),
    "identifiability": Metric("identifiability", identifiability, "lower", in_report=False),
    "closest": Metric("distance to closest record", distance_to_closest, "level", maximum=inf, in_report=False),
    "utility": Metric("utility (AUC)", partial(utility, score="auc"), "higher"),
    "utility_accuracy": Metric("utility (accuracy)", utility, "higher"),
}
