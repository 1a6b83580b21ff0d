"""Models as functions of DuckDB's SQL."""

import datetime as dt
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import harpoon
from harpoon import Harpoon, InvalidOption, MissingExtra, NotFitted
from tests.support.frames import fit

BLOCK_ROWS = 250


def typed_table(n: int = 300) -> pa.Table:
    """A table with a column of each type that DuckDB has and Harpoon models, in which every fifth cell is missing."""
    rng = np.random.default_rng(0)
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 300, n)]
    columns = {
        "number": rng.normal(size=n).tolist(),
        "count": rng.integers(0, 9, n).tolist(),
        "truth": (rng.random(n) < 0.5).tolist(),
        "label": rng.choice(["a", "b'c", 'd"e'], n).tolist(),
        "day": days,
        "time": [dt.datetime.combine(day, dt.time(12, 30)) for day in days],
        "price": [Decimal(int(cents)) / 100 for cents in rng.integers(100, 999, n)],
        "same": ["x"] * n,
    }
    holes = {name: [None if (row + shift) % 5 == 0 else cell for row, cell in enumerate(cells)]
             for shift, (name, cells) in enumerate(columns.items())}  # fmt: skip
    table = pa.table({"key": [f"k{row:05d}" for row in range(n)], **holes})
    return table.set_column(4, "label", table["label"].dictionary_encode())


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return typed_table()


@pytest.fixture(scope="module")
def model(table) -> Harpoon:
    return fit(table)


@pytest.fixture
def connection(model, table, monkeypatch):
    monkeypatch.setattr("harpoon.duckdb.CONDITION_BLOCK_ROWS", BLOCK_ROWS)
    with duckdb.connect() as connection:
        harpoon.duckdb.register(connection, model, "m")
        connection.register("arrow_rows", table)
        connection.execute("CREATE TABLE rows AS FROM arrow_rows")
        connection.execute("CREATE TABLE kept AS SELECT 1 AS x")
        connection.execute("CREATE TABLE typo AS SELECT number AS numbr, * EXCLUDE (number) FROM rows")
        yield connection
        assert connection.execute("FROM kept").fetchall() == [(1,)]


def plain(table: pa.Table) -> dict:
    return table.to_pydict()


@pytest.mark.parametrize("n", [1, BLOCK_ROWS, 3 * BLOCK_ROWS + 1])
def test_samples_are_those_of_python(connection, model, n):
    sampled = connection.sql(f"FROM harpoon_sample('m', {n}, seed := 5)").to_arrow_table()
    assert plain(sampled) == plain(model.sample(n, random_state=5))


def test_samples_under_a_condition_are_those_of_python_and_satisfy_it(connection, model):
    condition = "number > 0.3 and label = 'b''c'"
    query = "FROM harpoon_sample('m', 200, condition := ?, seed := 5)".replace(
        "?", "'" + condition.replace("'", "''") + "'"
    )
    sampled = connection.sql(query).to_arrow_table()
    assert plain(sampled) == plain(model.sample(200, where=condition, random_state=5))
    satisfied = connection.sql(f"SELECT count(*) FROM sampled WHERE {condition}").fetchall()  # noqa: S608
    assert satisfied == [(200,)]


def test_samples_without_missing_cells_are_those_of_python(connection, model):
    sampled = connection.sql("FROM harpoon_sample('m', 100, seed := 5, missing := 'complete')").to_arrow_table()
    assert plain(sampled) == plain(model.sample(100, random_state=5, missing="complete"))
    assert sum(column.null_count for column in sampled.columns) == 0


def test_names_differ_in_the_case_of_letters(connection, model, table):
    """DuckDB does not tell them apart."""
    connection.execute("CREATE TABLE large AS SELECT number AS NUMBER, * EXCLUDE (number) FROM rows")
    assert len(connection.sql("FROM harpoon_sample('M', 3.0)").fetchall()) == 3
    imputed = connection.sql("FROM harpoon_impute('M', 'large')").to_arrow_table()
    assert imputed["number"].to_pylist() == model.impute(table)["number"].to_pylist()


def test_a_query_uses_the_functions_as_tables(connection, model):
    query = """
    SELECT label, avg(number) AS mean FROM harpoon_sample('m', 600, seed := 1) JOIN (SELECT 'a' AS label) USING (label)
    GROUP BY label
    """
    expected = [value for label, value in model.sample(600, random_state=1).select(["label", "number"]).to_pandas()
                .dropna().itertuples(index=False) if label == "a"]  # fmt: skip
    ((label, mean),) = connection.sql(query).fetchall()
    assert label == "a"
    assert mean == pytest.approx(np.mean(expected))
    connection.execute("CREATE TABLE sampled AS FROM harpoon_sample('m', 50, seed := 1)")
    assert connection.sql("SELECT count(*) FROM sampled").fetchall() == [(50,)]


def test_without_a_seed_the_seed_of_the_model_counts(connection, model):
    first, second = (connection.sql("FROM harpoon_sample('m', 5)").fetchall() for _ in range(2))
    assert first == second == connection.sql("FROM harpoon_sample('m', 5, NULL, 0)").fetchall()
    assert model.random_state == 0


@pytest.mark.parametrize("source", ["rows", "arrow_rows", "main.rows"])
def test_imputed_rows_are_those_of_python(connection, model, table, source):
    imputed = connection.sql(f"FROM harpoon_impute('m', '{source}')").to_arrow_table()
    assert imputed.column_names == table.column_names
    assert plain(imputed) == plain(model.impute(table))
    assert sum(column.null_count for column in imputed.columns) == 0


def test_long_tables_are_imputed_in_their_order_and_observed_cells_stay(connection, model, table):
    long = pa.concat_tables([table] * 20)
    connection.register("long", long)
    connection.execute("CREATE TABLE long_rows AS FROM long")
    imputed = connection.sql("FROM harpoon_impute('m', 'long_rows')").to_arrow_table()
    assert plain(imputed) == plain(model.impute(long))
    changed = connection.sql("SELECT count(*) FROM long POSITIONAL JOIN imputed i WHERE long.number <> i.number")
    assert changed.fetchall() == [(0,)]


def test_other_columns_and_other_types_stay_as_they_are(connection, table):
    connection.execute(
        "CREATE TABLE other AS SELECT [1, 2] AS list, * REPLACE (count::TINYINT AS count, "
        "CASE WHEN count = 1 THEN 'NaN'::DOUBLE ELSE number END AS number) FROM rows"
    )
    imputed = connection.sql("FROM harpoon_impute('m', 'other')").to_arrow_table()
    assert imputed["list"].to_pylist() == [[1, 2]] * table.num_rows
    assert imputed["count"].null_count == 0
    assert not np.isnan(imputed["number"].to_numpy()).any()
    observed = connection.sql("SELECT count(*) FROM rows r POSITIONAL JOIN imputed i WHERE r.count <> i.count")
    assert observed.fetchall() == [(0,)]


def test_imputed_rows_satisfy_a_condition(connection):
    query = "SELECT bool_and(number > -9) FROM harpoon_impute('m', 'rows', condition := 'number > -9', seed := 3)"
    assert connection.sql(query).fetchall() == [(True,)]


def test_a_query_that_needs_few_rows_samples_few_blocks(connection, model, monkeypatch):
    calls = []
    sample = Harpoon.sample
    monkeypatch.setattr(Harpoon, "sample", lambda self, n, **options: calls.append(n) or sample(self, n, **options))
    assert len(connection.sql("FROM harpoon_sample('m', 10_000_000) LIMIT 5").fetchall()) == 5
    assert sum(calls) <= 10 * BLOCK_ROWS


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("FROM harpoon_sample('nope', 3)", "no model named 'nope'. Registered: m. Call harpoon.duckdb.register first"),
        ("FROM harpoon_sample(NULL, 3)", "no model named NULL"),
        ("FROM harpoon_impute('nope', 'rows')", "no model named 'nope'"),
        ("FROM harpoon_sample('m', 2.7)", "must be an integer, got 2.7"),
        ("FROM harpoon_sample('m', NULL)", "must be an integer, got NULL"),
        ("FROM harpoon_sample('m', 3, seed := 0.5)", "seed must be an integer, got 0.5"),
        ("FROM harpoon_sample('m', 3, missing := 'never')", "missing must be one of"),
        ("FROM harpoon_sample('m', 3, missing := '''); DROP TABLE kept; --')", "missing must be one of"),
        ("FROM harpoon_sample('m\"(1, NULL, NULL); DROP TABLE kept; --', 3)", "no model named"),
        ("FROM harpoon_sample('m', 3, condition := '1 = 1; DROP TABLE kept')", "condition"),
        ("FROM harpoon_sample('m', 3, condition := 'nothing > 3')", "nothing"),
        ("FROM harpoon_sample('m', 3, condition := 'number > 1 and number < 0')", "condition"),
        ("FROM harpoon_sample('m', 3, condition := ''')')", "condition"),
        ("FROM harpoon_sample('m', 0)", "n, the number of rows"),
        ("FROM harpoon_sample('m', -3)", "n, the number of rows"),
        ("FROM harpoon_sample('m', 'three')", "three"),
        ("FROM harpoon_sample('m', 3, seed := -1)", "random_state"),
        ("FROM harpoon_impute('m', 'nope')", "nope"),
        ("FROM harpoon_impute('m', 'rows; DROP TABLE kept')", "does not exist"),
        ("FROM harpoon_impute('m', 'rows'', NULL, NULL); DROP TABLE kept; --')", "does not exist"),
        (
            "FROM harpoon_impute('m', 'kept')",
            "the columns 'number', 'count'.*which the table does not have .it has 'x'",
        ),
        ("FROM harpoon_impute('m', 'typo')", "the column 'number', which.*Did you mean 'numbr' for 'number'"),
        ("FROM harpoon_impute('m', (SELECT 'rows'))", "subquer"),
    ],
)
def test_hostile_queries_are_one_error(connection, query, words):
    with pytest.raises(duckdb.Error, match=words):
        connection.sql(query).fetchall()


def test_several_models_and_a_model_that_is_replaced(connection, model):
    other = fit(pa.table({"z": [1.0, 2.0, 3.0] * 30}))
    harpoon.duckdb.register(connection, other, "other")
    assert connection.sql("FROM harpoon_sample('other', 2)").columns == ["z"]
    assert "number" in connection.sql("FROM harpoon_sample('m', 2)").columns
    harpoon.duckdb.register(connection, other, "m")
    assert connection.sql("FROM harpoon_sample('m', 2)").columns == ["z"]


def test_nothing_is_stored_in_the_database(model, tmp_path):
    path = tmp_path / "rows.db"
    duckdb.connect(path).close()
    model.save(tmp_path / "m.harpoon")
    with duckdb.connect(path, read_only=True) as connection:
        harpoon.duckdb.register(connection, tmp_path / "m.harpoon")
        assert len(connection.sql("FROM harpoon_sample('m', 2)").fetchall()) == 2
    with duckdb.connect(path) as connection, pytest.raises(duckdb.Error, match="harpoon_sample"):
        connection.sql("FROM harpoon_sample('m', 2)")


def test_arguments_that_make_no_sense(connection, model, monkeypatch):
    for name in ("", "a b", 'x"y', "1m", None, "é"):
        with pytest.raises(InvalidOption, match="letters, digits and underscores"):
            harpoon.duckdb.register(connection, model, name)
    with pytest.raises(InvalidOption, match="must be a connection of DuckDB"):
        harpoon.duckdb.register("file.db", model)
    with pytest.raises(NotFitted):
        harpoon.duckdb.register(connection, Harpoon())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r'pip install -c constraints\.txt "\.\[sql\]"'):
        harpoon.duckdb.register(connection, model)
