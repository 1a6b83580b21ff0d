"""Registry of metrics: name, function, direction, range and one line of help."""

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
    """A score.

    Attributes:
        title: The name in tables.
        function: Takes the schema and the `inputs`, and returns a float.
        direction: "higher" or "lower" is better; "level": a certain value is best, not an extreme one.
        help: What it measures, in one line.
        minimum: The smallest possible value.
        maximum: The largest possible value.
        inputs: The arguments of the function after the schema.
    """

    title: str
    function: Callable[..., float]
    direction: str
    help: str
    minimum: float = 0.0
    maximum: float = 1.0
    inputs: tuple[str, ...] = ("real", "synthetic")

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
    "mse": Metric(
        "MSE",
        standardised_mse,
        "lower",
        "Mean squared error of imputed numeric cells, in standard deviations of the training column.",
        maximum=inf,
        inputs=("truth", "imputed", "mask", "train"),
    ),
    "accuracy": Metric(
        "accuracy",
        accuracy,
        "higher",
        "Fraction of imputed categorical cells with the true category.",
        inputs=("truth", "imputed", "mask"),
    ),
    "coverage": Metric(
        "interval coverage",
        coverage,
        "level",
        "Fraction of hidden numeric cells with the true value in the interval; best at the level of the interval.",
        inputs=("truth", "interval", "mask"),
    ),
    "violation": Metric(
        "violation rate",
        violation_rate,
        "lower",
        "Fraction of rows that do not satisfy the condition.",
        inputs=("rows", "where"),
    ),
    "alpha": Metric(
        "α-precision (naive)",
        alpha_precision,
        "higher",
        "Whether synthetic rows are as central, or as far out, as real rows (Alaa et al., 2022).",
    ),
    "beta": Metric(
        "β-recall (naive)",
        beta_recall,
        "higher",
        "Whether the synthetic rows cover the real rows (Alaa et al., 2022); new real rows score about 0.5.",
    ),
    "authenticity": Metric(
        "authenticity (naive)",
        authenticity,
        "higher",
        "Fraction of synthetic rows that are not copies (Alaa et al., 2022); new real rows score about 0.5.",
    ),
    "ks": Metric("KS similarity", ks, "higher", "1 - Kolmogorov–Smirnov distance, mean over numeric columns."),
    "tv": Metric(
        "total variation similarity",
        total_variation,
        "higher",
        "1 - total variation distance, mean over categorical columns.",
    ),
    "correlation": Metric(
        "pairwise correlation similarity",
        correlation_similarity,
        "higher",
        "1 - half the difference of Pearson's correlations, mean over pairs of numeric columns.",
    ),
    "detection_linear": Metric(
        "detection, linear (AUC)",
        partial(detection, classifier="linear"),
        "lower",
        "AUC of a logistic regression that separates synthetic from real rows; 0.5 if it cannot.",
    ),
    "detection_xgboost": Metric(
        "detection, boosted (AUC)",
        detection,
        "lower",
        "AUC of XGBoost that separates synthetic from real rows; 0.5 if it cannot.",
    ),
    "identifiability": Metric(
        "identifiability",
        identifiability,
        "lower",
        "Fraction of real rows with a synthetic row nearer than any other real row (Yoon et al., 2020).",
    ),
    "closest": Metric(
        "distance to closest record",
        distance_to_closest,
        "level",
        "Median distance of a synthetic row to the nearest real row; best at that of test rows.",
        maximum=inf,
    ),
    "utility": Metric(
        "utility (AUC)",
        partial(utility, score="auc"),
        "higher",
        "AUC on real rows of XGBoost that was trained on synthetic rows.",
        inputs=("train", "test", "target"),
    ),
    "utility_accuracy": Metric(
        "utility (accuracy)",
        utility,
        "higher",
        "Accuracy on real rows of XGBoost that was trained on synthetic rows.",
        inputs=("train", "test", "target"),
    ),
}
