"""Studio on every screen: layout, accessibility, requests only to its server, and imputation of files."""

import os
import re
import subprocess
import sys

import duckdb
import numpy as np
import pytest
import requests
from selenium_axe_python import Axe

from harpoon.apps.server.routes import create_app
from tests.support import browser as chromium
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import NAME, Reader, people

pytestmark = chromium.needed
TOKEN = "a token that nobody guesses"  # noqa: S105


@pytest.fixture(scope="module")
def model():
    return fit(people(), hidden=16, max_epochs=5)


@pytest.fixture(scope="module")
def url(model):
    with serving(create_app(model, name=NAME)) as url:
        yield url


@pytest.fixture
def reader(browser, url):
    return Reader(browser, url)


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory):
    """A CSV with missing cells in every column, and a column that the model does not know."""
    frame = people(40).to_pandas()
    frame = frame.astype(object).mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    frame["remark"] = "kept, as it is"
    path = tmp_path_factory.mktemp("tables") / "people.csv"
    frame.to_csv(path, index=False)
    return path


def serious(browser):
    """The serious violations of accessibility rules, by axe."""
    axe = Axe(browser)
    axe.inject()
    found = axe.run()["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_the_page_fits_and_everybody_can_use_it(reader, incomplete, width, scheme):
    browser = reader.browser
    reader.open("#a=age+>%3D+40&b=job+%3D+'chef'&n=40", width, scheme)
    assert serious(browser) == []
    assert chromium.overflow(browser) == 0
    reader.one("#tab-fill").click()
    reader.one("#file").send_keys(str(incomplete))
    reader.until(reader.one("#filled").is_displayed)
    assert serious(browser) == []
    assert chromium.overflow(browser) == 0
    assert browser.execute_script("return innerWidth") == width
    assert reader.console_errors() == []
    asked = [address for address in chromium.requested_urls(browser) if not address.startswith("data:")]
    assert {address.rpartition("/")[0] for address in asked} == {reader.url}


def test_a_table_with_missing_cells_is_completed(reader, browser, incomplete, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    reader.open("#tab=fill")
    reader.one("#file").send_keys(str(incomplete))
    reader.until(reader.one("#filled").is_displayed)
    reader.one('#filled-downloads [data-format="csv"]').click()
    reader.until((tmp_path / "people-filled.csv").exists)
    before, after = (duckdb.read_csv(str(path)).fetchall() for path in (incomplete, tmp_path / "people-filled.csv"))
    pairs = [pair for old, new in zip(before, after, strict=True) for pair in zip(old, new, strict=True)]
    count = sum(old is None for old, _ in pairs)
    assert not any(new is None for _, new in pairs)
    assert all(old == new for old, new in pairs if old is not None)
    assert reader.text("#filled-words").startswith(f"{count} cells filled")
    assert len(reader.all("#filled-table td.filled")) == count
    head, *rows = reader.table("#filled-table")
    place = head.index("income")
    shown = {int(row[0]): row[place] for row in rows if row[place].startswith("filled: ")}
    assert shown
    for row, text in shown.items():  # the value, then its interval
        assert text.startswith(f"filled: {after[row - 1][place - 1]:g}")
        assert " to " in text
    texts = [row[head.index("job")] for row in rows if row[head.index("job")].startswith("filled: ")]
    assert all(re.fullmatch(r"filled: (chef|nurse|pilot)in \d+ of 20 draws", text) for text in texts)


@pytest.mark.parametrize(
    ("content", "said"),
    [("age,income\n1,2\n", "job"), ("", "empty"), ("\x00\x01\x02", "")],
)
def test_an_invalid_file_gets_a_sentence(reader, tmp_path, content, said):
    (tmp_path / "bad.csv").write_text(content)
    reader.open("#tab=fill")
    reader.one("#file").send_keys(str(tmp_path / "bad.csv"))
    sentence = reader.until(lambda: reader.text("#fill-error"))
    assert said in sentence
    assert sentence.endswith(".")


def test_the_example_is_completed(reader):
    reader.open("#tab=fill")
    reader.one("#example").click()
    reader.until(reader.one("#filled").is_displayed)
    assert reader.text("#file-name") == "example.csv"
    assert "of 40 rows" in reader.text("#filled-words")


def test_a_token_is_asked_for_and_kept_out_of_the_address(browser, model):
    with serving(create_app(model, name=NAME, token=TOKEN)) as url:
        reader = Reader(browser, url)
        browser.get(f"{url}/#n=40")
        field = reader.one("#token-field")
        reader.until(field.is_displayed)
        field.send_keys("a wrong one")
        reader.one("#token button").click()
        assert reader.until(lambda: reader.text("#token .error")).endswith(".")
        field.send_keys(TOKEN)
        reader.one("#token button").click()
        reader.wait()
        assert reader.text("h1") == NAME
        browser.execute_script("sessionStorage.clear()")
        reader.open(f"#n=40&token={TOKEN}")
        assert browser.current_url == f"{url}/#n=40"


def test_a_stopped_server_gets_a_sentence(browser, model):
    with serving(create_app(model, name=NAME)) as url:
        reader = Reader(browser, url).open("#n=40")
    reader.one("#reseed").click()
    reader.wait()
    assert "does not answer" in reader.text("#verdict-a .error")


def test_the_command_opens_the_page(model, tmp_path):
    model.save(tmp_path / f"{NAME}.harpoon")
    opened = tmp_path / "opened"
    (tmp_path / "browser").write_text(f'#!/bin/sh\ncurl --silent --retry 9 --retry-connrefused "$1" > "{opened}"\n')
    (tmp_path / "browser").chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "harpoon",
        "serve",
        str(tmp_path / f"{NAME}.harpoon"),
        "--port",
        "0",
        "--open",
    ]
    environment = {**os.environ, "BROWSER": str(tmp_path / "browser")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603
        address = re.search(r"http://\S+/", server.stderr.readline())[0]
        page = requests.get(address, timeout=60).text
        server.terminate()
    assert "Harpoon Studio" in page
    assert opened.read_text() == page
