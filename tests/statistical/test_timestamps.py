"""Sampled rows have the cycles of the training table: effects of hour and weekday that are known.

Tolerances are four standard errors of a mean of sampled rows and of training rows together, and a bias for a network
that is trained for seconds. As a number alone, a timestamp has means by hour that differ by less than the bias.
"""

import numpy as np
import pandas as pd
import pytest

from harpoon import Harpoon

N_TRAIN, N = 4000, 6000
NOISE, BIAS = 1.0, 0.35
WEEKEND = 4.0


def table(rows, seed):
    """Hours of a year, a number with cycles of a day and of a week, and a category that is certain on weekends."""
    random = np.random.default_rng(seed)
    time = pd.Timestamp("2022-01-01") + pd.to_timedelta(random.integers(0, 365 * 24, rows), unit="h")
    weekend = time.day_of_week >= 5
    value = daily_effect(time.hour) - WEEKEND * weekend + random.normal(0, NOISE, rows)
    return pd.DataFrame({"time": time, "value": value, "shift": np.where(weekend | (time.hour < 8), "off", "on")})


def daily_effect(hour):
    return 3 * np.sin(2 * np.pi * np.asarray(hour) / 24)


@pytest.fixture(scope="module")
def model():
    options = {"hidden": 64, "batch_size": 256, "max_epochs": 60, "learning_rate": 3e-3, "max_time": None}
    return Harpoon(random_state=0, progress=False, **options).fit(table(N_TRAIN, seed=0))


@pytest.fixture(scope="module")
def rows(model):
    return model.sample(N, random_state=1)


def tolerance(spread, n_cells):
    return 4 * spread * np.sqrt(n_cells / N + n_cells / N_TRAIN) + BIAS


def test_means_by_hour_are_those_of_the_cycle(rows):
    means = rows.groupby(rows["time"].dt.hour)["value"].mean()
    expected = daily_effect(means.index) - WEEKEND * 2 / 7
    spread = np.sqrt(NOISE**2 + WEEKEND**2 * 10 / 49)
    assert len(means) == 24
    assert np.abs(means - expected).max() < tolerance(spread, 24)


def test_means_by_weekday_are_those_of_the_cycle(rows):
    means = rows.groupby(rows["time"].dt.day_of_week)["value"].mean()
    expected = np.where(means.index >= 5, -WEEKEND, 0.0)
    assert len(means) == 7
    assert np.abs(means - expected).max() < tolerance(np.sqrt(NOISE**2 + 9 / 2), 7)


def test_a_category_depends_on_hour_and_weekday(rows):
    time = rows["time"].dt
    off = (time.day_of_week >= 5) | (time.hour < 8)
    assert ((rows["shift"] == "off") == off).mean() > 0.97


@pytest.mark.parametrize(("part", "values"), [("hour", 24), ("day_of_week", 7), ("month", 12), ("day", 31)])
def test_parts_are_as_frequent_as_in_the_calendar(rows, part, values):
    hours = pd.Series(pd.date_range("2022-01-01", "2022-12-31 23:00", freq="h"))
    expected = getattr(hours.dt, part).value_counts(normalize=True)
    found = getattr(rows["time"].dt, part).value_counts(normalize=True)
    error = np.sqrt((1 / N + 1 / N_TRAIN) / values)
    assert np.abs(found - expected).max() < 4 * error + 0.015


def test_the_condition_on_an_hour_gives_the_mean_of_the_hour(model):
    rows = model.sample(1000, where="hour(time) = 6 and isodow(time) <= 5", random_state=2)
    assert rows["value"].mean() == pytest.approx(3.0, abs=4 * NOISE / np.sqrt(1000) + BIAS)


def test_a_given_time_has_the_value_of_its_cycle(model):
    given = table(500, seed=5)
    expected = daily_effect(given["time"].dt.hour) - WEEKEND * (given["time"].dt.day_of_week >= 5)
    imputed = model.impute(given.assign(value=np.nan), random_state=0)
    assert np.sqrt(((imputed["value"] - expected) ** 2).mean()) < 2 * BIAS


def test_copies_of_another_timestamp_are_exact_and_as_frequent_as_in_the_table():
    random = np.random.default_rng(0)
    booked = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 700, 3000), unit="D")
    later = booked + pd.to_timedelta(random.integers(1, 9, 3000), unit="D")
    bookings = pd.DataFrame({"booked": booked, "paid": np.where(random.random(3000) < 0.7, booked, later)})
    model = Harpoon(hidden=64, max_epochs=60, diffusion_steps=5, random_state=0, progress=False).fit(bookings)
    assert model.relations()
    rows = model.sample(2000, random_state=0)
    assert (rows["booked"] == rows["paid"]).mean() == pytest.approx(0.7, abs=0.06)
