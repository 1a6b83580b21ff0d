"""Studio says what stands behind an answer: rows, an honest interval, and a grade."""

import duckdb
import pyarrow as pa
import pytest
import requests
from scipy.stats import beta
from selenium_axe_python import Axe

from harpoon.apps.server.routes import create_app
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people

pytestmark = chromium.needed


@pytest.fixture(scope="module")
def model():
    return fit(people(), hidden=32, max_epochs=5)


@pytest.fixture(scope="module")
def url(model):
    with serving(create_app(model, name=NAME, data=people())) as url:
        yield url


@pytest.fixture(scope="module")
def url_alone(model):
    with serving(create_app(model, name=NAME)) as url:
        yield url


def test_real_rows_that_satisfy_the_condition_are_counted_and_shown(browser, url):
    table = people()
    met = duckdb.from_arrow(table).filter("age >= 60").count("*").fetchall()[0][0]
    found = requests.post(f"{url}/profile", json={"where": "age >= 60", "n": 40}, timeout=60).json()
    low, high = beta(met + 0.5, 300 - met + 0.5).interval(0.95)
    assert found["real"] == {"rows": met, "of": 300, "fraction": met / 300, "interval": pytest.approx([low, high])}
    jobs = next(one for one in found["columns"] if one["name"] == "job")
    assert sum(jobs["real"]["fractions"]) == pytest.approx(1)
    reader = Reader(browser, url).open("#a=age+>%3D+60&n=40")
    interval = f"(95 % interval: {100 * low:.1f} % to {100 * high:.1f} %)"
    assert reader.text("#verdict-a .support") == (
        f"Support: {met} of 300 real rows satisfy it: {100 * met / 300:.1f} % {interval}."
    )
    assert "with the error of 300 training rows and of the simulation" in reader.text("#verdict-a .words")
    assert reader.all("#verdict-a .banner") == []
    assert len(reader.all("#changes svg .real.a")) == 2  # income and joined are drawn, the others have bars
    assert reader.console_errors() == []


def test_an_extrapolation_has_a_banner(browser, url):
    reader = Reader(browser, url).open("#a=age+<+20+and+income+>+2200&n=5", 390, "dark")
    assert reader.text("#verdict-a .support.banner").startswith("Extrapolation: 0 of 300 real rows satisfy it.")
    assert chromium.overflow(browser) == 0
    assert "⚠" in reader.text("#peek")
    axe = Axe(browser)
    axe.inject()
    assert [one["id"] for one in axe.run()["violations"] if one["impact"] in ("serious", "critical")] == []


def test_a_contradiction_has_its_reason_alone(browser, url_alone):
    reader = Reader(browser, url_alone).open("#a=age+>+60+and+age+<+50&n=5")
    assert reader.text("#verdict-a .number") == "0 %"
    assert reader.text("#verdict-a .words").startswith("No row can satisfy it: age > 60 and age < 50 exclude")
    assert [reader.text(f"#verdict-a .{part}") for part in ("support", "graded", "error")] == ["", "", ""]
    assert reader.all("#verdict-a .banner") == []
    parts = ["changes-part", "rows-part", "code-part", "calibration", "settings"]
    assert [part for part in parts if reader.one(f"#{part}").is_displayed()] == []
    reader.open("#a=age+>+60+and+age+<+50&b=age+>+60&n=5")
    assert reader.text("#changes-heading").startswith("What else changes when age > 60")
    assert "rows_" not in reader.text("#python")
    assert 'model.sample(5, where="age > 60"' in reader.text("#python")
    reader.open("#a=age+>+60&n=5")
    assert [part for part in parts if not reader.one(f"#{part}").is_displayed()] == []


def test_the_banner_needs_no_table(browser, url_alone):
    reader = Reader(browser, url_alone).open("#a=age+<+20+and+income+>+2200&n=5")
    assert reader.text("#verdict-a .support.banner").startswith(
        "Extrapolation: about 0 of 300 training rows satisfy it."
    )
    reader.open("#a=age+>%3D+60&n=40")
    found = requests.post(f"{url_alone}/profile", json={"where": "age >= 60", "n": 40}, timeout=60).json()
    estimate = round(found["support"]["estimate"])
    assert reader.text("#verdict-a .support") == f"Support: about {estimate} of 300 training rows satisfy it."
    assert reader.all("#verdict-a .banner") == []
    grade = reader.text("#verdict-a .graded")
    assert grade == found["agreement"]["sentence"]
    assert grade.startswith("No grade: the model has none of its own")  # too few held-out cells


def test_without_real_rows_the_grade_says_where_it_comes_from(browser):
    table = pa.concat_tables([people()] * 4)
    model = fit(table, hidden=32)
    with serving(create_app(model, name=NAME)) as url:
        reader = Reader(browser, url).open("#a=age+>%3D+60&n=40")
        grade = reader.one("#verdict-a .graded")
        assert grade.get_attribute("data-grade") == model.calibration_.grade != ""
        assert grade.text.startswith(
            f"Grade {model.calibration_.grade}: from the model's calibration and support, not from a comparison"
        )
        reader.open("#a=age+<+20+and+income+>+2200&n=5")
        assert reader.one("#verdict-a .graded").get_attribute("data-grade") == "D"


def test_intervals_contain_the_error_of_the_training_rows(browser, url):
    body = {"where": "age >= 60", "n": 400, "seed": 0}
    found = requests.post(f"{url}/profile", json=body, timeout=60).json()
    posterior = beta(found["real"]["rows"] + 0.5, 300 - found["real"]["rows"] + 0.5).interval(0.95)
    assert found["interval"][1] - found["interval"][0] > 0.9 * (posterior[1] - posterior[0])
    reader = Reader(browser, url).open("#a=age+>%3D+60&n=400")
    low, high = (f"{100 * end:.1f} %" for end in found["interval"])
    assert f"(95 % interval: {low} to {high}, with the error of" in reader.text("#verdict-a .words")
    income = next(one for one in found["columns"] if one["name"] == "income")
    assert reader.text('#changes [data-column="income"] .interval') == income["interval_text"]


def test_an_answer_is_graded_against_real_rows(browser, url, model):
    found = requests.post(f"{url}/profile", json={"where": "age >= 50", "n": 400, "seed": 0}, timeout=60).json()
    reader = Reader(browser, url).open("#a=age+>%3D+50&n=400")
    assert reader.text("#verdict-a .graded") == found["agreement"]["sentence"]
    assert reader.one("#verdict-a .graded").get_attribute("data-grade") == found["agreement"]["grade"] != ""
    assert reader.text("#calibration") == str(model.calibration_)


def test_the_link_reproduces_the_view(browser, url):
    reader = Reader(browser, url).open("#a=age+>%3D+60&n=40&seed=3")
    link, words = reader.text("#link pre"), reader.text("#verdict-a .words")
    browser.get("about:blank")
    browser.get(link)
    assert reader.wait().text("#verdict-a .words") == words


def test_without_a_condition_real_rows_are_shown_beside_sampled_ones(browser, url, url_alone):
    found = requests.post(f"{url}/profile", json={"where": None, "n": 20, "seed": 0}, timeout=60).json()
    jobs = next(one for one in found["columns"] if one["name"] == "job")
    chefs = people()["job"].to_pylist().count("chef") / 300
    assert jobs["real"]["fractions"][0] == pytest.approx(chefs)
    assert found["real"] is None  # every row satisfies no condition
    reader = Reader(browser, url).open("#n=20")
    texts = [bar.text for bar in reader.all('#changes [data-column="job"] .values .real')]
    assert f"{100 * chefs:.0f} %" in texts
    assert "real rows" in reader.text("#legend").splitlines()
    reader.open("#a=age+>%3D+60&n=20")
    assert "real rows" not in reader.text("#legend").splitlines()
    reader = Reader(browser, url_alone).open("#n=20")
    assert "real rows" not in reader.text("#legend").splitlines()
    assert reader.all("#changes .real") == []
