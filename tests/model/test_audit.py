"""The audit of a fitted model, its front ends, and tables that do not fit."""

import json
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from harpoon import Harpoon, InvalidOption, InvalidTable, NotFitted, SchemaMismatch
from harpoon.data import dataframe
from harpoon.inference.model_audit import _log_likelihoods
from harpoon.privacy import ATTACKS
from harpoon.report import Page, summarize_audit
from tests.support.cli import call

ROWS = 150
OPTIONS = {"hidden": 16, "max_epochs": 3, "random_state": 0, "progress": False}


def draw(seed: int, rows: int = ROWS) -> pa.Table:
    """Draw rows with numbers, labels, a flag, times and missing cells."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    start = datetime(2024, 1, 1)
    return pa.table(
        {
            "x": x,
            "y": pa.array(2 * x + rng.normal(size=rows), mask=rng.random(rows) < 0.1),
            "label": [("low", "high", None)[i] for i in rng.choice(3, rows, p=[0.5, 0.4, 0.1])],
            "flag": rng.random(rows) < 0.5,
            "when": [start + timedelta(hours=int(h)) for h in rng.integers(0, 5000, rows)],
        }
    )


TRAIN, HOLDOUT = draw(0), draw(1)


@pytest.fixture(scope="module")
def model():
    return Harpoon(**OPTIONS).fit(TRAIN)


@pytest.fixture(scope="module")
def audit(model):
    return model.audit(TRAIN, HOLDOUT, random_state=0)


def test_all_attacks_are_run(audit):
    assert [attack.name for attack in audit.attacks] == list(ATTACKS)
    assert all(attack.light != "none" for attack in audit.attacks if attack.name != "rare_values")
    assert audit.rows == {"train": ROWS, "holdout": ROWS, "synthetic": 2000}


def test_the_same_seed_gives_the_same_audit(model, audit):
    assert model.audit(TRAIN, HOLDOUT, random_state=0).to_json() == audit.to_json()


def test_any_dataframe_library_gives_the_same_audit(model, audit):
    found = model.audit(TRAIN.to_pandas(types_mapper=pd.ArrowDtype), HOLDOUT, random_state=0)
    assert found.to_json() == audit.to_json()


def test_the_audit_leaves_the_model_as_it_is(model):
    before = model.sample(20, random_state=1)
    info = model.sampling_info_
    model.audit(TRAIN, HOLDOUT, rows=60, random_state=0)
    assert model.sampling_info_ is info
    assert model.sample(20, random_state=1).equals(before)


def test_a_model_that_knows_its_rows_too_well_is_caught_by_likelihood():
    """Labels without any pattern can only be learnt row by row."""
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(8)]
    tables = [pa.table({name: rng.integers(0, 2, 120).astype(str) for name in names}) for _ in range(2)]
    options = {"hidden": 128, "batch_size": 32, "max_epochs": 200, "validation_fraction": 0.0, "weight_decay": 0.0}
    model = Harpoon(**{**OPTIONS, **options}).fit(tables[0])
    attack = model.audit(*tables, random_state=0)["membership_likelihood"]
    assert attack.interval[0] > 0
    assert attack.light in ("yellow", "red")


def test_likelihoods_are_higher_for_rows_of_the_table_than_for_shuffled_ones(model):
    shuffled = TRAIN.set_column(0, "x", TRAIN["x"].take(np.random.default_rng(0).permutation(ROWS)))
    longer = Harpoon(**{**OPTIONS, "max_epochs": 60}).fit(TRAIN)
    scores = [_log_likelihoods(longer._fitted, dataframe.read(one), np.arange(ROWS), 0) for one in (TRAIN, shuffled)]
    assert scores[0].mean() > scores[1].mean() + 0.05


def test_rows_without_values_have_a_likelihood(model):
    """That a cell is missing is a fact about it, too."""
    empty = pa.table({f.name: pa.nulls(2, f.type) for f in TRAIN.schema})
    found = _log_likelihoods(model._fitted, dataframe.read(empty), np.arange(2), 0)
    assert np.isfinite(found).all()
    assert found[0] == found[1]


def test_the_paper_s_model_has_no_likelihood():
    small = TRAIN.select(["x", "flag"])
    model = Harpoon("paper", hidden=16, max_epochs=1, random_state=0, progress=False).fit(small)
    attack = model.audit(small, HOLDOUT.select(["x", "flag"]), rows=60)["membership_likelihood"]
    assert (attack.light, attack.risk) == ("none", None)


def test_suppression_is_recommended_with_what_it_changes(audit):
    (advice,) = audit.recommendations
    assert "rare='suppress' and k=10" in advice
    assert "moves ends of the ranges of" in advice


def test_a_model_with_suppression_says_so():
    model = Harpoon(rare="suppress", k=12, **OPTIONS).fit(TRAIN)
    (advice,) = model.audit(TRAIN, HOLDOUT, rows=60).recommendations
    assert "trained with rare='suppress' and k=12" in advice


def test_the_training_rows_as_hold_out_rows_are_noticed(model):
    assert any("equal a training row" in note for note in model.audit(TRAIN, TRAIN, rows=60).notes)


def test_labels_that_the_model_does_not_know_are_attacked_without_a_warning(model):
    unseen = HOLDOUT.set_column(2, "label", pa.array(["new"] * ROWS))
    assert model.audit(TRAIN, unseen, rows=60).rows["holdout"] == 60


@pytest.mark.parametrize(
    ("train", "holdout", "error", "words"),
    [
        (TRAIN[:0], HOLDOUT, InvalidTable, "`train` must have rows"),
        (TRAIN, HOLDOUT[:0], InvalidTable, "`holdout` must have rows"),
        (
            TRAIN,
            pa.table({f.name: pa.nulls(60, f.type) for f in TRAIN.schema}),
            InvalidTable,
            "must have observed cells",
        ),
        (TRAIN, HOLDOUT.drop_columns("x"), SchemaMismatch, "'x'"),
        (TRAIN.append_column("other", pa.array([1] * ROWS)), HOLDOUT, SchemaMismatch, "'other'"),
        (TRAIN, HOLDOUT.set_column(0, "x", pa.array(["text"] * ROWS)), SchemaMismatch, "'x'"),
        (TRAIN, 3, InvalidTable, "table"),
    ],
)
def test_tables_that_do_not_fit_are_refused(model, train, holdout, error, words):
    with pytest.raises(error, match=words):
        model.audit(train, holdout)


@pytest.mark.parametrize("options", [{"rows": 0}, {"rows": 1.5}, {"k": 0}, {"random_state": -1}])
def test_invalid_arguments_are_refused(model, options):
    with pytest.raises(InvalidOption):
        model.audit(TRAIN, HOLDOUT, **options)


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFitted):
        Harpoon().audit(TRAIN, HOLDOUT)


def test_the_page_shows_every_attack(audit):
    summary = json.loads(json.dumps(summarize_audit(audit), allow_nan=False))
    page = Page(summary).html
    for attack in audit.attacks:
        assert f'id="{attack.name}"' in page
        assert attack.title in page
    assert "Privacy audit of a model" in page


def test_names_of_columns_are_escaped_on_the_page():
    name = "<script>alert(1)</script>"
    tables = [one.rename_columns([name, *one.column_names[1:]]) for one in (TRAIN, HOLDOUT)]
    model = Harpoon(**OPTIONS).fit(tables[0])
    assert name not in Page(summarize_audit(model.audit(*tables, rows=60))).html


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    model.save(folder / "model.harpoon")
    for name, table in (("train", TRAIN), ("holdout", HOLDOUT), ("empty", HOLDOUT[:0])):
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    return folder


def test_the_command_prints_text_json_and_a_page(files, audit):
    names = [files / name for name in ("model.harpoon", "train.csv", "holdout.csv")]
    shown = call("audit", *names, "--seed", 0)
    assert shown.code == 0, shown.said
    assert all(attack.title in shown.out.decode() for attack in audit.attacks)
    done = call("audit", *names, "--seed", 0, "--json", "-o", files / "audit.html")
    data = json.loads(done.out)
    assert data["attacks"] == json.loads(json.dumps(audit.to_json()))["attacks"]
    assert "Privacy audit" in (files / "audit.html").read_text(encoding="utf-8")
    assert call("audit", *names, "-o", files / "audit.html").code != 0  # the page exists


def test_the_command_refuses_an_empty_table(files):
    done = call("audit", files / "model.harpoon", files / "train.csv", files / "empty.csv")
    assert done.code == 1
    assert "must have rows" in done.said
