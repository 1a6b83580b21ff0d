"""Studio with real rows: how many of them stand behind an answer."""

import duckdb
import pytest
import requests
from scipy.stats import binomtest
from selenium_axe_python import Axe

from harpoon.apps.server.app import create_app
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people

pytestmark = chromium.needed


@pytest.fixture(scope="module")
def url():
    with serving(create_app(fit(people(), hidden=32, max_epochs=5), name=NAME, data=people())) as url:
        yield url


def test_real_rows_that_satisfy_the_condition_are_counted_and_shown(browser, url):
    table = people()
    met = duckdb.from_arrow(table).filter("age >= 60").count("*").fetchall()[0][0]
    found = requests.post(f"{url}/profile", json={"where": "age >= 60", "n": 40}, timeout=60).json()
    low, high = binomtest(met, 300).proportion_ci(method="wilson")
    assert found["support"] == {"rows": met, "of": 300, "fraction": met / 300, "interval": [low, high]}
    jobs = next(one for one in found["columns"] if one["name"] == "job")
    assert sum(jobs["real"]["fractions"]) == pytest.approx(1)
    reader = Reader(browser, url).open("#a=age+>%3D+60&n=40")
    interval = f"(95 % confidence interval: {100 * low:.1f} % to {100 * high:.1f} %)"
    assert reader.text("#verdict-a .support") == (
        f"Support: {met} of 300 real rows satisfy it: {100 * met / 300:.1f} % {interval}."
    )
    assert "of the simulation" in reader.text("#verdict-a .words")
    assert reader.all("#verdict-a .banner") == []
    assert len(reader.all("#changes svg .real.a")) == 2  # income and joined are drawn, the others have bars
    assert reader.console_errors() == []


def test_an_extrapolation_has_a_banner(browser, url):
    reader = Reader(browser, url).open("#a=age+<+20+and+income+>+2200&n=5", 390, "dark")
    assert reader.text("#verdict-a .support.banner").startswith("Extrapolation: 0 of 300 real rows satisfy it.")
    assert chromium.overflow(browser) == 0
    axe = Axe(browser)
    axe.inject()
    assert [one["id"] for one in axe.run()["violations"] if one["impact"] in ("serious", "critical")] == []
