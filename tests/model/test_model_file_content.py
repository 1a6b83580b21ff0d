"""The page on privacy lists everything that a model file holds, and nothing that no file holds."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from harpoon import Column, Harpoon, Kind, Privacy, Schema, load
from harpoon._utils.model_file import read_tensors
from harpoon.data import dataframe
from harpoon.privacy import ATTACKS
from tests.model.test_suppression import table
from tests.support.frames import dtypes

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
OPTIONS = {"hidden": 16, "max_epochs": 1, "random_state": 0, "progress": False}


def listed() -> set[str]:
    """Return the names of the table of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("## What a model file holds")[2]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")][1:]
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def names_of(value: object, name: str = "") -> Iterator[str]:
    """Yield the names of the entries of a header; those of lists and of columns are left out."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from names_of(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from names_of(item, name)
    else:
        yield name


def models() -> Iterator[Harpoon]:
    rows = table()
    yield Harpoon(**OPTIONS, rules=["x > -1e6"], schema=Schema.infer(rows)).fit(rows)
    yield Harpoon(rare="suppress", **OPTIONS).fit(rows)
    yield Harpoon("paper", scaling="quantile", encoding="integer", **OPTIONS).fit(rows)
    rng = np.random.default_rng(0)
    many = pa.table({"code": [f"c{i}" for i in rng.integers(0, 400, 3000)], "x": rng.normal(size=3000)})
    yield Harpoon(**OPTIONS).fit(many)
    numbers = Schema((Column("code", Kind.SKIPPED), Column("x", Kind.NUMBER, minimum=-5.0, maximum=5.0)))
    budget = Privacy(8.0, 1e-6, steps=1)
    yield Harpoon(privacy=budget, schema=numbers, hidden=16, random_state=0, progress=False).fit(many)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> set[str]:
    found: set[str] = set()
    for number, model in enumerate(models()):
        path = tmp_path_factory.mktemp("models") / f"{number}.harpoon"
        model.save(path)
        tensors, content = read_tensors(path)
        found |= set(names_of(content)) | set(tensors)
    return found


pytestmark = pytest.mark.filterwarnings("ignore::harpoon.exceptions.HarpoonWarning")


def is_part(name: str, entry: str) -> bool:
    return name == entry or name.startswith(f"{entry}.")


def test_everything_that_is_stored_is_listed(stored):
    assert {name for name in stored if not any(is_part(name, entry) for entry in listed())} == set()


def test_everything_that_is_listed_is_stored(stored):
    assert {entry for entry in listed() if not any(is_part(name, entry) for name in stored)} == set()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_page_has_the_bound_of_each_attack(name):
    attack = ATTACKS[name]
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {attack.title} |"))
    assert row.rstrip().endswith(f"| {attack.red:g} |")


# What a dataframe library notes of a table beside its dtypes

EMAILS = [f"zq{i}@example.org" for i in range(40)]
LABELS = ["common", "usual", "zq-rare", "zq-unused"]


def columns(rows: int = 240) -> dict[str, list]:
    """Return a personal column, an excluded one, one with a rare label, and numbers."""
    kind = ["zq-rare" if row < 3 else LABELS[row % 2] for row in range(rows)]
    emails = [EMAILS[row % len(EMAILS)] for row in range(rows)]
    return {"email": emails, "code": emails, "kind": kind, "x": np.random.default_rng(0).normal(size=rows).tolist()}


def polars_frame() -> pl.DataFrame:
    kinds, emails = pl.Enum(LABELS), pl.Enum(EMAILS)
    frame = pl.DataFrame(columns(), schema_overrides={"email": emails, "code": emails, "kind": kinds})
    return frame.with_columns(
        nested=pl.struct("email"), listed=pl.concat_list("email"), same=pl.lit("a", pl.Enum(["a", "zq-other"]))
    )


def pandas_frame() -> pd.DataFrame:
    frame = pd.DataFrame(columns())
    frame = frame.astype({"email": "category", "code": "category", "kind": pd.CategoricalDtype(LABELS)})
    frame.attrs["source"] = "zq-attrs"
    return frame


def arrow_table() -> pa.Table:
    found = pa.table(columns())
    for name in ("email", "code", "kind"):
        found = found.set_column(found.column_names.index(name), name, found[name].dictionary_encode())
    parts = [f.with_metadata({"labels": "zq-field"}) for f in found.schema]
    record = pa.field("record", pa.struct([pa.field("part", pa.int64(), metadata={"labels": "zq-part"})]))
    found = found.append_column(record, pa.array([{"part": 1}] * len(found), record.type))
    notes = {"pandas": '{"attributes": "zq-attrs"}', "features": "zq-features"}
    return found.cast(pa.schema([*parts, record])).replace_schema_metadata(notes)


FRAMES = {"pandas": pandas_frame, "polars": polars_frame, "pyarrow": arrow_table}


def fitted(frame: object, **options: object) -> Harpoon:
    """Return a model of a table whose column `code` is left out."""
    return Harpoon(schema=Schema.infer(frame, exclude=["code"]), **OPTIONS, **options).fit(frame)


def everything_in(path: Path) -> bytes:
    """Return the content of a model file, with the look of the table as the Arrow schema that it encodes."""
    _, content = read_tensors(path)
    return path.read_bytes() + base64.b64decode(content["frame"]["schema"])


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("rare", ["keep", "suppress"])
def test_labels_and_notes_of_the_table_that_the_model_does_not_know_are_not_stored(make, rare, tmp_path):
    path = tmp_path / "m.harpoon"
    fitted(make(), rare=rare).save(path)
    known = {b"zq-rare", b"zq-unused"} if rare == "keep" else set()
    assert set(re.findall(rb"zq[-\w@.]+", everything_in(path))) <= known


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_the_dtypes_of_sampled_rows_stay(make, tmp_path):
    frame = make()
    model = fitted(frame)
    model.save(tmp_path / "m.harpoon")
    for each in (model, load(tmp_path / "m.harpoon", progress=False)):
        rows = each.sample(5)
        assert dtypes(rows)["kind"] == dtypes(frame)["kind"]
        assert dtypes(rows)["x"] == dtypes(frame)["x"]


def test_an_enum_has_the_labels_that_the_model_keeps(tmp_path):
    frame = polars_frame()
    model = fitted(frame, rare="suppress")
    model.save(tmp_path / "m.harpoon")
    for each in (model, load(tmp_path / "m.harpoon", progress=False)):
        rows = each.sample(5)
        assert rows["kind"].dtype == pl.Enum(["common", "usual"])
        assert rows["same"].to_list() == ["a"] * 5
    holed = frame.with_columns(kind=pl.lit(None, pl.String))
    assert model.impute(holed)["kind"].dtype == pl.Enum(["common", "usual"])
    one = frame.with_columns(kind=pl.when(pl.col("x") < 1).then("kind"))
    assert model.impute(one)["kind"].dtype == frame["kind"].dtype  # a table that is filled keeps its own


def test_an_older_file_forgets_the_labels_when_it_is_loaded(tmp_path):
    model = fitted(polars_frame())
    model.template_ = dataframe.read(polars_frame()).template  # as version 0.1 kept it
    model.save(tmp_path / "old.harpoon")
    assert b"zq0@example.org" in everything_in(tmp_path / "old.harpoon")
    loaded = load(tmp_path / "old.harpoon", progress=False)
    assert loaded.sample(5)["kind"].dtype == pl.Enum(LABELS)
    loaded.save(tmp_path / "new.harpoon")
    assert b"zq0@example.org" not in everything_in(tmp_path / "new.harpoon")
