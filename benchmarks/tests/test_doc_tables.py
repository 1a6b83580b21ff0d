"""Tables in Markdown files: what is committed is what the command writes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harpoon.exceptions import InvalidOption
from harpoon_bench.__main__ import app
from harpoon_bench.doc_tables import PAGES, TABLES, fill_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.mark.parametrize("name", sorted(path.name for pattern in PAGES for path in ROOT.glob(pattern)))
def test_committed_tables_are_those_of_the_records(name):
    path = next(path for path in (ROOT / name, ROOT / "docs" / name) if path.exists())
    markdown = path.read_text(encoding="utf-8")
    assert fill_tables(markdown, RESULTS) == markdown, "run: harpoon-bench tables"
    assert markdown.count("<!-- table: ") == markdown.count("<!-- end -->")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_rows_of_equal_length(name):
    lines = TABLES[name](RESULTS).splitlines()
    assert len(lines) > 2
    assert len({line.count(" | ") for line in lines}) == 1


def test_tables_have_every_data_set():
    assert TABLES["imputation_mse"](RESULTS).count("\n") == 1 + 8
    assert TABLES["conditions"](RESULTS).count("\n") == 1 + 12


def test_command_writes_marked_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- table: speed -->\nold\n<!-- end -->\n\nafter\n")
    for expected in (f"{page}\n", ""):  # the second time there is nothing to change
        outcome = CliRunner().invoke(app, ["tables", str(page), "--results", str(RESULTS)], catch_exceptions=False)
        assert outcome.output == expected
    text = page.read_text()
    assert text.startswith("before\n\n<!-- table: speed -->\n\n| task |")
    assert text.endswith(" |\n\n<!-- end -->\n\nafter\n")
    assert "old" not in text


def test_unknown_table_is_an_error():
    with pytest.raises(InvalidOption, match="Did you mean 'speed'"):
        fill_tables("<!-- table: sped -->\n<!-- end -->", RESULTS)
