"""How good an answer is: functions of tables that return a number.

    of filled cells     standardised_mse, accuracy, coverage
    of drawn rows       similarity, column by column; ks and total_variation, its means
                        correlation_similarity, pair by pair
                        alpha_precision, beta_recall, authenticity, nearest_distances, by where the rows lie
                        identifiability, distance_to_closest, by how near they come to real ones
                        violation_rate, by a condition
                        detection, by how well a classifier tells them from real rows
                        utility, by how well a classifier learns from them
    of one table        association, how strongly its columns go together, two at a time

Tables may come from pandas, polars or pyarrow; a `Schema` says what their columns are. `detection` and `utility` train
XGBoost, which the extra "metrics" installs; `detection` can also do without. `METRICS` lists all that give one number, with
what is better and the range.
"""

from harpoon.metrics.associations import association
from harpoon.metrics.classifiers import detection, utility
from harpoon.metrics.constraints import satisfies, violation_rate
from harpoon.metrics.imputation import accuracy, coverage, standardised_mse
from harpoon.metrics.marginals import correlation_similarity, ks, similarity, total_variation
from harpoon.metrics.neighbours import (
    alpha_precision,
    authenticity,
    beta_recall,
    distance_to_closest,
    identifiability,
    nearest_distances,
)
from harpoon.metrics.registry import METRICS, Metric

__all__ = [
    "METRICS",
    "Metric",
    "accuracy",
    "alpha_precision",
    "association",
    "authenticity",
    "beta_recall",
    "correlation_similarity",
    "coverage",
    "detection",
    "distance_to_closest",
    "identifiability",
    "ks",
    "nearest_distances",
    "satisfies",
    "similarity",
    "standardised_mse",
    "total_variation",
    "utility",
    "violation_rate",
]
