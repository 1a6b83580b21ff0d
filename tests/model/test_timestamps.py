"""Timestamps with calendar parts: conditions, missing cells, relations, samplers and saved models."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Harpoon, InfeasibleCondition, InvalidCondition, load
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


def visits(seed, *, hidden_gap):
    """Return visits in opening hours of business days, with their lengths or without."""
    random = np.random.default_rng(seed)
    days = pd.bdate_range("2021-01-04", "2022-12-30")
    start = random.integers(8 * 60, 17 * 60, N)
    minutes = np.minimum(random.integers(1, 240, N), 18 * 60 - start)
    start = pd.Series(days[random.integers(0, len(days), N)] + pd.to_timedelta(start, unit="min"))
    end = start + pd.to_timedelta(minutes, unit="min")
    table = pd.DataFrame({"start": start, "end": end, "kind": random.choice(list("ab"), N)})
    return table if hidden_gap else table.assign(duration=end - start, minutes=minutes)


@pytest.mark.parametrize("hidden_gap", [True, False])
def test_computed_timestamps_lie_on_the_grid_and_all_relations_hold(hidden_gap):
    table = visits(0, hidden_gap=hidden_gap)
    rows = Harpoon(**OPTIONS).fit(table).sample(600, random_state=1)
    for name in ("start", "end"):
        time = rows[name] - rows[name].dt.normalize()
        assert (rows[name].dt.day_of_week < 5).all()
        assert time.between(pd.Timedelta(hours=8), pd.Timedelta(hours=18)).all()
    span = rows["end"] - rows["start"]
    assert span.between(*((table["end"] - table["start"]).agg(["min", "max"]))).all()
    if not hidden_gap:
        assert (span == rows["duration"]).all()
        assert (span / pd.Timedelta(minutes=1) == rows["minutes"]).all()


@pytest.fixture(scope="module")
def shipments():
    """Orders of three years, most of them shipped about a week later."""
    random = np.random.default_rng(0)
    ordered = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 1000, N), unit="D"))
    days = np.rint(random.gamma(1.0, 7.0, N)).astype(int)
    shipped = (ordered + pd.to_timedelta(days, unit="D")).where(random.random(N) > 0.2)
    return pd.DataFrame({"ordered": ordered, "shipped": shipped, "price": random.normal(size=N)})


@pytest.fixture(scope="module")
def shipping_model(shipments):
    return Harpoon(**{**OPTIONS, "max_epochs": 10}).fit(shipments)


def days_between(rows):
    return (rows["shipped"] - rows["ordered"]).dt.days.dropna()


@pytest.mark.parametrize("missing", ["as_trained", "complete"])
def test_the_time_between_two_timestamps_is_as_in_the_table(shipping_model, shipments, missing):
    rows = shipping_model.sample(1500, random_state=1, missing=missing)
    expected, found = days_between(shipments), days_between(rows)
    assert found.between(expected.min(), expected.max()).all()
    assert found.std() == pytest.approx(expected.std(), rel=0.2)
    assert found.mean() == pytest.approx(expected.mean(), rel=0.2)
    is_null = rows["shipped"].isna().mean()
    assert is_null == (pytest.approx(0.2, abs=0.06) if missing == "as_trained" else 0)


def test_a_timestamp_is_sampled_near_the_given_one(shipping_model, shipments):
    expected = days_between(shipments)
    for name, other in (("ordered", "shipped"), ("shipped", "ordered")):
        given = shipments.dropna().head(200).assign(**{other: pd.NaT})
        rows = shipping_model.sample(given=given, random_state=1, missing="complete")
        assert (rows[name].to_numpy() == given[name].to_numpy()).all()
        assert days_between(rows).between(expected.min(), expected.max()).all()


@pytest.mark.parametrize("point", ["mean", "median", "mode"])
@pytest.mark.parametrize("gone", [["shipped"], ["ordered"], ["ordered", "shipped"]], ids=str)
def test_point_estimates_of_timestamps_go_through_the_time_between_them(shipping_model, shipments, point, gone):
    whole, expected = shipments.dropna(), days_between(shipments)
    hidden = whole.assign(**{name: whole[name].where(np.arange(len(whole)) % 3 > 0) for name in gone})
    filled = shipping_model.impute(hidden, point=point)
    for name in whole:
        assert (filled[name] == whole[name])[hidden[name].notna()].all()
    found = days_between(filled)[hidden[gone[0]].isna()]
    assert found.between(expected.min(), expected.max()).all()
    if point != "mode":  # by the law of total variance; medians of a skewed distribution are below its mean
        assert found.std() < expected.std()
        assert expected.median() - 2 < found.mean() < expected.mean() + 2


def test_the_expectation_of_a_timestamp_is_that_of_another_and_the_time_between(shipping_model, shipments):
    whole, day = shipments.dropna().reset_index(drop=True), pd.Timedelta(days=1)
    for name, other, sign in (("shipped", "ordered", 1), ("ordered", "shipped", -1)):
        numbers = shipping_model.expect(whole.assign(**{name: pd.NaT})).numbers
        ticks = whole[other].astype("int64").to_numpy()
        assert np.array_equal(numbers[other], ticks)
        gaps = sign * (numbers[name] - ticks) / (day / pd.Timedelta(1, whole[other].dt.unit))
        expected = days_between(shipments)
        assert gaps.std() < expected.std()
        assert gaps.mean() == pytest.approx(expected.mean(), abs=2)


@pytest.mark.parametrize("point", ["mean", "median"])
def test_a_filled_end_is_its_start_and_the_filled_number_of_days(shipments, point):
    whole = shipments.dropna().reset_index(drop=True)
    table = whole.assign(days=(whole["shipped"] - whole["ordered"]).dt.days)
    hidden = table.assign(**{name: table[name].where(table.index % 2 > 0) for name in ("shipped", "days")})
    filled = Harpoon(**OPTIONS).fit(table).impute(hidden, point=point)
    last = filled["shipped"] == table["shipped"].max()  # the end of the range
    assert ((filled["shipped"] - filled["ordered"]).dt.days == filled["days"])[~last].all()


def test_the_time_after_a_full_hour_is_as_in_the_table():
    random = np.random.default_rng(0)
    hours = pd.date_range("2023-01-01", periods=17_520, freq="h")
    start = pd.Series(hours[random.integers(0, len(hours), N)])
    minutes = np.rint(random.gamma(2, 17, N))
    table = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(minutes, unit="min")})
    model = Harpoon(**OPTIONS).fit(table)
    assert model.relations() == []
    for rows in (model.sample(1500, random_state=1), model.sample(given=table.assign(start=pd.NaT), random_state=1)):
        found = (rows["end"] - rows["start"]) / pd.Timedelta(minutes=1)
        assert (rows["start"].dt.minute == 0).all()
        assert found.between(minutes.min(), minutes.max()).all()
        assert found.mean() == pytest.approx(minutes.mean(), rel=0.2)
        assert found.std() == pytest.approx(minutes.std(), rel=0.2)


@pytest.mark.parametrize("where", ["ordered > '2021-01-01' and shipped < '2021-01-04'", "month(ordered) = 3"])
def test_times_that_are_apart_as_in_no_training_row_are_warned_of(shipping_model, shipments, where):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = shipping_model.sample(20, where=where, random_state=1, missing="complete")
    expected = days_between(shipments)
    is_broken = not days_between(rows).between(expected.min(), expected.max()).all()
    assert is_broken == any("time between two timestamps" in str(each.message) for each in caught)


def test_the_time_between_timestamps_is_no_column_and_is_saved(shipping_model, shipments, tmp_path):
    assert shipping_model.relations() == [text for text in shipping_model.relations() if " - " not in text]
    expectation = shipping_model.expect(shipments.head(20))
    assert set(expectation.numbers) | set(expectation.probabilities) == set(shipments.columns)
    shipping_model.save(tmp_path / "m.harpoon")
    loaded = load(tmp_path / "m.harpoon", progress=False)
    assert loaded.codec_ == shipping_model.codec_
    assert len(loaded.codec_.elapsed) == 1
    pd.testing.assert_frame_equal(loaded.sample(100, random_state=3), shipping_model.sample(100, random_state=3))
    parts = shipping_model.sample(300, random_state=2, sampling_batch_size=70)
    pd.testing.assert_frame_equal(shipping_model.sample(300, random_state=2), parts)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("month(visit) = 13", "because month(visit) is between 1 and 12"),
        ("weekday(visit) = 9", "because weekday(visit) is between 0 and 6"),
        ("hour(visit) > 23", "because hour(visit) is between 0 and 23"),
        ("hour(visit) = 3", "because hour(visit) is from 8 to 17 in the training table"),
        ("isodow(visit) = 7", "because isodow(visit) is from 1 to 5 in the training table"),
        ("year(visit) = 2030", "because year(visit) is from 2021 to 2022 in the training table"),
        ("minute(visit) = 30 and cost > 5", "because minute(visit) is always 0 in the training table"),
        ("month(visit) = 2 and day(visit) = 30", "exclude each other"),
        ("week(visit) = 53", "because week(visit) is from 1 to 52 in the training table"),
        ("dayofyear(visit) = 366 and cost > 5", "because dayofyear(visit) has only the values 3 to 8"),
        ("dayofyear(paid) = 2", "because dayofyear(paid) has only the values 1, 32, 60 to 61"),
    ],
)
def test_impossible_calendar_conditions_say_why(model, where, reason):
    with pytest.raises(InfeasibleCondition) as error:
        model.sample(5, where=where)
    assert reason in str(error.value)
    assert "sampled" not in str(error.value)  # it is known before


def test_a_local_time_that_the_clocks_skip_is_no_other_time(model):
    with pytest.raises(InvalidCondition, match="2021-03-28 02:30 does not exist in Europe/Berlin"):
        model.sample(5, where="visit = '2021-03-28 02:30'")
