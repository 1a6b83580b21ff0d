"""Options of a single call: those without effect are errors, the others have one."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Harpoon, InvalidOption
from harpoon._utils import progress
from harpoon.config import DEFAULT_SAMPLE_ROWS
from harpoon.inference.imputation import point_imputation

INEFFECTIVE = {
    "impute without draws": (lambda m, t: m.impute(t, sampling_steps=5), "sampling_steps"),
    "autoregressive steps without draws": (lambda m, t: m.impute(t, ar_steps=3), "ar_steps"),
    "draws of autoregressive sampling": (lambda m, t: m.impute(t, draws=2, sampling_steps=5), "sampling_steps"),
    "autoregressive sampling": (lambda m, t: m.sample(5, sampling_steps=5), "sampling_steps"),
    "a single value among draws": (lambda m, t: m.impute(t, draws=2, point="median"), "point"),
    "a single value of sampled rows": (lambda m, t: m.sample(5, point="mode"), "point"),
    "a solver": (lambda m, t: m.sample(5, solver="ddim"), "solver"),
    "guidance without a condition": (lambda m, t: m.sample(5, guidance_scale=3.0), "guidance_scale"),
    "a penalty without a condition": (lambda m, t: m.impute(t, draws=2, category_loss="l1"), "category_loss"),
    "a loss for unconditional networks": (
        lambda m, t: m.sample(5, where="x > 0", reconstruction_loss="mse"),
        "reconstruction_loss",
    ),
}


@pytest.mark.parametrize(("call", "name"), INEFFECTIVE.values(), ids=INEFFECTIVE)
def test_an_option_without_effect_is_an_error(continuous_model, call, name):
    table = continuous_model.sample(3, random_state=0).set_column(1, "y", pa.nulls(3, pa.float64()))
    with pytest.raises(InvalidOption, match=f"'{name}' has no effect on this call") as error:
        call(continuous_model, table)
    assert error.value.code == "option_without_effect"
    assert error.value.facts["options"] == [name]


def test_options_with_an_effect_are_accepted(continuous_model):
    table = continuous_model.sample(3, random_state=0).set_column(1, "y", pa.nulls(3, pa.float64()))
    assert len(continuous_model.impute(table, draws=2, ar_steps=0, sampling_steps=5)) == 2
    assert continuous_model.sample(5, ar_steps=0, sampling_steps=5, solver="ddim").num_rows == 5
    assert continuous_model.sample(5, where="x > 0", guidance_scale=0.5, sampling_steps=5).num_rows == 5
    default = continuous_model.config.sampling_steps
    assert continuous_model.impute(table, sampling_steps=default).num_rows == 3  # the value it has anyway


def test_the_batch_size_of_impute_is_honoured(continuous_model, monkeypatch):
    sizes, mean = [], point_imputation._means

    def spy(sampler, given):
        sizes.append(len(np.unique(given.x.numpy(), axis=0)))  # small batches are padded with their own rows
        return mean(sampler, given)

    monkeypatch.setattr(point_imputation, "_means", spy)
    table = continuous_model.sample(20, random_state=0).set_column(1, "y", pa.nulls(20, pa.float64()))
    whole = continuous_model.impute(table)
    assert sizes == [20]
    sizes.clear()
    parts = continuous_model.impute(table, sampling_batch_size=7)
    assert sorted(sizes, reverse=True) == [7, 7, 6]
    np.testing.assert_allclose(parts["y"], whole["y"], atol=1e-5)


REASONS = {
    "impute without draws": (
        lambda m, t: m.impute(t, solver="ddim"),
        "impute samples only if draws or where is passed",
    ),
    "autoregressive sampling": (lambda m, t: m.sample(5, solver="ddim"), "reverse diffusion needs ar_steps=0"),
    "no condition": (lambda m, t: m.sample(5, guidance_scale=3.0), "guidance needs where or loss"),
}


@pytest.mark.parametrize(("call", "reason"), REASONS.values(), ids=REASONS)
def test_an_option_without_effect_names_its_only_reason(continuous_model, call, reason):
    with pytest.raises(InvalidOption, match=reason) as error:
        call(continuous_model, continuous_model.sample(3, random_state=0))
    assert [other for _, other in REASONS.values() if other in str(error.value)] == [reason]


@pytest.mark.parametrize(("name", "value"), [("strategy", "rejection"), ("on_shortfall", "return")])
def test_arguments_of_a_condition_need_one(continuous_model, name, value):
    message = f"'{name}' has no effect on this call: it needs where or loss"
    with pytest.raises(InvalidOption, match=message) as error:
        continuous_model.sample(5, **{name: value})
    assert error.value.code == "needs_condition"
    assert continuous_model.sample(5, where="x > 0", **{name: value}).num_rows == 5


def test_a_strategy_is_not_for_a_given_table(continuous_model):
    partial_rows = continuous_model.sample(3, random_state=0).select(["y"])
    with pytest.raises(InvalidOption, match="'strategy' has no effect on this call: given rows are completed"):
        continuous_model.sample(given=partial_rows, where="x > 0", strategy="rejection")


OTHER_NAMES = {
    "sample": {
        "where": ("condition", "filter", "query"),
        "n": ("rows", "size", "count", "n_rows", "num_samples"),
        "random_state": ("seed",),
        "given": ("evidence",),
    },
    "impute": {"where": ("condition", "filter"), "draws": ("n", "m", "n_draws"), "random_state": ("seed",)},
}
PAIRS = [(call, name, meant) for call, by in OTHER_NAMES.items() for meant, names in by.items() for name in names]


@pytest.mark.parametrize(("call", "name", "meant"), PAIRS)
def test_a_name_of_other_libraries_is_an_error_with_the_name_here(continuous_model, call, name, meant):
    arguments = [] if call == "sample" else [continuous_model.sample(3, random_state=0)]
    with pytest.raises(InvalidOption, match=f"{call} has no argument '{name}'. Did you mean '{meant}'"):
        getattr(continuous_model, call)(*arguments, **{name: 3})


@pytest.mark.parametrize(
    ("name", "meant"), [("epochs", "max_epochs"), ("seed", "random_state"), ("verbose", "progress")]
)
def test_a_name_of_other_libraries_is_an_error_of_a_model_too(name, meant):
    with pytest.raises(InvalidOption, match=f"got '{name}'. Did you mean '{meant}'"):
        Harpoon(**{name: 3})


def test_a_condition_in_the_place_of_n_is_an_error_with_the_argument(continuous_model):
    with pytest.raises(InvalidOption, match="a condition is the argument where"):
        continuous_model.sample("x > 0")


def test_sample_returns_a_hundred_rows_by_default(continuous_model):
    assert continuous_model.sample(random_state=0).num_rows == DEFAULT_SAMPLE_ROWS == 100


def test_every_call_shows_at_most_one_progress_bar(continuous_model, monkeypatch, tmp_path):
    shown = []

    @contextmanager
    def show_bar(words, *_arguments, **_options):
        shown.append(words)
        yield lambda **_changes: None

    monkeypatch.setattr(progress, "show_bar", show_bar)
    continuous_model.save(tmp_path / "m")
    model = Harpoon.load(tmp_path / "m")
    table = model.sample(20, random_state=0).set_column(1, "y", pa.nulls(20, pa.float64()))
    shown.clear()
    for call in (
        lambda: model.sample(50, where="x + y > 2 and c = 'a'", random_state=0),
        lambda: model.sample(20, where="x > 1 or y > 1 or c = 'b'", random_state=0),
        lambda: model.sample(10, where="x * y > 3", strategy="guidance", random_state=0),
        lambda: model.impute(table, draws=3, random_state=0),
        lambda: model.impute(table, where="y > 0.5", draws=2, random_state=0),
        lambda: model.feasibility("x > 1 and y > 1", random_state=0),
    ):
        call()
        assert shown == ["Sampling"]
        shown.clear()
