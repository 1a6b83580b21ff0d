"""A table and a driver of the page, for the tests of Studio."""

import numpy as np
import pyarrow as pa
import requests
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.support import browser as chromium

TIMEOUT = 120  # seconds; reached only where a test fails, however busy the machine is
NAME = "people"


def people(rows=300):
    """A table with every kind of column that has a control, and with dependent columns."""
    rng = np.random.default_rng(5)
    age = rng.integers(18, 80, rows)
    old = rng.random(rows) < (age - 18) / 62
    days = np.datetime64("2020-01-01") + rng.integers(0, 1500, rows)
    return pa.table(
        {
            "age": age,
            "income": np.round(900 + 40.0 * age + rng.normal(0, 120, rows), 1),
            "job": np.where(old, "pilot", rng.choice(["chef", "nurse"], rows)).tolist(),
            "member": old & (rng.random(rows) < 0.8),
            "joined": pa.array(days, type=pa.date32()),
            "country": ["Norway"] * rows,
        }
    )


class Reader:
    """Drives the page as a person would, and waits for its answers."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def open(self, address="", width=1440, scheme="light"):
        """Open the page and wait for its first answer."""
        self.browser.get("about:blank")
        chromium.set_screen(self.browser, width, scheme)
        self.browser.get(f"{self.url}/{address}")
        return self.wait()

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.one(selector).text

    def until(self, holds):
        """Wait until a function returns something true, and return that."""
        return WebDriverWait(self.browser, TIMEOUT, poll_frequency=0.05).until(lambda _: holds())

    def wait(self):
        """Wait until the text is read and every scenario has an answer or an error, or was stopped."""
        busy = "main[hidden], #question[aria-busy=true], .verdict:not([hidden])[aria-busy=true]"
        self.until(lambda: not self.all(busy))
        return self

    def wait_for(self, where):
        """Wait until the text is this condition and its answer is shown."""
        self.until(lambda: self.where == where)
        self.until(lambda: self.one("#verdict-a").get_attribute("data-where") == where)
        return self

    @property
    def where(self):
        return self.one("#where").get_property("value")

    def type(self, selector, text):
        """Replace the content of a field."""
        field = self.one(selector)
        field.send_keys(Keys.CONTROL + "a")
        field.send_keys(text)

    def condition(self, text):
        """Type a condition."""
        self.type("#where", text)

    def bound(self, column, side, value):
        """Type a bound of a column, and leave the field."""
        self.type(f'[aria-label="{column}, {side}, as a value"]', value + Keys.TAB)

    def press(self, column, category):
        """Press a chip."""
        chips = self.all(f'#columns [data-column="{column}"] .chip')
        next(chip for chip in chips if chip.find_element(By.CSS_SELECTOR, ".name").text == category).click()

    def table(self, selector):
        """The cells of a table as texts, its header first."""
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' tr')].map(r => [...r.cells].map(c => c.textContent))"
        )
        return self.browser.execute_script(script, selector)

    def console_errors(self):
        """The errors in the console of the browser, without those of conditions that were half typed."""
        found = [entry["message"] for entry in self.browser.get_log("browser")]
        return [text for text in found if "/condition - " not in text or "status of 400" not in text]


def sampled(url, accept="application/json", **body):
    """Sample rows over HTTP."""
    answer = requests.post(f"{url}/sample", json=body, headers={"Accept": accept}, timeout=TIMEOUT)
    answer.raise_for_status()
    return answer
