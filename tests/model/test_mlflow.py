"""Harpoon as a flavour of MLflow, with the real package and a store of files."""

import numpy as np
import pandas as pd
import pytest
import yaml

from harpoon import Harpoon, InvalidCondition, InvalidOption, ModelFileError, NotFitted
from tests.support.frames import assert_same, fit, make, mixed_columns

mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
pytestmark = [
    pytest.mark.filterwarnings("default::FutureWarning", "default::DeprecationWarning"),  # those of MLflow
    pytest.mark.filterwarnings("ignore:.*inferred as AnyType:UserWarning"),  # at the import of MLflow
]

from harpoon import mlflow as flavour  # noqa: E402


@pytest.fixture(scope="module")
def table():
    return make("pandas", mixed_columns())


@pytest.fixture(scope="module")
def model(table):
    return fit(table)


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    """A store of files, which MLflow maintains without adding to it: the skinny package has no database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        folder = tmp_path_factory.mktemp("mlflow") / "mlruns"
        mlflow.set_tracking_uri(folder.as_uri())
        mlflow.set_registry_uri(folder.as_uri())
        yield folder
        mlflow.set_tracking_uri("")
        mlflow.set_registry_uri("")


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    flavour.save_model(model, str(folder))
    return folder


def test_a_logged_model_imputes_as_before(model, table):
    with mlflow.start_run():
        info = flavour.log_model(model, "penguins", registered_model_name="penguins")
    expected = model.impute(table)
    for uri in (info.model_uri, "models:/penguins/1"):
        assert_same(flavour.load_model(uri).impute(table), expected)
        assert_same(mlflow.pyfunc.load_model(uri).predict(table), expected)


def test_parameters_choose_what_predict_does(model, table, saved):
    loaded = mlflow.pyfunc.load_model(str(saved))
    rows = loaded.predict(None, params={"task": "sample", "n": 7, "seed": 3})
    assert_same(rows, model.sample(7, random_state=3))
    assert_same(loaded.predict(pd.DataFrame(), params={"task": "sample", "n": 7, "seed": 3}), rows)
    name = next(column.name for column in model.schema_.modelled if column.kind.numeric and not column.kind.temporal)
    where = f'"{name}" is not null'
    sampled = loaded.predict(None, params={"task": "sample", "n": 5, "where": where, "seed": 1})
    assert sampled[name].notna().all()
    assert_same(loaded.predict(table, params={"point": "median"}), model.impute(table, point="median"))


def test_the_artifact_names_what_it_needs_and_holds_no_pickle(saved):
    description = yaml.safe_load((saved / "MLmodel").read_text())
    assert set(description["flavors"]) == {"harpoon", "python_function"}
    assert "tabharpoon==" in (saved / "requirements.txt").read_text()
    assert "torch" not in (saved / "requirements.txt").read_text().split()  # it comes with Harpoon, for any device
    assert {path.suffix for path in saved.rglob("*") if path.is_file()} == {"", ".txt", ".yaml", ".harpoon"}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"task": "drop"}, "task"),
        ({"task": "sample", "n": 0}, "must be"),
        ({"task": "sample", "n": -5}, "must be"),
        ({"task": "sample", "where": "nonsense ("}, "nonsense"),
        ({"task": "sample", "where": "x = 1; drop table y"}, "one condition|drop"),
        ({"point": "best"}, "point"),
    ],
)
def test_wrong_parameters_are_clear_errors(saved, table, params, words):
    loaded = mlflow.pyfunc.load_model(str(saved))
    with pytest.raises((InvalidOption, InvalidCondition), match=words):
        loaded.predict(None if params.get("task") == "sample" else table, params=params)


def test_rows_that_do_not_fit_the_task_are_errors(saved, table):
    loaded = mlflow.pyfunc.load_model(str(saved))
    with pytest.raises(InvalidOption, match="takes no rows"):
        loaded.predict(table, params={"task": "sample"})
    with pytest.raises(InvalidOption, match="needs a table"):
        loaded.predict(None)


def test_a_wheel_can_be_named_instead_of_a_release(model, tmp_path):
    wheel = tmp_path / "tabharpoon-0.2.0-py3-none-any.whl"
    wheel.touch()
    flavour.save_model(model, str(tmp_path / "saved"), pip_requirements=[str(wheel)])
    for name in ("requirements.txt", "conda.yaml"):
        text = (tmp_path / "saved" / name).read_text()
        assert str(wheel) in text
        assert "tabharpoon==" not in text


def test_only_fitted_models_of_harpoon_are_saved(tmp_path):
    with pytest.raises(NotFitted):
        flavour.save_model(Harpoon(), str(tmp_path / "a"))
    with pytest.raises(InvalidOption, match="fitted Harpoon"):
        flavour.save_model("model", str(tmp_path / "b"))
    assert not list(tmp_path.iterdir())


def test_hostile_artifacts_are_errors(saved, tmp_path, model):
    other = tmp_path / "other"
    mlflow.pyfunc.save_model(str(other), loader_module="json", pip_requirements=["numpy"])
    with pytest.raises(ModelFileError, match="not a model of Harpoon"):
        flavour.load_model(str(other))
    description = yaml.safe_load((saved / "MLmodel").read_text())
    model.save(tmp_path / "outside.harpoon")
    for target, words in (("../outside.harpoon", "outside its folder"), (None, "no model file")):
        copy = tmp_path / f"copy-{words.split()[0]}"
        copy.mkdir()
        description["flavors"]["harpoon"]["model_file"] = target
        (copy / "MLmodel").write_text(yaml.safe_dump(description))
        with pytest.raises(ModelFileError, match=words):
            flavour.load_model(str(copy))
    damaged = tmp_path / "damaged"
    flavour.save_model(model, str(damaged))
    content = bytearray((damaged / "data" / "model.harpoon").read_bytes())
    content[-5] ^= 0xFF
    (damaged / "data" / "model.harpoon").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        flavour.load_model(str(damaged))


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (b"", "has no flavours"),
        (b"- a\n- b\n", "has no flavours"),
        (b"flavors: [harpoon]\n", "has no flavours"),
        (b"{[: junk\n\t- :", "is no YAML"),
        (b"\xff\xfe\x00\x01", "is no YAML"),
        (b"[" * 2000, "is no YAML"),
        (b"!!python/object/apply:os.system ['true']", "is no YAML"),
        (b"flavors: {harpoon: model.harpoon}\n", "names no model file"),
        (b"flavors: {harpoon: {}}\n", "names no model file"),
        (b"flavors: {harpoon: null}\n", "names no model file"),
        (b"flavors: {harpoon: {model_file: [1]}}\n", "names no model file"),
        (b'flavors: {harpoon: {model_file: "a\\0b"}}\n', "names no model file"),
        (b"flavors: {1: {}}\n", "not a model of Harpoon"),
        (None, "cannot be read"),
    ],
)
def test_damaged_descriptions_are_errors(tmp_path, description, words):
    if description is not None:
        (tmp_path / "MLmodel").write_bytes(description)
    with pytest.raises(ModelFileError, match=words) as error:
        flavour.load_model(str(tmp_path))
    assert len(str(error.value)) < 400 + len(str(tmp_path))


def test_numbers_of_numpy_are_imputed(tmp_path):
    """A model of an array's columns takes what the scoring server of MLflow sends: a dataframe."""
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    numbers.iloc[::4, 0] = np.nan
    folder = tmp_path / "numbers"
    flavour.save_model(fit(numbers), str(folder))
    assert mlflow.pyfunc.load_model(str(folder)).predict(numbers)["a"].notna().all()
