"""Columns that are parts of a timestamp: they agree with it in all sampled and filled rows."""

import numpy as np
import pandas as pd
import pytest

from harpoon import Harpoon, InfeasibleCondition, load
from harpoon.inference.conditional import conditional_sampler
from tests.support.frames import TINY

OPTIONS = {**TINY, "max_epochs": 3}
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
N = 800


def expected(at):
    """The columns that a timestamp determines."""
    return {
        "year": at.dt.year,
        "mon": at.dt.month,
        "day": at.dt.day,
        "hr": at.dt.hour,
        "minute": at.dt.minute,
        "wd": at.dt.day_of_week + 1,
        "dayname": at.dt.day_of_week.map(dict(enumerate(DAYS))),
        "season": np.where(at.dt.month.isin([12, 1, 2]), "winter", "other"),
        "date": at.dt.normalize(),
    }


@pytest.fixture(scope="module")
def table():
    """Events with a trend and cycles, whose calendar parts are columns too."""
    random = np.random.default_rng(0)
    at = pd.Series(pd.Timestamp("2019-03-01") + pd.to_timedelta(random.integers(0, 1400 * 1440, N), unit="min"))
    parts = pd.DataFrame(expected(at))
    load_ = random.normal(size=N).round(2) + at.dt.hour + 2 * at.dt.month
    table = parts.assign(at=at, load=load_, kind=np.where(random.random(N) < 0.3, "a", "b"))
    table["mon"] = table["mon"].astype("Int64").where(random.random(N) > 0.1)
    return table


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(**OPTIONS).fit(table)


def check(rows):
    for name, values in expected(rows["at"]).items():
        present = (rows[name].notna() & rows["at"].notna()).to_numpy()
        actual, wanted = rows[name].to_numpy()[present], np.asarray(values)[present]
        assert (actual == wanted).all(), (name, (actual != wanted).mean())


def test_relations_name_the_parts(model):
    found = model.relations()
    assert "mon = month(at) (100 %)" in found
    assert "wd = isodow(at) (100 %)" in found
    assert "dayname is determined by weekday(at) (100 %)" in found
    assert "season is determined by month(at) (100 %)" in found
    assert "date = date(at) (100 %)" in found


@pytest.mark.parametrize("options", [{}, {"ar_steps": 3}, {"ar_steps": 0}], ids=str)
@pytest.mark.parametrize("missing", ["as_trained", "complete"])
def test_sampled_parts_agree_with_their_timestamp(model, options, missing):
    rows = model.sample(300, random_state=1, missing=missing, **options)
    check(rows)
    assert rows["mon"].isna().any() == (missing == "as_trained")


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("mon = 2", lambda rows: rows["mon"] == 2),
        ("month(at) = 2", lambda rows: rows["at"].dt.month == 2),
        ("dayname = 'Sun' and hr < 6", lambda rows: (rows["dayname"] == "Sun") & (rows["hr"] < 6)),
        ("season = 'winter' and at >= '2021-06-01'", lambda rows: rows["season"] == "winter"),
        ("mon = 3 and at < '2020-01-01'", lambda rows: (rows["mon"] == 3) & (rows["at"] < "2020-01-01")),
        ("day = 31 and wd in (6, 7)", lambda rows: (rows["day"] == 31) & (rows["wd"] > 5)),
        ("date >= '2022-01-01'", lambda rows: rows["date"] >= "2022-01-01"),
        ("load > 40", lambda rows: rows["load"] > 40),
    ],
)
def test_rows_under_a_condition_agree(model, where, holds):
    rows = model.sample(60, where=where, random_state=1)
    assert holds(rows).all()
    check(rows)


@pytest.mark.parametrize(
    "given",
    [
        {"mon": 2, "day": 29},
        {"at": pd.Timestamp("2020-02-29 13:45")},
        {"dayname": "Wed", "season": "winter"},
        {"date": pd.Timestamp("2021-07-04")},
        {"date": pd.Timestamp("2021-07-04"), "hr": 7},
        {"year": 2020, "minute": 59},
    ],
    ids=str,
)
def test_given_cells_and_their_timestamp_agree(model, given):
    rows = model.sample(40, given=given, random_state=2)
    check(rows)
    for name, value in given.items():
        assert (rows[name] == value).all()


@pytest.mark.parametrize("options", [{}, {"draws": 2}, {"point": "median"}, {"point": "mode"}], ids=str)
def test_filled_cells_agree(model, table, options):
    random = np.random.default_rng(1)
    hidden = table.iloc[:400].reset_index(drop=True)
    hidden = hidden.where(random.random(hidden.shape) > 0.4)
    filled = model.impute(hidden, random_state=0, **options)
    for rows in filled if "draws" in options else [filled]:
        check(rows)
        for name in hidden:
            kept = hidden[name].notna()
            assert (rows.loc[kept, name] == hidden.loc[kept, name]).all()


def test_a_saved_model_keeps_them(model, tmp_path):
    model.save(tmp_path / "model.harpoon")
    loaded = load(tmp_path / "model.harpoon")
    assert loaded.relations() == model.relations()
    check(loaded.sample(50, random_state=3))


def test_parts_that_disagree_in_some_rows_are_no_relation(table):
    shifted = table[["at", "mon", "load"]].copy()
    shifted.loc[:5, "mon"] = shifted.loc[:5, "mon"] % 12 + 1
    assert not any("month(at)" in each for each in Harpoon(**OPTIONS).fit(shifted).relations())


@pytest.mark.parametrize("where", ["mon = 2 and month(at) = 3", "mon != month(at)", "at < date"])
def test_a_condition_that_contradicts_the_calendar_is_infeasible(model, where, monkeypatch):
    for limit in ("PILOT_ROWS", "MAX_FRUITLESS_ROWS"):
        monkeypatch.setattr(conditional_sampler, limit, 256)  # rows after which the search gives up
    with pytest.raises(InfeasibleCondition, match="no row that satisfies it"):
        model.sample(3, where=where, random_state=0)
