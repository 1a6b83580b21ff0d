"""Studio with a table that has missing cells: they are seen, counted, and filled in if asked."""

import numpy as np
import pyarrow as pa
import pytest
from selenium.webdriver.support.ui import Select
from selenium_axe_python import Axe

from harpoon.apps.server.app import create_app
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


def test_a_complete_table_has_no_switch(browser):
    with serving(create_app(fit(people()), name=NAME)) as url:
        reader = Reader(browser, url).open("#n=20")
        assert not reader.one("#missing-choice").is_displayed()
        assert reader.all("p.missing, td.missing") == []
