"""The what-if widget in a real JupyterLab, in a real browser."""

import contextlib
import secrets

import duckdb
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.support import browser as chromium
from tests.support import frames, jupyter
from tests.support.studio import Reader, people

pytestmark = [chromium.needed, jupyter.needed]
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
SHOW = """
import harpoon
model = harpoon.load('people.harpoon', progress=False)
widget = model.explore(where='age >= 40', height=900)
widget
"""
CELLS = (
    SHOW.strip(),
    "print('the condition is', widget.where)",
    "widget.where, widget.compare = \"job = 'chef'\", 'member'",
    "widget.close()\nmodel.schema_",
    "fresh = harpoon.Harpoon(hidden=16, max_epochs=3).fit(model.sample(300))",
    "rows = fresh.sample(3000)",
)


@pytest.fixture(scope="module")
def model():
    return frames.fit(people())


@pytest.fixture(scope="module")
def lab(model, browser, tmp_path_factory):
    """JupyterLab with an open notebook; the browser is left as it was found."""
    folder, token = tmp_path_factory.mktemp("lab"), secrets.token_hex(8)
    model.save(folder / "people.harpoon")
    jupyter.write_notebook(folder / "what-if.ipynb", *CELLS)
    with jupyter.running(folder, token) as url:
        chromium.set_screen(browser, 1400, "light")
        browser.get(f"{url}/doc/tree/what-if.ipynb?reset&token={token}")
        yield Lab(browser)
        browser.get("about:blank")
        with contextlib.suppress(Exception):
            browser.switch_to.alert.accept()  # a notebook that was not saved asks before it is left


class Lab:
    """Drives a notebook as a person would."""

    def __init__(self, browser):
        self.browser = browser

    def until(self, holds):
        wait = WebDriverWait(self.browser, jupyter.TIMEOUT, poll_frequency=0.1)
        return wait.until(lambda _: holds())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def run(self, number):
        """Run the next cell, which has this number, and wait until it has ended."""
        self.browser.switch_to.default_content()
        self.until(lambda: self.browser.execute_script(f"return {KERNEL}?.status") == "idle")
        self.browser.execute_script("jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
        cell = self.all(".jp-CodeCell")[number]
        prompt = lambda: cell.find_element(By.CSS_SELECTOR, ".jp-InputArea-prompt").text  # noqa: E731
        self.until(lambda: prompt().strip("[]: ").isdecimal())
        return cell

    def output(self, cell):
        return self.until(lambda: cell.find_element(By.CSS_SELECTOR, ".jp-OutputArea-output").text)

    def page(self):
        """Return the page of the widget, once it has its first answer."""
        self.browser.switch_to.default_content()
        (frame,) = self.until(lambda: self.all("iframe[title='Harpoon Studio']"))
        self.browser.execute_script("arguments[0].scrollIntoView()", frame)
        self.browser.switch_to.frame(frame)
        return Reader(self.browser, "").wait()


def test_a_condition_is_changed_and_answered_by_the_kernel(lab, model):
    browser = lab.browser
    lab.until(lambda: lab.all(".jp-CodeCell"))
    lab.run(0)
    page = lab.page()
    before = page.text("#verdict-a .number")
    assert page.where == "age >= 40"
    page.bound("age", "at least", "60")
    page.wait_for("age >= 60")
    assert 0 < float(page.text("#verdict-a .number")[:-2]) < float(before[:-2]) < 100
    head, *shown = page.table("#rows-table")
    rows = model.sample(1000, where="age >= 60", random_state=0)  # the same as through any other door
    assert [row[head.index("age")] for row in shown] == [str(age) for age in rows["age"].to_pylist()[:100]]
    assert duckdb.from_arrow(rows).filter("not (age >= 60)").count("*").fetchall() == [(0,)]
    assert 'model.sample(1000, where="age >= 60", random_state=0)' in page.text("#python")
    assert "harpoon.load" not in page.text("#python")
    assert not page.one("#link").is_displayed()
    page.one("#tab-fill").click()
    page.one("#example").click()
    page.until(lambda: "cells filled" in page.text("#filled-words"))
    page.one("#tab-ask").click()
    assert lab.output(lab.run(1)) == "the condition is age >= 60"
    lab.run(2)
    page = lab.page().wait_for("job = 'chef'")
    page.until(lambda: page.one("#verdict-b").get_attribute("data-where") == "member = true")
    light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.execute_script("parent.document.body.dataset.jpThemeLight = 'false'")
    page.until(lambda: browser.execute_script("return getComputedStyle(document.body).backgroundColor") != light)
    errors = [entry["message"] for entry in browser.get_log("browser") if "harpoon" in entry["message"].lower()]
    assert errors == []
    cell = lab.run(3)
    assert "harpoon-card" in cell.get_attribute("innerHTML")
    assert not lab.all("iframe[title='Harpoon Studio']")
    for number, end in ((4, "Trained (stopped by epochs)"), (5, "100%")):  # bars show how a call ended
        cell = lab.run(number)
        lab.until(lambda cell=cell, end=end: end in " ".join(cell.text.split()))
