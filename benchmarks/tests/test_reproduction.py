"""The list of the paper's tables and figures: what is missing, how long it takes, and the command that measures it."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from harpoon.exceptions import InvalidOption
from harpoon_bench.__main__ import app
from harpoon_bench.baselines import METHODS
from harpoon_bench.experiments import CONDITIONS, MIXED, RATIOS, Run, make_cells
from harpoon_bench.records import Cell, Results
from harpoon_bench.reproduction import Item, describe_items, group_missing, make_estimate, paper_items, select


def test_every_table_and_figure_of_the_paper_is_listed():
    items = {item.title: item.cells for item in paper_items()}
    for mask in ("MAR", "MCAR", "MNAR"):
        cells = items[f"Table: imputation, {mask} (MSE and accuracy)"]
        assert {cell.mask for cell in cells} == {mask}
        assert {cell.ratio for cell in cells} == set(RATIOS)
        assert {"paper", "gain_published", "remasker_published"} <= {cell.method for cell in cells}
    for kind in ("loss", "schedule", "encoding", "scaler"):
        assert {cell.dataset for cell in items[f"Table: ablation of the {kind}"]} == set(MIXED)
    scores = items["Table: conditions (KS, detection, identifiability)"]
    assert {cell.condition for cell in scores} == set(CONDITIONS)
    for title in ("runtimes on Adult", "statistics of the data sets", "share of the training rows"):
        assert any(title in item for item in items)
    for title in ("Figure: gradient angles", "Figure: disconnected regions of an or"):
        assert items[title]
    assert {cell.method for cells in items.values() for cell in cells} <= {*METHODS, "exact", "data"}


def test_times_are_those_of_records(tmp_path):
    results = Results(tmp_path)
    trained = {"fit_seconds": 10.0, "facts": {"train_seconds": 100.0}, "answer_seconds": 2.0}
    results.write(Cell("imputation", "shoppers", "paper", "MAR", 0.25, seed=0), trained)
    estimate = make_estimate(results)
    here = make_cells("imputation", datasets=["shoppers"], methods=["paper"], masks=["MAR"], ratios=[0.25])[1:]
    assert estimate(here) == pytest.approx(100 + 4 * 2)  # one training, four answers
    there = make_cells("imputation", datasets=["adult"], methods=["paper"], masks=["MAR"], ratios=[0.25], seeds=[0])
    assert estimate(there) == pytest.approx(100 * 22792 / 8631 + 2 * 9769 / 3699)
    assert estimate(make_cells("constraints", datasets=["shoppers"], methods=["paper"])) is None
    assert estimate(make_cells("imputation", datasets=["shoppers"], methods=["mean"])) is None


def test_the_list_counts_shared_cells_once(tmp_path):
    cells = tuple(make_cells("imputation", datasets=["bean"], methods=["mean"], masks=["MAR"], ratios=[0.25]))
    Results(tmp_path).write(cells[0], {"fit_seconds": 1.0, "answer_seconds": 1.0, "metrics": {}})
    text = describe_items([Item("Table: one", cells), Item("Table: two", cells[:3])], Run(tmp_path))
    assert text.splitlines() == [
        "Table: one: 1 of 5 records",
        "    bean mean: 4 missing, about 5 s",
        "Table: two: 1 of 3 records",
        "    bean mean: 2 missing, about 3 s",
        "Missing: 4 records, about 5 s",
    ]
    (group,) = group_missing(cells, lambda _cells: None)
    assert (group.name, group.cells, group.seconds) == ("bean mean", 5, None)


def test_a_selection_without_cells_is_an_error():
    items = paper_items()
    chosen = select(items, ["shoppers"], ["paper"])
    assert {(cell.dataset, cell.method) for item in chosen for cell in item.cells} == {("shoppers", "paper")}
    with pytest.raises(InvalidOption, match="No table or figure"):
        select(items, ["letter"], ["exact"])


def test_command_measures_what_is_missing_and_writes_the_page(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data, results, docs = (tmp_path / name for name in ("data", "results/experiments", "docs"))
    data.mkdir()
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).assign(**{"class": "g"})
    table.to_csv(data / "magic.csv", index=False)
    folders = ["--data", str(data), "--models", str(tmp_path / "models"), "--results", str(results)]
    choice = ["results", "--datasets", "magic", "--methods", "data", *folders, "--output", str(docs)]
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(app, [*choice, "--list"], catch_exceptions=False)
    assert "Table: statistics of the data sets: 0 of 1 records\n    magic data: 1 missing, unknown" in listed.output
    assert not docs.exists()
    assert CliRunner().invoke(app, choice, catch_exceptions=False).exit_code == 0
    assert "| magic | 60 (19,020) | 3 (10) |" in (docs / "results.md").read_text()
    again = CliRunner().invoke(app, choice, catch_exceptions=False)
    assert "1 of 1 records\nMissing: 0 records, about 0 s" in again.output
