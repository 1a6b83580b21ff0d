"""CSV files through an engine: cells that are not imputed are written as they are spelled, as without an engine."""

import csv
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harpoon.apps.cli import app
from harpoon.engines import local
from harpoon.exceptions import StructuralMissingWarning
from tests.support.frames import fit

TEXT = """id;size;kind;member;note;code;all_na
1;1.50;a;TRUE;NA;007;NA
2;;b;FALSE;;0.10;NA
3; 2.250 ;;TRUE;"";1e3;NA
04;3.0;zebra;;"x;y";-0;NA
5;NA;a;FALSE;null;+1;NA
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> SimpleNamespace:
    folder, rng = tmp_path_factory.mktemp("engine_files"), np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(2, 1, 200).round(2), "kind": rng.choice(["a", "b"], 200)})
    table["member"] = rng.random(200) < 0.5
    model = fit(table)
    model.save(folder / "model.harpoon")
    return SimpleNamespace(folder=folder, model=model, file=folder / "model.harpoon")


def run(*arguments: object) -> str:
    done = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stderr


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines(), delimiter=";"))


def test_every_cell_but_the_imputed_ones_is_written_as_it_is_spelled(work, tmp_path):
    (tmp_path / "in.csv").write_text(TEXT)
    for size in (2, 100):
        run("impute", work.file, tmp_path / "in.csv", "-o", tmp_path / f"{size}.csv", "--block-size", size)
        engine = ("--engine", "local", "--block-size", size)
        run("impute", work.file, tmp_path / "in.csv", "-o", tmp_path / f"engine{size}.csv", *engine)
        assert (tmp_path / f"{size}.csv").read_bytes() == (tmp_path / f"engine{size}.csv").read_bytes()
    before, after = cells_of(TEXT), cells_of((tmp_path / "engine2.csv").read_text())
    imputed = {(2, 1), (5, 1), (3, 2), (4, 3)}
    for row, cells in enumerate(before):
        for column, cell in enumerate(cells):
            new = after[row][column]
            assert new not in ("", "NA") if (row, column) in imputed else new == cell
    assert after[4][3] in ("TRUE", "FALSE")  # as the other booleans of the column


def test_a_folder_of_files_and_all_draws_keep_their_spelling(work, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(TEXT)
    run("impute", work.file, tmp_path / "in", "-o", tmp_path / "out.csv", "--draws", 2, "--stack-draws")
    after = cells_of((tmp_path / "out.csv").read_text())
    expected = [cells[5:] for _ in range(3) for cells in cells_of(TEXT)[1:] for _ in range(2)]
    assert [cells[6:] for cells in after[1:]] == expected


@pytest.mark.filterwarnings("ignore::harpoon.UnknownCategoryWarning")
def test_a_typed_output_keeps_the_words_of_columns_of_text(work, tmp_path):
    (tmp_path / "in.csv").write_text(TEXT)
    for size in (2, 100):
        out = local.impute(tmp_path / "in.csv", work.file, tmp_path / f"out{size}", block_size=size)
        table = pq.read_table(out)
        assert table["note"].to_pylist() == ["NA", None, "", "x;y", "null"]
        assert table["code"].to_pylist() == ["007", "0.10", "1e3", "-0", "+1"]
        assert table["all_na"].to_pylist() == ["NA"] * 5
        assert table["size"].to_pylist()[::2][0] == 1.5
        assert table["kind"][3].as_py() == "zebra"


WORDS = st.text(st.sampled_from("a0 .,;\"'NA-+eé"), max_size=6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8), size=st.integers(1, 4))
def test_unknown_columns_are_copied_bit_for_bit(work, rows, size):
    path, out = work.folder / "any.csv", work.folder / "any_out.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("size", "kind", "member", "one", "two"), *(("1.0", "a", "true", *row) for row in rows)])
    local.impute(path, work.file, out, block_size=size, force=True)
    with out.open(newline="", encoding="utf-8") as file:
        assert [tuple(row[3:]) for row in csv.reader(file)][1:] == rows


# Structurally missing cells


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> SimpleNamespace:
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("structural")
    n_calls = rng.choice([0, 1, 2], 600)
    outcome = np.where(n_calls == 0, None, rng.choice(["yes", "no"], 600))
    table = pd.DataFrame({"calls": n_calls, "outcome": outcome})
    model = fit(table, hidden=32, max_epochs=5)
    model.save(folder / "model.harpoon")
    table.head(100).to_csv(folder / "in.csv", index=False)
    return SimpleNamespace(folder=folder, model=model, file=folder / "model.harpoon", n=int((n_calls[:100] == 0).sum()))


@pytest.mark.parametrize("engine", [(), ("--engine", "local")])
@pytest.mark.parametrize("size", [7, 33, 1000])
def test_structural_cells_of_all_blocks_are_counted_in_one_note(calls, tmp_path, size, engine):
    arguments = ("impute", calls.file, calls.folder / "in.csv", "-o", tmp_path / "out.csv", "--block-size", size)
    notes = [line for line in run(*arguments, *engine).splitlines() if "always missing" in line]
    assert len(notes) == 1
    assert f"{calls.n} cells of 'outcome'" in notes[0]
    assert "always missing" not in run(*arguments, *engine, "--force", "--option", "structural=keep")


def test_an_engine_warns_once(calls, tmp_path):
    with pytest.warns(StructuralMissingWarning, match=f"{calls.n} cells") as caught:
        local.impute(calls.folder / "in.csv", calls.model, tmp_path / "out", block_size=9)
    assert len(caught) == 1
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".parquet"] * 12
