"""Rows under rare conditions have the distribution that the training rows were drawn from."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harpoon import Harpoon
from harpoon.conditions import bind, to_predicate
from harpoon.data import dataframe
from harpoon.data.reader import read_columns
from harpoon.inference.conditional.cell_distributions import CellPredictor
from harpoon.inference.conditional.importance_sampling import branch_proposals

N = 1500


def make_table(n=6000, seed=0):
    """Numbers with few values, with spikes, with a resolution and without one, and two labels."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    x = rng.normal(np.select([kind == "a", kind == "b"], [0.0, 1.0], 2.0), 1.0)
    y = 0.7 * x + rng.normal(0, 0.8, n)
    spiked = np.where(rng.random(n) < 0.5, 0.0, np.round(np.exp(1 + 0.4 * y), 2))
    age = np.clip(np.round(40 + 8 * x + rng.normal(0, 6, n)), 17, 90)
    label = np.where(rng.random(n) < 1 / (1 + np.exp(3 - y)), "yes", "no")
    grade = np.clip(np.round(3 + x), 1, 5)
    return pd.DataFrame(
        {"kind": kind, "x": x, "y": y, "gain": spiked, "age": age.astype(int), "won": label, "grade": grade.astype(int)}
    )


def satisfying(rows: pd.DataFrame, where: str) -> pd.DataFrame:
    return duckdb.from_df(rows).filter(where).df()


@pytest.fixture(scope="module")
def model():
    options = {"hidden": 64, "depth": 2, "max_epochs": 25, "learning_rate": 3e-3, "batch_size": 256}
    return Harpoon(random_state=0, progress=False, **options).fit(make_table())


@pytest.fixture(scope="module")
def real():
    return make_table(500_000, seed=5)


@pytest.mark.parametrize(
    "where",
    [
        "x > 1.8 and y < 0.3",
        "age >= 62 and won = 'no' and kind != 'c'",
        "x + y > 4",
        "abs(x - 2 * y) < 0.02",
        "gain = 0 and y > 2.2 and won = 'yes'",
    ],
)
def test_rows_under_a_rare_condition_have_the_distribution_of_real_ones(model, real, where):
    truth = satisfying(real, where)
    found = model.sample(N, where=where, strategy="conditioning", random_state=3)
    info = model.sampling_info_
    assert info.strategy == "conditioning"
    assert len(satisfying(found, where)) == N
    assert info.probability == pytest.approx(len(truth) / len(real), rel=0.3)
    assert info.effective_size > N / 3
    distance = {name: stats.ks_2samp(found[name], truth[name]).statistic for name in ("x", "y", "gain", "age", "grade")}
    assert max(distance.values()) < 0.2, distance
    for name in ("kind", "won"):
        shares = pd.concat([table[name].value_counts(normalize=True) for table in (found, truth)], axis=1).fillna(0)
        assert (shares.iloc[:, 0] - shares.iloc[:, 1]).abs().max() < 0.12


def test_rows_of_several_branches_have_the_distribution_of_rows_that_rejection_keeps(model):
    """Not that of real rows, from which rows that rejection keeps of this model differ by more (0.29 in `gain`)."""
    branch, other = "x > 2.6 and kind = 'a'", "y < -1.9 and gain > 0"
    where = f"({branch}) or ({other})"
    found = model.sample(N, where=where, strategy="conditioning", random_state=3)
    info, kept = model.sampling_info_, satisfying(model.sample(30_000, random_state=9), where)
    assert len(satisfying(found, where)) == N
    assert info.effective_size > N / 3
    assert info.probability == pytest.approx(len(kept) / 30_000, rel=0.3)
    assert len(satisfying(found, branch)) / N == pytest.approx(len(satisfying(kept, branch)) / len(kept), abs=0.12)
    distance = {name: stats.ks_2samp(found[name], kept[name]).statistic for name in ("x", "y", "gain", "age", "grade")}
    assert max(distance.values()) < 0.15, distance


@pytest.mark.parametrize("kind", ["a", "b"])
def test_the_probability_of_a_very_rare_condition_is_the_product_of_its_conditionals(model, kind):
    """P(kind) P(x > 3.4 | kind) has a closed form, 2e-4 for kind a; unconditional rows of this model have 5e-4."""
    mean, p_kind = {"a": (0.0, 0.6), "b": (1.0, 0.3)}[kind]
    model.sample(100, where=f"x > 3.4 and kind = '{kind}'", strategy="conditioning", random_state=3)
    expected = p_kind * stats.norm.sf(3.4 - mean)
    assert expected / 4 < model.sampling_info_.probability < 4 * expected


@pytest.mark.parametrize("where", ["x = y", "x = y + 1 and age > 60", "age = 12 * grade + 3", "x - y = 0.5 * y"])
def test_equalities_between_columns_are_met_without_waiting(model, where):
    rows = model.sample(200, where=where, random_state=3)
    assert len(satisfying(rows, where)) == 200
    assert model.sampling_info_.evaluations < 300_000


def test_the_cells_of_a_column_have_probability_one_and_those_above_a_bound_that_of_the_training_rows(model):
    sampler = model._sampler(0, {})
    blank = read_columns(dataframe.constant_table({}, 1), model.schema_, partial=True, strict=True)
    for codec in model.codec_.single_columns:
        cells = CellPredictor.create(sampler, codec).predict(blank)
        assert cells.probabilities.sum() == pytest.approx(1.0, abs=1e-5)
        assert (cells.low <= cells.high).all()
    proposal, *others = branch_proposals(sampler, bind(to_predicate("x > 3.2"), model.schema_), blank)
    assert not others
    proposal.sample_restricted(0, 100)
    assert proposal.probability == pytest.approx((make_table()["x"] > 3.2).mean(), rel=0.1)


def test_imputed_cells_satisfy_rare_conditions(model):
    incomplete = make_table(60, seed=9)
    incomplete.loc[:, "y"] = np.nan
    incomplete["age"] = incomplete["age"].astype("Int64")
    incomplete.loc[:30, "age"] = pd.NA
    where = "(abs(x - y) < 0.001 and age + grade = 60) or (age > 0 and y = x)"
    filled = model.impute(incomplete, where=where, random_state=0)
    assert len(satisfying(filled, where)) == 60
    assert filled["x"].equals(incomplete["x"])
