"""The privacy audit of a trained model: what its rows and its likelihoods reveal about the training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from harpoon import config
from harpoon._utils.rng import RandomState, Stream, generator
from harpoon._utils.validation import check_count
from harpoon.config import Config
from harpoon.data import Floats, Schema, TableCounts, count_columns, dataframe, read_columns, take
from harpoon.data.schema import check_columns
from harpoon.data.suppression import Suppression, describe_changes
from harpoon.exceptions import HarpoonWarning, InvalidOption, InvalidTable, UnknownCategoryWarning, hold_warnings
from harpoon.inference.sampling.pseudo_likelihood import pseudo_log_likelihoods
from harpoon.privacy.attacks.shadow_models import MIN_SHADOW_MODELS, ShadowTraining
from harpoon.privacy.audit import Audit, Chosen, audit_rows, choose_rows
from harpoon.privacy.differential.budget import Privacy
from harpoon.training import FittedModel, ModelFitter, SingleProcess, TrainingData
from harpoon.training.private_fit import PrivateFitter

MAX_ROWS_IF_SLOW = 200  # of a model that samples each cell in many guided steps
SYNTHETIC_FACTOR = 3  # synthetic rows for each attacked row, at most


@dataclass(frozen=True)
class TrainingOptions:
    """The options that the audited model was trained with, those of `harpoon.Harpoon`."""

    preset: str
    config: Config
    privacy: Privacy | None
    random_state: RandomState
    device: torch.device

    def by_name(self) -> dict[str, Any]:
        """Return the preset, the options that differ from it, the seed and the budget."""
        options, usual = self.config.to_json(), config.preset(self.preset).to_json()
        budget = {} if self.privacy is None else {"epsilon": self.privacy.epsilon, "delta": self.privacy.delta}
        seed = self.random_state if isinstance(self.random_state, int) else None
        changed = {name: value for name, value in options.items() if value != usual[name]}
        return {"preset": self.preset, **budget, **changed, "random_state": seed}

    @torch.inference_mode(mode=False)  # weights that are made in inference mode could never be trained
    def train(self, like: FittedModel, table: dataframe.Table, schema: Schema, seed: int) -> FittedModel:
        """Train a model for as many epochs as another one, on another table."""
        if self.privacy is not None:
            privacy = replace(self.privacy, secure=False)  # the noise of a seed has the same distribution
            return PrivateFitter(self.config, privacy, schema, seed, self.device, progress=False).fit(table)[0]
        epochs = like.history.epochs[-1].number if like.history.epochs else 1
        fixed = {"max_epochs": max(epochs, 1), "max_time": None, "patience": None, "cooldown_fraction": 0.0}
        fitter = ModelFitter(self.config.with_options(fixed), schema, seed, self.device, False, SingleProcess())  # noqa: FBT003
        return fitter.fit(TrainingData.from_table(table, schema.weights))


def audit_model(
    fitted: FittedModel,
    options: TrainingOptions,
    sample: Callable[[int], object],
    train: dataframe.Table,
    holdout: dataframe.Table,
    *,
    rows: int,
    k: int,
    seed: int,
    shadow_models: int,
) -> Audit:
    """Attack a model by its training rows and by hold-out rows.

    Args:
        fitted: The model.
        options: The options that it was trained with.
        sample: Samples so many rows of it.
        train: The table that it was trained on.
        holdout: Rows of the same source that it was not trained on.
        rows: How many rows of each table to attack, at most.
        k: Labels and extremes of fewer training rows count as rare.
        seed: Of the choice of rows and of the attacks.
        shadow_models: How many models to train for the attack with shadow models; 0: it is not run.
    """
    rows, k, shadow_models = check_count(rows, "rows"), check_count(k, "k"), _check_shadow_models(shadow_models)
    asked = {"rows": rows, "k": k, "shadow_models": shadow_models}
    for table, name in ((train, "train"), (holdout, "holdout")):
        check_columns(table.names, fitted.schema.names, weights=fitted.schema.weights)
        if not table.n_rows:
            raise InvalidTable(f"`{name}` must have rows, got none.")
        if all(table.arrow.column(column).null_count == table.n_rows for column in fitted.schema.names):
            raise InvalidTable(f"`{name}` must have observed cells, but all cells of its modelled columns are missing.")
    if not fitted.denoiser.is_conditional:
        rows = min(rows, MAX_ROWS_IF_SLOW)
    with hold_warnings(UnknownCategoryWarning):  # an unknown category is as good a cell to attack as any other
        synthetic = dataframe.read(sample(max(rows, min(train.n_rows, SYNTHETIC_FACTOR * rows))))
        chosen = choose_rows(train.n_rows, holdout.n_rows, rows, seed)
        likelihoods = _both_likelihoods(fitted, train, holdout, chosen, seed)
        shadows = None
        if shadow_models:
            shadows = _shadow_training(fitted, options, train, holdout, chosen, n_models=shadow_models, seed=seed)
        found = audit_rows(
            fitted.schema,
            train,
            holdout,
            synthetic,
            chosen=chosen,
            likelihoods=likelihoods,
            shadows=shadows,
            k=k,
            seed=seed,
        )
    return replace(found.with_options(asked), recommendations=tuple(_advice(fitted, train, k)))


def _check_shadow_models(value: int) -> int:
    number = check_count(value, "shadow_models", low=0)
    if number and number < MIN_SHADOW_MODELS:
        raise InvalidOption(
            f"shadow_models must be 0 or at least {MIN_SHADOW_MODELS}, got {value!r}: each row has to be new to one of "
            "them."
        )
    return number


def _both_likelihoods(
    fitted: FittedModel, train: dataframe.Table, holdout: dataframe.Table, chosen: Chosen, seed: int
) -> tuple[Floats, Floats] | None:
    """Return the log-likelihoods of the chosen rows of both tables; None if the model has none."""
    of_train = _log_likelihoods(fitted, train, chosen[0], seed)
    of_holdout = _log_likelihoods(fitted, holdout, chosen[1], seed)
    return None if of_train is None or of_holdout is None else (of_train, of_holdout)


def _shadow_training(
    fitted: FittedModel,
    options: TrainingOptions,
    train: dataframe.Table,
    holdout: dataframe.Table,
    chosen: Chosen,
    *,
    n_models: int,
    seed: int,
) -> ShadowTraining:
    """Return how to train shadow models on parts of both tables."""
    schema = fitted.schema if fitted.privacy is not None else _without_ranges(fitted.schema)
    columns = Schema(tuple(column for column in schema if column.kind.modelled or column.name == schema.weights))
    rows = _concat(train, holdout, columns.names)
    seeds = generator(seed, Stream.AUDIT, 3)

    def likelihoods(part: NDArray[np.int64]) -> Floats | None:
        with hold_warnings(HarpoonWarning):  # of a model that nobody uses
            shadow = options.train(fitted, rows.take(part), columns, int(seeds.integers(2**31)))
            found = _both_likelihoods(shadow, train, holdout, chosen, seed)
        return None if found is None else np.concatenate(found)

    return ShadowTraining(n_models, rows.n_rows, np.concatenate([chosen[0], train.n_rows + chosen[1]]), likelihoods)


def _without_ranges(schema: Schema) -> Schema:
    """Return the schema with what a training reads off the numbers of its own rows left open."""
    return Schema(
        tuple(
            replace(column, minimum=None, maximum=None, step=None, values=None) if column.kind.numeric else column
            for column in schema
        )
    )


def _concat(train: dataframe.Table, holdout: dataframe.Table, names: list[str]) -> dataframe.Table:
    """Return some columns of two tables, which may be of different libraries, in one table."""
    parts = [_without_dictionaries(table.arrow.select(names)) for table in (train, holdout)]
    try:
        return dataframe.read(pa.concat_tables([parts[0], parts[1].cast(parts[0].schema)]))
    except pa.ArrowException as error:
        raise InvalidTable(
            f"With shadow_models, `train` and `holdout` must have columns of the same types: {error}."
        ) from None


def _without_dictionaries(table: pa.Table) -> pa.Table:
    for index, each in enumerate(table.schema):
        if pa.types.is_dictionary(each.type):
            table = table.set_column(index, each.name, table.column(index).cast(each.type.value_type))
    return table


def _advice(fitted: FittedModel, train: dataframe.Table, k: int) -> Iterator[str]:
    """Yield what to do before the model, or rows of it, are shared."""
    if fitted.config.rare == "suppress":
        yield f"The model was trained with rare='suppress' and k={fitted.config.k}: rarer values are not in it."
        return
    with hold_warnings(UnknownCategoryWarning):
        counts = count_columns(train)
        changes = describe_changes(Suppression.fit(fitted.schema, counts, k).changes)
        exact = _rare_exact_values(fitted, counts, k)
    if not changes and not exact:
        return
    first = f"Before a model or its rows are shared, train with rare='suppress' and k={k}."
    parts = [first, *([f"That {changes}."] if changes else []), *([_describe_exact(exact, k)] if exact else [])]
    yield " ".join(parts)


def _rare_exact_values(fitted: FittedModel, counts: TableCounts, k: int) -> dict[str, int]:
    """Return how many numbers of fewer than k rows each column has that is sampled as exactly its training values."""
    found = {}
    columns = {column.name: column for column in fitted.schema.modelled}
    for codec in fitted.codec.single_columns:
        column, cells = columns.get(codec.column.name), codec.value_cells(1)
        if column is not None and cells is not None and np.array_equal(cells.low, cells.high):
            found[column.name] = int((counts[column.name].coerced(column).counts < k).sum())
    return {name: number for name, number in found.items() if number}


def _describe_exact(exact: Mapping[str, int], k: int) -> str:
    """Return a sentence about numbers that are sampled as they are.

    >>> _describe_exact({"wages": 1203}, 10)
    "It also replaces single values: now 1,203 numbers of 'wages', each of fewer than 10 rows, are sampled as they are."
    """
    first = max(exact, key=lambda name: exact[name])
    others = len(exact) - 1
    more = (
        f", and {sum(exact.values()) - exact[first]:,} of {others:,} other {'column' if others == 1 else 'columns'}"
        if others
        else ""
    )
    return (
        f"It also replaces single values: now {exact[first]:,} numbers of {first!r}{more}, each of fewer than {k} "
        "rows, are sampled as they are."
    )


def _log_likelihoods(fitted: FittedModel, table: dataframe.Table, index: NDArray[np.int64], seed: int) -> Floats | None:
    """Return the log-likelihood of some rows of a table, (n,); None if the network has none."""
    rows = take(read_columns(table, fitted.schema), index)
    return pseudo_log_likelihoods(fitted.denoiser, fitted.codec, rows, seed)
