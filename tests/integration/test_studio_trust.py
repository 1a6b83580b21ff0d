"""Studio shows times as the table has them, strict bounds as such, one probability, and itself before its table."""

import threading

import numpy as np
import pandas as pd
import pytest
import requests
from selenium.webdriver.common.keys import Keys

from harpoon.apps.server.real_table import RealTable
from harpoon.apps.server.routes import create_app
from harpoon.conditions import bind, evaluate, parse
from harpoon.data import dataframe, read_columns
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people

pytestmark = chromium.needed
ZONE = "America/New_York"


@pytest.fixture(scope="module")
def model():
    return fit(people(), hidden=32, max_epochs=5)


@pytest.fixture(scope="module")
def url(model):
    with serving(create_app(model, name=NAME)) as url:
        yield url


@pytest.fixture(scope="module")
def visits():
    """Visits from 8 to 17 o'clock in New York."""
    random = np.random.default_rng(0)
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(random.integers(0, 600, 400), unit="D")
    at = (days + pd.to_timedelta(random.integers(8, 18, 400), unit="h")).tz_localize(ZONE)
    return pd.DataFrame({"at": at, "cost": random.normal(size=400)})


def test_times_are_those_of_the_clocks_of_the_table(browser, visits):
    model = fit(visits, hidden=32, max_epochs=3)
    first = visits["at"].min()
    with serving(create_app(model, name="visits")) as url:
        column = requests.get(f"{url}/schema", timeout=9).json()["columns"][0]
        assert pd.Timestamp(column["low"]) == first.tz_localize(None)
        asked = {"controls": {"at": {"low": "2022-07-01T09:00:00", "high": None}}}
        where = requests.post(f"{url}/condition", json=asked, timeout=9).json()["where"]
        met = evaluate(bind(parse(where), model.schema_), read_columns(dataframe.read(visits), model.schema_))
        assert met.tolist() == (visits["at"] >= pd.Timestamp("2022-07-01 09:00", tz=ZONE)).tolist()
        again = requests.post(f"{url}/condition", json={"where": where}, timeout=9).json()["controls"]
        assert pd.Timestamp(again["at"]["low"]) == pd.Timestamp("2022-07-01 09:00")
        reader = Reader(browser, url).open("#a=at+>%3D+'2022-07-01+09:00:00'&n=40")
        field = reader.one("[data-column=at] .fields input")
        assert field.get_attribute("value").startswith("2022-07-01T09:00")
        assert reader.console_errors() == []


def test_a_strict_bound_is_shown_and_sent_as_one(browser, url):
    reader = Reader(browser, url).open("#a=age+>+40&n=40")
    words = lambda: [one.text for one in reader.all("[data-column=age] .fields label")]  # noqa: E731
    assert words() == ["above", "to"]
    slider = reader.all("[data-column=age] input[type=range]")
    assert slider[0].get_attribute("aria-valuetext") == "above 40"
    slider[1].send_keys(Keys.ARROW_LEFT * 10)
    reader.until(lambda: "and" in reader.one("#where").get_attribute("value"))
    assert reader.one("#where").get_attribute("value").startswith("age > 40 and age <= ")
    slider[0].send_keys(Keys.ARROW_RIGHT)
    reader.until(lambda: reader.one("#where").get_attribute("value").startswith("age >= "))
    assert words() == ["from", "to"]


@pytest.mark.parametrize("where", ["age >= 60", "age >= 78 and job = 'pilot'", "age < 20 and income > 2200"])
def test_one_condition_has_one_probability(browser, url, model, where):
    for strategy in ("auto", "conditioning"):
        body = {"where": where, "n": 20, "seed": 3, "strategy": strategy}
        profile = requests.post(f"{url}/profile", json=body, timeout=60).json()
        sampled = requests.post(f"{url}/sample", json={**body, "allow_fewer": True}, timeout=60).json()
        asked = requests.post(f"{url}/feasibility", json={"where": where, "seed": 3}, timeout=60).json()
        figures = profile["probability"], sampled["sampling_info"]["probability"], asked["probability"]
        assert len(set(figures)) == 1
        assert profile["interval"] == asked["interval"]
    if figures[0] > 0.1:
        reader = Reader(browser, url).open(f"#a={where.replace(' ', '+').replace('=', '%3D')}&n=20&seed=3")
        assert reader.text("#verdict-a .number") == f"{100 * figures[0]:.1f} %"


def test_the_page_is_shown_while_the_table_is_read(browser, model):
    may_end = threading.Event()
    table = RealTable(model.schema_, lambda: (may_end.wait(60), people())[1])
    with serving(create_app(model, name=NAME, data=table)) as url:
        assert requests.get(f"{url}/schema", timeout=9).json()["reading"]
        reader = Reader(browser, url).open("#a=age+>%3D+60&n=40")
        assert reader.one("#reading").is_displayed()
        assert "training rows satisfy it" in reader.text("#verdict-a .support")
        may_end.set()
        reader.until(lambda: "of 300 real rows satisfy it" in reader.text("#verdict-a .support"))
        assert not reader.one("#reading").is_displayed()
        assert reader.console_errors() == []
