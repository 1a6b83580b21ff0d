"""How good an answer is: functions of tables that return a number.

    of filled cells     standardised_mse, accuracy, coverage
    of drawn rows       similarity, column by column
                        alpha_precision, beta_recall, authenticity, nearest_distances, by where the rows lie
                        detection, by how well a classifier tells them from real rows
                        utility, by how well a classifier learns from them
    of one table        association, how strongly its columns go together, two at a time

Tables may come from pandas, polars or pyarrow; a `Schema` says what their columns are. `detection` and `utility` train
XGBoost, which the extra "bench" brings; `detection` can also do without.
"""

from harpoon.metrics.associations import association
from harpoon.metrics.cellwise import accuracy, coverage, standardised_mse
from harpoon.metrics.classifiers import detection, utility
from harpoon.metrics.marginals import similarity
from harpoon.metrics.neighbourhoods import alpha_precision, authenticity, beta_recall, nearest_distances

__all__ = [
    "accuracy",
    "alpha_precision",
    "association",
    "authenticity",
    "beta_recall",
    "coverage",
    "detection",
    "nearest_distances",
    "similarity",
    "standardised_mse",
    "utility",
]
