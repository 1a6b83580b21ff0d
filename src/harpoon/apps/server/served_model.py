"""The model behind the service, its description, and the unconditional samples that conditions are compared with."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from harpoon._version import __version__
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.workers import JobControl
from harpoon.data import dataframe
from harpoon.data.column import Column, Kind, format_time
from harpoon.data.dataframe import Table
from harpoon.estimator import Harpoon
from harpoon.report.distributions import Bins, category_fractions
from harpoon.report.summary import finite_or_none

REFERENCE_ROWS, REFERENCE_ROWS_IF_SLOW = 5000, 500
REFERENCE_SEED = 0
MAX_BINS = 24


@dataclass(frozen=True)
class ServedModel:
    """A model, its name, its limits, and rows that it sampled without a condition."""

    model: Harpoon
    name: str
    limits: Limits
    reference: Table

    @classmethod
    def prepare(cls, model: Harpoon, name: str, limits: Limits) -> ServedModel:
        """Sample the unconditional rows once, for all requests."""
        model = copy.copy(model)
        model._check_fitted()
        # Rows leave as Arrow, CSV or JSON: the dataframe library of the training table need not be installed.
        model.template_, model.progress = replace(model.template_, library="pyarrow", range_index=()), False
        rows = REFERENCE_ROWS if model.denoiser_.is_conditional else REFERENCE_ROWS_IF_SLOW
        return cls(model, name, limits, dataframe.read(model.sample(rows, random_state=REFERENCE_SEED)))

    def for_job(self, control: JobControl) -> Harpoon:
        """Return the model for one job: with its own diagnostics, and ended by its control."""
        model = copy.copy(self.model)
        model.progress = control.on_step
        return model

    def describe(self) -> dict[str, Any]:
        """Return the answer to GET /schema."""
        return {
            "name": self.name,
            "preset": self.model.preset,
            "version": __version__,
            "rows": self.reference.n_rows,
            "columns": [describe_column(column, self.reference) for column in self.model.schema_],
            "limits": self.limits.to_json(),
        }


def describe_column(column: Column, reference: Table) -> dict[str, Any]:
    """Return what a form control for the column needs."""
    facts: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind.value,
        "modelled": column.kind.modelled,
        "missing_fraction": column.missing,
    }
    if column.note:
        facts["note"] = column.note
    if column.categories is not None:
        facts |= {"categories": list(column.categories), "ordered": column.ordered}
    if column.kind.numeric and column.minimum is not None and column.maximum is not None:
        ends = {"low": json_value(column, column.minimum), "high": json_value(column, column.maximum)}
        facts |= {**ends, "step": column.step or 0}
    if column.unit:
        facts |= {"unit": column.unit, "zoned": column.zoned}
    if column.kind.modelled:
        facts["before"] = ColumnDistribution.fit(column, reference).count(reference)
    return facts


class ColumnDistribution:
    """The distribution of a column over bins or categories, fixed by the unconditional samples."""

    def __init__(self, column: Column, bins: Bins | None) -> None:
        self.column, self.bins = column, bins

    @classmethod
    def fit(cls, column: Column, reference: Table) -> ColumnDistribution:
        """Choose bins for the unconditional samples."""
        if column.kind.discrete:
            return cls(column, None)
        return cls(column, Bins.fit(column, reference.column(column.name), max_bins=MAX_BINS, find_spikes=False))

    def count(self, table: Table) -> dict[str, Any]:
        """Return the fraction of the rows in each bin, with tails in the outer ones, or of each category in order."""
        cells = table.column(self.column.name)
        if self.bins is None:
            found = category_fractions(self.column, cells)
            return {"fractions": [finite_or_none(found.get(c, 0.0)) or 0.0 for c in self.column.categories or ()]}
        edges = [json_value(self.column, edge) for edge in self.bins.edges.tolist()]
        return {"edges": edges, "fractions": self.bins.count(self.column, cells).fractions.tolist()}


def json_value(column: Column, number: float) -> Any:  # noqa: ANN401
    """Return a number of a column as JSON: dates and times as text, durations in the unit of the column."""
    if column.kind.temporal and column.kind is not Kind.DURATION:
        return format_time(column, number)
    return int(number) if float(number).is_integer() else number
