"""Harpoon(privacy=...): only the two mechanisms of the budget read the rows, and what cannot be private is refused."""

import base64
import json
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom

import harpoon
from harpoon import Column, Harpoon, InvalidOption, Kind, Privacy, PrivacyWarning, Schema
from harpoon._utils import model_file
from harpoon.data import dataframe
from harpoon.privacy.differential import histograms
from harpoon.privacy.differential.noise_sources import SecureNoise
from harpoon.training import private_fit, private_trainer

SCHEMA = Schema(
    (
        Column("x", Kind.NUMBER, minimum=-5.0, maximum=5.0),
        Column("y", Kind.NUMBER, minimum=-5.0, maximum=5.0, step=0.01),
        Column("kind", Kind.CATEGORY, categories=("high", "low", "never")),
        Column("age", Kind.INTEGER, minimum=0, maximum=120),
        Column("stars", Kind.INTEGER, values=(1, 2, 3)),
        Column("member", Kind.BOOLEAN),
        Column("day", Kind.DATE, minimum=18_000, maximum=20_000),
        Column("name", Kind.SKIPPED),
    )
)
BUDGET = Privacy(epsilon=8.0, delta=1e-5, steps=12, sample_rate=0.1)
OPTIONS = {"hidden": 16, "rank_bins": 8, "progress": False, "schema": SCHEMA}
pytestmark = pytest.mark.filterwarnings("ignore:About .* rows are too few to learn")
SEEDED = pytest.mark.filterwarnings("ignore:For tests only")


def table(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).clip(-5, 5)
    age = rng.integers(0, 121, rows)
    return pa.table(
        {
            "x": x,
            "y": (x + rng.normal(size=rows)).clip(-5, 5).round(2),
            "kind": np.where(x > 0, "high", "low"),
            "age": pa.array(np.where(rng.random(rows) < 0.3, None, age), pa.int64()),
            "member": pa.array(np.where(rng.random(rows) < 0.3, None, x > 1), pa.bool_()),
            "stars": rng.integers(1, 4, rows),
            "day": pa.array(rng.integers(18_000, 20_001, rows).astype(np.int32)).cast(pa.date32()),
            "name": [f"person {i} of {seed}" for i in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def model():
    return Harpoon(privacy=BUDGET, **OPTIONS).fit(table())


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("private") / "model.harpoon"
    model.save(path)
    return path


def test_a_private_model_samples_and_imputes(model):
    rows = model.sample(200, random_state=0)
    assert set(rows.column_names) == set(SCHEMA.names) - {"name"}
    assert set(rows["kind"].to_pylist()) <= {"high", "low", "never"}
    assert set(rows["stars"].to_pylist()) <= {1, 2, 3}
    assert set(rows["member"].to_pylist()) == {None, True, False}
    assert rows["age"].null_count > 0  # the fraction of missing cells is one of the noisy counts
    given = model.sample(5, given={"kind": "high"}, where="x > 0", random_state=0)
    assert given["kind"].to_pylist() == ["high"] * 5
    assert min(given["x"].to_pylist()) > 0
    assert model.impute(table(20, seed=1))["age"].null_count == 0
    assert model.support("kind = 'low'").estimate == pytest.approx(200, abs=80)
    assert not model.relations()
    assert not model.rules()


def test_the_budget_is_in_the_file_and_shown(model, saved):
    loaded = harpoon.load(saved, progress=False)
    record = loaded.privacy_
    assert record == model.privacy_
    assert loaded.privacy == BUDGET
    assert record.is_guaranteed
    assert 0.97 * 8 < record.epsilon_spent <= 8
    assert [each.name for each in record.mechanisms] == ["counts", "gradients"]
    assert "differential privacy: epsilon" in repr(loaded)
    stored = model_file.read_tensors(saved)[1]["privacy"]
    assert (stored["unit"], stored["neighbours"]) == ("row", "add or remove one row")
    assert Harpoon(max_epochs=1, **OPTIONS).privacy is None


def test_the_file_has_no_statistic_beside_the_mechanisms(saved):
    tensors, content = model_file.read_tensors(saved)
    assert content["history"]["epochs"] == []
    assert content["history"]["calibration"]["cells"] == 0
    assert content["contingency"]["pairs"] == []
    assert content["discovered_rules"] == []
    assert "contingency.pair_counts" not in tensors
    assert b"pandas" not in json.dumps(content).encode()
    assert content["random_state"] is None


@SEEDED
@pytest.mark.filterwarnings("ignore:About .* are no value of the schema")
def test_nothing_but_the_mechanisms_reads_the_rows(monkeypatch, tmp_path):
    """With the same counts and the same gradients, two tables without a common row give the same file, byte by byte."""
    exact = histograms.count_exactly
    monkeypatch.setattr(histograms, "count_exactly", lambda rows, bins: np.full_like(exact(rows, bins), 40))
    monkeypatch.setattr(private_trainer._PrivateTraining, "_sum_gradients", lambda *_: {})
    paths = []
    for rows, seed in ((300, 1), (500, 2)):
        paths.append(tmp_path / f"{rows}.harpoon")
        data = table(rows, seed)
        if seed == 2:  # other cells are missing, too
            data = data.set_column(0, "x", pa.nulls(rows, pa.float64()))
            for name, dtype in {"age": pa.float64(), "stars": pa.int8(), "day": pa.date64()}.items():  # as types do
                data = data.set_column(data.column_names.index(name), name, data[name].cast(dtype))
            data = data.set_column(2, "kind", data["kind"].dictionary_encode())
            data = data.set_column(7, "name", pa.array(range(rows)))
        Harpoon(privacy=BUDGET, random_state=0, **OPTIONS).fit(data).save(paths[-1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("where", ["RowCodec", "build_denoiser", "ContingencyTables"])
def test_what_fails_for_any_counts_fails_before_the_budget_is_spent(monkeypatch, where):
    def fail(*_arguments, **_options):
        raise RuntimeError("it cannot be built")

    def release(*_arguments):
        raise AssertionError("the budget was spent")

    failing = type("Failing", (), {"fit": fail}) if where == "RowCodec" else fail
    monkeypatch.setattr(private_fit, where, failing)
    monkeypatch.setattr(private_fit, "release", release)
    with pytest.raises(RuntimeError, match="it cannot be built"):
        Harpoon(privacy=BUDGET, **OPTIONS).fit(table())


def test_a_contradictory_rule_and_the_warning_of_a_seed_come_before_the_counts(monkeypatch):
    monkeypatch.setattr(private_fit, "release", lambda *_: pytest.fail("the budget was spent"))
    with pytest.raises(harpoon.BrokenRuleWarning, match="age > 500"):  # warnings are errors here
        Harpoon(privacy=BUDGET, rules=["age > 500"], **OPTIONS).fit(table())
    with pytest.raises(PrivacyWarning, match="For tests only"):
        Harpoon(privacy=BUDGET, random_state=0, **OPTIONS).fit(table())


def test_support_is_not_invented_from_noise():
    rng = np.random.default_rng(0)
    wages = rng.gamma(4, 5, size=7210).clip(0, 49.92).round(2)
    budget = Privacy(2.0, 1e-6, steps=1)
    schema = Schema((Column("wages", Kind.NUMBER, minimum=0, maximum=100, step=0.01),))
    fitted = Harpoon(privacy=budget, **OPTIONS | {"schema": schema}).fit(pa.table({"wages": wages}))
    none = fitted.support("wages > 60")
    assert none.is_extrapolation
    assert none.estimate == none.counted == 0
    assert 0 < none.upper_bound < 1000
    assert "fewer than the noise of differential privacy shows" in str(none)
    assert str(none.upper_bound) in str(none).replace(",", "")
    for low in (0, 10, 20, 30):
        found, truth = fitted.support(f"wages > {low}"), int((wages > low).sum())
        assert found.upper_bound >= truth
        assert found.estimate == pytest.approx(truth, abs=500) or (not found.estimate and truth < 700)
    with pytest.warns(harpoon.ExtrapolationWarning, match="differential privacy"):
        fitted.sample(2, where="wages > 60", random_state=0)


def test_the_budget_is_on_the_card_and_in_the_report(model):
    card = model._repr_html_()
    assert "epsilon" in card
    assert "1e-05" in card
    assert "12 steps" in card
    assert "no evaluation" not in card
    report = model.report(rows=50, random_state=0)
    assert report.summary["training"]["steps"] == 12
    page = report.html
    assert "Differential privacy: epsilon" in page
    assert "0 epochs" not in page


def test_rows_can_be_counted_once_and_not_be_read_after_they_were_encoded(model):
    rows = private_fit.GuardedRows(dataframe.read(table()), model.schema_)
    split, noise = BUDGET.split(7), SecureNoise()
    rows.histograms(split, noise)
    with pytest.raises(RuntimeError, match="the budget of the counts is spent"):
        rows.histograms(split, noise)
    rows.encode(model.codec_)
    for read in (lambda: rows.types, lambda: rows.encode(model.codec_)):
        with pytest.raises(RuntimeError, match="cannot be read again"):
            read()


def test_each_step_adds_noise_to_all_weights_and_there_are_as_many_as_fixed(monkeypatch):
    steps = []
    original = private_trainer._PrivateTraining._step

    def step(training, fraction):
        original(training, fraction)
        steps.append([float(weight.grad.std()) for weight in training.denoiser.parameters() if weight.numel() > 200])

    monkeypatch.setattr(private_trainer._PrivateTraining, "_step", step)
    fitted = Harpoon(privacy=BUDGET, **OPTIONS).fit(table())
    assert len(steps) == BUDGET.steps
    assert fitted.history_.stopped_by == "steps"
    std = fitted.privacy_.mechanisms[1].noise_multiplier / (0.1 * 400)
    assert np.min(steps) > 0.7 * std


def test_the_seed_and_a_large_delta_are_warned_of():
    with pytest.warns(PrivacyWarning, match="For tests only, no guarantee"):
        seeded = Harpoon(privacy=BUDGET, random_state=0, **OPTIONS).fit(table())
    assert not seeded.privacy_.is_guaranteed
    assert "for tests only, no guarantee" in repr(seeded)
    assert "for tests only, no guarantee" in seeded._repr_html_()
    with pytest.warns(PrivacyWarning, match=r"delta=0\.01 allows to reveal a row of a table with about"):
        Harpoon(privacy=Privacy(8.0, 0.01, steps=1), **OPTIONS).fit(table())


def test_the_warned_number_of_rows_is_enough():
    """A table with as many rows as the warning names has none; the noise is that of the default options."""
    split, n_weights = Privacy(2.0, 1e-6).split(5), 21_600
    with pytest.warns(PrivacyWarning, match="too few to learn") as caught:
        private_fit.warn_of_noise(split, 2000, n_weights)
    enough = int(re.search(r"about ([\d,]+) rows, or", str(caught[0].message))[1].replace(",", ""))
    assert 10_000 < enough < 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private_fit.warn_of_noise(split, enough, n_weights)


def test_values_that_the_schema_misses_are_warned_of_by_the_noisy_counts():
    schema = SCHEMA.replace("kind", categories=["low", "never"])
    with pytest.warns(PrivacyWarning, match="of the cells of column 'kind' are no value of the schema"):
        Harpoon(privacy=BUDGET, **OPTIONS | {"schema": schema}).fit(table())


def test_secure_noise_comes_from_the_operating_system(monkeypatch):
    used = []
    monkeypatch.setattr(private_fit, "SeededNoise", lambda _seed: used.append("seeded"))
    budget = Privacy(8.0, 1e-5, steps=2, secure=True)
    assert Harpoon(privacy=budget, **OPTIONS).fit(table()).privacy_.privacy.secure
    assert not used
    with pytest.raises(InvalidOption, match="random_state must be None"):
        Harpoon(privacy=budget, random_state=1, **OPTIONS).fit(table())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_time": 60}, r"max_time must not be given, got 60\. .*Set Privacy\(steps"),
        ({"max_epochs": 5}, r"max_epochs must not be given, got 5\. .*Privacy\(steps"),
        ({"batch_size": 64}, r"batch_size must not be given, got 64\. .*Privacy\(sample_rate"),
        ({"max_grad_norm": 1.0}, r"Privacy\(clipping_norm"),
        ({"patience": 3}, "patience"),
        ({"validation_fraction": 0.1}, "No row is held out"),
        ({"restore_best": True}, "restore_best"),
        ({"calendar_parts": True}, "calendar"),
        ({"gaussian_baseline": True}, "covariance"),
        ({"rare": "suppress"}, "counts rows without noise"),
        ({"incomplete_rows": "drop"}, "incomplete_rows"),
        ({"learning_rate_schedule": "plateau"}, "reads the loss"),
        ({"preset": "paper"}, "network must be 'anchored', got 'paper'"),
        ({"privacy": 2.0}, r"privacy must be a budget such as Privacy\(epsilon"),
    ],
)
def test_what_cannot_be_private_is_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        Harpoon(**{"privacy": BUDGET, **OPTIONS} | options)


def test_training_without_a_schema_or_with_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(InvalidOption, match="privacy needs a schema"):
        Harpoon(privacy=BUDGET, hidden=16, progress=False).fit(table())
    with pytest.raises(InvalidOption, match="spends its budget twice"):
        Harpoon(privacy=BUDGET, **OPTIONS).fit(table(), checkpoint=tmp_path / "state")


def test_no_other_entry_trains_without_noise():
    private = Harpoon(privacy=BUDGET, **OPTIONS)
    assert private._fit_table(dataframe.read(table()), None).privacy_ is not None
    with pytest.raises(InvalidOption, match="takes no part in a training without noise"):
        private._fitter()
    with pytest.raises(InvalidOption, match="Weights of rows"):
        private._fit_table(dataframe.read(table()), np.ones(400))


def frame_of(data, schema, path):
    model = Harpoon(privacy=BUDGET, **OPTIONS | {"schema": schema}).fit(data)
    model.save(path)
    return model_file.read_tensors(path)[1]["frame"], model


@pytest.mark.parametrize("library", ["csv", "pandas"])
def test_one_row_decides_no_type(library, tmp_path):
    """One more row makes texts of the names of a text file, and floats of the ages in pandas."""
    schema = Schema((SCHEMA["age"], Column("name", Kind.SKIPPED), Column("site", Kind.CONSTANT, ("A",))))
    rows = [{"age": i % 90, "name": i, "site": "A"} for i in range(80)]
    tables = []
    for extra in ([], [{"age": None, "name": "12a", "site": "A"}]):
        if library == "pandas":
            tables.append(pd.DataFrame(rows + extra))
            continue
        path = tmp_path / "table.csv"
        cells = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows + extra]
        path.write_text("\n".join(["age,name,site", *cells]))
        tables.append(harpoon.io.read_table(path))
    assert dataframe.read(tables[0]).template.schema != dataframe.read(tables[1]).template.schema
    (one, model), (other, _) = (frame_of(data, schema, tmp_path / f"{len(data)}.harpoon") for data in tables)
    assert one == other
    types = {f.name: f.type for f in model.template_.schema}
    assert types == {"age": pa.int64(), "name": pa.null(), "site": pa.string()}
    assert dataframe.read(model.sample(9, random_state=0)).names == ["age", "site"]
    filled = dataframe.read(model.impute(tables[1])).arrow
    assert (filled["age"].type, filled["age"].null_count) == (pa.int64(), 0)


def test_sampled_rows_have_the_types_of_the_schema(tmp_path):
    schema = Schema(
        (
            Column("time", Kind.DATETIME, minimum=0, maximum=10**9, unit="ms", zone="Europe/Berlin"),
            Column("wait", Kind.DURATION, minimum=0, maximum=100, unit="s"),
            Column("code", Kind.CATEGORY, categories=(1, 2)),
            *(SCHEMA[name] for name in ("x", "member", "day", "kind")),
        )
    )
    cells = {
        "time": pa.array(range(60), pa.timestamp("us", "UTC")),
        "wait": pa.array(range(60), pa.duration("ms")),
        "code": pa.array([1, 2] * 30, pa.int16()),
        "x": pa.array(range(60), pa.int32()),
        "member": pa.array([True, None] * 30),
        "day": pa.array([18_500] * 60, pa.date32()),
        "kind": pa.array(["low"] * 60).dictionary_encode(),
    }
    _, model = frame_of(pa.table(cells), schema, tmp_path / "m.harpoon")
    loaded = harpoon.load(tmp_path / "m.harpoon", progress=False)
    assert loaded.sample(20, random_state=0).schema.types == [
        pa.timestamp("ms", "Europe/Berlin"),
        pa.duration("s"),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.string(),
    ]
    assert model.template_ == loaded.template_


def test_labels_inside_of_nested_columns_are_not_kept(tmp_path):
    nested = pl.DataFrame(
        {
            "x": np.linspace(-1, 1, 60),
            "record": pl.Series([{"who": "ann"}] * 60, dtype=pl.Struct({"who": pl.Enum(["ann", "zq-label"])})),
            "list": pl.Series([["ann"]] * 60, dtype=pl.List(pl.Enum(["ann", "zq-label"]))),
        }
    )
    schema = Schema((SCHEMA["x"], Column("record", Kind.SKIPPED), Column("list", Kind.SKIPPED)))
    model = Harpoon(privacy=BUDGET, **OPTIONS | {"schema": schema}).fit(nested)
    model.save(tmp_path / "m.harpoon")
    assert b"zq-label" not in base64.b64decode(model_file.read_tensors(tmp_path / "m.harpoon")[1]["frame"]["schema"])


N_CANARIES, CANARY_STEPS = 20, 12
STEP, RELEASE = private_trainer._PrivateTraining._step, histograms.release
CANARIES = tuple(f"canary {i}" for i in range(N_CANARIES))
CANARY_SCHEMA = Schema(
    (
        Column("label", Kind.CATEGORY, categories=(*CANARIES, "other")),
        Column("x", Kind.NUMBER, minimum=-5.0, maximum=5.0),
    )
)


def attack(monkeypatch, epsilon, seed):
    """Plant rows with unique labels by fair coins, and return how many of the coins each attack guesses.

    The attacker sees what the guarantee is about: the noisy counts and all noisy gradients. Of these, the count of the
    label of a canary and the gradient of the bias of its logit know most of it.
    """
    rng = np.random.default_rng(seed)
    planted = rng.random(N_CANARIES) < 0.5
    labels = ["other"] * 60 + [name for name, there in zip(CANARIES, planted, strict=True) if there]
    rows = pa.table({"label": labels, "x": rng.normal(size=len(labels))})
    seen = {"gradients": np.zeros(N_CANARIES)}

    def release(*arguments):
        seen["counts"] = RELEASE(*arguments)
        return seen["counts"]

    def spy(training, fraction):
        STEP(training, fraction)
        bias = training.denoiser.backbone.out.bias.grad
        seen["gradients"] -= bias[:N_CANARIES].numpy()

    monkeypatch.setattr(private_fit, "release", release)
    monkeypatch.setattr(private_trainer._PrivateTraining, "_step", spy)
    budget = Privacy(epsilon, 1e-5, steps=CANARY_STEPS, sample_rate=0.5, counts_share=0.7)
    model = Harpoon(privacy=budget, hidden=8, depth=1, progress=False, schema=CANARY_SCHEMA).fit(rows)
    assert model.codec_.slices[0].name == "label"
    scores = {"counts": seen["counts"].counts["label"][:N_CANARIES].astype(float), "gradients": seen["gradients"]}
    scores["both"] = sum((score - score.mean()) / score.std() for score in scores.values())
    guesses = {name: score > np.median(score) for name, score in scores.items()} | {"exact": scores["counts"] >= 1}
    return np.array([int((guess == planted).sum()) for guess in guesses.values()])


def test_planted_rows_are_found_no_more_often_than_epsilon_allows(monkeypatch):
    """Guesses of independent coins are dominated by a binomial variable (Steinke, Nasr and Jagielski, 2023)."""
    epsilon, tables = 0.5, 2
    found = sum(attack(monkeypatch, epsilon, seed) for seed in range(tables))
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert len(found) * binom.sf(found.max() - 1, tables * N_CANARIES, p) > 1e-4  # the best of all attacks is taken


def test_the_same_attack_finds_them_without_noise(monkeypatch):
    assert attack(monkeypatch, 1000.0, seed=0).max() >= N_CANARIES - 1
