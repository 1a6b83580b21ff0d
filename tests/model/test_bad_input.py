"""Invalid input: an error of Harpoon that states the facts, and the model is unchanged."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import harpoon
from harpoon import Harpoon, HarpoonError, InvalidOption, InvalidTable, NotFitted, Schema, SchemaMismatch, config


def state_of(model):
    """Return all attributes but the diagnostics of the last call."""
    return {name: value for name, value in vars(model).items() if name != "_sampling_info"}


@pytest.fixture
def model(fitted, tools):
    """A fitted model that must impute after the test as before."""
    before = fitted.model.impute(fitted.table)
    state = state_of(fitted.model)
    yield fitted.model
    assert state_of(fitted.model) == state
    tools.assert_same(fitted.model.impute(fitted.table), before)


@pytest.fixture
def changed(tools, frame_of):
    """A function that returns the training table with some columns replaced; None drops one."""

    def make(**columns):
        both = {**tools.mixed_columns(), **columns}
        return frame_of({name: values for name, values in both.items() if values is not None})

    return make


def new(tools, **options):
    return Harpoon(**{**tools.small, **options})


NOT_FRAMES = [None, {"x": [1.0, 2.0]}, [[1.0], [2.0]], np.zeros((4, 2)), "table.csv", 3, pd.Series([1.0, 2.0])]


@pytest.mark.parametrize("thing", NOT_FRAMES, ids=lambda thing: type(thing).__name__)
def test_a_table_of_another_type_is_an_error_everywhere(arrow_fitted, tools, thing):
    calls = [new(tools).fit, arrow_fitted.model.impute, arrow_fitted.model.encode, Schema.infer]
    for call in calls:
        with pytest.raises(InvalidTable, match=type(thing).__name__):
            call(thing)


HINTS = {
    "a path": ("table.csv", r"harpoon\.io\.read_table\('table.csv'\)"),
    "a path object": (Path("table.csv"), r"read_table\('table.csv'\)"),
    "a series": (pd.Series([1.0, 2.0]), "to_frame"),
    "a polars series": (pl.Series([1.0, 2.0]), "to_frame"),
    "an array": (np.zeros((4, 2)), "HarpoonImputer"),
    "a dictionary": ({"x": [1.0]}, r"pandas\.DataFrame"),
    "records": ([{"x": 1.0}], r"pandas\.DataFrame"),
}


@pytest.mark.parametrize(("thing", "hint"), HINTS.values(), ids=HINTS)
def test_what_is_almost_a_table_is_an_error_with_how_to_make_one(arrow_fitted, tools, thing, hint):
    for call in (new(tools).fit, arrow_fitted.model.impute):
        with pytest.raises(InvalidTable, match=hint) as error:
            call(thing)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("given", [[1], "x", 5, np.zeros(3)], ids=repr)
def test_given_must_be_a_mapping_or_a_frame(arrow_fitted, given):
    with pytest.raises(HarpoonError, match=type(given).__name__):
        arrow_fitted.model.sample(given=given)


def test_a_lazy_frame_is_an_error_everywhere(arrow_fitted, tools):
    lazy = pl.DataFrame(tools.mixed_columns()).lazy()
    for call in (new(tools).fit, arrow_fitted.model.impute, Schema.infer):
        with pytest.raises(InvalidTable, match=r"lazy.*collect"):
            call(lazy)


def test_an_empty_table_cannot_be_trained_on(frame_of, tools):
    with pytest.raises(InvalidTable, match="at least 2 rows, got 0"):
        new(tools).fit(frame_of({"x": pa.array([], pa.float64())}))


def test_a_single_row_cannot_be_trained_on(frame_of, tools):
    with pytest.raises(InvalidTable, match="at least 2 rows, got 1"):
        new(tools).fit(frame_of({"x": [1.0]}))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(), pl.DataFrame(), pa.table({}), pd.DataFrame(index=range(5))], ids=repr
)
def test_a_table_without_columns_cannot_be_trained_on(frame, tools):
    with pytest.raises(InvalidTable, match="columns"):
        new(tools).fit(frame)


def test_two_rows_are_enough(frame_of, tools):
    frame = frame_of({"x": [0.5, 1.5], "c": ["a", "b"]})
    assert len(tools.read_back(new(tools).fit(frame).sample(3))["x"]) == 3


@pytest.mark.parametrize(
    "columns",
    [{"x": ["same"] * 30}, {"x": pa.nulls(30)}, {"x": list(range(60))}],
    ids=["constant", "empty", "identifier"],
)
def test_a_table_without_a_modelled_column_is_an_error(frame_of, tools, columns):
    with pytest.warns(harpoon.ColumnLeftOutWarning), pytest.raises(InvalidTable, match="modelled"):
        new(tools).fit(frame_of(columns))


def test_too_few_complete_rows_are_an_error_with_advice(frame_of, tools):
    frame = frame_of({"x": [0.5, None, 1.5, None], "y": [None, 2.5, None, 3.5]})
    with pytest.raises(InvalidTable, match=r"at least 2 complete rows, got 0\..*incomplete_rows='mask'"):
        new(tools, incomplete_rows="drop").fit(frame)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1.0, 2.0]] * 3, columns=["x", "x"]),
        pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, names=["x", "x"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_repeated_column_names_are_an_error(arrow_fitted, tools, frame):
    for call in (new(tools).fit, arrow_fitted.model.impute):
        with pytest.raises(InvalidTable, match="'x'"):
            call(frame)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_numbers_are_an_error_with_their_column_and_count(model, changed, tools, value):
    table = changed(height=[value, value, *[170.5] * 58])
    for call in (new(tools, incomplete_rows="mask").fit, model.impute):
        with pytest.raises(InvalidTable, match="'height' holds 2 infinite"):
            call(table)


def test_a_missing_column_is_named(model, changed):
    with pytest.raises(SchemaMismatch, match="'age'"):
        model.impute(changed(age=None))


def test_an_extra_column_is_named_and_kept(model, changed, tools):
    table = changed(colour=["red", None] * 30)
    with pytest.warns(
        harpoon.ExtraColumnWarning, match=r"not trained on the column 'colour'; it is returned unchanged\.$"
    ):
        filled = tools.read_back(model.impute(table))
    assert filled.pop("colour") == ["red", None] * 30
    assert filled == tools.read_back(model.impute(changed()))


def test_an_extra_column_is_kept_in_draws(model, changed, tools):
    with pytest.warns(harpoon.ExtraColumnWarning, match="'colour', 'shade'; they are"):
        draws = model.impute(changed(colour=["red"] * 60, shade=[1.5] * 60), draws=2, random_state=0)
    for table in (*draws, draws.mean()):
        assert tools.read_back(table)["colour"] == ["red"] * 60


def test_an_extra_column_of_partial_rows_is_an_error(model, frame_of):
    with pytest.raises(SchemaMismatch, match="'colour'"):
        model.sample(given=frame_of({"colour": ["red"]}))


def test_a_misspelt_column_is_named_with_the_one_it_may_be(model, frame_of, tools):
    columns = {{"height": "Heigth"}.get(name, name): values for name, values in tools.mixed_columns().items()}
    with pytest.raises(SchemaMismatch) as caught:
        model.impute(frame_of(columns))
    assert "'height'" in str(caught.value)
    assert "'Heigth'" in str(caught.value)
    assert "did you mean" in str(caught.value).casefold()


def test_a_misspelt_extra_column_is_named_with_the_one_it_may_be(model, changed):
    with pytest.warns(harpoon.ExtraColumnWarning, match=r"'heigth'.*Did you mean 'height' for 'heigth'"):
        model.impute(changed(heigth=[1.5] * 60))


OTHER_TYPES = {
    "text for numbers": ("height", ["tall"] * 60),
    "booleans for numbers": ("height", [True, False] * 30),
    "text for integers": ("age", ["old"] * 60),
    "numbers for categories": ("job", [1.5] * 60),
    "integers for categories": ("job", [1, 2] * 30),
    "booleans for categories": ("job", [True, False] * 30),
    "text for booleans": ("member", ["yes"] * 60),
    "dates for numbers": ("height", [dt.date(2020, 1, 1)] * 60),
    "datetimes for categories": ("job", [dt.datetime(2020, 1, 1)] * 60),
    "lists for numbers": ("height", [[1.0]] * 60),
    "numbers written as text": ("age", ["30"] * 60),
}


@pytest.mark.parametrize(("name", "values"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_a_column_of_another_type_is_an_error_with_its_name(model, changed, name, values):
    with pytest.raises(SchemaMismatch, match=f"'{name}'"):
        model.impute(changed(**{name: values}))


def test_fractions_among_integers_are_an_error_with_the_value(frame_of, tools):
    model = tools.fit(frame_of({"n": [1, 2, 3, 5] * 5, "x": [0.5, 1.5] * 10}))
    with pytest.raises(SchemaMismatch, match=r"'n'.*20\.5"):
        model.impute(frame_of({"n": [20.5, 1.0], "x": [0.5, None]}))


def test_numbers_other_than_0_and_1_are_not_booleans(model, changed, tools):
    with pytest.raises(SchemaMismatch, match=r"'member'.*0\.5"):
        model.impute(changed(member=[0.5, 7.0] * 30, height=[170.5] * 60))


def test_dates_times_and_durations_are_not_interchangeable(frame_of, tools):
    columns = {
        "date": [dt.date(2020, 1, 1), dt.date(2020, 1, 5)] * 10,
        "time": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 5)] * 10,
        "span": [dt.timedelta(1), dt.timedelta(5)] * 10,
        "x": [0.5, 1.5] * 10,
    }
    model = tools.fit(frame_of(columns))
    for name in ("date", "time", "span"):
        for other, values in columns.items():
            if other != name:
                with pytest.raises(SchemaMismatch, match=f"'{name}'"):
                    model.impute(frame_of({**columns, name: values}))


def test_an_empty_table_can_be_filled(model, frame_of, tools):
    types = {"height": pa.float64(), "price": pa.float64(), "age": pa.int64(), "job": pa.string(), "member": pa.bool_()}
    empty = frame_of({name: pa.array([], dtype) for name, dtype in types.items()})
    assert tools.read_back(model.impute(empty)) == {name: [] for name in types}


def test_a_single_row_can_be_filled(model, frame_of, tools):
    row = frame_of({name: values[20:21] for name, values in tools.mixed_columns().items()})
    assert all(len(values) == 1 and values[0] is not None for values in tools.read_back(model.impute(row)).values())


def test_a_row_of_missing_cells_can_be_filled(model, frame_of, tools):
    nothing = frame_of({name: pa.nulls(2) for name in tools.mixed_columns()})
    filled = tools.read_back(model.impute(nothing))
    assert all(None not in values and len(values) == 2 for values in filled.values())


@pytest.mark.parametrize("n", [0, -1, 1.0, 2.5, True, "3", [3], np.float64(2), float("nan")], ids=repr)
def test_n_must_be_a_positive_integer(model, n):
    with pytest.raises(InvalidOption, match="n, the number of rows"):
        model.sample(n)


@pytest.mark.parametrize("n", [1, np.int64(3), np.uint8(2)], ids=repr)
def test_n_may_be_any_integer(model, tools, n):
    assert len(tools.read_back(model.sample(n))["height"]) == int(n)


def test_n_together_with_a_given_table_is_an_error(model, frame_of):
    with pytest.raises(InvalidOption, match="n must be left out"):
        model.sample(3, given=frame_of({"job": ["chef"]}))


def test_an_unknown_preset_is_an_error_with_the_nearest():
    with pytest.raises(InvalidOption, match=r"'papr'.*'paper'"):
        Harpoon("papr")


@pytest.mark.parametrize("preset", [None, 5, ["paper"], {}], ids=repr)
def test_a_preset_must_be_a_name(preset):
    with pytest.raises(InvalidOption, match="preset"):
        Harpoon(preset)


def test_an_unknown_option_is_an_error_with_the_nearest(model, fitted):
    with pytest.raises(InvalidOption, match=r"'hiden'.*'hidden'"):
        Harpoon(hiden=16)
    for call in (lambda: model.sample(2, guidance_scael=3), lambda: model.impute(fitted.table, guidance_scael=3)):
        with pytest.raises(InvalidOption, match=r"'guidance_scael'.*'guidance_scale'"):
            call()


def test_an_unknown_option_is_an_error_with_the_home_of_the_list(model):
    with pytest.raises(InvalidOption, match=r"harpoon\.config\.Config, got 'zero'\.$"):
        Harpoon(zero=0)
    with pytest.raises(
        InvalidOption, match=r"SamplingConfig or GuidanceConfig, got 'sampling_step'\. Did you mean 'samp"
    ):
        model.sample(2, sampling_step=3)


@pytest.mark.parametrize(
    "name", ["hidden", "diffusion_steps", "encoding", "scaling", "batch_size", "max_epochs", "learning_rate"]
)
def test_an_option_of_training_is_not_an_option_of_sampling(model, fitted, name):
    value = getattr(model.config, name)
    with pytest.raises(InvalidOption, match=name):
        model.impute(fitted.table, **{name: value})


BAD_VALUES = [
    ("hidden", 0),
    ("hidden", 15),
    ("hidden", 16.0),
    ("hidden", "16"),
    ("depth", None),
    ("diffusion_steps", 0),
    ("diffusion_steps", -5),
    ("diffusion_steps", True),
    ("max_epochs", 0),
    ("max_epochs", 1.5),
    ("max_time", 0),
    ("max_time", -1),
    ("max_time", "1h"),
    ("max_time", float("nan")),
    ("learning_rate", 0),
    ("learning_rate", float("inf")),
    ("batch_size", 0),
    ("validation_fraction", 1.0),
    ("validation_fraction", -0.1),
    ("guidance_scale", -1),
    ("guidance_scale", float("nan")),
    ("patience", 0),
    ("beta_start", 0),
    ("beta_end", 1),
    ("reconstruction_loss", "mea"),
    ("reconstruction_loss", None),
    ("reconstruction_loss", ["mae"]),
    ("encoding", "one-hot"),
    ("scaling", "minmax"),
    ("incomplete_rows", "keep"),
    ("initial_noise", 5),
    ("solver", {}),
    ("guidance_schedule", ""),
    ("learning_rate_schedule", "linear"),
    ("sampling_batch_size", 0),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES, ids=str)
def test_an_invalid_value_is_an_error_with_its_name_and_value(name, value):
    with pytest.raises(InvalidOption) as caught:
        Harpoon(**{name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


def test_an_option_may_be_a_numpy_scalar(tools, arrow_fitted):
    model = new(
        tools, hidden=np.int64(16), guidance_scale=np.float64(0.1), max_epochs=np.int32(1), incomplete_rows="mask"
    )
    assert model.fit(arrow_fitted.table).sample(2).num_rows == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("reconstruction_loss", "mea"), ("guidance_scale", -1), ("sampling_batch_size", 0), ("initial_noise", "x")],
)
def test_an_invalid_option_of_a_call_is_an_error_and_not_kept(model, fitted, name, value):
    for call in (lambda **o: model.impute(fitted.table, **o), lambda **o: model.sample(2, **o)):
        with pytest.raises(InvalidOption, match=name):
            call(**{name: value})


def test_training_without_a_limit_is_an_error():
    with pytest.raises(InvalidOption, match="max_epochs"):
        config.preset("paper").with_options({"max_epochs": None})


BAD_STATES = [-1, 1.5, "0", True, [1], np.random.RandomState(0), float("nan")]


@pytest.mark.parametrize("state", BAD_STATES, ids=lambda s: f"{type(s).__name__} {s!r}"[:30])
def test_an_invalid_random_state_is_an_error(model, fitted, state):
    calls = [
        lambda: Harpoon(random_state=state),
        lambda: model.impute(fitted.table, random_state=state),
        lambda: model.sample(2, random_state=state),
    ]
    for call in calls:
        with pytest.raises(InvalidOption, match="random_state"):
            call()


@pytest.mark.parametrize(
    "state", [0, 2**70, np.int64(3), np.random.default_rng(1)], ids=lambda s: type(s).__name__ + str(s)
)
def test_any_integer_or_generator_is_a_random_state(model, state):
    assert model.sample(2, random_state=state) is not None


@pytest.mark.parametrize("device", ["gpu", "", "cuda:99", "meta", "cpu:x", None, 5], ids=repr)
def test_an_invalid_device_is_an_error(device):
    with pytest.raises(InvalidOption, match="device"):
        Harpoon(device=device)


@pytest.mark.parametrize("progress", ["no", None, 1, 0.5], ids=repr)
def test_an_invalid_progress_is_an_error(model, tmp_path, progress):
    model.save(tmp_path / "model")
    for call in (lambda: Harpoon(progress=progress), lambda: Harpoon.load(tmp_path / "model", progress=progress)):
        with pytest.raises(InvalidOption, match="progress must be True, False or a function") as caught:
            call()
        assert repr(progress) in str(caught.value)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_cpu_is_always_a_device(device):
    assert Harpoon(device=device).device.type == "cpu"


@pytest.mark.parametrize("schema", [{"x": "number"}, "x", 5, [Schema(())]], ids=repr)
def test_a_schema_must_be_a_schema(schema, arrow_fitted, tools):
    with pytest.raises(InvalidOption, match="schema"):
        new(tools, schema=schema).fit(arrow_fitted.table)


def test_a_schema_of_another_table_is_an_error(arrow_fitted, tools):
    schema = Schema.infer(pa.table({"x": [0.5, 1.5]}))
    with pytest.raises(SchemaMismatch, match="'x'"):
        new(tools, schema=schema).fit(arrow_fitted.table)


def test_an_empty_schema_is_not_inferred(arrow_fitted, tools):
    with pytest.raises(SchemaMismatch, match="'height'"):
        new(tools, schema=Schema(())).fit(arrow_fitted.table)


def test_a_model_that_is_not_fitted_is_an_error(arrow_fitted, tmp_path):
    calls = [
        lambda m: m.impute(arrow_fitted.table),
        lambda m: m.sample(2),
        lambda m: m.encode(arrow_fitted.table),
        lambda m: m.save(tmp_path / "m"),
    ]
    for call in calls:
        with pytest.raises(NotFitted, match="fit"):
            call(Harpoon())
    assert not list(tmp_path.iterdir())


def test_a_failed_fit_keeps_the_fitted_model(frame_of, tools):
    table = frame_of({"x": [0.5, 1.5] * 10, "c": ["a", "b"] * 10})
    model = new(tools).fit(table)
    before = model.sample(4)
    bad = [
        frame_of({"x": [0.5]}),
        None,
        frame_of({"x": [np.inf, 1.5]}),
    ]
    for data in bad:
        with pytest.raises(InvalidTable):
            model.fit(data)
        tools.assert_same(model.sample(4), before)


def test_an_unknown_given_column_is_named_with_the_nearest(model, frame_of):
    for given in ({"jbo": "chef"}, frame_of({"jbo": ["chef"]})):
        with pytest.raises(SchemaMismatch, match=r"'jbo'.*'job'"):
            model.sample(*([2] if isinstance(given, dict) else []), given=given)


def test_an_unknown_given_category_is_an_error_with_its_column_and_value(model):
    with pytest.raises(InvalidOption) as caught:  # and not a warning: it does not count as missing
        model.sample(2, given={"job": "astronaut"})
    assert "'job'" in str(caught.value)
    assert "'astronaut'" in str(caught.value)
    assert "'chef'" in str(caught.value)


BAD_GIVEN = [
    ("age", [30, 31]),
    ("age", {"from": 3}),
    ("age", "thirty"),
    ("age", Ellipsis),
    ("age", dt.date(2020, 1, 1)),
    ("height", "tall"),
    ("height", np.inf),
    ("job", 3),
    ("job", ["chef"]),
    ("member", "yes"),
    ("member", 7),
]


@pytest.mark.parametrize(
    ("name", "value"),
    BAD_GIVEN,
    ids=str,
)
def test_a_given_value_of_another_type_is_an_error(model, name, value):
    with pytest.raises(HarpoonError, match=f"'{name}'"):
        model.sample(2, given={name: value})


def test_a_given_value_may_be_missing(model, tools):
    for nothing in (None, float("nan")):
        assert tools.read_back(model.sample(3, given={"height": nothing}))["height"] == [None] * 3
        filled = model.sample(3, given={"height": nothing}, missing="complete")
        assert None not in tools.read_back(filled)["height"]


def test_a_column_that_is_never_missing_cannot_be_given_as_missing(tools):
    complete = tools.fit(tools.make("pyarrow", tools.mixed_columns(missing=False)))
    with pytest.raises(InvalidOption, match="never missing in the training table"):
        complete.sample(3, given={"age": None})


def test_given_values_are_kept(model, tools):
    sampled = tools.read_back(model.sample(3, given={"height": 171.25, "age": 30, "job": "nurse", "member": True}))
    assert {name: sampled[name] for name in ("height", "age", "job", "member")} == {
        "height": [171.25] * 3,
        "age": [30] * 3,
        "job": ["nurse"] * 3,
        "member": [True] * 3,
    }


@pytest.mark.parametrize("value", [np.float64(171.25), np.int64(171), np.float32(0.5), 171], ids=repr)
def test_a_given_number_may_be_a_numpy_scalar(model, tools, value):
    assert tools.read_back(model.sample(2, given={"height": value}))["height"] == [float(value)] * 2


def test_a_given_constant_must_be_that_of_the_training_table(frame_of, tools):
    model = tools.fit(frame_of({"code": ["same"] * 20, "x": [0.5, 1.5] * 10}))
    assert tools.read_back(model.sample(2, given={"code": "same"}))["code"] == ["same"] * 2
    with pytest.raises(HarpoonError, match="'code'"):
        model.sample(2, given={"code": "other"})


def test_a_given_value_for_a_column_that_is_not_sampled_is_an_error(frame_of, tools):
    notes = [f"note number {i} of many" for i in range(40)]
    model = tools.fit(frame_of({"note": notes, "x": [0.5, 1.5] * 20}))
    with pytest.raises(HarpoonError, match="'note'"):
        model.sample(2, given={"note": notes[0]})


def test_a_given_name_must_be_text(model):
    with pytest.raises(HarpoonError, match="3"):
        model.sample(2, given={3: 1.5})


def test_partial_rows_are_completed_one_by_one(model, frame_of, tools):
    rows = frame_of({"job": ["chef", None, "pilot"], "height": [170.5, 180.25, None]})
    sampled = tools.read_back(model.sample(given=rows, missing="complete"))
    assert set(sampled) == {"height", "price", "age", "job", "member"}
    assert (sampled["job"][0], sampled["job"][2], sampled["height"][:2]) == ("chef", "pilot", [170.5, 180.25])
    assert all(None not in values for values in sampled.values())


@pytest.mark.parametrize("path", ["missing/m", ".", "file/m"])
def test_an_unwritable_path_is_an_error(model, tmp_path, path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(harpoon.ModelFileError, match=tmp_path.name):
        model.save(tmp_path / path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_guidance_that_diverges_is_an_error_with_advice():
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0] * 10, "y": [4.0, 1.0, 3.0, 2.0] * 10})
    model = Harpoon("paper", hidden=8, max_epochs=1, diffusion_steps=50, random_state=0, progress=False).fit(table)
    with pytest.raises(harpoon.SamplingFailed, match="smaller guidance_scale"):
        model.sample(5, given={"x": 2.0}, reconstruction_loss="mse", guidance_scale=1e6)
    assert model.sample(5, given={"x": 2.0}).num_rows == 5
