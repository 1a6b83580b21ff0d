"""Estimates from several completed tables, combined by Rubin's rules (Rubin, 1987; van Buuren, 2018, chapter 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harpoon._utils import cards
from harpoon._utils.rng import RandomState, Stream, check_random_state, generator, to_seed
from harpoon._utils.validation import check_count
from harpoon.data import Floats, dataframe
from harpoon.exceptions import InvalidOption

Estimator = Callable[[Any], Any]  # of a table
MIN_TABLES = 2
MIN_REPLICATES = 2
DEFAULT_REPLICATES = 25  # per table; the variances of all tables are averaged
RUBIN = "Rubin's rules. fmi: the fraction of the information on a parameter that is missing."
LARGE_DF = 1e9  # degrees of freedom at which the t distribution is normal


@dataclass(frozen=True, repr=False)
class Pooled(cards.Displayed):
    """Estimates from several completed tables, by Rubin's rules. It prints as a table.

    The degrees of freedom are those of Barnard and Rubin (1999), as in R's `mice`. With t = ū + (1 + 1/m) b, where ū
    is `within` and b is `between`: λ = (1 + 1/m) b / t is the fraction of the variance that is due to missing cells,
    riv = (1 + 1/m) b / ū is the relative increase in variance, and fmi = (riv + 2 / (df + 3)) / (riv + 1) is the
    fraction of missing information.

    Attributes:
        names: The names of the parameters; their numbers if the estimator has no names.
        estimate: The mean over the tables, (k,).
        within: The mean of the variances within the tables, (k,).
        between: The variance of the estimates between the tables, (k,).
        m: The number of tables.
        df_complete: The degrees of freedom if no cell were missing; infinite if unknown.

    >>> pooled = Pooled(("mean",), np.array([2.0]), np.array([0.9]), np.array([0.08]), m=4, df_complete=30)
    >>> pooled.std_error, pooled.lambda_, pooled.riv
    (array([1.]), array([0.1]), array([0.11111111]))
    >>> print(pooled)
          estimate  std. error  statistic     df  p-value     2.5 %  97.5 %     fmi  lambda     riv
    mean         2           1          2  23.39  0.05724  -0.06677   4.067  0.1682     0.1  0.1111
    """

    names: tuple[str, ...]
    estimate: Floats
    within: Floats
    between: Floats
    m: int
    df_complete: float = np.inf

    @property
    def std_error(self) -> Floats:
        """The standard error: the square root of the total variance."""
        error: Floats = np.sqrt(self.within + self._missing_variance)
        return error

    @property
    def lambda_(self) -> Floats:
        """The fraction of the variance that is due to missing cells."""
        return _ratio(self._missing_variance, self.within + self._missing_variance)

    @property
    def riv(self) -> Floats:
        """The relative increase in variance due to missing cells."""
        return _ratio(self._missing_variance, self.within)

    @property
    def fmi(self) -> Floats:
        """The fraction of missing information: λ, corrected for the number of tables."""
        finite = self.lambda_ + 2 / (self.df + 3) * (1 - self.lambda_)  # also where riv is infinite
        return np.asarray(finite)

    @property
    def df(self) -> Floats:
        """The degrees of freedom of the t distribution (Barnard & Rubin, 1999)."""
        n, fraction = self.df_complete, self.lambda_
        observed = np.full_like(fraction, np.inf) if np.isinf(n) else (n + 1) / (n + 3) * n * (1 - fraction)
        with np.errstate(divide="ignore"):
            df: Floats = 1 / (fraction**2 / (self.m - 1) + 1 / observed)
        return df

    @property
    def statistic(self) -> Floats:
        """The estimate in standard errors."""
        return _ratio(self.estimate, self.std_error)

    @property
    def p_value(self) -> Floats:
        """The two-sided p-value of the hypothesis that a parameter is 0."""
        from scipy.stats import t

        return np.asarray(2 * t.sf(np.abs(self.statistic), np.minimum(self.df, LARGE_DF)))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of the confidence interval of each parameter."""
        from scipy.stats import t

        half = t.ppf(0.5 + check_level(level) / 2, np.minimum(self.df, LARGE_DF)) * self.std_error
        return self.estimate - half, self.estimate + half

    def summary(self, level: float = 0.95) -> dict[str, Any]:
        """Return the columns of the printed table, with "term" for the names: `pandas.DataFrame(pooled.summary())`."""
        low, high = self.interval(level)
        tail = 50 * (1 - level)
        return {
            "term": list(self.names),
            "estimate": self.estimate,
            "std. error": self.std_error,
            "statistic": self.statistic,
            "df": self.df,
            "p-value": self.p_value,
            f"{tail:.4g} %": low,
            f"{100 - tail:.4g} %": high,
            "fmi": self.fmi,
            "lambda": self.lambda_,
            "riv": self.riv,
        }

    def _card(self) -> cards.Html:
        (_, terms), *columns = self.summary().items()
        titles = [title for title, _ in columns]
        numbers = zip(*([f"{value:.4g}" for value in values] for _, values in columns), strict=True)
        rows = [(cards.code(term), *row) for term, row in zip(terms, numbers, strict=True)]
        named = cards.table(["parameter", *titles], rows, figures=titles, what="parameters")
        return cards.card(f"Pooled over {self.m} completed tables", named, cards.paragraph(RUBIN, role="quiet"))

    def __repr__(self) -> str:
        terms, *columns = self.summary().items()
        cells = [["", *terms[1]], *([title, *(f"{value:.4g}" for value in values)] for title, values in columns)]
        widths = [max(map(len, column)) for column in cells]
        rows = zip(*cells, strict=True)
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)

    @property
    def _missing_variance(self) -> Floats:
        return (1 + 1 / self.m) * self.between


class Estimates(NamedTuple):
    """The estimates on one table. `variances` is None if they have no standard errors."""

    names: tuple[str, ...]
    values: Floats
    variances: Floats | None
    df: float

    def in_order(self, names: tuple[str, ...]) -> Estimates:
        """Return the estimates in the order of other names, if these are the same: `value_counts` sorts by counts."""
        if self.names == names or len(set(names)) < len(names) or sorted(self.names) != sorted(names):
            return self
        order = [self.names.index(name) for name in names]
        variances = None if self.variances is None else self.variances[order]
        return Estimates(names, self.values[order], variances, self.df)


def pool(
    tables: Sequence[Any],
    estimator: Estimator,
    *,
    bootstrap: int | None = None,
    df_complete: float | None = None,
    random_state: RandomState = 0,
) -> Pooled:
    """Estimate on each table and combine; see `MultipleImputation.pool`."""
    replicates = None if bootstrap is None else _check_replicates(bootstrap)
    results = [read_estimates(fit) for fit in fit_tables(tables, estimator)]
    first = results[0]
    results = [result.in_order(first.names) for result in results]
    if any(len(result.values) != len(first.values) or result.names != first.names for result in results):
        raise InvalidOption(
            "An estimator to pool must return as many estimates for each table, got "
            f"{sorted({len(result.values) for result in results})}. A rare category may be absent from some tables."
        )
    known = [result.variances for result in results if result.variances is not None]
    if len(known) < len(results) or replicates:
        variances = bootstrap_variances(tables, estimator, replicates, random_state, first.names)
    else:
        variances = np.stack(known)
    estimates = np.stack([result.values for result in results])
    if not (np.isfinite(estimates).all() and np.isfinite(variances).all() and (variances >= 0).all()):
        raise InvalidOption(
            "An estimator to pool must return finite estimates, and variances of at least 0, for each table; got "
            "others. A column may be constant, or a group empty, in some tables."
        )
    names = first.names if len(first.names) == len(first.values) else tuple(map(str, range(len(first.values))))
    df = min(result.df for result in results) if df_complete is None else check_df(df_complete)
    between = estimates.var(axis=0, ddof=1)
    return Pooled(names, estimates.mean(axis=0), variances.mean(axis=0), between, len(tables), df)


def fit_tables(tables: Sequence[Any], estimator: Estimator) -> list[Any]:
    """Return what an estimator returns for each of at least two tables."""
    if not callable(estimator):
        raise InvalidOption(
            "An estimator to pool must be a function of a table that returns a fitted result, got "
            f"{type(estimator).__name__}: for example lambda table: model.fit(table[features], table[target])."
        )
    if len(tables) < MIN_TABLES:
        raise InvalidOption(f"Pooling needs at least 2 draws, got {len(tables)}. Use impute(table, draws=20).")
    return [estimator(table) for table in tables]


def bootstrap_variances(
    tables: Sequence[Any],
    estimator: Estimator,
    replicates: int | None,
    random_state: RandomState,
    names: tuple[str, ...],
) -> Floats:
    """Return the variance of the estimates over resampled rows of each table, (m, k).

    Bootstrap nested in multiple imputation ("MI Boot" of Schomaker & Heumann, 2018).
    """
    replicates = DEFAULT_REPLICATES if replicates is None else replicates
    if not replicates:
        raise InvalidOption(
            "This estimator has no standard errors, which Rubin's rules need. Return a pair of estimates and "
            f"variances, or let the rows be resampled: bootstrap={DEFAULT_REPLICATES}."
        )
    seed = to_seed(check_random_state(random_state))
    variances = []
    for number, data in enumerate(tables):
        random, table = generator(seed, Stream.BOOTSTRAP, number), dataframe.read(data)
        samples = (random.integers(table.n_rows, size=table.n_rows) for _ in range(replicates))
        found = [read_estimates(estimator(table.take(rows).native)).in_order(names) for rows in samples]
        if any(one.names != names or len(one.values) != len(found[0].values) for one in found):
            raise InvalidOption(
                "The estimator returns fewer estimates for some resampled tables, because a rare category is absent "
                "from them. Return a pair of estimates and variances instead, or merge rare categories."
            )
        variances.append(np.var([one.values for one in found], axis=0, ddof=1))
    return np.stack(variances)


def read_estimates(result: Any) -> Estimates:  # noqa: ANN401
    """Return the estimates of what an estimator returned for one table."""
    if result is None:
        raise InvalidOption("An estimator to pool must return its estimates, got None. Does it lack a return?")
    if hasattr(result, "params") and hasattr(result, "bse"):
        df = float(getattr(result, "df_resid", np.inf))
        return Estimates(term_names(result), _flat(result.params), _flat(result.bse) ** 2, df)
    if hasattr(result, "coef_"):
        return _read_sklearn(result)
    try:
        if isinstance(result, tuple):
            values, variances, *rest = result
            df = check_df(rest[0]) if rest else np.inf
            estimates = Estimates((), _flat(values), np.broadcast_to(_flat(variances), _flat(values).shape), df)
        else:
            names = tuple(str(name) for name in getattr(result, "index", ()))
            estimates = Estimates(names, _flat(result), None, np.inf)
    except (TypeError, ValueError):
        raise InvalidOption(
            "An estimator to pool must return a result with params and bse, one with coef_, numbers, or a pair of "
            f"estimates and variances, got {type(result).__name__}."
        ) from None
    return estimates


def term_names(result: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return the names of the parameters of a statsmodels result."""
    model = getattr(result, "model", None)
    names = getattr(result.params, "index", None)
    return tuple(map(str, getattr(model, "exog_names", None) or () if names is None else names))


def check_level(level: float) -> float:
    """Return the level, or raise InvalidOption unless it is between 0 and 1."""
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InvalidOption(f"level must be between 0 and 1, such as 0.9, got {level!r}.")
    return level


def check_df(df: float) -> float:
    """Return the complete-data degrees of freedom, or raise InvalidOption unless they are a number above 0."""
    if isinstance(df, bool) or not isinstance(df, int | float | np.number) or not df > 0:
        raise InvalidOption(f"df_complete must be a number above 0, such as rows minus parameters, got {df!r}.")
    return float(df)


def _check_replicates(bootstrap: int) -> int:
    low = 0 if bootstrap == 0 else MIN_REPLICATES
    return check_count(bootstrap, "bootstrap, the number of resampled tables per draw,", low=low)


def _read_sklearn(result: Any) -> Estimates:  # noqa: ANN401
    """Return the intercept and the coefficients of a linear model, in this order for each class or target."""
    coefficients = np.atleast_2d(np.asarray(result.coef_, dtype=np.float64))
    features = [str(name) for name in getattr(result, "feature_names_in_", range(coefficients.shape[1]))]
    if getattr(result, "fit_intercept", True) and hasattr(result, "intercept_"):
        intercepts = np.broadcast_to(_flat(result.intercept_), len(coefficients))
        coefficients = np.column_stack([intercepts, coefficients])
        features.insert(0, "intercept")
    several = len(coefficients) > 1
    labels = getattr(result, "classes_", range(len(coefficients))) if several else ("",)
    names = tuple(f"{label}: {name}" if several else name for label in labels for name in features)
    return Estimates(names, coefficients.ravel(), None, np.inf)


def _flat(values: object) -> Floats:
    return np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio; 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(numerator == 0, 0.0, numerator / denominator)
