"""The model behind the service, its description, and the unconditional samples that conditions are compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from harpoon._utils.progress import with_progress
from harpoon._version import __version__
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.real_table import RealTable
from harpoon.apps.server.workers import JobControl
from harpoon.conditions import BoundPredicate
from harpoon.data import Column, Kind, Table, as_category, dataframe, format_iso_time
from harpoon.estimator import Harpoon
from harpoon.report.distributions import Bins, category_fractions
from harpoon.report.rows import sample_rows, weighted_rows

REFERENCE_ROWS, REFERENCE_ROWS_IF_SLOW = 5000, 500
REFERENCE_SEED = 0
MAX_BINS = 24
MAX_REAL_ROWS_SHOWN = 20_000  # without a condition


@dataclass(frozen=True)
class ServedModel:
    """A model, its name, its limits, and rows that it sampled without a condition."""

    model: Harpoon
    name: str
    limits: Limits
    reference: Table
    data: RealTable | None = None  # rows of the user, to compare with

    @classmethod
    def prepare(cls, model: Harpoon, name: str, limits: Limits, data: object = None) -> ServedModel:
        """Sample the unconditional rows once, for all requests, and read the real rows.

        A `RealTable` is read when the service has started.
        """
        model._check_fitted()
        model = with_progress(model, progress=False)
        # Rows leave as Arrow, CSV or JSON: the dataframe library of the training table need not be installed.
        model.template_ = replace(model.template_, library="pyarrow", range_index=())
        real = data if data is None or isinstance(data, RealTable) else RealTable(model.schema_, lambda: data)
        if real is not None and real is not data:
            real.read()
        return cls(model, name, limits, _sample_reference(model, "as_trained"), real)

    @property
    def real(self) -> Table | None:
        """The real rows; None if there are none, or if they are still being read."""
        return None if self.data is None else self.data.table

    def supporting_rows(self, predicate: BoundPredicate) -> Table | None:
        """Return the real rows that satisfy a condition; None if the service has no real rows."""
        return None if self.data is None else self.data.satisfying(predicate)

    @cached_property
    def _some_real(self) -> Table | None:
        assert self.real is not None  # noqa: S101
        rng = np.random.default_rng(REFERENCE_SEED)
        return sample_rows(weighted_rows(self.real, self.model.schema_, rng), MAX_REAL_ROWS_SHOWN, rng)

    def real_rows_shown(self) -> Table | None:
        """Return the real rows to show beside unconditional ones; None if there are none, or not yet."""
        return None if self.real is None else self._some_real

    def unconditional(self, missing: str) -> Table:
        """Return the unconditional rows, with missing cells as trained or complete."""
        return self._complete if missing == "complete" and self.model.codec_.nullable else self.reference

    @cached_property
    def _complete(self) -> Table:
        return _sample_reference(self.model, "complete")

    def for_job(self, control: JobControl) -> Harpoon:
        """Return the model for one job: with its own diagnostics, and ended by its control."""
        return with_progress(self.model, progress=control.on_step)

    def describe_data(self) -> dict[str, Any]:
        """Return how many real rows there are, and whether they are still being read."""
        return {
            "real_rows": None if self.real is None else self.real.n_rows,
            "reading": self.data is not None and self.data.is_reading,
        }

    def describe(self) -> dict[str, Any]:
        """Return the answer to GET /schema."""
        return {
            "name": self.name,
            "preset": self.model.preset,
            "version": __version__,
            "rows": self.reference.n_rows,
            **self.describe_data(),
            "training_rows": self.model.contingency_.n_rows,
            "calibration": {"grade": self.model.calibration_.grade, "sentence": str(self.model.calibration_)},
            "rules": self.model.rules_.to_json(),
            "columns": [
                {**describe_column(column, self.reference), "nullable": column.name in self.model.codec_.nullable}
                for column in self.model.schema_
            ],
            "limits": asdict(self.limits),
        }


def _sample_reference(model: Harpoon, missing: str) -> Table:
    rows = REFERENCE_ROWS if model.denoiser_.is_conditional else REFERENCE_ROWS_IF_SLOW
    return dataframe.read(model.sample(rows, missing=missing, random_state=REFERENCE_SEED))


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
    shown = as_category(column)
    if shown.categories is not None:
        facts |= {"categories": list(shown.categories), "ordered": shown.ordered}
    if column.kind.numeric and column.minimum is not None and column.maximum is not None:
        ends = {"low": json_value(column, column.minimum), "high": json_value(column, column.maximum)}
        facts |= {**ends, "step": column.step or 0}
    if column.values is not None:
        facts["values"] = [json_value(column, value) for value in column.values]
    if column.unit:
        facts |= {"unit": column.unit, "zoned": column.zoned}
    if column.kind.modelled:
        (facts["before"],) = distributions(column, reference)
    return facts


def distributions(column: Column, reference: Table, *others: Table) -> list[dict[str, Any]]:
    """Return the distribution of a column in each table.

    That is the fraction of the observed cells in each bin or category, and the fraction of missing cells. The reference
    fixes the bins; the outer ones hold the tails.
    """
    tables, shown = [table.column(column.name) for table in (reference, *others)], as_category(column)
    if shown.kind.discrete:
        found = [category_fractions(shown, cells) for cells in tables]
        drawn = [{"fractions": [one.get(category, 0.0) for category in shown.categories or ()]} for one in found]
    else:
        bins = Bins.fit(column, tables[0], max_bins=MAX_BINS, find_spikes=False)
        edges = [json_value(column, edge) for edge in bins.edges.tolist()]
        drawn = [{"edges": edges, "fractions": bins.count(column, cells).fractions.tolist()} for cells in tables]
    missing = [float(cells.missing.mean()) if len(cells) else 0.0 for cells in tables]
    return [{**one, "missing": fraction} for one, fraction in zip(drawn, missing, strict=True)]


def json_value(column: Column, number: float) -> Any:  # noqa: ANN401
    """Return a number of a column as JSON: dates and times as text, durations in the unit of the column."""
    if column.kind.temporal and column.kind is not Kind.DURATION:
        return format_iso_time(column, number)  # as the clocks of its zone show it
    return int(number) if float(number).is_integer() else number
