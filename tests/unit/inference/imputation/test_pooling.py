"""Rubin's rules, against closed forms and statsmodels."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

from harpoon import InvalidOption, Pooled
from harpoon.inference.imputation.pooling import bootstrap_variances, pool


def regression_table(n=200, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    return pd.DataFrame({"x": x, "z": z, "y": 1 + 2 * x + noise * rng.normal(size=n)})


def ols(table):
    return smf.ols("y ~ x + z", table).fit()


positive = st.floats(1e-3, 1e3)


@given(positive, positive, st.integers(2, 50), st.integers(3, 10_000))
def test_the_rules_of_rubin_barnard_and_rubin(within, between, m, n):
    pooled = Pooled(("q",), np.array([1.0]), np.array([within]), np.array([between]), m, n)
    added = (1 + 1 / m) * between
    total = within + added
    lambda_, riv = added / total, added / within
    old, observed = (m - 1) / lambda_**2, (n + 1) / (n + 3) * n * (1 - lambda_)
    df = old * observed / (old + observed)
    assert pooled.std_error == pytest.approx(np.sqrt(total))
    assert pooled.lambda_ == pytest.approx(lambda_)
    assert pooled.riv == pytest.approx(riv)
    assert pooled.df == pytest.approx(df)
    assert pooled.fmi == pytest.approx((riv + 2 / (df + 3)) / (riv + 1))
    assert pooled.df < min(old, observed)


def test_tables_that_agree_have_the_errors_of_statsmodels_and_no_missing_information():
    table = regression_table()
    fit, pooled = ols(table), pool([table] * 3, ols)
    assert pooled.names == ("Intercept", "x", "z")
    assert pooled.estimate == pytest.approx(fit.params)
    assert pooled.std_error == pytest.approx(fit.bse)
    assert pooled.statistic == pytest.approx(fit.tvalues)
    assert pooled.df_complete == fit.df_resid
    assert (pooled.lambda_ == 0).all()
    assert pooled.df == pytest.approx((198 / 200) * 197)
    large = pool([table] * 3, ols, df_complete=np.inf)
    assert np.isinf(large.df).all()
    assert (large.fmi == 0).all()
    assert large.p_value == pytest.approx(smf.ols("y ~ x + z", table).fit(use_t=False).pvalues, rel=1e-5)


def test_the_p_value_and_the_interval_agree():
    pooled = pool([regression_table(seed=seed) for seed in range(4)], ols)
    for term in range(3):
        level = 1 - pooled.p_value[term]
        if 0 < level < 1:
            ends = np.array(pooled.interval(level))[:, term]
            assert np.abs(ends).min() == pytest.approx(0, abs=1e-6)


def test_estimates_by_any_route_are_the_same():
    tables = [regression_table(seed=seed) for seed in range(4)]

    def by_hand(table):
        fit = ols(table)
        return fit.params.to_numpy(), fit.bse.to_numpy() ** 2, fit.df_resid

    def of_arrays(table):
        return sm.OLS(table["y"].to_numpy(), sm.add_constant(table[["x", "z"]].to_numpy())).fit()

    first, *others = (pool(tables, estimator) for estimator in (ols, by_hand, of_arrays))
    for other in others:
        assert other.estimate == pytest.approx(first.estimate)
        assert other.df == pytest.approx(first.df)
    assert others[0].names == ("0", "1", "2")
    assert others[1].names == ("const", "x1", "x2")
    assert pool(tables, lambda table: by_hand(table)[:2]).df_complete == np.inf


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_bootstrap_gives_the_errors_that_scikit_learn_lacks(kind):
    tables = [kind(dict(regression_table(400, seed=seed))) for seed in range(3)]

    def estimator(table):
        return LinearRegression().fit(table[["x", "z"]], table["y"])

    pooled = pool(tables, estimator, bootstrap=100)
    expected = pool([pd.DataFrame({c: np.asarray(t[c]) for c in t.columns}) for t in tables], ols)
    assert pooled.names == ("intercept", "x", "z")
    assert pooled.estimate == pytest.approx(expected.estimate)
    assert pooled.between == pytest.approx(expected.between)
    assert pooled.within == pytest.approx(expected.within, rel=0.25)  # 3 standard deviations of 300 replicates


def test_the_bootstrap_is_seeded_and_small_by_default():
    tables, calls = [regression_table(seed=seed) for seed in range(2)], []

    def median(table):
        calls.append(len(table))
        return table["y"].median()

    first = pool(tables, median)
    assert len(calls) == 2 * (1 + 25)
    assert pool(tables, median).within == first.within
    assert pool(tables, median, random_state=1).within != first.within
    variances = bootstrap_variances([regression_table()] * 2, median, 5, 0, ())
    assert variances[0] != variances[1]  # each table has its own random numbers
    means = pool(tables, lambda table: table[["x", "y"]].mean())
    assert means.names == ("x", "y")


def test_an_estimator_without_errors_and_without_bootstrap_is_refused():
    tables = [regression_table(seed=seed) for seed in range(2)]
    with pytest.raises(InvalidOption, match=r"no standard errors.*bootstrap=25"):
        pool(tables, lambda table: LinearRegression().fit(table[["x"]], table["y"]), bootstrap=0)
    assert pool(tables, ols, bootstrap=0).df_complete == 197
    robust = pool(tables, ols, bootstrap=50)
    assert (robust.within != pool(tables, ols).within).all()


def test_classes_and_features_name_the_parameters():
    tables = [regression_table(90, seed=seed).assign(c=list("abc") * 30) for seed in range(2)]
    pooled = pool(tables, lambda table: LogisticRegression().fit(table[["x", "z"]], table["c"]), bootstrap=3)
    assert pooled.names[:4] == ("a: intercept", "a: x", "a: z", "b: intercept")
    no_intercept = pool(tables, lambda t: LinearRegression(fit_intercept=False).fit(t[["x"]], t["y"]), bootstrap=3)
    assert no_intercept.names == ("x",)


def test_the_summary_is_a_table():
    pooled = pool([regression_table(seed=seed) for seed in range(4)], ols)
    frame = pd.DataFrame(pooled.summary(0.9))
    assert list(frame.columns[:8]) == ["term", "estimate", "std. error", "statistic", "df", "p-value", "5 %", "95 %"]
    assert list(frame["term"]) == ["Intercept", "x", "z"]
    header, *rows = str(pooled).splitlines()
    assert header.split()[-3:] == ["fmi", "lambda", "riv"]
    assert [row.split()[0] for row in rows] == ["Intercept", "x", "z"]
    assert repr(pooled) == str(pooled)


def test_rare_categories_and_bad_arguments_are_errors_with_a_sentence():
    tables = [regression_table(20, seed=seed) for seed in range(2)]
    sizes = iter([1, 2])
    with pytest.raises(InvalidOption, match="as many estimates for each table"):
        pool(tables, lambda _table: ([1.0] * (size := next(sizes)), [1.0] * size))
    lengths = iter([1, 1, 1, 2])
    with pytest.raises(InvalidOption, match="a rare category is absent"):
        pool(tables, lambda _table: np.ones(next(lengths)), bootstrap=2)
    for estimator in (lambda _table: "a text", lambda _table: (1.0,), lambda _table: [[1], [1, 2]]):
        with pytest.raises(InvalidOption, match="must return"):
            pool(tables, estimator)
    with pytest.raises(InvalidOption, match="bootstrap"):
        pool(tables, ols, bootstrap=1)
    with pytest.raises(InvalidOption, match="df_complete"):
        pool(tables, ols, df_complete=-1)
    with pytest.raises(InvalidOption, match="function of a table"):
        pool(tables, LinearRegression())


def test_estimates_are_aligned_by_their_names():
    """`value_counts` sorts by counts, so that nearly equal shares change places in resampled tables."""
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"vote": rng.choice(["no", "yes", "none"], 600, p=[0.35, 0.34, 0.31])}) for _ in range(3)]
    pooled = pool(tables, lambda table: table["vote"].value_counts(normalize=True), bootstrap=60)
    by_name = pool(tables, lambda table: table["vote"].value_counts(normalize=True).sort_index(), bootstrap=60)
    order = [pooled.names.index(name) for name in by_name.names]
    np.testing.assert_allclose(pooled.std_error[order], by_name.std_error)
    expected = np.sqrt(by_name.estimate * (1 - by_name.estimate) / 600)
    np.testing.assert_allclose(np.sqrt(by_name.within), expected, rtol=0.15)  # 3 standard deviations of 180 replicates
    names = iter(["a", "b", "c"])
    with pytest.raises(InvalidOption, match="as many estimates"):
        pool(tables, lambda table: pd.Series({next(names): len(table)}))


@pytest.mark.parametrize("variance", [-1.0, np.nan, np.inf])
def test_estimates_without_a_variance_are_refused(variance):
    with pytest.raises(InvalidOption, match="finite estimates"):
        pool([regression_table()] * 2, lambda table: (table["y"].mean(), variance))
