"""Make the picture of Studio in the docs: python docs/screenshots.py MODEL (with chromium and its driver)."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from harpoon.apps.cli.demo import load_table

ASSETS = Path(__file__).parent / "assets"
SCENARIOS = "#a=body_mass_g+>%3D+5000&b=species+%3D+%27Adelie%27+and+sex+%3D+%27male%27"
WIDTH, HEIGHT = 1440, 1000
BUSY = "main[hidden], [aria-busy=true]:not([hidden])"
SECONDS = 60


def main(model: str) -> None:
    """Serve a model of the penguins beside their table, open its page, and take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "penguins.csv"
        load_table().to_csv(table, index=False)
        command = [sys.executable, "-m", "harpoon", "serve", model, "--data", str(table), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603
            try:
                take(_address(server))
            finally:
                server.terminate()


def take(address: str) -> None:
    """A picture of two scenarios, once their answers are there."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        still = [{"name": "prefers-reduced-motion", "value": "reduce"}]  # no chart is half faded in
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
        browser.get(address + SCENARIOS)
        WebDriverWait(browser, SECONDS).until(lambda it: not it.find_elements("css selector", BUSY))
        _compressed(browser.get_screenshot_as_png(), ASSETS / "studio.png")
    finally:
        browser.quit()


def _address(server: subprocess.Popen[str]) -> str:
    """Where the server says that it is."""
    for line in server.stderr or ():
        found = re.search(r"http://\S+/", line)
        if found:
            return found.group()
    raise SystemExit("The server ended before it told its address.")


def _compressed(png: bytes, path: Path) -> None:
    """The picture with few colours, which is all that the page has."""
    from io import BytesIO

    from PIL import Image

    Image.open(BytesIO(png)).convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
