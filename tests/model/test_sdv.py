"""Metadata of SDV as schemas and back, and a synthesizer with SDV's verbs; SDV itself is not needed."""

import base64
import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from harpoon import (
    Harpoon,
    InfeasibleCondition,
    InvalidOption,
    ModelFileError,
    NotFitted,
    Privacy,
    Schema,
    SchemaMismatch,
)
from harpoon.sdv import HarpoonSynthesizer, to_metadata, to_schema
from tests.support.frames import TINY

COLUMNS = {
    "id": {"sdtype": "id", "regex_format": "[0-9]+"},
    "income": {"sdtype": "numerical"},
    "rooms": {"sdtype": "numerical", "computer_representation": "Int64"},
    "city": {"sdtype": "categorical"},
    "owner": {"sdtype": "boolean"},
    "since": {"sdtype": "datetime", "datetime_format": "%d/%m/%Y"},
    "seen": {"sdtype": "datetime"},
    "email": {"sdtype": "email"},
    "land": {"sdtype": "categorical"},
}
METADATA = {
    "tables": {"houses": {"primary_key": "id", "columns": COLUMNS}},
    "relationships": [],
    "METADATA_SPEC_VERSION": "V1",
}
MODELLED = ["income", "rooms", "city", "owner", "since", "seen"]


def houses(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame = pd.DataFrame(
        {
            "id": [f"h{row:04d}" for row in range(n)],
            "income": rng.lognormal(10, 1, n).round(2),
            "rooms": rng.integers(1, 5, n),
            "city": pd.Categorical(rng.choice(["Bonn", "Rome"], n)),
            "owner": rng.random(n) < 0.5,
            "since": days.strftime("%d/%m/%Y"),
            "seen": days,
            "email": [f"person{row}@example.org" for row in range(n)],
            "land": "x",
        }
    )
    frame.loc[::7, "income"] = np.nan
    return frame


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return houses()


@pytest.fixture(scope="module")
def fitted(table) -> HarpoonSynthesizer:
    synthesizer = HarpoonSynthesizer(METADATA, **TINY)
    assert synthesizer.fit(table) is None
    return synthesizer


@pytest.fixture
def synthesizer(fitted) -> HarpoonSynthesizer:
    fitted.reset_sampling()
    return fitted


def test_metadata_decide_the_kinds(table, tmp_path):
    schema = to_schema(METADATA, table)
    assert {column.name: str(column.kind) for column in schema} == {
        "id": "skipped", "income": "number", "rooms": "integer", "city": "category", "owner": "boolean",
        "since": "datetime", "seen": "datetime", "email": "skipped", "land": "category",
    }  # fmt: skip
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps(METADATA))
    several = {**METADATA, "tables": {**METADATA["tables"], "other": {"columns": {"x": {"sdtype": "id"}}}}}
    for other in (path, str(path), SimpleNamespace(to_dict=lambda: METADATA), {"columns": COLUMNS}):
        assert to_schema(other, table) == schema
    assert to_schema(several, table, table_name="houses") == schema


def test_a_schema_comes_back_from_its_metadata(table):
    plain = table.drop(columns=["email", "id", "land", "since"])
    schema = Schema.infer(plain, kinds={"rooms": "integer"})
    metadata = to_metadata(schema, table_name="houses")
    assert list(metadata["tables"]) == ["houses"]
    assert json.loads(json.dumps(metadata)) == metadata
    assert to_schema(metadata, plain) == schema


def test_metadata_come_back_with_what_a_schema_does_not_have(table):
    """Keys, formats, regular expressions and personal types, of metadata of one table and of one of several."""
    table_facts = {
        **METADATA["tables"]["houses"],
        "alternate_keys": ["email", ["id", "email"]],
        "column_relationships": [{"type": "address", "column_names": ["city", "land"]}],
    }
    metadata = {**METADATA, "tables": {"houses": table_facts}}
    several = {**METADATA, "tables": {"houses": table_facts, "other": {"columns": {"x": {"sdtype": "id"}}}}}
    schema = to_schema(metadata, table)
    assert to_metadata(schema, like=metadata) == metadata
    assert to_metadata(schema, like=several, table_name="houses") == metadata
    assert to_metadata(schema, like=table_facts)["tables"] == {"table": table_facts}
    inferred = Schema.infer(table)  # finds that the id is an identifier, and that the e-mail addresses are personal
    assert to_metadata(inferred, like=metadata)["tables"]["houses"]["columns"]["email"] == COLUMNS["email"]
    bare = to_metadata(schema)["tables"]["table"]
    assert bare == {"columns": {name: bare["columns"][name] for name in COLUMNS}}
    assert bare["columns"]["since"] == {"sdtype": "datetime"}


def test_metadata_follow_a_schema_that_has_changed(table):
    facts = {
        "columns": COLUMNS,
        "primary_key": "id",
        "alternate_keys": ["email"],
        "column_relationships": [{"type": "address", "column_names": ["city", "land"]}],
    }
    plain = table.assign(id=range(len(table))).drop(columns="land")
    schema = Schema.infer(plain, kinds={"id": "number", "rooms": "category"}, exclude=["email"])
    found = to_metadata(schema, like=facts)["tables"]["table"]
    assert found["columns"]["id"]["sdtype"] == "numerical"
    assert found["columns"]["rooms"] == {"sdtype": "categorical"}
    assert found["columns"]["email"] == COLUMNS["email"]
    assert set(found["columns"]) == set(plain.columns)
    assert {name: value for name, value in found.items() if name != "columns"} == {"alternate_keys": ["email"]}


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M"])
def test_texts_of_iso_times_need_no_format(table, form):
    texts = table[["rooms"]].assign(seen=table["seen"].dt.strftime(form))
    columns = {"rooms": {"sdtype": "numerical"}, "seen": {"sdtype": "datetime"}}
    synthesizer = HarpoonSynthesizer({"columns": columns}, **TINY)
    synthesizer.fit(texts)
    seen = synthesizer.sample(20)["seen"]
    assert list(pd.to_datetime(seen, format=form).dt.strftime(form)) == list(seen)
    assert synthesizer.get_metadata()["tables"]["table"]["columns"]["seen"]["datetime_format"] == form
    given = synthesizer.sample_remaining_columns(texts.head(3)[["seen"]])
    assert list(given["seen"]) == list(texts["seen"][:3])


def test_rows_are_those_of_harpoon_and_continue(synthesizer, table):
    model = synthesizer.model_
    rows = synthesizer.sample(50)
    assert list(rows.columns) == list(table.columns)
    assert rows.dtypes.drop("email").equals(table.dtypes.drop("email"))
    expected = model.sample(50, random_state=0).to_pandas()
    for name in ("income", "rooms", "owner", "seen"):
        assert rows[name].equals(expected[name].astype(rows[name].dtype)), name
    assert list(rows["city"]) == list(expected["city"])
    assert list(rows["since"]) == list(expected["since"].dt.strftime("%d/%m/%Y"))
    more = synthesizer.sample(30)
    whole = model.sample(80, random_state=0)["income"].to_pandas()
    assert pd.concat([rows, more])["income"].reset_index(drop=True).equals(whole)
    synthesizer.reset_sampling()
    pd.testing.assert_frame_equal(synthesizer.sample(50), rows)


def test_keys_are_numbered_and_personal_columns_are_not_real(synthesizer, table):
    rows = pd.concat([synthesizer.sample(40), synthesizer.sample(40)])
    assert rows["id"].is_unique
    assert not set(rows["id"]) & set(table["id"])
    assert not set(rows["email"]) & set(table["email"])
    assert set(rows["land"]) == {"x"}


def test_conditions(synthesizer):
    conditions = [
        SimpleNamespace(column_values={"city": "Rome", "owner": True}, num_rows=7),
        SimpleNamespace(column_values={"rooms": 2}, num_rows=3),
        SimpleNamespace(dataframe=pd.DataFrame({"city": ["Bonn", "Rome"], "since": ["01/02/2020", "29/02/2020"]})),
    ]
    rows = synthesizer.sample_from_conditions(conditions)
    assert len(rows) == 12
    assert list(rows["city"][:7]) == ["Rome"] * 7
    assert rows["owner"][:7].all()
    assert list(rows["rooms"][7:10]) == [2] * 3
    assert list(rows["since"][10:]) == ["01/02/2020", "29/02/2020"]
    assert rows["id"].is_unique
    rich = synthesizer.sample(20, where="income > 30000")
    assert (rich["income"] > 30_000).all()


def test_remaining_columns(synthesizer):
    known = pd.DataFrame({"id": ["a", "b", "c"], "city": ["Bonn", "Rome", "Bonn"], "rooms": [1, 2, 4]})
    rows = synthesizer.sample_remaining_columns(known)
    for name in known.columns:
        assert list(rows[name]) == list(known[name])
    with pytest.raises(InvalidOption, match="known columns must be some of"):
        synthesizer.sample_remaining_columns(known[["id"]])


def test_a_saved_synthesizer_continues_where_it_was(synthesizer, tmp_path):
    first = synthesizer.sample(10)
    synthesizer.save(tmp_path / "houses.zip")
    loaded = HarpoonSynthesizer.load(tmp_path / "houses.zip")
    assert loaded.get_metadata() == synthesizer.get_metadata() == METADATA
    pd.testing.assert_frame_equal(loaded.sample(10), synthesizer.sample(10))
    loaded.reset_sampling()
    pd.testing.assert_frame_equal(loaded.sample(10), first)
    rows = (tmp_path / "houses.zip").read_bytes()
    assert b"person7@example.org" not in rows
    assert b"h0007" not in rows


def test_damaged_and_hostile_files(synthesizer, tmp_path):
    path = tmp_path / "houses.zip"
    synthesizer.save(path)
    whole = path.read_bytes()
    for content in (
        b"",
        b"PK\x03\x04",
        whole[: len(whole) // 2],
        b"no zip at all",
        whole.replace(b"harpoon", b"haproon"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            HarpoonSynthesizer.load(path)
    with pytest.raises(ModelFileError, match="There is no file"):
        HarpoonSynthesizer.load(tmp_path / "none.zip")
    for state in (
        "{}",
        "[]",
        "no json",
        '{"metadata": {"columns": {"x": {"sdtype": "id"}}}, "template": {}, "n_sampled": 0}',
    ):
        path.write_bytes(whole)
        with zipfile.ZipFile(path) as archive:
            model = archive.read("model.harpoon")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.harpoon", model)
            archive.writestr("synthesizer.json", state)
        with pytest.raises(ModelFileError):
            HarpoonSynthesizer.load(path)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "must have"),
        ({"columns": {}}, "must have"),
        ({"columns": {"x": "numerical"}}, "must have an"),
        ({"columns": {"x": {}}}, "must have an"),
        ({"tables": {}}, "0 tables"),
        ({"tables": {"a": 1}}, "must have"),
        ({"tables": {"a": {}, "b": {}}}, "Give table_name"),
        (3, "must be an object of SDV"),
        ("no/such/file.json", "cannot be read"),
    ],
)
def test_metadata_that_make_no_sense(metadata, words):
    with pytest.raises(InvalidOption, match=words):
        HarpoonSynthesizer(metadata)


def test_wrong_use(synthesizer, table):
    fresh = HarpoonSynthesizer(METADATA, **TINY)
    for use in (lambda: fresh.sample(3), lambda: fresh.save("x"), lambda: fresh.sample_remaining_columns(table)):
        with pytest.raises(NotFitted):
            use()
    with pytest.raises(SchemaMismatch, match="'city'"):
        fresh.fit(table.drop(columns="city"))
    with pytest.raises(SchemaMismatch, match="'more'"):
        fresh.fit(table.assign(more=1))
    with pytest.raises(InvalidOption, match="is not a time like"):
        fresh.fit(table.assign(since="yesterday"))
    with pytest.raises(InvalidOption, match=r"one form of ISO 8601. Give its metadata a \"datetime_format\""):
        to_schema({"columns": {"since": {"sdtype": "datetime"}}}, table[["since"]])
    with pytest.raises(InvalidOption):
        HarpoonSynthesizer(METADATA, no_such_option=1)
    with pytest.raises(InvalidOption, match="num_rows"):
        synthesizer.sample(0)
    with pytest.raises(InvalidOption, match="at least one condition"):
        synthesizer.sample_from_conditions([])
    with pytest.raises(InvalidOption, match="column_values"):
        synthesizer.sample_from_conditions([{"city": "Rome"}])
    with pytest.raises(InfeasibleCondition):
        synthesizer.sample(3, where="rooms > 3 and rooms < 2")
    assert isinstance(synthesizer.model_, Harpoon)
    assert synthesizer.get_parameters()["hidden"] == TINY["hidden"]


def test_differential_privacy_is_refused_because_the_schema_is_read_off_the_rows():
    with pytest.raises(InvalidOption, match=r"schema that was written without a look at the rows.*Harpoon\(privacy="):
        HarpoonSynthesizer(METADATA, privacy=Privacy(2.0, 1e-6))
    assert HarpoonSynthesizer(METADATA, privacy=None, **TINY).get_parameters()["privacy"] is None


def test_a_saved_synthesizer_holds_nothing_that_pandas_notes_beside_the_dtypes(table, tmp_path):
    noted = table.copy()
    noted.attrs["source"] = "zq-attrs"
    synthesizer = HarpoonSynthesizer(METADATA, **TINY)
    synthesizer.fit(noted)
    synthesizer.save(tmp_path / "houses.zip")
    with zipfile.ZipFile(tmp_path / "houses.zip") as archive:
        stored = json.loads(archive.read("synthesizer.json"))["template"]
    assert b"zq-attrs" not in base64.b64decode(stored["schema"])
    assert synthesizer.sample(3).dtypes.drop("email").equals(table.dtypes.drop("email"))
