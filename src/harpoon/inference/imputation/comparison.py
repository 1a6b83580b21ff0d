"""Tests of nested models on several completed tables: D1 (Wald) and D4 (likelihood ratio)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harpoon._formatting import format_list
from harpoon._utils import cards
from harpoon.data import Floats, dataframe
from harpoon.exceptions import InvalidOption
from harpoon.inference.imputation.pooling import Estimator, check_df, fit_tables, term_names

METHODS = ("D1", "D4")
MIN_SMALL_SAMPLE = 4  # k(m - 1) from which on Reiter's degrees of freedom exist; at it they are 4, as in mice


@dataclass(frozen=True)
class ModelComparison(cards.Displayed):
    """A test of the hypothesis that the smaller of two nested models holds.

    Attributes:
        method: "D1" or "D4".
        terms: The parameters that only the larger model has.
        statistic: The F statistic.
        df1: Its numerator degrees of freedom, the number of terms.
        df2: Its denominator degrees of freedom.
        riv: The average relative increase in variance due to missing cells.
    """

    method: str
    terms: tuple[str, ...]
    statistic: float
    df1: int
    df2: float
    riv: float

    @property
    def p_value(self) -> float:
        """The probability of a larger statistic if the smaller model holds."""
        from scipy.stats import chi2, f

        if np.isinf(self.df2):
            return float(chi2.sf(self.df1 * self.statistic, self.df1))
        return float(f.sf(self.statistic, self.df1, self.df2))

    def __str__(self) -> str:
        return (
            f"{self.method} test of {format_list(self.terms)}: F({self.df1}, {self.df2:.4g}) = {self.statistic:.4g}, "
            f"p = {self.p_value:.3g}, riv = {self.riv:.3g}"
        )

    def _card(self) -> cards.Html:
        pairs = {
            "tested": cards.Html(", ".join(map(cards.code, self.terms))),
            "statistic": f"F({self.df1}, {self.df2:.4g}) = {self.statistic:.4g}",
            "p-value": f"{self.p_value:.3g}",
            "relative increase in variance": f"{self.riv:.3g}",
        }
        return cards.card(f"{self.method} test of nested models", cards.facts(pairs))


def compare(
    tables: Sequence[Any], larger: Estimator, smaller: Estimator, *, method: str, df_complete: float | None = None
) -> ModelComparison:
    """Compare nested models; see `MultipleImputation.compare`."""
    if method not in METHODS:
        raise InvalidOption.one_of("method", method, METHODS)
    if df_complete is not None and method != "D1":
        raise InvalidOption("df_complete has no effect on D4, which is a large-sample test. Use method='D1'.")
    fits, nulls = fit_tables(tables, larger), fit_tables(tables, smaller)
    for fit in (fits[0], nulls[0]):
        if not all(hasattr(fit, name) for name in ("params", "cov_params", "llf")):
            raise InvalidOption(
                f"Models to compare must be results of statsmodels (params, cov_params, llf), got {type(fit).__name__}."
            )
    names, null_names = term_names(fits[0]), term_names(nulls[0])
    tested = [index for index, name in enumerate(names) if name not in null_names]
    if not tested or not set(null_names) <= set(names):
        raise InvalidOption(
            "The larger model must have all parameters of the smaller one, and more. They have "
            f"{format_list(names)} and {format_list(null_names)}."
        )
    terms = tuple(names[index] for index in tested)
    if method == "D1":
        df = float(getattr(fits[0], "df_resid", np.inf)) if df_complete is None else check_df(df_complete)
        return _wald(terms, fits, np.array(tested), df)
    stacked = dataframe.stack(tables)
    of_table = np.mean([2 * (fit.llf - null.llf) for fit, null in zip(fits, nulls, strict=True)])
    of_stack = 2 * (larger(stacked).llf - smaller(stacked).llf) / len(tables)
    return _likelihood_ratio(terms, float(of_table), float(of_stack), len(tables))


def _wald(terms: tuple[str, ...], fits: Sequence[Any], tested: Any, df_complete: float) -> ModelComparison:  # noqa: ANN401
    """Return D1 (Li, Raghunathan & Rubin, 1991), with the degrees of freedom of Reiter (2007) for small samples."""
    estimates = np.stack([np.asarray(fit.params, dtype=np.float64)[tested] for fit in fits])
    covariances = np.stack([np.asarray(fit.cov_params(), dtype=np.float64)[np.ix_(tested, tested)] for fit in fits])
    m, k = estimates.shape
    within, mean = covariances.mean(axis=0), estimates.mean(axis=0)
    between: Floats = np.cov(estimates, rowvar=False).reshape(k, k)
    riv = float((1 + 1 / m) * np.trace(np.linalg.solve(within, between)) / k)
    statistic = float(mean @ np.linalg.solve(within, mean) / (k * (1 + riv)))
    return ModelComparison("D1", terms, statistic, k, _wald_df(k, m, riv, df_complete), riv)


def _wald_df(k: int, m: int, riv: float, df_complete: float) -> float:
    """Return the denominator degrees of freedom of D1."""
    total = k * (m - 1)
    if np.isfinite(df_complete) and total >= MIN_SMALL_SAMPLE:
        return _reiter_df(total, riv * total / (total - 2), df_complete)
    if not riv:
        return float(df_complete)
    if total > MIN_SMALL_SAMPLE:
        return float(4 + (total - 4) * (1 + (1 - 2 / total) / riv) ** 2)
    return float(total * (1 + 1 / k) * (1 + 1 / riv) ** 2 / 2)


def _reiter_df(total: int, a: float, df_complete: float) -> float:
    """Return the small-sample degrees of freedom of Reiter (2007, eq. 1 and 2)."""
    observed = (df_complete + 1) / (df_complete + 3) * df_complete
    if total == MIN_SMALL_SAMPLE and a:
        return float(MIN_SMALL_SAMPLE)
    b, c = observed - 2 * (1 + a), observed - 4 * (1 + a)
    missing = (
        b / ((1 + a) ** 2 * c) + 8 * b / ((1 + a) * c**2) + 4 / ((1 + a) * c) + 4 / (b * c) + 16 * b / c**3 + 8 / c**2
    )
    return float(4 + 1 / (1 / c + (a**2 * missing / (total - 4) if a else 0.0)))


def _likelihood_ratio(terms: tuple[str, ...], of_table: float, of_stack: float, m: int) -> ModelComparison:
    """Return D4 (Chan & Meng, 2022) from the mean likelihood ratio of the tables and that of all tables stacked.

    It needs no access to the likelihood at pooled parameters, unlike D3 (Meng & Rubin, 1992), and does not depend on
    the parametrisation. A negative increase in variance is set to 0.
    """
    k = len(terms)
    riv = max((m + 1) / (k * (m - 1)) * (of_table - of_stack), 0.0)
    df2 = k * (m - 1) * (1 + 1 / riv) ** 2 if riv else np.inf
    return ModelComparison("D4", terms, of_stack / (k * (1 + riv)), k, df2, riv)
