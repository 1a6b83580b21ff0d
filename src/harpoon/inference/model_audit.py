"""The privacy audit of a trained model: what its rows and its likelihoods reveal about the training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.validation import check_count
from harpoon.data import Floats, count_columns, dataframe, read_columns, take
from harpoon.data.schema import check_columns
from harpoon.data.suppression import Suppression, describe_changes
from harpoon.exceptions import InvalidTable, UnknownCategoryWarning, hold_warnings
from harpoon.inference.sampling.pseudo_likelihood import pseudo_log_likelihoods
from harpoon.privacy.audit import Audit, audit_rows, choose_rows
from harpoon.training import FittedModel

MAX_ROWS_IF_SLOW = 200  # of a model that samples each cell in many guided steps
SYNTHETIC_FACTOR = 3  # synthetic rows for each attacked row, at most


def audit_model(
    fitted: FittedModel,
    sample: Callable[[int], object],
    train: dataframe.Table,
    holdout: dataframe.Table,
    *,
    rows: int,
    k: int,
    seed: int,
) -> Audit:
    """Attack a model by its training rows and by hold-out rows.

    Args:
        fitted: The model.
        sample: Samples so many rows of it.
        train: The table that it was trained on.
        holdout: Rows of the same source that it was not trained on.
        rows: How many rows of each table to attack, at most.
        k: Labels and extremes of fewer training rows count as rare.
        seed: Of the choice of rows and of the attacks.
    """
    rows, k = check_count(rows, "rows"), check_count(k, "k")
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
        of_train, of_holdout = (
            _log_likelihoods(fitted, table, index, seed) for table, index in zip((train, holdout), chosen, strict=True)
        )
    found = audit_rows(
        fitted.schema,
        train,
        holdout,
        synthetic,
        chosen=chosen,
        likelihoods=None if of_train is None or of_holdout is None else (of_train, of_holdout),
        k=k,
        seed=seed,
    )
    return replace(found, recommendations=tuple(_advice(fitted, train, k)))


def _advice(fitted: FittedModel, train: dataframe.Table, k: int) -> Iterator[str]:
    """Yield what to do before the model, or rows of it, are shared."""
    if fitted.config.rare == "suppress":
        yield f"The model was trained with rare='suppress' and k={fitted.config.k}: rarer values are not in it."
        return
    with hold_warnings(UnknownCategoryWarning):
        changes = describe_changes(Suppression.fit(fitted.schema, count_columns(train), k).changes)
    if changes:
        yield f"Before a model or its rows are shared, train with rare='suppress' and k={k}. That {changes}."


def _log_likelihoods(fitted: FittedModel, table: dataframe.Table, index: NDArray[np.int64], seed: int) -> Floats | None:
    """Return the log-likelihood of some rows of a table, (n,); None if the network has none."""
    rows = take(read_columns(table, fitted.schema), index)
    return pseudo_log_likelihoods(fitted.denoiser, fitted.codec, rows, seed)
