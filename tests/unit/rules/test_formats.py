"""Rules of other tools: what a real file of each tool says, and that our rules and the tool agree on rows."""

import datetime as dt
import itertools
import json
import sqlite3
from pathlib import Path

import duckdb
import jsonschema
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, HarpoonError, InvalidOption, Kind, RuleFileError, Schema
from harpoon.conditions import parse
from harpoon.data import dataframe
from harpoon.rules import RULE_FORMATS, RuleFormat, read_rules
from harpoon.rules.formats.translation import compare, matches
from harpoon.rules.rule_check import check_rules

FILES = Path(__file__).parent / "files"
SCHEMA = Schema(
    (
        Column("age", Kind.INTEGER),
        Column("hours", Kind.NUMBER),
        Column("job", Kind.CATEGORY, categories=("chef", "clerk", "nurse", "pilot")),
        Column("day", Kind.DATE),
        Column("member", Kind.BOOLEAN, categories=(False, True)),
    )
)
TYPES = {"age": pa.int64(), "hours": pa.float64(), "job": pa.string(), "day": pa.date32(), "member": pa.bool_()}
CELLS = {
    "age": st.none() | st.integers(16, 67),
    "hours": st.none() | st.sampled_from([-1.0, 0.0, 20.0, 40.0, 61.0, 80.0]),
    "job": st.none() | st.sampled_from(["chef", "clerk", "nurse", "pilot"]),
    "day": st.none() | st.dates(dt.date(2023, 12, 30), dt.date(2024, 1, 4)),
    "member": st.none() | st.booleans(),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=12)


def table_of(rows):
    return pa.table({name: pa.array([row[name] for row in rows], type=TYPES[name]) for name in TYPES})


def broken_rows(rules, rows):
    """Return the numbers of the rows that break a rule."""
    return set(check_rules(rules, SCHEMA, dataframe.read(table_of(rows))).rows.tolist())


def texts(file):
    return {rule.name: rule.text for rule in file.rules}


# Databases: the constraint refuses exactly the rows that break a rule


CHECKS = (
    "age between 18 and 65",
    "job in ('chef', 'clerk') or age > 30",
    "hours >= 0 and hours <= 60",
    "hours * 2 < age + 100",
    "case when job = 'chef' then hours < 50 else age > 20 end",
    "case when job = 'chef' then hours < 50 end",
    "not (job = 'nurse' and age < 21)",
    "job like 'c%' or hours is not null",
    "abs(hours) <= 70",
    "length(job) < 6",
)
CREATE = "CREATE TABLE people (age INTEGER{}, hours DOUBLE, job VARCHAR, day DATE, member BOOLEAN, id INTEGER UNIQUE{})"
INSERT = "INSERT INTO people (age, hours, job, day, member) VALUES (?, ?, ?, ?, ?)"


def create_statement(checks):
    return CREATE.format(" NOT NULL", "".join(f", CONSTRAINT c{i} CHECK ({check})" for i, check in enumerate(checks)))


def refused(execute, rows, errors):
    """Return which rows a database refuses."""
    found = set()
    for number, row in enumerate(rows):
        try:
            execute(INSERT, [row["age"], row["hours"], row["job"], row["day"], row["member"]])
        except errors:
            found.add(number)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("databases")


@given(ROWS, st.lists(st.sampled_from(CHECKS[:-1]), min_size=1, max_size=4, unique=True))
@settings(max_examples=25, deadline=None)
def test_duckdb_refuses_the_rows_that_break_its_rules(folder, rows, checks):
    path = folder / "people.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(create_statement(checks))
    file = read_rules(f"duckdb:///{path}#people")
    assert file.format == "duckdb"
    assert [each.what for each in file.untranslated] == ["UNIQUE(id)"]
    with duckdb.connect(str(path)) as connection:
        assert broken_rows(file.rules, rows) == refused(connection.execute, rows, duckdb.ConstraintException)


@given(ROWS, st.lists(st.sampled_from(CHECKS[:-1]), min_size=1, max_size=4, unique=True))
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore:The default date adapter:DeprecationWarning")
def test_sqlite_refuses_the_rows_that_break_its_rules(folder, rows, checks):
    path = folder / "people.sqlite"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(create_statement(checks))
        file = read_rules(f"sqlite:///{path}#people")
        assert len(file.rules) == len(checks) + 1
        plain = [{**row, "day": row["day"] and row["day"].isoformat()} for row in rows]
        assert broken_rows(file.rules, rows) == refused(connection.execute, plain, sqlite3.IntegrityError)
    finally:
        connection.close()


TIMES = [dt.datetime(2024, 1, 1, 8) + dt.timedelta(hours=hours) for hours in (0, 1, 3, 24, 73)]
TIME_CHECKS = (
    "s <= f",
    "s > TIMESTAMP '2024-01-01 09:00:00'",
    "s BETWEEN '2024-01-01' AND '2024-01-02'",
    "f - s < INTERVAL 2 DAY",
    "f <= s + INTERVAL '23' HOUR",
    "f < s + INTERVAL '90' MINUTE or f > s + INTERVAL 7200 SECOND",
    "extract(hour from s) >= 9 and isodow(f) < 3",
)


@pytest.mark.parametrize("check", TIME_CHECKS)
@pytest.mark.parametrize("is_database", [True, False])
def test_checks_of_timestamps_mean_what_they_mean_in_duckdb(folder, check, is_database):
    path = folder / ("times.duckdb" if is_database else "times.sql")
    path.unlink(missing_ok=True)
    statement = f"CREATE TABLE visits (s TIMESTAMP, f TIMESTAMP, CHECK ({check}))"
    if is_database:
        with duckdb.connect(str(path)) as connection:
            connection.execute(statement)
    else:
        path.write_text(statement)
    file = read_rules(f"duckdb:///{path}#visits" if is_database else path)
    assert len(file.rules) == 1
    assert not file.untranslated
    rows, refused = list(itertools.product([*TIMES, None], repeat=2)), []
    with duckdb.connect() as connection:
        connection.execute(statement)
        for number, row in enumerate(rows):
            try:
                connection.execute("INSERT INTO visits VALUES (?, ?)", row)
            except duckdb.ConstraintException:
                refused.append(number)
    table = pa.table({name: pa.array(cells) for name, cells in zip("sf", zip(*rows, strict=True), strict=True)})
    assert 0 < len(refused) < len(rows)
    assert check_rules(file.rules, Schema.infer(table), dataframe.read(table)).rows.tolist() == refused


def test_what_sql_has_beyond_rows_is_listed(folder):
    path = folder / "people.sql"
    path.write_text(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR DEFAULT 'x' REFERENCES u(b), c INT, UNIQUE (b, c), "
        "CONSTRAINT short CHECK (length(b) < 3), CHECK (c > 0));"
    )
    file = read_rules(path)
    assert texts(file) == {"a not null": "a is not null", "c > 0": "c > 0"}
    assert len(file.untranslated) == 4
    assert any("short" in each.what and "LENGTH" in each.why for each in file.untranslated)


def test_sqlite_divides_integers_and_is_not_translated(folder):
    path = folder / "division.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a INTEGER, b TEXT, CHECK (a / 2 > 3), CHECK (b LIKE 'A%'))")
    connection.close()
    file = read_rules(f"sqlite:///{path}#t")
    assert [rule.text for rule in file.rules] == ["b ilike 'A%'"]
    assert "remainder" in file.untranslated[0].why


# Files, each as its tool writes it


@pytest.mark.parametrize("name", ["pandera.yaml", "pandera.json"])
def test_a_schema_of_pandera(name):
    file = read_rules(FILES / name)
    assert texts(file) == {
        "age not null": "age is not null",
        "age in_range": "age >= 18 and age < 65",
        "age not_equal_to": "age != 30",
        "hours greater_than_or_equal_to": "hours >= 0",
        "job not null": "job is not null",
        "job isin": "job in ('chef', 'clerk', 'nurse')",
        "job str_startswith": "job like 'c%'",
        "day not null": "day is not null",
        "day greater_than": "day > '2024-01-01'",
    }
    listed = {each.what for each in file.untranslated}
    assert {"job unique", "job str_length", "job str_matches", "unique", "index"} <= listed


@given(ROWS)
@settings(max_examples=15, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_pandera_agrees(folder, rows):
    pandera = pytest.importorskip("pandera.pandas")
    schema = pandera.DataFrameSchema(
        {
            "age": pandera.Column("float64", [pandera.Check.in_range(18, 65, include_max=False)], nullable=False),
            "hours": pandera.Column("float64", pandera.Check.ge(0), nullable=True),
            "job": pandera.Column(object, [pandera.Check.isin(["chef", "clerk"])], nullable=True),
        }
    )
    path = folder / "own.yaml"
    path.write_text(schema.to_yaml())
    frame = pd.DataFrame([{name: row[name] for name in ("age", "hours", "job")} for row in rows], dtype=object)
    frame = frame.astype({"age": "float64", "hours": "float64"})
    failed = set()
    try:
        schema.validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as error:
        failed = {int(index) for index in error.failure_cases["index"].dropna()}
    assert broken_rows(read_rules(path).rules, rows) == failed


def test_a_table_schema_of_frictionless():
    file = read_rules(FILES / "tableschema.json")
    assert texts(file) == {
        "age required": "age is not null",
        "age minimum": "age >= 18",
        "age maximum": "age <= 65",
        "hours minimum": "hours >= 0",
        "job enum": "job in ('chef', 'clerk', 'nurse')",
        "day minimum": "day >= '2024-01-02'",
        "code pattern": "code in ('a', 'b')",
        "code required": "code is not null",
    }
    assert {"job pattern", "job maxLength", "code unique", "primaryKey"} <= {each.what for each in file.untranslated}


@given(ROWS)
@settings(max_examples=10, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_frictionless_agrees(folder, rows):
    frictionless = pytest.importorskip("frictionless")
    fields = [
        {"name": "age", "type": "integer", "constraints": {"required": True, "minimum": 18, "maximum": 65}},
        {"name": "hours", "type": "number", "constraints": {"minimum": 0}},
        {"name": "job", "type": "string", "constraints": {"enum": ["chef", "clerk"]}},
        {"name": "day", "type": "date", "constraints": {"minimum": "2024-01-02"}},
    ]
    schema = frictionless.Schema.from_descriptor({"fields": fields})
    path = folder / "own_schema.json"
    path.write_text(schema.to_json())
    data = [[f["name"] for f in fields], *([row[f["name"]] for f in fields] for row in rows)]
    report = frictionless.Resource(data, schema=schema).validate()
    # A row of missing cells only is an error of its own in Frictionless.
    failed = {row_number - 2 for row_number, _ in report.flatten(["rowNumber", "type"]) if row_number}
    assert broken_rows(read_rules(path).rules, rows) == failed


def test_an_expectation_suite():
    file = read_rules(FILES / "suite.json")
    assert [rule.text for rule in file.rules] == [
        "age >= 18 and age < 65",
        "age is not null",
        "job in ('chef', 'clerk', 'nurse')",
        "job like 'c%'",
        "age >= hours",
        "(job = 'chef' and age = 40) or (job = 'clerk' and age = 41)",
        "age + hours = 80",
    ]
    assert [each.what for each in file.untranslated] == [
        "column_values_to_be_between(hours)",
        "column_values_to_be_unique(job)",
        "table_row_count_to_be_between()",
        "column_values_to_be_between(age)",
    ]


def test_the_older_spelling_of_a_suite(tmp_path):
    suite = json.loads((FILES / "suite.json").read_text())
    suite["expectations"] = [
        {"expectation_type": each["type"], "kwargs": each["kwargs"]} for each in suite["expectations"]
    ]
    old = tmp_path / "suite.json"
    old.write_text(json.dumps(suite))
    assert read_rules(old).rules == read_rules(FILES / "suite.json").rules


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_json_schema_agrees_with_its_validator(rows):
    content = json.loads((FILES / "schema.json").read_text())
    del content["minProperties"], content["properties"]["hours"]["multipleOf"]  # listed as not translated
    del content["properties"]["hours"]["type"]  # null is a missing cell, too
    validator = jsonschema.Draft202012Validator(content)
    absent = [{name: cell for name, cell in row.items() if cell is not None and name != "day"} for row in rows]
    failed = {number for number, row in enumerate(absent) if not validator.is_valid(row)}
    assert broken_rows(read_rules(FILES / "schema.json").rules, rows) == failed


def test_json_schema_lists_what_it_cannot_translate():
    listed = {each.what for each in read_rules(FILES / "schema.json").untranslated}
    assert {"hours multipleOf", "tags type array", "minProperties"} <= listed


def test_rules_that_a_schema_cannot_have_are_listed():
    file = read_rules(FILES / "tableschema.json").for_schema(SCHEMA)
    assert "code pattern" not in file.rules.names
    assert any(each.what == "code pattern" and "no column" in each.why for each in file.untranslated)
    assert "age minimum" in file.rules.names


def test_every_rule_of_a_file_parses_back():
    for name in ("pandera.yaml", "tableschema.json", "suite.json", "schema.json"):
        for rule in read_rules(FILES / name).rules:
            assert parse(rule.text) == rule.predicate


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^chef", "job like 'chef%'"),
        ("chef$", "job like '%chef'"),
        ("^chef$", "job in ('chef')"),
        ("^(chef|nurse)$", "job in ('chef', 'nurse')"),
        ("hef", "job like '%hef%'"),
    ],
)
def test_literal_patterns_are_translated(pattern, text):
    assert str(matches("job", pattern)) == text


def test_a_format_can_be_added(tmp_path, monkeypatch):
    def read(content, translation):
        for name, low in content["lows"].items():
            translation.add(name, compare(name, ">=", low))

    monkeypatch.setitem(RULE_FORMATS, "lows", RuleFormat("lows", "lows", lambda content: "lows" in content, read))
    (tmp_path / "lows.json").write_text('{"lows": {"age": 3}}')
    assert texts(read_rules(tmp_path / "lows.json")) == {"age": "age >= 3"}


# Hostile files: an error that names the file, never a crash


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("fields", "constraints", "expectations", "kwargs", "columns", "schema_type", "properties", "allOf", "if", "not")
NESTED = st.recursive(
    JSON_VALUES,
    lambda inner: st.dictionaries(st.sampled_from(KEYS) | st.sampled_from(["name", "type", "then", "enum"]), inner),
    max_leaves=12,
)


@given(st.sampled_from(["fields", "resources", "expectations", "columns", "properties", "allOf", "if"]), NESTED)
@settings(max_examples=150, deadline=None)
def test_any_content_is_read_or_refused(folder, key, value):
    path = folder / "hostile.json"
    path.write_text(json.dumps({"schema_type": "dataframe", key: value}))
    try:
        file = read_rules(path)
    except RuleFileError as error:
        assert "hostile.json" in str(error)  # noqa: PT017
    else:
        assert all(parse(rule.text) == rule.predicate for rule in file.rules)


SQL_WORDS = (
    "a b \"c d\" ( ) and or not between in like 1 2.5 'x' null true < = >= <> + - * / % || , case when then else end "
    "is_null abs( length( cast( as_date) ::int interval_'3'_day timestamp_'2024-01-01' date_'x' extract(month_from "
    "=> implies [ ] { } ; -- /* */ ? $1 :name 1e400 9223372036854775808"
)


@given(st.lists(st.sampled_from([word.replace("_", " ") for word in SQL_WORDS.split()]), max_size=14), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_constraint_is_read_or_listed_or_refused(folder, words, is_column):
    path, check = folder / "hostile.sql", " ".join(words)
    path.write_text(f"CREATE TABLE t (a INTEGER {'' if is_column else ','} CHECK ({check}), b VARCHAR UNIQUE);")
    try:
        file = read_rules(path)
    except RuleFileError as error:
        assert "hostile.sql" in str(error)  # noqa: PT017
    else:
        assert len(file.rules) + len(file.untranslated) >= 1
        assert all(parse(rule.text) == rule.predicate for rule in file.rules)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "one object"),
        (b"{", "JSON"),
        (b"[1, 2]", "one object"),
        (b'{"a": 1}', "unknown"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"a: [b", "YAML"),
        (b'{"properties": ' * 5000 + b"1" + b"}" * 5000, "nested too deeply|JSON"),
        (b'{"expectations": [{"type": 3}]}', "must be text"),
        (b'{"fields": [{"name": "a", "constraints": 3}]}', "object"),
        (b"!!python/object/apply:os.system ['true']", "YAML"),
        (b"SQLite format 3\0" + b"\0" * 100, "Name a table"),
        (
            b"x: &a [z, z, z, z, z, z, z, z, z, z]\n"
            + b"".join(b"x%d: &%c [%s]\n" % (i, 98 + i, b", ".join([b"*%c" % (97 + i)] * 10)) for i in range(8))
            + b"properties: {a: {enum: *i}}",
            "parts",
        ),
    ],
)
def test_hostile_files_are_refused(tmp_path, content, message):
    path = tmp_path / "hostile.file"
    path.write_bytes(content)
    with pytest.raises(RuleFileError, match=message) as caught:
        read_rules(path)
    assert "hostile.file" in str(caught.value)


def test_other_errors_of_reading(tmp_path):
    with pytest.raises(RuleFileError, match="no such file"):
        read_rules(tmp_path / "absent.json")
    with pytest.raises(RuleFileError, match="no such file"):
        read_rules(f"sqlite:///{tmp_path}/absent.db#t")
    with pytest.raises(InvalidOption, match="format"):
        read_rules(FILES / "suite.json", format="excel")
    (tmp_path / "a.sql").write_text("SELECT 1")
    with pytest.raises(RuleFileError, match="CREATE TABLE"):
        read_rules(tmp_path / "a.sql")
    sqlite3.connect(tmp_path / "a.db").execute("create table t (x)").connection.close()
    with pytest.raises(RuleFileError, match="no table 'u'"):
        read_rules(f"sqlite:///{tmp_path}/a.db#u")
    with pytest.raises(HarpoonError):
        read_rules(f"postgres:///{tmp_path}/a.db#u")
