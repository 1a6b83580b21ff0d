"""The command line: every command, from and to files, pipes and databases, and its error messages."""

import csv
import gzip
import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from palmerpenguins import load_penguins
from typer.main import get_command
from typer.testing import CliRunner

import harpoon
from harpoon import io
from harpoon.apps.cli import app
from harpoon.config import GROUPS, declared
from harpoon.inference.conditional import conditional_sampler as conditional
from tests.support.cli import ENVIRONMENT, call

HEAVY = ("torch", "numpy", "pyarrow", "pandas", "sklearn", "scipy", "sqlglot", "duckdb")
COMMANDS = ("fit", "impute", "sample", "check", "evaluate", "report", "audit", "info", "schema", "demo")
ALL_COMMANDS = (*COMMANDS, "serve", "options", "doctor")
SMALL = ("--option", "hidden=64")


def assert_refused(done, words, code=1):
    """Assert one sentence on the standard error, an exit code, and nothing else."""
    assert done.code == code, done.said
    assert done.out == b""
    assert words in done.said
    assert "Traceback" not in done.said
    assert done.said.startswith("Error: ")
    assert done.said.count("\n") == 1  # whatever the width of the terminal


def cells(path) -> list[list[str]]:
    with Path(path).open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> SimpleNamespace:
    """Penguins with missing cells as CSV and Parquet, and a model that the command line has trained."""
    folder = tmp_path_factory.mktemp("work")
    table = load_penguins()
    table["id"] = [f"{number:04}" for number in range(len(table))]
    table.to_csv(folder / "penguins.csv", index=False, na_rep="NA")
    table.to_parquet(folder / "penguins.parquet")
    done = call(
        "fit", folder / "penguins.csv", "-o", folder / "penguins.harpoon", "--max-epochs", 12, "--seed", 1, *SMALL
    )
    assert done.code == 0, done.said
    return SimpleNamespace(
        folder=folder,
        table=table,
        fitted=done,
        csv=folder / "penguins.csv",
        parquet=folder / "penguins.parquet",
        model=folder / "penguins.harpoon",
    )


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    """A model of another table."""
    path = tmp_path_factory.mktemp("other") / "other.harpoon"
    table = pa.table({"shoe": [36, 40, 44, None] * 20, "colour": ["red", None, "blue", "red"] * 20})
    harpoon.Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table).save(path)
    return path


def test_help_and_import_load_nothing_heavy():
    loaded = f"print([name for name in {HEAVY!r} if name in sys.modules])"
    ask = f"import sys, harpoon, harpoon.apps.cli; {loaded}; sys.argv[1:] = ['--help']; harpoon.apps.cli.main()"
    code = f"import sys, atexit; atexit.register(lambda: {loaded}); {ask}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)  # noqa: S603
    assert done.stdout.startswith("[]\n")
    assert done.stdout.rstrip().endswith("[]")
    assert all(command in done.stdout for command in ALL_COMMANDS)
    assert "bench" not in done.stdout
    assert "130 stopped by Ctrl-C" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = call(command, "--help")
    assert done.code == 0
    text = done.out.decode()
    assert f"harpoon {command}" in text  # an example
    assert all(option in text for option in ("--json", "--quiet", "--debug"))
    assert ("--seed" in text) == (command not in ("info", "schema"))  # which use no random numbers


@pytest.mark.parametrize("command", ["", *ALL_COMMANDS])
@pytest.mark.parametrize("columns", [60, 80])
def test_no_word_of_a_help_text_is_broken(command, columns):
    own = get_command(app).commands[command] if command else get_command(app)
    asked = ([command] if command else []) + ["--help"]
    done = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"}).invoke(app, asked)
    words = set(done.stdout.replace("│", " ").split())
    texts = [own.help, own.epilog, *(one.help for one in own.params), *(one.opts[0] for one in own.params)]
    lost = {word for text in texts for word in (text or "").split() if word not in words}
    assert lost <= {"--install-completion", *(one.name for one in own.params)}  # at 60 columns; that of an argument
    assert max(map(len, done.stdout.splitlines())) <= columns


def test_no_word_of_the_list_of_options_is_broken():
    shown = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(app, ["options"]).stdout
    words = {word for group in GROUPS.values() for name, one in declared(group) for word in (name, *one.help.split())}
    assert words <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_fit_shows_the_schema_and_saves_a_model(work):
    assert work.fitted.out == b""
    for words in (
        "344 rows, 9 columns, 8 of them modelled",
        "3.2 %",
        "2700 to 6300",
        "every row has its own value",
        "'NA'",
    ):
        assert words in work.fitted.said
    assert "12 epochs" in work.fitted.said
    assert harpoon.load(work.model, progress=False).schema_["species"].categories == ("Adelie", "Chinstrap", "Gentoo")
    assert "'00" not in work.fitted.said  # identifiers are not spelled out


def test_fit_prints_json_and_takes_a_schema(work, tmp_path):
    assert call("schema", work.csv, "-o", tmp_path / "schema.json", "--exclude", "island", "--quiet").code == 0
    edited = json.loads((tmp_path / "schema.json").read_text())
    year = next(column for column in edited["columns"] if column["name"] == "year")
    year.clear()
    year.update(name="year", kind="category")
    (tmp_path / "schema.json").write_text(json.dumps(edited))
    arguments = ("--schema", tmp_path / "schema.json", "--max-epochs", 1, "--exclude", "sex", "--json", "--quiet")
    done = call("fit", work.csv, "-o", tmp_path / "m.harpoon", *arguments)
    assert done.code == 0, done.said
    assert done.said == ""
    printed = json.loads(done.out)
    assert printed["epochs"] == 1
    assert printed["stopped_by"] == "epochs"
    kinds = {column.name: column.kind.value for column in harpoon.load(tmp_path / "m.harpoon").schema_}
    assert (kinds["year"], kinds["island"], kinds["sex"]) == ("category", "skipped", "skipped")


def test_ctrl_c_ends_the_training_and_saves_the_model(work, tmp_path, monkeypatch):
    epoch, calls = harpoon.training.trainer._Training._epoch, []

    def interrupted(self):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return epoch(self)

    monkeypatch.setattr(harpoon.training.trainer._Training, "_epoch", interrupted)
    done = call("fit", work.csv, "-o", tmp_path / "m.harpoon", "--max-time", "1h", *SMALL)
    assert done.code == 0
    assert "stopped by Ctrl-C" in done.said
    assert harpoon.load(tmp_path / "m.harpoon", progress=False).sample(3).shape == (3, 8)


def test_impute_fills_a_csv_and_leaves_every_other_cell_as_it_was_written(work, tmp_path):
    done = call("impute", work.model, work.csv, "-o", tmp_path / "filled.csv", "--block-size", 100)
    assert done.code == 0, done.said
    assert done.out == b""
    assert "19 cells filled in 11 of 344 rows: bill_length_mm 2" in done.said
    before, after = cells(work.csv), cells(tmp_path / "filled.csv")
    changed = [(a, b) for old, new in zip(before, after, strict=True) for a, b in zip(old, new, strict=True) if a != b]
    assert len(changed) == 19
    assert {a for a, _ in changed} == {"NA"}
    assert "NA" not in {b for _, b in changed}


def test_impute_keeps_the_types_and_the_order_of_a_parquet_file(work, tmp_path):
    done = call("impute", work.model, work.parquet, "-o", tmp_path / "filled.parquet", "--block-size", 50, "--json")
    assert json.loads(done.out)["filled"]["sex"] == 11
    before, after = pq.read_table(work.parquet), pq.read_table(tmp_path / "filled.parquet")
    assert after.schema.equals(before.schema, check_metadata=True)
    frame = pd.read_parquet(tmp_path / "filled.parquet")
    known = work.table.notna()
    pd.testing.assert_frame_equal(frame.where(known), work.table.where(known), check_dtype=False)
    assert frame.notna().all(axis=None)


def test_impute_from_pipe_to_pipe_and_from_database_to_database(work, tmp_path):
    packed = gzip.compress(work.csv.read_bytes())
    piped = call("impute", work.model, "-", "--quiet", data=packed)
    assert piped.code == 0
    assert piped.said == ""
    expected = tmp_path / "filled.csv"
    assert call("impute", work.model, work.csv, "-o", expected).code == 0
    assert piped.out == expected.read_bytes()
    for scheme in ("duckdb", "sqlite"):
        url = f"{scheme}:///{tmp_path}/{scheme}.db"
        io.write_table(f"{url}#holes", pq.read_table(work.parquet))
        assert call("impute", work.model, f"{url}#holes", "-o", f"{url}#filled").code == 0
        filled = io.read_table(f"{url}#filled")
        assert filled.num_rows == 344
        assert sum(column.null_count for column in filled.columns) == 0
        assert filled["id"].to_pylist() == work.table["id"].tolist()
        assert_refused(call("impute", work.model, f"{url}#holes", "-o", f"{url}#filled"), "--force")


@pytest.mark.parametrize("name", ["filled.jsonl.gz", "filled.feather", "filled.tsv"])
def test_impute_into_other_formats(work, tmp_path, name):
    assert call("impute", work.model, work.csv, "-o", tmp_path / name, "-q").code == 0
    filled = io.read_table(tmp_path / name)
    assert filled.num_rows == 344
    assert sum(column.null_count for column in filled.columns) == 0


def test_draws_do_not_depend_on_the_size_of_the_blocks(work, tmp_path):
    for name, batch in (("a.csv", 344), ("b.csv", 37)):
        arguments = ("--draws", 3, "--seed", 5, "--block-size", batch)
        assert call("impute", work.model, work.csv, "-o", tmp_path / name, *arguments).code == 0
    draws = [(tmp_path / f"a.{number}.csv").read_bytes() for number in (1, 2, 3)]
    assert draws == [(tmp_path / f"b.{number}.csv").read_bytes() for number in (1, 2, 3)]
    assert len(set(draws)) == 3
    stacked = call("impute", work.model, work.csv, "--draws", 3, "--seed", 5, "--block-size", 50)
    table = pd.read_csv(BytesIO(stacked.out), dtype=str)
    assert table["draw"].tolist() == ["1", "2", "3"] * 344
    first = pd.read_csv(tmp_path / "a.1.csv", dtype=str)
    pd.testing.assert_frame_equal(table[table["draw"] == "1"].drop(columns="draw").reset_index(drop=True), first)
    again = call("impute", work.model, work.csv, "-o", tmp_path / "s.csv", "--draws", 2, "--stack-draws")
    assert again.code == 0
    assert len(cells(tmp_path / "s.csv")) == 1 + 2 * 344


def test_impute_only_some_columns_under_a_condition(work, tmp_path):
    arguments = ("--only", "sex,body_mass_g", "--where", "body_mass_g > 3000 or species != 'Gentoo'", "--json")
    done = call("impute", work.model, work.csv, "-o", tmp_path / "f.csv", *arguments)
    assert json.loads(done.out)["filled"] == {"body_mass_g": 2, "sex": 11}
    frame = pd.read_csv(tmp_path / "f.csv")
    assert frame["sex"].notna().all()
    assert frame["bill_depth_mm"].isna().sum() == 2


def test_columns_that_the_model_does_not_know_are_copied(work, tmp_path):
    frame = work.table.copy()
    frame.insert(2, "comment", ['say, "hi"'] * len(frame))
    frame.to_csv(tmp_path / "more.csv", index=False, sep=";")
    done = call("impute", work.model, tmp_path / "more.csv", "-o", tmp_path / "filled.csv")
    assert "comment" in done.said
    after = pd.read_csv(tmp_path / "filled.csv", sep=";", dtype={"id": str})
    assert after["comment"].tolist() == frame["comment"].tolist()
    assert list(after.columns) == list(frame.columns)
    assert after.notna().all(axis=None)


def test_a_table_without_rows_and_one_without_missing_cells(work, tmp_path):
    lines = work.csv.read_text().splitlines(keepends=True)
    for text in (lines[0], "".join(lines[:3])):
        (tmp_path / "few.csv").write_text(text)
        done = call("impute", work.model, tmp_path / "few.csv")
        assert done.code == 0, done.said
        assert done.out.decode() == text


def test_integers_and_booleans_are_spelled_as_they_were(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.integers(0, 50, 80), "yes": rng.random(80) < 0.5, "x": rng.normal(size=80)})
    model = harpoon.Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(frame)
    model.save(tmp_path / "m.harpoon")
    holes = frame.astype(object)
    holes.loc[3, "n"] = None
    holes.loc[4, "yes"] = None
    holes["n"] = holes["n"].astype(float)  # 12.0, as pandas has it beside a hole
    holes.to_csv(tmp_path / "h.csv", index=False)
    impute = ("impute", tmp_path / "m.harpoon", tmp_path / "h.csv", "--block-size", 7, "-o")
    done = call(*impute, tmp_path / "f.csv")
    assert done.code == 0, done.said
    filled = cells(tmp_path / "f.csv")
    assert {row[1] for row in filled[1:]} == {"True", "False"}
    assert filled[1][0].endswith(".0")
    assert (
        call("impute", tmp_path / "m.harpoon", tmp_path / "h.csv", "-o", tmp_path / "f.parquet", "--block-size", 7).code
        == 0
    )
    assert [str(f.type) for f in pq.read_schema(tmp_path / "f.parquet")] == ["int64", "bool", "double"]


def test_sample_writes_the_requested_rows(work, tmp_path):
    where = "body_mass_g >= 4500 or island = 'Dream'"
    done = call("sample", work.model, "-n", 30, "--where", where, "--seed", 3, "--format", "parquet")
    assert done.code == 0, done.said
    assert "30 rows" in done.said
    rows = pq.read_table(BytesIO(done.out)).to_pandas()
    assert len(rows) == 30
    assert ((rows["body_mass_g"] >= 4500) | (rows["island"] == "Dream")).all()
    again = call("sample", work.model, "-n", 30, "--where", where, "--seed", 3, "-o", tmp_path / "rows.csv", "--json")
    assert json.loads(again.out)["sampling_info"]["rows"] == 30
    np.testing.assert_allclose(pd.read_csv(tmp_path / "rows.csv")["body_mass_g"], rows["body_mass_g"])


def test_sample_with_given_values_and_partial_rows(work, tmp_path):
    done = call("sample", work.model, "-n", 7, "--given", "species=Gentoo", "--given", "year=2008")
    rows = pd.read_csv(BytesIO(done.out))
    assert set(zip(rows["species"], rows["year"], strict=True)) == {("Gentoo", 2008)}
    (tmp_path / "partial.csv").write_text("island,sex\nDream,\nBiscoe,male\n")
    done = call("sample", work.model, "--given", tmp_path / "partial.csv", "--complete")
    rows = pd.read_csv(BytesIO(done.out))
    assert rows["island"].tolist() == ["Dream", "Biscoe"]
    assert rows.notna().all(axis=None)
    assert_refused(call("sample", work.model, "--given", "specis=Gentoo"), "Did you mean 'species'", 2)
    assert_refused(call("sample", work.model, "--given", "species=Emperor"), "Emperor", 2)
    wrong = "Error: --given: column 'year' should hold integers, got 'soon'.\n"
    assert_refused(call("sample", work.model, "--given", "year=soon"), wrong, 2)


def test_check_prints_a_probability_and_exits_with_3_if_it_is_zero(work):
    done = call("check", work.model, "--where", "body_mass_g > 4000", "--json")
    assert done.code == 0
    printed = json.loads(done.out)
    assert 0.01 < printed["probability"] < 0.99
    assert "training_fraction" not in printed  # a model keeps no rows
    counted = call("check", work.model, "--where", "body_mass_g > 4000", "--data", work.csv, "--json")
    assert json.loads(counted.out)["training_fraction"] == (work.table["body_mass_g"] > 4000).mean()
    never = call("check", work.model, "--where", "body_mass_g > 4000 and body_mass_g < 3000")
    assert never.code == 3
    assert b"probability 0\n" in never.out
    assert_refused(
        call("sample", work.model, "--where", "body_mass_g > 4000 and body_mass_g < 3000", "-q"), "cannot be met", 3
    )


def test_info_and_schema_print_on_the_standard_output(work):
    printed = json.loads(call("info", work.model, "--json").out)
    assert printed["epochs"] == 12
    assert printed["preset"] == "anchored"
    assert printed["version"] == harpoon.__version__
    assert printed["bytes"] == work.model.stat().st_size
    assert printed["relations"] == []  # between the measures of a penguin there are none
    assert b"validation loss" in call("info", work.model).out
    shown = call("schema", work.parquet)
    assert b"body_mass_g" in shown.out
    columns = json.loads(call("schema", work.csv, "--kind", "year=category", "--json").out)["columns"]
    assert next(column for column in columns if column["name"] == "year")["categories"] == [2007, 2008, 2009]


def test_options_are_listed_by_group_with_the_default_of_each_preset():
    listed = json.loads(call("options", "--json").out)
    assert {group: [row["name"] for row in rows] for group, rows in listed.items()} == {
        group: [name for name, _ in declared(fields)] for group, fields in GROUPS.items()
    }
    steps = next(row for row in listed["sampling"] if row["name"] == "ar_steps")
    assert steps["defaults"] == {"paper": 0, "anchored": 64}
    assert steps["values"] == "integer, 0 to 10000"
    shown = call("options", "guidance").out.decode()
    assert "guidance_scale" in shown
    assert "ar_steps" not in shown
    assert_refused(call("options", "guidnce"), "Did you mean 'guidance'", 2)


def test_the_index_of_pandas_in_a_parquet_file_is_not_modelled_and_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "c": rng.choice(["a", "b"], 80)}).sample(60, random_state=0)
    frame.to_parquet(tmp_path / "t.parquet")
    few = ("--option", "hidden=16", "--max-epochs", 1)
    done = call("fit", tmp_path / "t.parquet", "-o", tmp_path / "m.harpoon", *few)
    assert done.code == 0, done.said
    assert "index of a pandas table: __index_level_0__" in done.said
    assert harpoon.load(tmp_path / "m.harpoon", progress=False).schema_.names == ["x", "c"]
    frame.assign(x=frame["x"].where(frame["c"] == "a")).to_parquet(tmp_path / "holes.parquet")
    done = call("impute", tmp_path / "m.harpoon", tmp_path / "holes.parquet", "-o", tmp_path / "filled.parquet")
    assert done.code == 0, done.said
    filled = pd.read_parquet(tmp_path / "filled.parquet")
    assert filled.index.equals(frame.index)
    assert list(filled) == ["x", "c"]
    assert filled["x"].notna().all()
    done = call("schema", tmp_path / "t.parquet", "--kind", "__index_level_0__=integer")
    assert "__index_level_0__" in done.out.decode()


def test_fit_takes_any_model_or_training_option(work, tmp_path):
    options = ("hidden=16", "restore_best=false", "patience=none", "learning_rate=1e-3", "optimizer=adam")
    arguments = [word for text in options for word in ("--option", text)]
    done = call("fit", work.csv, "-o", tmp_path / "m", "--max-epochs", 1, "-q", *arguments)
    assert done.code == 0, done.said
    config = harpoon.load(tmp_path / "m", progress=False).config
    assert (config.hidden, config.restore_best, config.patience) == (16, False, None)
    assert (config.learning_rate, config.optimizer) == (1e-3, "adam")


def test_impute_and_sample_take_sampling_and_guidance_options(work):
    sample = ("sample", work.model, "-n", 5, "--seed", 1, "-q")
    few = call(*sample, "--option", "ar_steps=1")
    assert few.code == 0, few.said
    assert few.out != call(*sample).out
    impute = ("impute", work.model, work.csv, "--draws", 1, "--seed", 1, "-q")
    assert call(*impute, "--option", "ar_steps=1").out != call(*impute).out
    assert_refused(call("impute", work.model, work.csv, "--option", "ar_steps=1"), "no effect", 2)


@pytest.mark.parametrize("flags", [("--allow-fewer",), ("--strategy", "rejection")], ids=str)
def test_flags_of_a_condition_need_one(work, flags):
    assert_refused(call("sample", work.model, "-n", 5, *flags), "need a condition. Add --where", 2)


def test_options_of_text_files_are_refused_for_other_tables(work, tmp_path):
    refused = "--delimiter is an option of CSV and TSV"
    assert_refused(call("impute", work.model, work.parquet, "--delimiter", ";"), refused, 2)
    assert_refused(call("schema", work.parquet, "--delimiter", ";"), refused, 2)
    assert_refused(call("sample", work.model, "--encoding", "latin-1"), "are for a table of --given", 2)
    for two in ((work.csv, work.parquet), (work.parquet, work.csv)):  # the option is that of the CSV file
        assert call("report", *two, "--json", "-q", "--delimiter", ",").code == 0
    assert_refused(call("report", work.parquet, work.parquet, "--json", "--delimiter", ","), refused, 2)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("hiden=16", "Did you mean 'hidden'"),
        ("hidden=1", "hidden must be an integer from 2 to 65536 or None, got 1."),
        ("hidden=x", "got 'x'"),
        ("optimizer=addam", "Did you mean 'adam'"),
        ("restore_best=2", "restore_best must be True or False"),
        ("hidden", "NAME=VALUE"),
        ("max_time=3", "use --max-time"),
        ("ar_steps=3", "It takes those of model and training"),
    ],
)
def test_wrong_options_of_fit_are_wrong_usage(work, tmp_path, option, words):
    assert_refused(call("fit", work.csv, "-o", tmp_path / "m", "-q", "--option", option), words, 2)


def test_wrong_conditions_and_options_are_wrong_usage(work, tmp_path):
    check = ("check", work.model, "--where")
    assert_refused(call(*check, "body_mas_g > 4000"), "Did you mean `body_mass_g`", 2)
    assert_refused(call(*check, "species = 'Adele'"), "Did you mean 'Adelie'", 2)
    assert_refused(call(*check, 'species = "Adelie"'), "single quotes: 'Adelie'", 2)
    assert_refused(call(*check, "body_mass_g >"), "cannot be read", 2)
    assert_refused(call("impute", work.model, work.csv, "--only", "sexx"), "Did you mean 'sex'", 2)
    assert_refused(call("impute", work.model, work.csv, "--only", "id"), "A column that the model imputes", 2)
    assert_refused(call("fit", work.csv, "-o", tmp_path / "m", "--preset", "papre"), "Did you mean 'paper'", 2)
    assert_refused(call("fit", work.csv, "-o", tmp_path / "m", "--exclude", "islnd", "-q"), "no column 'islnd'", 2)
    assert_refused(call("report", work.csv), "-o report.html", 2)
    assert_refused(call("impute", work.model, work.csv, "-o", tmp_path / "f.xyz"), "does not tell the format", 2)
    for arguments in (
        ("fit", work.csv, "-o", "m", "--max-time", "soon"),
        ("sample", work.model, "--json"),
        ("sample", work.model, "-n", 0),
        ("impute", work.model),
        ("impute", work.model, work.csv, "--wheree", "x > 1"),
        ("nonsense",),
    ):
        done = call(*arguments)
        assert done.code == 2, arguments
        assert done.out == b""
    assert "--where" in call("impute", work.model, work.csv, "--wheree", "x > 1").said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "is empty"),
        ("junk.csv", bytes(range(256)) * 20, "neither UTF-8 text"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "Row 3"),
        ("junk.parquet", b"PAR1" + bytes(100), "cannot be read"),
        ("text.parquet", b"a,b\n1,2\n", "not a Parquet file"),
        ("another.csv", b"a,b\n1,2\n", "was trained on"),
    ],
)
def test_hostile_tables(work, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    done = call("impute", work.model, tmp_path / name, "-o", tmp_path / "out.csv")
    assert_refused(done, words)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_hostile_places_and_models(work, other, tmp_path):
    assert_refused(call("fit", tmp_path, "-o", tmp_path / "m"), "Is a directory")
    assert_refused(call("fit", tmp_path / "no.csv", "-o", tmp_path / "m"), "No such file")
    assert_refused(call("fit", work.csv, "-o", tmp_path / "no" / "m"), "does not exist")
    assert_refused(call("fit", work.csv, "-o", work.model), "--force")
    assert_refused(call("info", work.csv), "no Harpoon model")
    assert_refused(call("info", tmp_path / "no.harpoon"), "There is no model file")
    assert_refused(call("impute", other, work.csv), "was trained on the columns 'shoe', 'colour'")
    assert_refused(call("impute", work.csv, work.csv), "no Harpoon model")
    wrong = work.csv.read_text().replace(",", ";", 3)
    (tmp_path / "wrong.csv").write_text(wrong)
    assert_refused(call("impute", work.model, tmp_path / "wrong.csv"), "cells instead of")
    assert_refused(call("impute", work.model, work.csv, "--delimiter", ";"), "was trained on")
    text = work.csv.read_text().replace("3750.0", "heavy", 1)
    (tmp_path / "wrong.csv").write_text(text)
    assert_refused(call("impute", work.model, tmp_path / "wrong.csv"), "'body_mass_g' should hold numbers, but row 2")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(work, tmp_path):
    tmp_path.chmod(0o500)
    assert_refused(call("impute", work.model, work.csv, "-o", tmp_path / "f.csv"), "may not write")


def test_nothing_is_replaced_without_force_not_even_the_input(work, tmp_path):
    holes = tmp_path / "holes.csv"
    holes.write_bytes(work.csv.read_bytes())
    assert_refused(call("impute", work.model, holes, "-o", holes), "already there")
    assert holes.read_bytes() == work.csv.read_bytes()
    assert call("impute", work.model, holes, "-o", holes, "--force", "--block-size", 10).code == 0
    assert "NA" not in {cell for row in cells(holes) for cell in row}
    assert len(cells(holes)) == 345


def test_debug_shows_where_an_error_comes_from(work):
    done = call("check", work.model, "--where", "nonsense > 1", "--debug")
    assert done.code == 2
    assert "Traceback" in done.said
    assert "InvalidCondition" in done.said


def test_unknown_categories_are_noted_once(work, tmp_path):
    frame = work.table.copy()
    frame.loc[frame.index % 10 == 0, "island"] = "Atlantis"
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = call("impute", work.model, tmp_path / "new.csv", "-o", tmp_path / "f.csv", "--block-size", 50)
    assert done.code == 0
    assert done.said.count("Note: Column 'island' holds 'Atlantis'") == 1
    assert (tmp_path / "f.csv").read_text().count("Atlantis") == 35
    assert "island" not in done.said.splitlines()[-1]


def test_misspelt_arguments_in_python_are_named(work):
    model = harpoon.load(work.model, progress=False)
    with pytest.raises(harpoon.InvalidOption, match="Did you mean 'where'"):
        model.sample(3, wheree="body_mass_g > 4000")
    with pytest.raises(harpoon.InvalidOption, match="row_offset"):
        model.impute(pq.read_table(work.parquet), row_offset=-1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1h30m", 5400), ("1H", 3600), ("0.5m", 30)]
)
def test_durations(text, seconds):
    from harpoon.apps.cli.options import parse_duration

    assert parse_duration(text) == seconds


def test_reports_of_models_and_of_tables(work, tmp_path):
    pytest.importorskip("harpoon.report")
    page = tmp_path / "page.html"
    for arguments in (
        ("evaluate", work.model, work.csv, "--rows", 100, "--train", work.csv),
        ("report", work.model, "--rows", 100),
        ("report", work.model, work.csv, "--rows", 100),
        ("report", work.csv, work.parquet),
    ):
        done = call(*arguments, "-o", page, "--force", "--seed", 0, "--json", "-q")
        assert done.code == 0, done.said
        summary = json.loads(done.out)
        assert summary["headlines"]
        if "--train" in arguments:
            assert summary["fidelity"]["copies_of"] == "training rows"
        assert "<html" in page.read_text()
    assert_refused(call("report", work.csv, "-o", tmp_path / "x.html"), "is not a model", 2)
    assert_refused(call("report", work.csv, work.csv, "-o", page), "already there")


def test_a_model_of_the_command_line_samples_pandas_in_python_unless_asked_otherwise(work):
    rows = harpoon.load(work.model, progress=False).sample(3, random_state=0)
    assert isinstance(rows, pd.DataFrame)
    assert rows["year"].dtype == "int64"
    assert isinstance(harpoon.load(work.model, library="pyarrow", progress=False).sample(3), pa.Table)


def test_sample_writes_as_many_rows_by_default_as_python(work):
    done = call("sample", work.model, "--seed", 1, "--quiet")
    assert len(done.out.decode().splitlines()) - 1 == len(harpoon.load(work.model, progress=False).sample())


def test_rows_of_a_rare_condition_can_be_kept(work, tmp_path, monkeypatch):
    monkeypatch.setattr(conditional, "MAX_SAMPLED_PER_ROW", 1)
    monkeypatch.setattr(conditional, "MAX_ROWS_PER_ROUND", 256)
    monkeypatch.setattr(conditional, "PILOT_ROWS", 256)
    where = ["--where", "bill_length_mm - bill_depth_mm > 33", "--strategy", "rejection"]
    arguments = ["sample", work.model, "-n", 800, *where, "--seed", 1, "-o", tmp_path / "rows.csv"]
    done = call(*arguments, "--quiet")
    assert not (tmp_path / "rows.csv").exists()
    kept = call(*arguments, "--allow-fewer", "--json")
    assert (done.code, kept.code) == (3, 0)
    found = json.loads(kept.out)["rows"]
    assert 0 < found == len(cells(tmp_path / "rows.csv")) - 1 < 800
    assert f"only {found} of 800 rows that satisfy it were found" in done.said
    assert "take these rows with --allow-fewer" in done.said
