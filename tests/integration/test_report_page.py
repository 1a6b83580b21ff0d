"""The page in a browser: no requests, no errors, readable on every screen."""

import json

import numpy as np
import pyarrow as pa
import pytest

from harpoon.report import Page, compare, evaluate
from tests.support import browser as chromium
from tests.support.frames import fit, make, mixed_columns

pytestmark = chromium.needed
# Contrast by WCAG: between the colour of a text and the first background colour behind it.
CONTRASTS = """
const luminance = c => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const painted = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$|transparent/.test(c)) return c; } };
return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.unseen') &&
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
  const [a, b] = [getComputedStyle(e).color, painted(e)].map(luminance).sort((x, y) => y - x);
  return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 120)]; });
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of a model, and one of a hostile table."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    table = make("pyarrow", mixed_columns(120))
    model = fit(table, max_epochs=10)
    Page(evaluate(model, table, where="age >= 40 and job = 'chef'", rows=120, random_state=0)).save(
        folder / "model.html"
    )
    long = "<script>alert(1)</script>" + "very_long_name_without_a_break" * 20
    wide = {f"{long if i % 5 == 0 else '🐧'}{i}": rng.normal(size=50) for i in range(60)}
    wide["c"] = [f"{long} {i % 20}" for i in range(50)]
    Page(compare(pa.table(wide), pa.table(wide))).save(folder / "hostile.html")
    return folder


def open_page(browser, path, width, scheme):
    chromium.set_screen(browser, width, scheme)
    browser.get(path.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.mark.parametrize("name", ["model", "hostile"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_makes_no_request(browser, pages, name, width, scheme):
    open_page(browser, pages / f"{name}.html", width, scheme)
    assert [browser.execute_script("return innerWidth"), chromium.overflow(browser)] == [width, 0]
    assert browser.get_log("browser") == []
    urls = chromium.requested_urls(browser)
    own = ("data:", "chrome:")  # inline data, and the new tab of the browser, which may still be loading
    assert [url for url in urls if not url.startswith(own)] == [(pages / f"{name}.html").as_uri()]
    dark = browser.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
    shade = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([int(part) for part in shade[4:-1].split(",")])
    assert dark == (scheme == "dark") == (brightness < 128)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(browser, pages, scheme):
    open_page(browser, pages / "model.html", 1440, scheme)
    faint = [(round(contrast, 2), html) for contrast, html in browser.execute_script(CONTRASTS) if contrast < 4.5]
    assert faint == []


def test_charts_are_painted_and_names_are_plain_text(browser, pages):
    open_page(browser, pages / "model.html", 1440, "light")
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg.histogram, svg.heat')].map(e => [e.clientWidth, e.clientHeight])"
    )
    assert len(sizes) > 5
    assert all(width > 100 and height > 50 for width, height in sizes)
    open_page(browser, pages / "hostile.html", 1440, "light")
    assert browser.execute_script("return document.scripts.length") == 1  # the JSON data, which is not a program


def test_the_frame_does_not_change_the_style_of_a_notebook(browser, pages, tmp_path):
    page = Page(
        json.loads((pages / "hostile.html").read_text().rpartition('id="summary">')[2].partition("</script>")[0])
    )
    cell = f"<!doctype html><title>x</title><h1>Notebook</h1>{page._repr_html_()}"
    (tmp_path / "notebook.html").write_text(cell, encoding="utf-8")
    open_page(browser, tmp_path / "notebook.html", 1440, "dark")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return getComputedStyle(document.querySelector('h1')).fontWeight") == "700"
    browser.switch_to.frame(0)
    assert browser.find_element("tag name", "h1").text == "Comparison of two tables"
    browser.switch_to.default_content()
