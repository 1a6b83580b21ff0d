"""Every method without an environment on a small table."""

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Schema, metrics
from harpoon.exceptions import InfeasibleCondition, InvalidOption
from harpoon.metrics import masks
from harpoon_bench.baselines import METHODS, CannotImpute, CannotSample, make_method, method_class, presets
from harpoon_bench.baselines.base import Method
from harpoon_bench.baselines.presets import or_penalty
from harpoon_bench.datasets import hide_cells
from harpoon_bench.experiments import as_continuous, check_imputed

SMALL = {
    "anchored": {"hidden": 16, "max_epochs": 10},
    "guided": {"hidden": 16, "max_epochs": 3},
    "rejection": {"hidden": 16, "max_epochs": 3},
    "paper": {"hidden": 16, "max_epochs": 3, "diffusion_steps": 5, "sampling_steps": 5},
}
NAMES = ("anchored", "guided", "rejection", "paper", "mean", "iterative", "knn", "real")


def make_table(rows, seed):
    """Return related numbers, and categories that are numbers, strings and booleans."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    frame = pd.DataFrame({"x": x, "twice": 2 * x + 0.1 * rng.normal(size=rows), "count": rng.integers(0, 5, rows)})
    frame["code"] = np.where(x > 0.3, 3, 7)
    frame["word"] = np.where(frame["count"] > 2, "many", "few")
    frame["sign"] = x > 0
    return frame


@pytest.fixture(scope="module")
def data():
    train, test = make_table(300, 0), make_table(80, 1)
    schema = Schema.infer(train, kinds={"code": "category", "word": "category", "sign": "category"})
    mask = masks.sample_mask("MCAR", test, 0.3, seed=0)
    return train, test, schema, mask


@pytest.fixture(scope="module")
def fitted(data):
    """Train each method on its first use."""
    train, _, schema, _ = data
    methods = {}

    def get(name):
        if name not in methods:
            methods[name] = make_method(name, **SMALL.get(name, {})).fit(train, schema)
        return methods[name]

    return get


@pytest.mark.parametrize("name", [name for name in NAMES if name != "real"])
def test_impute_fills_missing_cells_only(fitted, data, name):
    _, test, schema, mask = data
    incomplete = hide_cells(test, mask).set_axis(range(7, 87))
    before = incomplete.copy()
    imputed = fitted(name).impute(incomplete)
    pd.testing.assert_frame_equal(incomplete, before)
    check_imputed(incomplete, imputed)
    for column in schema.modelled:
        if column.kind.discrete:
            assert set(imputed[column.name]) <= set(column.categories)


@pytest.mark.parametrize("name", ["iterative", "knn"])
def test_sklearn_imputers_beat_the_mean(fitted, data, name):
    train, test, schema, mask = data
    incomplete, continuous = hide_cells(test, mask), as_continuous(schema)
    scores = {
        one: (
            metrics.standardised_mse(continuous, test, fitted(one).impute(incomplete), mask, train),
            metrics.accuracy(continuous, test, fitted(one).impute(incomplete), mask),
        )
        for one in (name, "mean")
    }
    assert scores[name][0] < 0.8 * scores["mean"][0]
    assert scores[name][1] > scores["mean"][1]


def test_iterative_runs_several_rounds(fitted):
    assert fitted("iterative").imputer.n_iter_ > 1


def test_knn_equals_a_search_by_hand(fitted, data):
    train, test, _, _ = data
    incomplete = test.head(1).copy()
    incomplete["twice"] = np.nan
    codec = fitted("knn").codec
    observed = np.delete(codec.encode(train), 1, axis=1)
    distances = np.linalg.norm(observed - np.delete(codec.encode(incomplete), 1, axis=1), axis=1)
    expected = train["twice"].iloc[np.argsort(distances)[:5]].mean()
    assert fitted("knn").impute(incomplete)["twice"].iloc[0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["anchored", "guided", "rejection", "real"])
def test_samples_satisfy_the_condition(fitted, name):
    rows = fitted(name).sample(30, "word = 'many' and count >= 3")
    assert len(rows) == 30
    assert (rows["word"] == "many").all()
    assert (rows["count"] >= 3).all()


def test_samples_are_complete_if_training_cells_are_missing(data):
    train, _, schema, _ = data
    incomplete = train.assign(x=train["x"].where(np.arange(len(train)) % 3 > 0))
    method = make_method("anchored", **SMALL["anchored"]).fit(incomplete, schema)
    assert method.model.codec_.nullable == {"x"}
    assert method.sample(50).notna().all(axis=None)


def test_methods_use_their_strategy(fitted):
    for name, strategy in (("guided", "guidance"), ("rejection", "rejection"), ("paper", "paper")):
        fitted(name).sample(20, "x > 0")
        assert fitted(name).facts()["sampling_info"]["strategy"] == strategy


def test_paper_preset_has_the_options_of_the_ablations(data):
    train, _, schema, _ = data
    variants = {
        "reconstruction_loss": "mse+ce",
        "guidance_schedule": "linear",
        "encoding": "integer",
        "scaling": "quantile",
    }
    chosen = make_method("paper", **SMALL["paper"], **variants).fit(train, schema)
    assert (chosen.model.config_.encoding, chosen.model.config_.scaling) == ("integer", "quantile")
    expected = {"reconstruction_loss": "mse+ce", "guidance_schedule": "linear", "sampling_steps": 5}
    assert chosen.call_options() == expected
    with pytest.raises(InvalidOption, match="Did you mean 'hidden'"):
        make_method("paper", hiden=16)


def test_an_or_may_pull_rows_to_the_categories_of_their_test_rows(data, monkeypatch):
    train, test, schema, _ = data
    options = {**SMALL["paper"], "or_target": "test_rows", "sampling_batch_size": 64}  # two batches, one of them padded
    chosen, where = make_method("paper", **options).fit(train, schema), "x >= 1 or word = 'many'"
    seen = []

    def record(sampler, predicate, targets):
        penalty = or_penalty(sampler, predicate, targets)
        seen.append((penalty, targets, sampler.codec))
        return penalty

    monkeypatch.setattr(presets, "or_penalty", record)
    rows = chosen.sample_like(test, where)
    assert len(rows) == len(test)
    assert [len(targets) for _, targets, _ in seen] == [64, 16]
    penalty, _, codec = seen[1]
    words = test["word"].iloc[64:].to_numpy()
    place = next(part for part in codec.slices if part.name == "word")
    categories = next(column for column in schema if column.name == "word").categories
    one_hot = np.array([[word == category for category in categories] for word in words], dtype=float)
    x = torch.randn(64, codec.width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    distance = np.abs(x[:, place.start : place.stop].numpy() - np.tile(one_hot, (4, 1))).sum(axis=1)
    bound = (1 - train["x"].mean()) / train["x"].std(ddof=0)
    at = next(part.start for part in codec.slices if part.name == "x")
    expected = np.maximum(bound - x[:, at].numpy(), 0) ** 2 * distance
    assert np.allclose(penalty(x).numpy(), expected, rtol=1e-5)
    asked = make_method("paper", **SMALL["paper"])
    asked.model = chosen.model
    assert not asked.sample_like(test, where).equals(rows)
    assert asked.sample_like(test, "x >= 1").equals(chosen.sample_like(test, "x >= 1"))
    with pytest.raises(InvalidOption, match="or_target"):
        make_method("paper", or_target="own")


@pytest.mark.filterwarnings("ignore::harpoon.ShortTrainingWarning")
def test_budget_ends_the_training(data):
    train, _, schema, _ = data
    chosen = make_method("anchored", budget=0.2, hidden=16).fit(train, schema)
    assert chosen.facts()["stopped_by"] == "time"


def test_real_rows_are_training_rows(fitted, data):
    train, _, _, _ = data
    rows = fitted("real").sample(len(train))
    pd.testing.assert_frame_equal(rows.sort_values("x", ignore_index=True), train.sort_values("x", ignore_index=True))
    assert len(fitted("real").sample(1000)) == 1000
    with pytest.raises(InfeasibleCondition, match="No training row"):
        fitted("real").sample(5, "x > 100")
    with pytest.raises(CannotImpute, match="cannot impute"):
        fitted("real").impute(train)


def test_sample_of_an_imputer_is_an_error(fitted):
    with pytest.raises(CannotSample, match="cannot sample 5 rows with x > 0"):
        fitted("knn").sample(5, "x > 0")


@pytest.mark.parametrize("name", NAMES)
def test_method_classes_have_their_name(name):
    cls = method_class(name)
    assert issubclass(cls, Method)
    assert cls.name == name
    assert cls.shares_training_with is None or cls.shares_training_with in METHODS


def test_unknown_name_is_an_error():
    with pytest.raises(InvalidOption, match="Did you mean 'anchored'"):
        make_method("anchord")


def test_published_settings_are_those_of_the_papers_code():
    gain, remasker = make_method("gain_published"), make_method("remasker_published")
    names = ("iterations", "batch_size", "alpha", "hint_rate")
    assert [gain.options[name] for name in names] == [100, 128, 10.0, 0.8]
    assert [remasker.options[name] for name in ("epochs", "depth", "encoding")] == [50, 6, "integer"]
    for name in ("hyperimpute", "miracle"):
        method = make_method(f"{name}_published")
        assert (method.plugin, method.uses_training_rows) == (name, False)
        assert make_method(name).uses_training_rows
        assert method.options == make_method(name).options
    titles = [method_class(name).title for name in METHODS]
    assert len(set(titles)) == len(titles)
