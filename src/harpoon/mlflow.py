"""Harpoon as a flavour of MLflow: `save_model`, `log_model` and `load_model`, and models as `pyfunc`.

The artifact holds a model file, which is checked when it is read and runs nothing. `mlflow.pyfunc.load_model` gives a
model whose `predict` imputes a table, or samples rows:

    loaded = mlflow.pyfunc.load_model(uri)
    filled = loaded.predict(table)
    rows = loaded.predict(None, params={"task": "sample", "n": 1000, "where": "age > 50", "seed": 1})

MLflow itself imports the module that a pyfunc model names, so load only artifacts that you trust with
`mlflow.pyfunc.load_model`; `harpoon.mlflow.load_model` reads the model file alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harpoon._formatting import format_list, shorten
from harpoon._version import __version__
from harpoon.data import dataframe
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, MissingExtra, ModelFileError

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature
    from mlflow.models.model import ModelInfo

__all__ = ["load_model", "log_model", "save_model"]

FLAVOR_NAME = "harpoon"
MODEL_FILE = "model.harpoon"
DESCRIPTION = "MLmodel"  # what MLflow calls the file that describes a model
TASKS = ("impute", "sample")
NO_SEED = -1  # a parameter of MLflow must have a value
PARAMS = {  # of `predict`: the type and the default of each
    "task": ("string", "impute"),
    "n": ("long", 100),
    "where": ("string", ""),
    "point": ("string", ""),
    "seed": ("long", NO_SEED),
}


def save_model(
    model: Harpoon,
    path: str,
    *,
    mlflow_model: Model | None = None,
    pip_requirements: Sequence[str] | None = None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Write a model as a folder of MLflow.

    Args:
        model: A fitted model.
        path: The folder, which must not exist or be empty.
        mlflow_model: The description to add to; MLflow gives it.
        pip_requirements: What the model needs; by default this version of Harpoon. While there is no release, MLflow
            cannot install that: name the path of a wheel instead.
        **options: Others of `mlflow.pyfunc.save_model`, such as `signature` or `metadata`.
    """
    if not isinstance(model, Harpoon):
        raise InvalidOption(f"model must be a fitted Harpoon, got {type(model).__name__}.")
    model._check_fitted()
    mlflow = _mlflow()
    description = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if description.signature is None and options.get("signature") is None:
        description.signature = _signature()  # as an option, MLflow would ask for an example of the input beside it
    description.add_flavor(FLAVOR_NAME, model_file=f"data/{MODEL_FILE}", harpoon_version=__version__)
    with TemporaryDirectory(prefix="harpoon-") as folder:
        model.save(Path(folder, MODEL_FILE))
        mlflow.pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(Path(folder, MODEL_FILE)),
            mlflow_model=description,
            pip_requirements=list(pip_requirements or [f"tabharpoon=={__version__}"]),
            **options,
        )


def log_model(model: Harpoon, name: str, *, registered_model_name: str | None = None, **options: Any) -> ModelInfo:  # noqa: ANN401
    """Log a model to the active run of MLflow, or a new one.

    Args:
        model: A fitted model.
        name: Its name in the run.
        registered_model_name: The name in the registry of models, if it is to be registered.
        **options: Those of `save_model`.
    """
    info: ModelInfo = _mlflow().models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        registered_model_name=registered_model_name,
        model=model,
        **options,
    )
    return info


def load_model(model_uri: str, *, dst_path: str | None = None, **options: Any) -> Harpoon:  # noqa: ANN401
    """Read a model that `save_model` or `log_model` wrote; nothing in the artifact is executed.

    Args:
        model_uri: A URI of MLflow, such as `runs:/<run>/model`, `models:/penguins/3`, or a folder.
        dst_path: A folder to download to.
        **options: Those of `Harpoon.load`, such as `library="polars"`.
    """
    mlflow = _mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path))
    file = (folder / _model_file(folder, model_uri)).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ModelFileError(f"The model file of {model_uri!r} is outside its folder. Save the model again.")
    return Harpoon.load(file, **options)


def _model_file(folder: Path, model_uri: str) -> str:
    """Return the path of the model file in an artifact, as its description says; the description is plain data."""
    import yaml  # MLflow needs it

    damaged = f"The description {DESCRIPTION!r} of {model_uri!r}"
    remedy = "Save the model again with harpoon.mlflow.save_model."
    try:
        description = yaml.safe_load((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"{damaged} cannot be read: {error.strerror}. Give the URI of a saved model.") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ModelFileError(f"{damaged} is no YAML ({shorten(' '.join(str(error).split()))}). {remedy}") from None
    flavors = description.get("flavors") if isinstance(description, dict) else None
    if not isinstance(flavors, dict):
        raise ModelFileError(f"{damaged} has no flavours. {remedy}")
    if FLAVOR_NAME not in flavors:
        raise ModelFileError(f"{model_uri!r} is not a model of Harpoon; it has the flavours {format_list(flavors)}.")
    flavor = flavors[FLAVOR_NAME]
    file = flavor.get("model_file") if isinstance(flavor, dict) else None
    if not isinstance(file, str) or not file or "\0" in file:
        raise ModelFileError(f"{damaged} names no model file: `flavors.{FLAVOR_NAME}.model_file` is required. {remedy}")
    return file


class PyFuncModel:
    """What MLflow calls: `predict` imputes a table or samples rows, as its parameters say."""

    def __init__(self, model: Harpoon) -> None:
        self.model = model

    def predict(self, data: object, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Impute a table, or sample rows.

        Args:
            data: The table to impute, of any library of dataframes; None to sample.
            params: `task` ("impute" or "sample"), `seed`, and `where`, a condition that every row satisfies; `n`, the
                number of rows to sample; `point` ("mean", "median" or "mode"), what is filled in for a number.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        if unknown := sorted(set(given) - set(PARAMS)):
            raise InvalidOption.one_of("A parameter", unknown[0], list(PARAMS))
        values: dict[str, Any] = {name: default for name, (_, default) in PARAMS.items()} | given
        if values["task"] not in TASKS:
            raise InvalidOption.one_of("task", values["task"], list(TASKS))
        options: dict[str, Any] = {"where": values["where"] or None}
        if int(values["seed"]) != NO_SEED:
            options["random_state"] = int(values["seed"])
        if values["task"] == "sample":
            if data is not None and dataframe.read(data).n_rows:
                raise InvalidOption("task='sample' takes no rows. Pass None, or an empty table.")
            return self.model.sample(int(values["n"]), **options)
        if data is None:
            raise InvalidOption("task='impute' needs a table to impute, got None.")
        if values["point"]:
            options["point"] = values["point"]
        return self.model.impute(data, **options)


def _load_pyfunc(path: str) -> PyFuncModel:
    """Return the model in a file; MLflow calls it by this name."""
    library = "pandas" if find_spec("pandas") else None  # what the scoring server of MLflow can write
    return PyFuncModel(Harpoon.load(path, library=library, progress=False))


def _signature() -> ModelSignature:
    """Return a signature with the parameters of `predict`. The model itself checks its tables, with better messages."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import ParamSchema, ParamSpec

    return ModelSignature(params=ParamSchema([ParamSpec(name, *declared) for name, declared in PARAMS.items()]))


def _mlflow() -> Any:  # noqa: ANN401
    try:
        import mlflow
        import mlflow.models
        import mlflow.pyfunc
    except ImportError:
        raise MissingExtra.for_package("mlflow", "mlflow", "The flavour of MLflow") from None
    return mlflow
