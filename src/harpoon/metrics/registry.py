"""Every metric by name: what it is called, what is better, and between what it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from harpoon.metrics.classifiers import detection, utility
from harpoon.metrics.constraints import violation_rate
from harpoon.metrics.imputation import accuracy, coverage, standardised_mse
from harpoon.metrics.marginals import correlation_similarity, ks, total_variation
from harpoon.metrics.neighbours import alpha_precision, authenticity, beta_recall, distance_to_closest, identifiability


@dataclass(frozen=True)
class Metric:
    """A score of an answer.

    Attributes:
        title: In tables.
        function: What works it out; the first argument is the schema.
        better: "higher", "lower", or "level" where a given value is wanted and not an extreme one.
        lowest: The lowest value it can have.
        highest: The highest.
    """

    title: str
    function: Callable[..., float]
    direction: str
    minimum: float = 0.0
    maximum: float = 1.0

    def best(self, values: list[float]) -> float | None:
        """The best of some values, if there is such a thing.

        >>> METRICS["mse"].best([0.5, float("nan"), 0.4]), METRICS["coverage"].best([0.5])
        (0.4, None)
        """
        there = [value for value in values if value == value]  # noqa: PLR0124 - NaN is not itself
        if not there or self.direction == "level":
            return None
        return max(there) if self.direction == "higher" else min(there)


METRICS = {
    "mse": Metric("MSE", standardised_mse, "lower", maximum=inf),
    "accuracy": Metric("accuracy", accuracy, "higher"),
    "coverage": Metric("interval coverage", coverage, "level"),
    "violation": Metric("violation rate", violation_rate, "lower"),
    "alpha": Metric("α-precision (naive)", alpha_precision, "higher"),
    "beta": Metric("β-recall (naive)", beta_recall, "higher"),
    "authenticity": Metric("authenticity (naive)", authenticity, "higher"),
    "ks": Metric("KS similarity", ks, "higher"),
    "tv": Metric("total variation similarity", total_variation, "higher"),
    "correlation": Metric("pairwise correlation similarity", correlation_similarity, "higher"),
    "detection_linear": Metric("detection, linear (AUC)", partial(detection, classifier="linear"), "lower"),
    "detection_xgboost": Metric("detection, boosted (AUC)", detection, "lower"),
    "identifiability": Metric("identifiability", identifiability, "lower"),
    "closest": Metric("distance to closest record", distance_to_closest, "level", maximum=inf),
    "utility": Metric("utility (AUC)", partial(utility, score="auc"), "higher"),
    "utility_accuracy": Metric("utility (accuracy)", utility, "higher"),
}
