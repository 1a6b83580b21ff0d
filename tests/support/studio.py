"""A server with a small real model, and a reader of its page: what the tests of the Studio share."""

import numpy as np
import pyarrow as pa
import requests
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.support import browser as chromium

PATIENCE = 45  # seconds
NAME = "people"


def people(rows=300):
    """A table of every kind of column that a control can be made for, with columns that go together."""
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
    """Somebody in front of the page, who does what people do and waits for what they wait for."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def open(self, address="", width=1440, scheme="light"):
        """The page, and its first answer."""
        self.browser.get("about:blank")
        chromium.shaped(self.browser, width, scheme)
        self.browser.get(f"{self.url}/{address}")
        return self.wait()

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.one(selector).text

    def until(self, holds):
        """Wait for something to be true, and tell it."""
        return WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda _: holds())

    def wait(self):
        """Wait until the text is read, and every scenario has its answer, its error, or was stopped."""
        busy = "main[hidden], #question[aria-busy=true], .verdict:not([hidden])[aria-busy=true]"
        self.until(lambda: not self.all(busy))
        return self

    def asked(self, where):
        """Wait until the text says this, and its answer is there."""
        self.until(lambda: self.where == where)
        self.until(lambda: self.one("#verdict-a").get_attribute("data-where") == where)
        return self

    @property
    def where(self):
        return self.one("#where").get_property("value")

    def type(self, selector, text):
        """Something typed into a field, in place of what is there."""
        field = self.one(selector)
        field.send_keys(Keys.CONTROL + "a")
        field.send_keys(text)

    def condition(self, text):
        """A condition typed by hand."""
        self.type("#where", text)

    def bound(self, column, side, value):
        """A bound of a column, typed into its field, which is then left."""
        self.type(f'[aria-label="{column}, {side}, as a value"]', value + Keys.TAB)

    def press(self, column, label):
        """A chip."""
        chips = self.all(f'#columns [data-column="{column}"] .chip')
        next(chip for chip in chips if chip.find_element(By.CSS_SELECTOR, ".name").text == label).click()

    def table(self, selector):
        """The cells of a table as texts, its head first."""
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' tr')].map(r => [...r.cells].map(c => c.textContent))"
        )
        return self.browser.execute_script(script, selector)

    def complaints(self):
        """What the console of the browser complains about, but for conditions that were read while half typed."""
        found = [entry["message"] for entry in self.browser.get_log("browser")]
        return [text for text in found if "/condition - " not in text or "status of 400" not in text]


def sampled(url, accept="application/json", **body):
    """Rows as the API gives them."""
    answer = requests.post(f"{url}/sample", json=body, headers={"Accept": accept}, timeout=PATIENCE)
    answer.raise_for_status()
    return answer
