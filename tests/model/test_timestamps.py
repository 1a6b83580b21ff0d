"""Timestamps with calendar parts: conditions, missing cells, relations, samplers and saved models."""

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Harpoon, InfeasibleCondition, load
from tests.support.frames import TINY

OPTIONS = {**TINY, "max_epochs": 3}
ZONE = "Europe/Berlin"
N = 1500


@pytest.fixture(scope="module")
def table():
    """Visits in opening hours of business days, some without a time, and dates of payment on the first of a month."""
    random = np.random.default_rng(0)
    hours = pd.date_range("2021-01-04", "2022-12-30", freq="h", tz=ZONE)
    hours = hours[(hours.day_of_week < 5) & (hours.hour >= 8) & (hours.hour < 18)]
    visit = pd.Series(hours[random.integers(0, len(hours), N)])
    months = pd.date_range("2010-01-01", "2022-12-01", freq="MS")
    return pd.DataFrame(
        {
            "visit": visit.where(random.random(N) > 0.2),
            "paid": months[random.integers(0, len(months), N)],
            "cost": random.normal(size=N).round(2) + visit.dt.hour,
            "kind": np.where(visit.dt.month < 7, "early", "late"),
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(**OPTIONS).fit(table)


def check_grid(rows, table):
    visit, paid = rows["visit"].dropna(), rows["paid"].dropna()
    assert (visit.dt.day_of_week < 5).all()
    assert visit.dt.hour.isin(range(8, 18)).all()
    assert (visit.dt.minute == 0).all()
    assert visit.between(table["visit"].min(), table["visit"].max()).all()
    assert paid.isin(table["paid"]).all()


@pytest.mark.parametrize("options", [{}, {"ar_steps": 3}, {"ar_steps": 1}, {"ar_steps": 0}], ids=str)
@pytest.mark.parametrize("missing", ["as_trained", "complete"])
def test_sampled_timestamps_lie_on_the_grid_of_their_column(model, table, options, missing):
    rows = model.sample(400, random_state=1, missing=missing, **options)
    check_grid(rows, table)
    assert str(rows["visit"].dtype) == str(table["visit"].dtype)
    assert rows["visit"].isna().any() == (missing == "as_trained")


def test_imputed_timestamps_lie_on_the_grid_and_others_stay(model, table):
    hidden = table.assign(paid=table["paid"].where(np.arange(N) % 2 > 0))
    for draw in model.impute(hidden, draws=2, random_state=0):
        check_grid(draw, table)
        kept = hidden["visit"].notna()
        pd.testing.assert_series_equal(draw.loc[kept, "visit"], hidden.loc[kept, "visit"])
        assert draw["visit"].notna().all()


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("month(visit) = 7", lambda t: t.month == 7),
        ("hour(visit) in (9, 17) and month(visit) < 3", lambda t: t.hour.isin([9, 17]) & (t.month < 3)),
        (
            "visit > '2022-06-01' and visit < date '2022-06-08'",
            lambda t: (t.year == 2022) & (t.month == 6) & (t.day < 8),
        ),
        ("hour(visit) = 12 or cost > 100", lambda t: t.hour == 12),
    ],
)
def test_rows_satisfy_conditions_on_parts_and_times_of_the_zone(model, table, where, holds):
    rows = model.sample(60, where=where, random_state=1)
    assert holds(rows["visit"].dt).all()
    check_grid(rows, table)


def test_guided_rows_satisfy_a_condition_between_timestamps(model):
    rows = model.sample(40, where="hour(visit) * 10 < cost", random_state=1, on_shortfall="return")
    assert (rows["visit"].dt.hour * 10 < rows["cost"]).all()


def test_a_timestamp_with_unseen_parts_is_given_and_kept(model):
    sunday = pd.Timestamp("2022-05-01 03:00", tz=ZONE)
    rows = model.sample(20, given={"visit": sunday}, random_state=1)
    assert (rows["visit"] == sunday).all()


def test_a_saved_model_samples_the_same_rows(model, tmp_path):
    model.save(tmp_path / "m.harpoon")
    loaded = load(tmp_path / "m.harpoon", progress=False)
    assert loaded.codec_ == model.codec_
    pd.testing.assert_frame_equal(loaded.sample(100, random_state=3), model.sample(100, random_state=3))


def test_rows_do_not_depend_on_the_batch(model):
    whole = model.sample(300, random_state=2)
    parts = model.sample(300, random_state=2, sampling_batch_size=70)
    pd.testing.assert_frame_equal(whole, parts)


def test_without_timestamps_the_option_changes_nothing(table):
    plain = table[["cost", "kind"]]
    models = [Harpoon(**OPTIONS, calendar_parts=value).fit(plain) for value in (True, False)]
    weights = [dict(each.denoiser_.state_dict()) for each in models]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    pd.testing.assert_frame_equal(*(each.sample(50, random_state=1) for each in models), check_exact=True)


@pytest.mark.filterwarnings("ignore::harpoon.RowsDroppedWarning")
def test_the_preset_of_the_paper_has_no_calendar_parts(table):
    paper = Harpoon("paper", **OPTIONS).fit(table)
    assert paper.codec_.timestamps == ()
    assert len(paper.sample(10, random_state=0)) == 10


def test_means_and_expectations_do_not_contain_parts(model, table):
    expectation = model.expect(table.head(20))
    assert set(expectation.numbers) | set(expectation.probabilities) == set(table.columns)
    assert len(model.codec_.timestamps) == 2
    assert model.feasibility("month(visit) = 3 and hour(visit) = 9").probability > 0


def test_a_condition_does_not_take_a_timestamp_off_its_grid():
    rng = np.random.default_rng(0)
    firsts = pd.date_range("2010-01-01", "2022-01-01", freq="MS")
    table = pd.DataFrame({"t": rng.choice(firsts, 400), "x": rng.normal(size=400)})
    model = Harpoon(**TINY).fit(table)
    for where in ("day(t) = 2", "t > '2016-03-02' and t < '2016-03-20'"):
        with pytest.raises(InfeasibleCondition):
            model.sample(5, where=where)
    assert (model.sample(5, where="t = '2016-03-01'")["t"] == "2016-03-01").all()


def test_calendar_parts_far_from_1970():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("1800-01-01") + pd.to_timedelta(rng.integers(0, 1500, 200), unit="D")
    table = pd.DataFrame({"t": pd.Series(days).dt.as_unit("ns"), "x": rng.normal(size=200)})
    model = Harpoon(**TINY).fit(table)
    assert model.support("month(t) = 3", data=table).exact == (table["t"].dt.month == 3).sum()
