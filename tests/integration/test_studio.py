"""Studio in a real browser, with a real server and a real model."""

import io

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver.common.keys import Keys

from harpoon.apps.server.routes import create_app
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people, sampled

pytestmark = chromium.needed
PARQUET = "application/vnd.apache.parquet"
BOTH = "age >= 40 and job in ('chef', 'nurse')"


@pytest.fixture(scope="module")
def model():
    return fit(people(), hidden=32, max_epochs=30)


@pytest.fixture(scope="module")
def url(model):
    with serving(create_app(model, name=NAME)) as url:
        yield url


@pytest.fixture
def reader(browser, url):
    reader = Reader(browser, url)
    yield reader
    assert reader.console_errors() == []


@pytest.fixture
def downloads(browser, tmp_path):
    """The download folder of the browser."""
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    return tmp_path


def violations(rows, where):
    """The number of rows that violate a condition, by DuckDB."""
    table = pa.Table.from_pylist(rows) if isinstance(rows, list) else rows
    return duckdb.from_arrow(table).filter(f"not ({where})").count("*").fetchall()[0][0]


def test_a_range_and_categories_make_a_condition_that_rows_satisfy(reader, url):
    reader.open("#n=200")
    assert reader.text("#verdict-a .number") == "100 %"
    reader.bound("age", "at least", "40")
    reader.wait_for("age >= 40")
    likely = reader.text("#verdict-a .number")
    reader.press("job", "chef")
    reader.press("job", "nurse")
    reader.wait_for(BOTH)
    assert float(reader.text("#verdict-a .number")[:-2]) < float(likely[:-2]) < 100
    assert "200 rows sampled" in reader.text("#verdict-a .words")
    answer = sampled(url, n=200, where=BOTH, seed=0).json()
    assert len(answer["rows"]) == 200
    assert violations(answer["rows"], BOTH) == 0
    head, *shown = reader.table("#rows-table")
    assert shown == [[text_of(row[name]) for name in head] for row in answer["rows"][:100]]


def text_of(cell):
    return str(cell).lower() if isinstance(cell, bool) else f"{cell:g}" if isinstance(cell, float) else str(cell)


def test_a_slider_is_moved_by_keys(reader):
    reader.open("#n=50")
    thumb = reader.one('[aria-label="age, at least"]')
    thumb.send_keys(Keys.ARROW_RIGHT * 3)
    reader.until(lambda: reader.where.startswith("age >= "))
    bound = int(reader.where.removeprefix("age >= "))
    assert thumb.get_attribute("aria-valuetext") == str(bound)
    thumb.send_keys(Keys.ARROW_RIGHT)
    reader.wait_for(f"age >= {bound + 1}")
    thumb.send_keys(Keys.HOME)
    reader.wait_for("")


def test_a_typed_condition_moves_the_controls(reader):
    reader.open("#n=50")
    reader.condition("joined between '2021-01-01' and '2022-06-30' and job = 'pilot' and income < age * 90")
    reader.until(lambda: "income < age * 90" in reader.text("#rest"))
    dates = [reader.one(f'[aria-label="joined, {end}, as a value"]') for end in ("at least", "at most")]
    assert [date.get_property("value") for date in dates] == ["2021-01-01", "2022-06-30"]
    assert [chip.text.split()[0] for chip in reader.all('#columns [aria-pressed="true"]')] == ["pilot"]
    reader.wait().press("job", "chef")  # what only text can say stays
    reader.until(lambda: "'chef'" in reader.where)
    assert "income < age * 90" in reader.where
    assert reader.wait().one("#verdict-a").get_attribute("data-state") == "answered"


def test_the_address_gives_the_same_page(reader, browser):
    reader.open("#n=80")
    reader.bound("age", "at least", "50")
    reader.wait_for("age >= 50")
    reader.one("#edit-b").click()
    reader.condition("member")
    reader.until(lambda: reader.one("#verdict-b").get_attribute("data-where") == "member")
    address, seen = browser.current_url, reader.text("main")
    reader.open(address.rpartition("/")[2])
    assert reader.text("main") == seen
    assert "age >= 50" in seen
    assert "\nB\nmember\n" in seen


def test_a_scenario_that_is_left_while_it_changes_is_answered(reader):
    reader.open("#n=50")
    reader.one('[aria-label="age, at least"]').send_keys(Keys.ARROW_RIGHT * 5)
    reader.one("#edit-b").click()
    reader.wait()
    assert [reader.one(f"#verdict-{key}").get_attribute("data-state") for key in "ab"] == ["answered", "answered"]
    reader.one("#drop-b").click()
    assert not reader.wait().one("#verdict-b").is_displayed()


def test_without_a_condition_no_change_is_shown(reader):
    reader.open("#n=50")
    order = [card.get_attribute("data-column") for card in reader.all("#changes .card")]
    assert order == ["age", "income", "job", "member", "joined"]  # as in the table
    assert "→" not in reader.text("#answer")
    assert reader.all("#changes .shift, #changes .series.a") == []
    assert reader.text("#legend") == "without a condition\nheight: share of the rows"
    reader.open("#b=age+>%3D+60&n=50")  # A has no condition: B is what changes
    assert reader.text("#changes-heading") == "What else changes when age >= 60?"
    assert {shift.get_attribute("data-scenario") for shift in reader.all("#changes .shift")} == {"b"}


def test_what_changes_most_comes_first(reader):
    reader.open("#a=age+>%3D+60&n=300")
    assert reader.text("#changes-heading") == "What else changes when age >= 60?"
    order = [card.get_attribute("data-column") for card in reader.all("#changes .card")]
    changes = [float(text.text.split()[-2]) for text in reader.all("#changes .moved")]
    assert set(order) == {"income", "job", "member", "joined"}
    assert changes == sorted(changes, reverse=True)
    assert order[-1] == "joined"  # nothing goes with it
    assert [card.get_attribute("data-column") for card in reader.all("#condition-columns .card")] == ["age"]


def test_files_hold_the_rows_of_the_page(reader, url, downloads):
    reader.open("#a=age+<+30&n=150&seed=3&strategy=conditioning")
    for suffix, media in (("csv", "text/csv"), ("parquet", PARQUET)):
        reader.one(f'#rows-downloads [data-format="{suffix}"]').click()
        file = downloads / f"{NAME}-a.{suffix}"
        reader.until(file.exists)
        assert (
            file.read_bytes() == sampled(url, media, n=150, where="age < 30", seed=3, strategy="conditioning").content
        )
    rows = pq.read_table(downloads / f"{NAME}-a.parquet")
    assert rows.num_rows == duckdb.read_csv(str(downloads / f"{NAME}-a.csv")).count("*").fetchall()[0][0] == 150
    assert violations(rows, "age < 30") == 0


def test_the_python_code_samples_the_same_rows(reader, model, url, tmp_path, monkeypatch):
    where = "job <> 'pilot' and income > 2000"
    model.save(tmp_path / f"{NAME}.harpoon")
    monkeypatch.chdir(tmp_path)
    reader.open("#n=60&seed=7")
    reader.condition(where)
    names = {}
    exec(reader.wait_for(where).text("#python code"), names)  # noqa: S102
    assert (
        names["rows"].to_pylist()
        == pq.read_table(io.BytesIO(sampled(url, PARQUET, n=60, where=where, seed=7).content)).to_pylist()
    )
    assert reader.text("#shell code") == (f'harpoon sample {NAME}.harpoon -n 60 --where "{where}" --seed 7 -o rows.csv')


def test_a_fast_slider_never_shows_an_answer_to_another_question(reader, browser):
    reader.open("#n=50")
    browser.execute_script("""
        window.wrong = [];
        const verdict = document.querySelector("#verdict-a"), text = document.querySelector("#where");
        const look = () => {
          const shown = verdict.dataset.where ?? text.value;
          if (shown !== text.value) window.wrong.push(shown);
        };
        new MutationObserver(look).observe(verdict, { attributes: true, subtree: true, childList: true });
    """)
    thumb = reader.one('[aria-label="age, at least"]')
    for _ in range(12):
        thumb.send_keys(Keys.ARROW_RIGHT * 2)
    reader.until(lambda: reader.where == f"age >= {thumb.get_attribute('aria-valuetext')}")
    reader.wait_for(reader.where)
    assert browser.execute_script("return window.wrong") == []


def test_sampling_can_be_stopped(reader):
    reader.open("#n=50")
    reader.bound("age", "at least", "75")
    reader.type("#rows", f"20000{Keys.TAB}")
    reader.until(lambda: "sampled" in reader.text("#verdict-a .counter"))
    assert reader.text("#rows-words") == "There are no rows yet."
    reader.one("#verdict-a .stop").click()
    assert "Stopped" in reader.text("#verdict-a .error")
    reader.type("#rows", f"50{Keys.TAB}")
    reader.wait_for("age >= 75")


def test_an_invalid_condition_gets_a_sentence(reader):
    reader.open("#n=50")
    for condition, said in {
        "aeg >= 60": "aeg",
        "age >=": "age >=",
        "age >= 'x'": "'x'",
        "job = 'chief'": "chef",
    }.items():
        reader.condition(condition)
        sentence = reader.until(lambda said=said: said in reader.text("#where-error") and reader.text("#where-error"))
        assert sentence.endswith((".", "?"))
        assert reader.one("#where").get_attribute("aria-invalid") == "true"
        reader.until(lambda sentence=sentence: reader.text("#verdict-a .error") == sentence)


def test_while_the_text_is_invalid_no_other_condition_is_shown(reader):
    reader.open("#a=age+>%3D+40+and+income+<+age+*+90&n=50")
    assert reader.one("#condition-part").is_displayed()
    assert reader.one("#rest").is_displayed()
    reader.condition("aeg >= 60")
    reader.until(lambda: "aeg" in reader.text("#verdict-a .error"))
    reader.until(lambda: reader.one("#columns").get_property("inert"))
    for gone in ("#condition-part", "#rest", "#code-part", "#verdict-a .again", "#columns .restricted"):
        assert not any(part.is_displayed() for part in reader.all(gone))
    assert "aeg" not in reader.text("#changes-heading")
    with pytest.raises(ElementClickInterceptedException):
        reader.press("job", "chef")
    assert reader.where == "aeg >= 60"
    reader.condition("age >= 60")
    reader.wait_for("age >= 60").wait().press("job", "chef")
    reader.wait_for("age >= 60 and job = 'chef'")


def test_an_impossible_condition_is_explained(reader):
    reader.open("#n=50")
    reader.condition("age > 79 and age < 20")
    reader.wait_for("age > 79 and age < 20")
    assert reader.text("#verdict-a .number") == "0 %"
    assert "No row can satisfy it" in reader.text("#verdict-a .words")
