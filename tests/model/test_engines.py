"""The local engine, and what all engines share: files, blocks, resumed runs and complete outputs."""

import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harpoon import (
    HarpoonError,
    HarpoonWarning,
    InvalidCondition,
    InvalidOption,
    InvalidTable,
    Schema,
    SchemaMismatch,
    TableFileError,
    engines,
)
from harpoon.apps.cli import app
from harpoon.engines import block_store, job, local
from harpoon.engines.block_imputer import BlockImputer
from harpoon.engines.blocks import FileSet
from harpoon.engines.job import ImputeRequest
from harpoon.exceptions import MissingExtra
from harpoon.io import Chunk, ReadOptions

ROWS = 230
FILE_STARTS = (0, 100, 101, ROWS)


@pytest.fixture(scope="module")
def work(arrow_fitted, tools, tmp_path_factory) -> SimpleNamespace:
    """A model, and folders of Parquet and of CSV files with the same rows and two more columns, key and note."""
    folder = tmp_path_factory.mktemp("engines")
    table = tools.make("pyarrow", tools.mixed_columns(ROWS))
    table = table.append_column("key", pa.array(np.arange(ROWS) * 3)).append_column(
        "note", pa.array([None if row % 5 else f"row {row}" for row in range(ROWS)])
    )
    for name in ("parquet", "csv"):
        (folder / name).mkdir()
    for number, (start, stop) in enumerate(pairwise(FILE_STARTS)):
        shard = table.slice(start, stop - start)
        pq.write_table(shard, folder / "parquet" / f"{number}.parquet", row_group_size=40)
        pyarrow.csv.write_csv(shard, folder / "csv" / f"{number}.csv")
    arrow_fitted.model.save(folder / "model.harpoon")
    modelled = table.drop_columns(["key", "note"])
    return SimpleNamespace(folder=folder, table=table, modelled=modelled, model=arrow_fitted.model)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def query_files(what: str, files: Path) -> tuple:
    """Query files with DuckDB."""
    (row,) = duckdb.sql(f"select {what} from '{files}'").fetchall()  # noqa: S608
    return row


def cells(table: pa.Table) -> dict:
    return table.to_pydict()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("block", [7, 100, 10_000])
def test_a_folder_is_imputed_like_one_table(work, tmp_path, kind, block):
    out = local.impute(work.folder / kind, work.model, tmp_path / "filled", draws=2, block_size=block, random_state=4)
    filled = pq.read_table(out)
    whole = work.model.impute(work.modelled, draws=2, random_state=4)
    for number, drawn in enumerate(whole, start=1):
        here = filled.filter(pc.equal(filled["draw"], number))
        assert cells(here.select(drawn.column_names)) == cells(drawn)
        assert cells(here.select(["key", "note"])) == cells(work.table.select(["key", "note"]))
    assert list_names(tmp_path) == ["filled"]


@pytest.mark.filterwarnings("ignore::harpoon.UnknownCategoryWarning")
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("draws", [None, 2])
def test_observed_cells_stay_whether_or_not_the_model_knows_them(work, tmp_path, kind, draws):
    jobs = [None if row % 5 == 0 else "diver" if row % 3 else "chef" for row in range(ROWS)]
    heights = [None if row % 4 == 0 else (-1.0) ** row * 1.7e308 for row in range(ROWS)]
    table = work.table.set_column(work.table.schema.get_field_index("job"), "job", [jobs])
    table = table.set_column(table.schema.get_field_index("height"), "height", [heights])
    write = pq.write_table if kind == "parquet" else pa.csv.write_csv
    write(table, tmp_path / f"in.{kind}")
    out = local.impute(tmp_path / f"in.{kind}", work.model, tmp_path / "filled", draws=draws, block_size=70)
    filled = pq.read_table(out)
    repeated = table.take(np.repeat(np.arange(ROWS), draws or 1))
    for name in work.modelled.column_names:
        was_missing = np.asarray(pc.is_null(repeated[name]))
        assert filled[name].null_count == 0
        assert filled[name].filter(~was_missing).to_pylist() == repeated[name].filter(~was_missing).to_pylist()
    assert "diver" not in filled["job"].filter(np.asarray(pc.is_null(repeated["job"]))).to_pylist()


@pytest.mark.filterwarnings("ignore::harpoon.UnknownCategoryWarning")
def test_a_float_among_integer_categories_is_named(tools):
    whole = pa.table({"code": [1, 2, 3] * 10, "x": [0.5, 1.5] * 15})
    model = tools.fit(whole, schema=Schema.infer(whole, kinds={"code": "category"}))
    table = pa.table({"code": [1.0, 2.5, None], "x": [0.5, None, 1.5]})
    assert model.impute(table)["code"].to_pylist()[:2] == [1.0, 2.5]
    with pytest.raises(SchemaMismatch, match=r"'code'.*2\.5"):
        BlockImputer(model, table.schema).impute_stacked(Chunk(table), 0)


def test_one_file_is_a_table_and_may_be_the_output(work, tmp_path):
    source = work.folder / "parquet" / "2.parquet"
    for name in ("filled.parquet", "filled.csv"):
        local.impute(source, work.folder / "model.harpoon", tmp_path / name, block_size=50)
    filled = pq.read_table(tmp_path / "filled.parquet")
    expected = work.model.impute(work.modelled.slice(101))
    assert cells(filled.select(expected.column_names)) == cells(expected)
    assert filled.schema.names == work.table.schema.names
    rows = query_files("count(*), count(job), sum(key)", tmp_path / "filled.csv")
    assert rows == (129, 129, pc.sum(filled["key"]).as_py())
    assert list_names(tmp_path) == ["filled.csv", "filled.parquet"]


def test_an_index_of_pandas_is_kept_and_only_is_respected(work, tmp_path):
    frame = work.modelled.to_pandas().set_index(np.random.default_rng(0).permutation(ROWS))
    frame.to_parquet(tmp_path / "incomplete.parquet")
    filled = pq.read_table(
        local.impute(tmp_path / "incomplete.parquet", work.model, tmp_path / "filled", only=["job"], block_size=60)
    ).to_pandas()
    assert filled.index.tolist() == frame.index.tolist()
    assert filled["job"].notna().all()
    assert filled["age"].isna().sum() == frame["age"].isna().sum()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(size=st.integers(1, 300), picked=st.data())
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_blocks_hold_the_rows_of_their_offsets(work, kind, size, picked):
    shards = FileSet.from_path(work.folder / kind)
    blocks = shards.blocks(size)
    assert sum(block.n_rows for block in blocks) == ROWS
    some = [block for block in blocks if picked.draw(st.booleans())]
    for block, table in shards.read(some):
        expected = np.arange(block.row_offset, block.row_offset + block.n_rows) * 3
        assert table["key"].to_pylist() == expected.tolist()


@pytest.mark.parametrize("block", [100, 10_000])
def test_sampled_rows_do_not_depend_on_the_block_size(work, tmp_path, block):
    drawn = pq.read_table(local.sample(ROWS, work.model, tmp_path / "drawn", block_size=block, random_state=4))
    assert cells(drawn) == cells(work.model.sample(ROWS, random_state=4))


def test_sampled_rows_under_a_condition_do_not_depend_on_the_block_size(work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 30)
    asked = {"where": "age >= 40 or job = 'chef'", "given": {"member": True}, "random_state": 4}
    drawn = [
        pq.read_table(local.sample(70, work.model, tmp_path / str(block), block_size=block, **asked))
        for block in (9, 1000)
    ]
    assert cells(drawn[0]) == cells(drawn[1])
    assert cells(drawn[0].slice(0, 30)) != cells(drawn[0].slice(30, 30))  # each block is sampled independently
    met = "count(*), bool_and((age >= 40 or job = 'chef') and member)"
    assert query_files(met, tmp_path / "9" / "*.parquet") == (70, True)


def test_imputed_cells_under_a_condition_do_not_depend_on_the_block_size(work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 60)
    incomplete = tmp_path / "incomplete"
    incomplete.mkdir()
    pq.write_table(
        work.modelled.filter(pc.greater_equal(pc.fill_null(work.modelled["age"], 99), 30)), incomplete / "0.parquet"
    )
    filled = [
        pq.read_table(local.impute(incomplete, work.model, tmp_path / str(block), where="age >= 30", block_size=block))
        for block in (9, 1000)
    ]
    assert cells(filled[0]) == cells(filled[1])
    assert pc.min(filled[0]["age"]).as_py() >= 30


def test_the_blocks_of_a_killed_run_are_checked(work, tmp_path):
    asked = job.ImputeJob.of_files(
        work.folder / "parquet",
        ImputeRequest.create(work.model, where=None, draws=None, only=(), random_state=None),
        block_size=100,
    )

    def killed():
        with block_store.assemble_output(asked, tmp_path / "filled") as (seeded, kept):
            list(local.run(seeded, kept, asked.blocks))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    (hidden,) = tmp_path.iterdir()
    about, before = (
        (hidden / "job.json").read_bytes(),
        {path: path.stat().st_mtime_ns for path in hidden.glob("rows-*")},
    )
    (hidden / "job.json").write_bytes(b"?")
    with pytest.raises(TableFileError, match="is damaged"):
        local.impute(work.folder / "parquet", work.model, tmp_path / "filled", block_size=100)
    (hidden / "job.json").write_bytes(about)
    next(iter(before)).write_bytes(b"?")
    filled = local.impute(work.folder / "parquet", work.model, tmp_path / "filled", block_size=100)
    assert pq.read_table(filled)["key"].to_pylist() == work.table["key"].to_pylist()
    kept = [path for path, time in before.items() if (filled / path.name).stat().st_mtime_ns == time]
    assert len(kept) == len(before) - 1  # only the damaged block is processed again


def test_a_range_index_of_pandas_is_dropped_with_a_warning_and_no_cell_is_lost(work, tmp_path):
    frame = work.table.to_pandas().rename_axis("number")
    assert isinstance(frame.index, pd.RangeIndex)
    (tmp_path / "rows").mkdir()
    frame[:90].to_parquet(tmp_path / "rows" / "0.parquet")
    frame[90:].to_parquet(tmp_path / "rows" / "1.parquet")
    with pytest.warns(HarpoonWarning, match=r"RangeIndex of pandas in .*reset_index"):
        out = local.impute(tmp_path / "rows", work.model, tmp_path / "filled", block_size=45)
    filled = pd.read_parquet(out)
    assert filled.index.equals(pd.RangeIndex(ROWS))
    assert filled["key"].tolist() == frame["key"].tolist()
    assert list(filled.columns) == list(frame.columns)
    for path in sorted(out.iterdir()):  # no block claims the row numbers of another one
        block = pd.read_parquet(path)
        assert block.index.equals(pd.RangeIndex(len(block)))


def test_an_output_may_be_a_link(work, tmp_path):
    for name in ("there", "nowhere"):
        (tmp_path / f"{name}-link").symlink_to(tmp_path / name)
    (tmp_path / "there").mkdir()
    for name in ("there", "nowhere"):
        local.sample(20, work.model, tmp_path / f"{name}-link", random_state=0)
        assert (tmp_path / f"{name}-link").is_symlink()
        assert pq.read_table(tmp_path / name).num_rows == 20
    assert list_names(tmp_path) == ["nowhere", "nowhere-link", "there", "there-link"]


def test_files_may_store_a_column_in_compatible_types(work, tmp_path):
    """As pandas does if only one of two files has missing cells."""
    (tmp_path / "incomplete").mkdir()
    fields = {f.name: f.type for f in work.table.schema}
    whole = {**fields, "age": pa.int64(), "job": pa.large_string()}
    nullable = {**fields, "age": pa.float64(), "job": pa.dictionary(pa.int8(), pa.string())}
    ages = work.table["age"].is_valid()
    for name, rows, types in (("0", work.table.filter(ages), whole), ("1", work.table, nullable)):
        pq.write_table(rows.cast(pa.schema(list(types.items()))), tmp_path / "incomplete" / f"{name}.parquet")
    filled = pq.read_table(local.impute(tmp_path / "incomplete", work.model, tmp_path / "filled"))
    assert filled["age"].null_count == filled["job"].null_count == 0
    assert pa.types.is_integer(filled["age"].type)
    long = pa.table({"key": [2**62 + 1]}).cast(pa.schema([("key", pa.int64())]))
    pq.write_table(
        work.table.slice(0, 1).drop_columns(["key"]).append_column("key", long["key"]), tmp_path / "a.parquet"
    )
    (tmp_path / "long").mkdir()
    (tmp_path / "a.parquet").rename(tmp_path / "long" / "a.parquet")
    floats = work.table.drop_columns(["key"]).append_column("key", work.table["key"].cast(pa.float64()))
    pq.write_table(floats, tmp_path / "long" / "b.parquet")
    with pytest.raises(InvalidTable, match=r"a\.parquet' holds values that the type of another file"):
        local.impute(tmp_path / "long", work.model, tmp_path / "lost")


def test_row_numbers_in_errors_count_all_blocks(work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 40)
    rows = work.table.set_column(
        work.table.schema.get_field_index("age"),
        "age",
        pa.array([50] * 110 + [2] + [50] * (ROWS - 111), work.table["age"].type),
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(InvalidCondition, match=r"rows\.parquet'.*in row 110 "):
        local.impute(tmp_path / "rows.parquet", work.model, tmp_path / "filled", where="age >= 30")


def damage(work, tmp_path, how: str) -> Path:
    """Return a folder in which the second file is damaged."""
    folder = tmp_path / "incomplete"
    folder.mkdir()
    pq.write_table(work.table.slice(0, 90), folder / "a.parquet")
    bad = folder / "b.parquet"
    if how == "other type":
        pq.write_table(work.table.set_column(2, "age", work.table["age"].cast(pa.string())), bad)
    elif how == "other columns":
        pq.write_table(work.table.drop_columns(["job"]), bad)
    elif how == "cut off":
        pq.write_table(work.table, bad)
        bad.write_bytes(bad.read_bytes()[:-100])
    elif how == "garbled within":
        pq.write_table(work.table, bad, compression="snappy")
        content = bytearray(bad.read_bytes())
        content[4:60] = b"\xff" * 56  # where the first page begins
        bad.write_bytes(content)
    elif how == "empty":
        bad.write_bytes(b"")
    elif how == "text":
        bad.write_text("age,job\n1,chef\n")
    return folder


@pytest.mark.parametrize("how", ["other type", "other columns", "cut off", "garbled within", "empty", "text"])
def test_a_damaged_file_is_named_and_nothing_is_left(work, tmp_path, how):
    folder = damage(work, tmp_path, how)
    with pytest.raises(HarpoonError, match=r"b\.parquet"):
        local.impute(folder, work.model, tmp_path / "filled", block_size=20)
    assert list_names(tmp_path) == ["incomplete"]


def test_columns_that_differ_between_files_are_named(work, tmp_path):
    with pytest.raises(InvalidTable, match=r"'age' is string, not int64.*same columns"):
        local.impute(damage(work, tmp_path, "other type"), work.model, tmp_path / "filled")


def test_a_text_in_a_numeric_column_is_found_before_any_work(work, tmp_path):
    (tmp_path / "incomplete").mkdir()
    for name in ("a.csv", "b.csv"):
        pyarrow.csv.write_csv(work.modelled.slice(0, 20), tmp_path / "incomplete" / name)
    with (tmp_path / "incomplete" / "b.csv").open("a") as file:
        file.write('1.5,2.5,forty,"chef",true\n')
    with pytest.raises(InvalidTable, match=r"b\.csv.*'age'.*'forty'"):
        local.impute(tmp_path / "incomplete", work.model, tmp_path / "filled")
    assert list_names(tmp_path) == ["incomplete"]


def test_text_columns_have_one_type_in_all_files(work, tmp_path):
    """A code that looks like a number in one file is text if it does not in another."""
    (tmp_path / "incomplete").mkdir()
    for name, code in (("a.csv", ["1", "2"]), ("b.csv", ["3", "x"])):
        table = work.modelled.slice(0, 2).append_column("code", pa.array(code))
        pyarrow.csv.write_csv(table, tmp_path / "incomplete" / name)
    filled = pq.read_table(local.impute(tmp_path / "incomplete", work.model, tmp_path / "filled"))
    assert filled["code"].to_pylist() == ["1", "2", "3", "x"]


def test_a_column_may_be_empty_in_one_file(work, tmp_path):
    (tmp_path / "incomplete").mkdir()
    empty = work.modelled.slice(0, 3).set_column(3, "job", pa.nulls(3))
    pq.write_table(empty, tmp_path / "incomplete" / "a.parquet")
    pq.write_table(work.modelled.slice(3, 3), tmp_path / "incomplete" / "b.parquet")
    filled = pq.read_table(local.impute(tmp_path / "incomplete", work.model, tmp_path / "filled"))
    assert filled["job"].null_count == 0
    assert filled.num_rows == 6


def test_a_table_without_rows_keeps_its_columns(work, tmp_path):
    pq.write_table(work.table.slice(0, 0), tmp_path / "none.parquet")
    filled = pq.read_table(local.impute(tmp_path / "none.parquet", work.model, tmp_path / "filled"))
    assert filled.schema.equals(work.table.schema)


def test_a_folder_must_hold_one_table(work, tmp_path):
    def refused(match, error=InvalidTable):
        with pytest.raises(error, match=match):
            local.impute(tmp_path / "incomplete", work.model, tmp_path / "filled")

    refused("There is no file", TableFileError)
    (tmp_path / "incomplete").mkdir()
    refused("is empty")
    (tmp_path / "incomplete" / "_SUCCESS").touch()
    refused("is empty")
    (tmp_path / "incomplete" / "notes.md").touch()
    refused(r"notes\.md' does not end like a table file")
    (tmp_path / "incomplete" / "notes.md").unlink()
    pq.write_table(work.table, tmp_path / "incomplete" / "a.parquet")
    pyarrow.csv.write_csv(work.table, tmp_path / "incomplete" / "b.csv")
    refused(r"'b\.csv', a CSV file and 'a\.parquet', a Parquet file")
    (tmp_path / "incomplete" / "b.csv").unlink()
    (tmp_path / "incomplete" / "year=2024").mkdir()
    refused("'year' in the names of folders")
    assert list_names(tmp_path) == ["incomplete"]


def test_an_output_that_cannot_be_written_is_refused_before_any_work(work, tmp_path):
    source = work.folder / "parquet"

    def refused(place, match, **options):
        with pytest.raises(TableFileError, match=match):
            local.impute(source, work.model, place, **options)

    refused(tmp_path / "nowhere" / "filled", "does not exist")
    (tmp_path / "file").write_text("mine")
    refused(tmp_path / "file", "is a file", force=True)
    refused(tmp_path / "file" / "filled", "does not exist")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    refused(tmp_path / "mine", r"thesis\.tex", force=True)
    refused("/proc/filled", "cannot be written")
    for place in (source / "deep" / "filled", work.folder):
        with pytest.raises(InvalidOption, match="must not contain each other"):
            local.impute(source, work.model, place, force=True)
    with pytest.raises(InvalidOption, match="s3://"):
        local.impute(source, work.model, "s3://bucket/filled")
    with pytest.raises(InvalidOption, match="s3://"):
        local.impute("s3://bucket/incomplete", work.model, tmp_path / "filled")
    assert list_names(tmp_path) == ["file", "mine"]


def test_an_earlier_output_is_replaced_only_with_force(work, tmp_path):
    local.sample(30, work.model, tmp_path / "rows", block_size=10, random_state=0)
    with pytest.raises(TableFileError, match="already there"):
        local.sample(20, work.model, tmp_path / "rows", random_state=0)
    local.sample(20, work.model, tmp_path / "rows", random_state=0, force=True)
    assert pq.read_table(tmp_path / "rows").num_rows == 20
    assert list_names(tmp_path) == ["rows"]


def test_wrong_arguments_are_refused_before_any_work(work, tmp_path):
    source, out = work.folder / "parquet", tmp_path / "out"
    with pytest.raises(InvalidCondition, match="agee"):
        local.impute(source, work.model, out, where="agee > 3")
    with pytest.raises(InvalidOption, match="'agee'"):
        local.impute(source, work.model, out, only=["agee"])
    with pytest.raises(InvalidOption, match="block"):
        local.impute(source, work.model, out, block_size=0, where="age > 2")
    with pytest.raises(InvalidOption, match="draws"):
        local.impute(source, work.model, out, draws=0)
    with pytest.raises(InvalidOption, match="given"):
        local.sample(3, work.model, out, given=work.modelled)
    pq.write_table(work.modelled.drop_columns(["job"]), tmp_path / "less.parquet")
    with pytest.raises(SchemaMismatch, match="'job'"):
        local.impute(tmp_path / "less.parquet", work.model, out)
    assert list_names(tmp_path) == ["less.parquet"]


def test_the_fingerprint_of_a_job_depends_on_all_that_determines_its_rows(work, tmp_path):
    def fingerprint(seed=1, block=20, source=work.folder / "csv", how=None, **options):
        asked = {"where": None, "draws": None, "only": (), "random_state": seed, **options}
        return job.ImputeJob.of_files(
            source, ImputeRequest.create(work.model, **asked), block_size=block, read_options=how
        ).fingerprint()

    other = tmp_path / "other.parquet"
    pq.write_table(work.table, other)
    found = [
        fingerprint(),
        fingerprint(seed=2),
        fingerprint(block=21),
        fingerprint(draws=2),
        fingerprint(where="age > 2"),
        fingerprint(only="age"),
        fingerprint(how=ReadOptions(missing=["none"])),
        fingerprint(source=other),
    ]
    assert fingerprint() == found[0]
    assert len(set(found)) == len(found)


def test_an_engine_that_is_not_installed_names_its_extra(monkeypatch):
    for engine, package in (("ray", "ray"), ("spark", "pyspark")):
        monkeypatch.delitem(sys.modules, f"harpoon.engines.{engine}", raising=False)
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtra, match=rf'pip install -c constraints\.txt "\.\[{engine}\]"'):
            __import__(f"harpoon.engines.{engine}")


def command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command_takes_folders_and_engines(work, tmp_path):
    model, source = work.folder / "model.harpoon", work.folder / "csv"
    done = command(
        "impute", model, source, "-o", tmp_path / "filled", "--block-size", 50, "--only", "age,job", "--json"
    )
    assert '"engine": "local"' in done.stdout
    filled = pq.read_table(tmp_path / "filled")
    assert (filled.num_rows, filled["age"].null_count, filled["height"].null_count > 0) == (ROWS, 0, True)
    done = command("sample", model, "-n", 50, "--engine", "local", "--seed", 3, "-o", tmp_path / "new.csv")
    assert "50 rows in" in done.stderr.replace("\n", "")
    assert query_files("count(*)", tmp_path / "new.csv") == (50,)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--engine", "dask", "-o", "x"], "one of"),
        (["--engine", "local"], "add -o FOLDER"),
        (["--engine", "local", "--workers", 2, "-o", "x"], "one process"),
        (["--engine", "local", "--format", "csv", "-o", "x"], "leave --format out"),
        (["--engine", "local", "--draws", 2, "-o", "x"], "add --stack-draws"),
    ],
)
def test_the_command_refuses_options_that_engines_do_not_have(work, tmp_path, monkeypatch, words, match):
    monkeypatch.chdir(tmp_path)
    done = command("impute", work.folder / "model.harpoon", work.folder / "csv", *words)
    assert done.exit_code == 2
    assert match in done.stderr.replace("\n", " ")
    assert list_names(tmp_path) == []


def test_the_command_refuses_options_without_effect_on_engines_too(work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, engine = work.folder / "model.harpoon", ["--engine", "local", "-o", "x"]
    for words, match in [
        (["impute", model, work.folder / "csv", "--option", "ar_steps=1"], "'ar_steps' has no effect on this call"),
        (["sample", model, "--option", "guidance_scale=2"], "'guidance_scale' has no effect on this call"),
        (["sample", model, "--delimiter", ";"], "are for a table of --given"),
        (["impute", model, work.folder / "parquet", "--delimiter", ";"], "--delimiter is an option of CSV and TSV"),
    ]:
        done = command(*words, *engine)
        assert done.exit_code == 2, done.stderr
        assert match in done.stderr.replace("\n", " ")
    assert list_names(tmp_path) == []


def test_an_engine_samples_with_the_options_of_the_command(work, tmp_path):
    model, source = work.folder / "model.harpoon", work.folder / "parquet"
    words = ["--seed", 4, "--option", "ar_steps=1", "--engine", "local", "-o"]
    assert command("impute", model, source, "--draws", 1, "--stack-draws", *words, tmp_path / "filled").exit_code == 0
    (expected,) = work.model.impute(work.modelled, draws=1, random_state=4, ar_steps=1)
    assert cells(pq.read_table(tmp_path / "filled").select(expected.column_names)) == cells(expected)
    assert command("sample", model, "-n", 50, *words, tmp_path / "new").exit_code == 0
    assert cells(pq.read_table(tmp_path / "new")) == cells(work.model.sample(50, random_state=4, ar_steps=1))


def test_an_engine_is_an_entry_of_the_registry(work, tmp_path, monkeypatch):
    """It may process tasks in any order."""
    seen = []

    def start(workers):
        def run(job, store, blocks):
            seen.append((workers, len(blocks)))
            for task in reversed(job.tasks(blocks)):
                yield from store.process(job, task)

        return run

    monkeypatch.setitem(engines.ENGINES, "reverse", start)
    asked = {"engine": "reverse", "workers": 3, "block_size": 50, "random_state": 4}
    filled = engines.impute(work.folder / "parquet", work.model, tmp_path / "filled", draws=2, **asked)
    expected = local.impute(work.folder / "parquet", work.model, tmp_path / "local", draws=2, random_state=4)
    assert pq.read_table(filled).equals(pq.read_table(expected))
    sampled = engines.sample(120, work.model, tmp_path / "new.parquet", **asked)
    assert cells(pq.read_table(sampled)) == cells(work.model.sample(120, random_state=4))
    assert seen == [(3, 6), (3, 3)]
    with pytest.raises(InvalidOption, match="engine must be one of 'local', 'ray', 'reverse', 'spark'"):
        engines.sample(3, work.model, tmp_path / "x", engine="rey")
