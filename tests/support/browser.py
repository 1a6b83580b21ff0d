"""A real browser: Debian's chromium and chromium-driver."""

import json
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
)
needed = pytest.mark.skipif(
    not (Path(BROWSER).exists() and Path(DRIVER).exists()),
    reason="chromium and chromium-driver are not installed (apt-get install chromium chromium-driver)",
)


def start(profile):
    """Start a browser with its own profile, which logs its console and its requests."""
    options = Options()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def set_screen(browser, width, scheme):
    """Set the width and the colour scheme, and clear the logs."""
    browser.get_log("browser")
    browser.get_log("performance")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    preferences = {
        "prefers-color-scheme": scheme,
        "prefers-reduced-motion": "reduce",
    }  # clicks do not wait for scrolling
    media = [{"name": name, "value": value} for name, value in preferences.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


def requested_urls(browser):
    """The URLs that the browser has requested since the logs were cleared."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def overflow(browser):
    """The pixels by which the page is wider than the screen."""
    root = "document.documentElement"
    return browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
