"""The audit of a fitted model, its front ends, and tables that do not fit."""

import html
import json
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from harpoon import Harpoon, InvalidOption, InvalidTable, NotFitted, SchemaMismatch
from harpoon.data import dataframe
from harpoon.inference.model_audit import TrainingOptions, _log_likelihoods
from harpoon.privacy import ATTACKS
from harpoon.privacy.attacks import singling_out
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


@pytest.fixture(scope="module", autouse=True)
def few_attempts():
    """Find fewer descriptions of several columns: 150 rows do not have all that are searched for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(singling_out, "MAX_ATTEMPTS", singling_out.N_ATTACKS)
        yield


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
    assert content(model.audit(TRAIN, HOLDOUT, random_state=0)) == content(audit)


def content(audit):
    """Return the audit without its day."""
    data = audit.to_json()
    return {**data, "subject": {**data["subject"], "date": None}}


def test_any_dataframe_library_gives_the_same_audit(model, audit):
    found = model.audit(TRAIN.to_pandas(types_mapper=pd.ArrowDtype), HOLDOUT, random_state=0)
    assert content(found) == content(audit)


def test_the_audit_leaves_the_model_as_it_is(model):
    before = model.sample(20, random_state=1)
    info = model.sampling_info_
    model.audit(TRAIN, HOLDOUT, rows=60, random_state=0)
    assert model.sampling_info_ is info
    assert model.sample(20, random_state=1).equals(before)


def coins(seed, rows):
    """Return labels without any pattern, which can only be learnt row by row."""
    rng = np.random.default_rng(seed)
    return pa.table({f"c{i}": rng.integers(0, 2, rows).astype(str) for i in range(8)})


@pytest.fixture(scope="module")
def audit_of_memory():
    """The audit of a model that knows its rows too well."""
    options = {"hidden": 64, "batch_size": 32, "max_epochs": 60, "validation_fraction": 0.0, "weight_decay": 0.0}
    model = Harpoon(**{**OPTIONS, **options}).fit(coins(0, 120))
    return model.audit(coins(0, 120), coins(1, 120), shadow_models=4, random_state=0)


def test_a_model_that_knows_its_rows_too_well_is_caught_by_likelihood(audit_of_memory):
    attack = audit_of_memory["membership_likelihood"]
    assert attack.interval[0] > 0
    assert attack.light in ("yellow", "red")


def test_shadow_models_catch_a_model_that_knows_its_rows_too_well(audit_of_memory):
    attack = audit_of_memory["membership_shadow_models"]
    assert attack.light == "red"
    assert attack.rate > audit_of_memory["membership_likelihood"].rate  # what any row of its kind has is subtracted
    assert attack.details["shadow_models"] == 4


def test_shadow_models_find_no_large_risk_in_a_short_training_on_many_rows():
    model = Harpoon(**OPTIONS).fit(coins(0, 600))
    attack = model.audit(coins(0, 600), coins(1, 600), shadow_models=2, random_state=0)["membership_shadow_models"]
    assert attack.light in ("green", "yellow")
    assert attack.interval[0] <= 0 <= attack.interval[1]


def test_shadow_models_change_no_other_attack(model, audit):
    found = model.audit(TRAIN, HOLDOUT, shadow_models=2, random_state=0)
    *others, last = found.attacks
    assert last.name == "membership_shadow_models"
    assert [one.to_json() for one in others] == [one.to_json() for one in audit.attacks]
    assert "membership_shadow_models" not in [one.name for one in audit.attacks]


def test_shadow_models_are_trained_for_as_many_epochs_on_halves_of_all_rows(model, monkeypatch):
    train, found = TrainingOptions.train, []

    def record(self, like, table, *arguments):
        found.append((table.n_rows, train(self, like, table, *arguments)))
        return found[-1][1]

    monkeypatch.setattr(TrainingOptions, "train", record)
    model.audit(TRAIN, HOLDOUT, rows=60, shadow_models=3, random_state=0)
    assert [rows for rows, _ in found] == [ROWS, ROWS, ROWS]
    assert {fitted.history.epochs[-1].number for _, fitted in found} == {OPTIONS["max_epochs"]}


def test_tables_of_different_libraries_train_shadow_models(model):
    train = TRAIN.to_pandas(types_mapper=pd.ArrowDtype)
    attack = model.audit(train, HOLDOUT, rows=60, shadow_models=2, random_state=0)["membership_shadow_models"]
    assert attack.light != "none"


def test_likelihoods_are_higher_for_rows_of_the_table_than_for_shuffled_ones(model):
    shuffled = TRAIN.set_column(0, "x", TRAIN["x"].take(np.random.default_rng(0).permutation(ROWS)))
    longer = Harpoon(**{**OPTIONS, "max_epochs": 30}).fit(TRAIN)
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
    assert f"now {ROWS} numbers of 'x'" in advice  # each of one row, and sampled as they are


def test_numbers_that_are_interpolated_are_not_called_single_values():
    """With more than 1,000 values, the model keeps quantiles, and samples lie between them."""
    table = pa.table({"x": np.random.default_rng(0).normal(size=1500), "flag": [True, False] * 750})
    model = Harpoon(**{**OPTIONS, "max_epochs": 1}).fit(table)
    (advice,) = model.audit(table, table, rows=60, random_state=0).recommendations
    assert "single values" not in advice


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


@pytest.mark.parametrize(
    "options", [{"rows": 0}, {"rows": 1.5}, {"k": 0}, {"random_state": -1}, {"shadow_models": 1}, {"shadow_models": -2}]
)
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
    assert audit.recommendations[0] in html.unescape(page)


def test_the_audit_says_what_was_audited(audit):
    subject = audit.subject
    assert subject.columns == ("x", "y", "when", "label", "flag")
    assert (subject.train_rows, subject.holdout_rows) == (ROWS, ROWS)
    assert subject.options == {"rows": 2000, "k": 10, "shadow_models": 0, "random_state": 0}
    assert subject.model_options["hidden"] == 16
    for text in (str(audit), html.unescape(Page(summarize_audit(audit)).html), audit._repr_html_()):
        assert subject.date in text
        assert f"{ROWS} rows, all attacked" in text


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
    assert [data["subject"][name] for name in ("model", "train", "holdout")] == [str(name) for name in names]
    assert "Privacy audit" in (files / "audit.html").read_text(encoding="utf-8")
    assert call("audit", *names, "-o", files / "audit.html").code != 0  # the page exists


def test_the_command_refuses_an_empty_table(files):
    done = call("audit", files / "model.harpoon", files / "train.csv", files / "empty.csv")
    assert done.code == 1
    assert "must have rows" in done.said
