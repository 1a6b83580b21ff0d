"""Scores of imputed cells and synthetic rows.

A score is a function of a schema and tables that returns a float, in most cases `(schema, real, synthetic) -> float`.
Tables may come from pandas, polars or pyarrow. `METRICS` is the registry of all scores, with direction, range and help.

    imputed cells     standardised_mse, accuracy
                      coverage                 of prediction intervals
    marginals         similarity               per column
                      ks                       Kolmogorov–Smirnov distance (Kolmogorov, 1933; Smirnov, 1948)
                      total_variation          total variation distance
                      correlation_similarity   Pearson's correlations
    distances         alpha_precision, beta_recall, authenticity   (Alaa et al., 2022)
                      identifiability          (Yoon et al., 2020)
                      distance_to_closest, nearest_distances       distance to the closest record (DCR)
    classifiers       detection                classifier two-sample test (Lopez-Paz and Oquab, 2017)
                      utility                  train on synthetic, test on real (Esteban et al., 2017)
    conditions        violation_rate, satisfies
    one table         association              Spearman's ρ, Cramér's V (Cramér, 1946), correlation ratio η

`detection` and `utility` train XGBoost, which the extra "metrics" installs; `detection` also has classifiers of
scikit-learn. `masks` hides cells for experiments (MCAR, MAR, MNAR).
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
