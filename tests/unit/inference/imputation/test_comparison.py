"""Tests of nested models, against those of statsmodels on one table. R judges in tests/integration/test_mice.py."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from sklearn.linear_model import LinearRegression

from harpoon import InvalidOption
from harpoon.inference.imputation.comparison import compare
from harpoon.inference.imputation.pooling import pool
from tests.support.null_model import null_p_value


def table(seed, n=120):
    rng = np.random.default_rng(seed)
    x, z, w = rng.normal(size=(3, n))
    return pd.DataFrame({"x": x, "z": z, "w": w, "y": 1 + 0.3 * x + rng.normal(size=n)})


def fit(formula):
    return lambda data: smf.ols(formula, data).fit()


LARGER, SMALLER = fit("y ~ x + z + w"), fit("y ~ w")


def test_tables_that_agree_have_the_tests_of_one_table():
    data = table(0)
    one, null = LARGER(data), SMALLER(data)
    wald = compare([data] * 3, LARGER, SMALLER, method="D1", df_complete=np.inf)
    assert wald.terms == ("x", "z")
    assert wald.statistic == pytest.approx(one.f_test("x = 0, z = 0").fvalue)
    assert wald.riv == pytest.approx(0, abs=1e-12)
    ratio = compare([data] * 3, LARGER, SMALLER, method="D4")
    assert ratio.statistic * ratio.df1 == pytest.approx(2 * (one.llf - null.llf))
    assert ratio.p_value == pytest.approx(one.compare_lr_test(null)[1], rel=1e-4)


def test_one_parameter_has_the_statistic_of_the_pooled_summary():
    tables = [table(seed) for seed in range(5)]
    wald, pooled = compare(tables, fit("y ~ w + x"), SMALLER, method="D1"), pool(tables, fit("y ~ w + x"))
    assert wald.statistic == pytest.approx(pooled.statistic[2] ** 2)
    assert wald.riv == pytest.approx(pooled.riv[2])


@pytest.mark.parametrize("tables", [2, 3, 6])
def test_small_samples_have_fewer_degrees_of_freedom(tables):
    tables = [table(seed) for seed in range(tables)]
    sizes = [compare(tables, LARGER, SMALLER, method="D1", df_complete=df).df2 for df in (30, 100, 1e7, np.inf)]
    if len(tables) > 3:
        assert sizes[0] < sizes[1] < sizes[2]
        assert sizes[2] == pytest.approx(sizes[3], rel=0.05)
    elif len(tables) == 3:
        assert sizes[:3] == [4, 4, 4]  # two terms, as one term of five tables: the same in mice
    else:
        assert len(set(sizes)) == 1  # too few tables for the correction


@pytest.mark.parametrize("method", ["D1", "D4"])
def test_a_term_without_effect_is_rarely_rejected(method):
    """Small: tests/statistical/test_comparison.py compares the frequency with the level."""
    rejected = sum(null_p_value(seed, method) < 0.1 for seed in range(60))
    assert 1 <= rejected <= 14  # binomial(60, 0.1): 6 with a standard deviation of 2.3


def test_the_comparison_prints_as_a_sentence():
    assert str(compare([table(0), table(1)], LARGER, SMALLER, method="D1")).startswith("D1 test of 'x', 'z': F(2, ")


def test_models_that_are_not_nested_or_have_no_likelihood_are_errors():
    tables = [table(0), table(1)]
    with pytest.raises(InvalidOption, match="all parameters of the smaller"):
        compare(tables, SMALLER, LARGER, method="D1")
    with pytest.raises(InvalidOption, match="all parameters of the smaller"):
        compare(tables, LARGER, LARGER, method="D1")
    with pytest.raises(InvalidOption, match="results of statsmodels"):
        compare(tables, lambda t: LinearRegression().fit(t[["x"]], t["y"]), SMALLER, method="D1")
    with pytest.raises(InvalidOption, match="method must be one of"):
        compare(tables, LARGER, SMALLER, method="D2")
    with pytest.raises(InvalidOption, match="no effect on D4"):
        compare(tables, LARGER, SMALLER, method="D4", df_complete=3)
