"""Studio with a table that has missing cells: they are seen, counted, and filled in if asked."""

import numpy as np
import pyarrow as pa
import pytest
from selenium.webdriver.support.ui import Select
from selenium_axe_python import Axe

from harpoon.apps.server.routes import create_app
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people, sampled

pytestmark = chromium.needed


@pytest.fixture(scope="module")
def url():
    table, rng = people(), np.random.default_rng(0)
    for name, fraction in (("income", 0.3), ("job", 0.2)):
        cells = pa.array(table[name].to_pylist(), mask=rng.random(len(table)) < fraction)
        table = table.set_column(table.column_names.index(name), name, cells)
    with serving(create_app(fit(table, hidden=32, max_epochs=20), name=NAME)) as url:
        yield url


@pytest.fixture
def reader(browser, url):
    reader = Reader(browser, url)
    yield reader
    assert reader.console_errors() == []


def missing_shown(reader):
    """Where the row table says that a cell is missing, as pairs of a row and a column."""
    head, *rows = reader.table("#rows-table")
    return {(i, name) for i, row in enumerate(rows) for name, text in zip(head, row, strict=True) if text == "missing"}


def caption(reader, column):
    return reader.text(f'.card[data-column="{column}"] p.missing').splitlines()


def test_missing_cells_are_seen_and_filled_in_if_asked(reader, url, browser):
    reader.open("#a=age+>%3D+40&n=80")
    answer = sampled(url, n=80, where="age >= 40", seed=0).json()["rows"]
    nulls = {(i, name) for i, row in enumerate(answer) for name, value in row.items() if value is None}
    assert missing_shown(reader) == nulls
    assert {name for _, name in nulls} == {"income", "job"}
    assert len(reader.all("#rows-table td.missing")) == len(nulls)
    assert {card.get_attribute("data-column") for card in reader.all(".card:has(p.missing)")} == {"income", "job"}
    in_table, _, after = caption(reader, "income")
    assert in_table == "missing: in the table 25 %"
    assert after == f"A {100 * sum(row['income'] is None for row in answer) / 80:.0f} %"
    assert "complete" not in reader.text("#code-part")
    Select(reader.one("#missing")).select_by_visible_text("filled in")
    reader.wait()
    assert missing_shown(reader) == set()
    assert caption(reader, "income") == [in_table, "before 0 %", "A 0 %"]
    assert 'where="age >= 40", missing="complete", random_state=0)' in reader.text("#python")
    assert "--complete --seed 0" in reader.text("#shell")
    assert "missing=complete" in browser.current_url
    seen = reader.text("main")
    reader.open(browser.current_url.rpartition("/")[2])  # the address gives the same page
    assert reader.text("main") == seen
    assert Select(reader.one("#missing")).first_selected_option.text == "filled in"


def test_a_condition_may_ask_for_missing_cells(reader):
    reader.open("#a=income+is+null&n=50")
    assert {row for row, name in missing_shown(reader) if name == "income"} == set(range(50))
    assert caption(reader, "income")[-1] == "A 100 %"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_the_page_fits(reader, width, scheme):
    reader.open("#a=age+>%3D+40&b=age+<+40&n=40", width, scheme)
    assert chromium.overflow(reader.browser) == 0
    axe = Axe(reader.browser)
    axe.inject()
    assert [one["id"] for one in axe.run()["violations"] if one["impact"] in ("serious", "critical")] == []


def test_cells_that_such_rows_never_have_are_left_missing_if_asked(browser, tmp_path):
    """Only old people have an income here: that of the young is missing in every training row."""
    table = people()
    old = ["old" if age >= 40 else "young" for age in table["age"].to_pylist()]
    income = pa.array(table["income"].to_pylist(), mask=np.array(old) == "young")
    table = table.select(["age", "job"]).append_column("life", pa.array(old)).append_column("income", income)
    (tmp_path / "holes.csv").write_text("age,job,life,income\n30,chef,young,\n60,,old,3000\n")
    with serving(create_app(fit(table, hidden=32, max_epochs=20), name=NAME)) as url:
        reader = Reader(browser, url).open("#tab=fill")
        reader.one("#file").send_keys(str(tmp_path / "holes.csv"))
        reader.until(reader.one("#filled").is_displayed)
        assert reader.text("#filled-words").startswith("2 cells filled in 2 of 2 rows")
        assert 'choose "left missing" in Studio' in reader.text("#filled-notes")
        assert "structural=" not in reader.text("#filled-notes") + reader.text("#fill-python")
        Select(reader.one("#structural")).select_by_visible_text("left missing")
        reader.until(lambda: reader.text("#filled-words").startswith("1 cell filled in 1 of 2 rows"))
        assert reader.text("#filled-notes") == ""
        assert 'model.impute(table, structural="keep")' in reader.text("#fill-python")
        assert "--option structural=keep" in reader.text("#fill-shell")
        behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
        reader.one('#filled-downloads [data-format="csv"]').click()
        reader.until((tmp_path / "holes-filled.csv").exists)
        kept = (tmp_path / "holes-filled.csv").read_text().splitlines()
        assert kept[1] == "30,chef,young,"
        assert ",," not in kept[2]


def test_a_complete_table_has_no_switch(browser):
    with serving(create_app(fit(people()), name=NAME)) as url:
        reader = Reader(browser, url).open("#n=20")
        assert not reader.one("#missing-choice").is_displayed()
        assert reader.one("#structural-choice").get_property("hidden")
        assert reader.all("p.missing, td.missing") == []
