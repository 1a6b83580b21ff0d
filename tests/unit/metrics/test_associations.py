"""Associations against closed forms."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

from harpoon import Schema, metrics
from harpoon.metrics.associations import correlation_ratio, cramers_v


@pytest.mark.parametrize("seed", range(5))
def test_cramers_v_is_the_scaled_root_of_chi_squared(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, 300)
    b = np.where(rng.random(300) < 0.5, a % 3, rng.integers(0, 3, 300))
    counts = np.array([[np.sum((a == i) & (b == j)) for j in np.unique(b)] for i in np.unique(a)])
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert cramers_v(a, b) == pytest.approx(np.sqrt(chi_squared / (300 * (min(counts.shape) - 1))), rel=1e-12)


def test_the_correlation_ratio_is_the_root_of_the_variance_between_categories():
    rng = np.random.default_rng(0)
    codes, values = rng.integers(0, 3, 200), rng.normal(size=200)
    means = np.array([values[codes == c].mean() for c in range(3)])[codes]
    assert correlation_ratio(codes, values) == pytest.approx(np.sqrt(means.var() / values.var()), rel=1e-12)


def test_numeric_columns_have_spearmans_correlation_and_constant_ones_none():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100))
    table = pa.table({"x": x, "y": y + x, "k": [1.0] * 100, "c": ["a"] * 100})
    schema = Schema.infer(table, kinds={"x": "number", "y": "number", "k": "number", "c": "category"})
    found = metrics.association(schema, table)
    assert found[0, 1] == found[1, 0] == pytest.approx(spearmanr(x, y + x).statistic, rel=1e-12)
    assert np.isnan(found[2:]).all()
    assert np.isnan(found[:, 2:]).all()
