"""What a notebook shows of a result: harmless, complete, and the same numbers as the result."""

import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon import Harpoon, MultipleImputation, Pooled, tipping_point
from harpoon._utils import cards
from harpoon.inference.imputation.comparison import ModelComparison
from harpoon.privacy.attack_results import ATTACKS, Attack
from harpoon.privacy.audit import Audit
from tests.support import frames, html

HOSTILE = "<script>alert('x')</script>\"&amp;"
ELEMENTS = {"div", "style", "p", "span", "i", "code", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    labels = np.where(x > 0, HOSTILE, "<b>plain</b>").tolist()
    return pa.table(
        {
            "x": [None if i % 4 == 0 else value for i, value in enumerate(x.tolist())],
            HOSTILE: [None if i % 5 == 0 else label for i, label in enumerate(labels)],
            "day": pa.array(np.datetime64("2024-01-01") + rng.integers(0, 90, 120)),
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return frames.fit(table).with_rules({HOSTILE: "x > 0"})


@pytest.fixture(scope="module")
def draws(model, table) -> MultipleImputation:
    return model.with_rules([]).impute(table, draws=3)


@pytest.fixture(scope="module")
def results(model, table, draws):
    """One of each kind of result."""
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    free = model.with_rules([])
    free.sample(20, where=f"{quoted} = '<b>plain</b>'", targets={"mean(x)": (0.0, 5.0)})
    mean = lambda rows: (rows["x"].to_numpy().mean(), 0.1)  # noqa: E731
    attacks = tuple(Attack.not_run(name, HOSTILE) for name in ATTACKS)
    return {
        "model": model,
        "unfitted": Harpoon(),
        "schema": model.schema_,
        "info": free.sampling_info_,
        "feasibility": free.feasibility(f"{quoted} = '<b>plain</b>' and x > 100"),
        "support": free.support(f"{quoted} is not null"),
        "draws": draws,
        "pooled": Pooled((HOSTILE,), np.array([2.0]), np.array([0.9]), np.array([0.08]), m=4),
        "comparison": ModelComparison("D1", (HOSTILE,), 1.0, 1, 20.0, 0.1),
        "tipping": tipping_point(free, table, mean, "x", draws=2, steps=1),
        "check": model.check(table),
        "rules": model.rules_,
        "discovered": model.rules(),
        "calibration": model.calibration_,
        "history": model.history_,
        "expectation": free.expect(table),
        "audit": Audit(attacks, {"train": 1}, (HOSTILE,)),
    }


def test_no_card_has_a_script_a_link_or_an_element_of_the_table(results):
    for name, result in results.items():
        page = html.read(result._repr_html_())
        assert {element.name for element in page.elements} <= ELEMENTS, name
        assert {key for element in page.elements for key in element.attributes} <= {"class", "style"}, name
        assert "url(" not in result._repr_html_()
        assert "@import" not in result._repr_html_()


def test_hostile_names_are_shown_as_text(results):
    for name in ("model", "schema", "draws", "pooled", "comparison", "check", "rules", "expectation", "audit"):
        assert HOSTILE in html.read(results[name]._repr_html_()).elements[0].text, name


def test_a_terminal_shows_a_result_as_its_text(results):
    pretty = pytest.importorskip("IPython.lib.pretty", reason="IPython is not installed").pretty
    for name, result in results.items():
        assert pretty(result) == str(result), name


def test_a_card_shows_the_numbers_of_its_result(results, table, draws):
    pooled, check = results["pooled"], results["check"]
    head, row = html.read(pooled._repr_html_()).table()
    summary = pooled.summary()
    assert head[1:] == list(summary)[1:]
    assert row == [HOSTILE, *(f"{values[0]:.4g}" for values in list(summary.values())[1:])]
    broken = [value is not None and value <= 0 for value in table["x"].to_pylist()]
    assert html.read(check._repr_html_()).table()[1][:2] == [HOSTILE, str(sum(broken))]
    shown = {row[0]: row[1] for row in html.read(draws._repr_html_()).table()[1:]}
    assert shown == {"x": "25 %", HOSTILE: "20 %"}  # `day` has no missing cell
    kinds = [row[:2] for row in html.read(results["schema"]._repr_html_()).table()[1:]]
    assert kinds == [[column.name, column.kind] for column in results["schema"]]


def test_a_check_without_rules_has_no_table_and_says_how_to_get_rules(model, table):
    page = html.read(model.with_rules([]).check(table)._repr_html_())
    assert "table" not in {element.name for element in page.elements}
    text = page.elements[0].text
    assert "The model carries no rules, so nothing was checked." in text
    assert "model.with_rules(model.rules())" in text


def test_an_unsupported_answer_is_marked(results):
    impossible = results["feasibility"]
    unsupported = replace(impossible, support=replace(impossible.support, is_impossible=False))
    assert "Extrapolation" in unsupported._repr_html_()
    assert "Extrapolation" not in impossible._repr_html_()
    assert "Extrapolation" not in results["support"]._repr_html_()


def test_nothing_missing_is_said(model, draws):
    whole = copy.copy(draws)
    object.__setattr__(whole, "_missing", {name: np.zeros_like(m) for name, m in draws._missing.items()})
    assert "No cell" in whole._repr_html_()


@given(st.text(max_size=cards.MAX_CHARACTERS), st.lists(st.text(max_size=cards.MAX_CHARACTERS), max_size=3), st.text())
def test_the_text_of_a_card_is_what_was_given(title, cells, text):
    """A browser that reads the card finds exactly the given texts, whatever letters they have."""
    normal = lambda letters: letters.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")  # noqa: E731
    page = html.read(cards.card(title, cards.table(["a"], [[cell] for cell in cells]), cards.paragraph(text)))
    assert normal(page.elements[2].text) == normal(title)
    assert [normal(row[0]) for row in page.table()[1:]] == [normal(cell) for cell in cells]
    assert normal(page.all("p")[-1].text if text else "") == normal(text)


def test_long_tables_and_cells_are_cut_off_and_counted():
    page = html.read(cards.table(["a", "b"], [(i, "x" * 1000) for i in range(1045)], what="columns"))
    rows = page.table()[1:]
    assert (len(rows), rows[0][1]) == (cards.MAX_ROWS, "x" * cards.MAX_CHARACTERS + "…")
    assert page.all("p")[0].text == "and 1,005 more columns"
