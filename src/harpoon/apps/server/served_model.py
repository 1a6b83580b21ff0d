"""A model that is served: what it is asked by many at once, and what everybody wants to know of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from harpoon._version import __version__
from harpoon.apps.server.columns import described
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.workers import JobControl
from harpoon.data import dataframe
from harpoon.data.dataframe import Table
from harpoon.estimator import Harpoon

PLAIN, PLAIN_IF_SLOW = 5000, 500
SEED = 0


@dataclass(frozen=True)
class ServedModel:
    """A model, its name, what may be asked of it, and rows that it drew without a condition."""

    model: Harpoon
    name: str
    limits: Limits
    plain: Table

    @classmethod
    def of(cls, model: Harpoon, name: str, limits: Limits) -> ServedModel:
        """Draw the plain rows once, for all who will compare with them."""
        model = copy.copy(model)
        model._check_fitted()
        # Rows leave as Arrow, CSV or JSON: whatever library the table was trained in need not be here.
        model.template_, model.progress = replace(model.template_, library="pyarrow", range_index=()), False
        rows = PLAIN if model.denoiser_.is_conditional else PLAIN_IF_SLOW
        return cls(model, name, limits, dataframe.read(model.sample(rows, random_state=SEED)))

    def watched(self, watch: JobControl) -> Harpoon:
        """The model for one question: it reports on its own drawing only, and ends when nobody waits for it."""
        model = copy.copy(self.model)
        model.progress = watch.step
        return model

    def described(self) -> dict[str, Any]:
        """The answer to GET /schema."""
        return {
            "name": self.name,
            "preset": self.model.preset,
            "version": __version__,
            "rows": self.plain.n_rows,
            "columns": [described(column, self.plain) for column in self.model.schema_],
            "limits": self.limits.to_json(),
        }
