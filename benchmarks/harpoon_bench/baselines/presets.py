"""Harpoon: the default preset with several strategies, and the paper's preset with all its variants."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from harpoon import Harpoon, Schema
from harpoon.config import PRESETS, call_options
from harpoon_bench.baselines.base import Method, fill_missing


class HarpoonMethod(Method):
    """A preset of Harpoon. Its options are those of the preset and the strategy of conditional sampling."""

    preset: ClassVar[str]
    can_sample = True
    sampling_options = (*call_options(), "strategy")
    model: Harpoon

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train within the budget, or with the limits of the preset."""
        changed = {
            name: value
            for name, value in self.options.items()
            if name not in self.sampling_options and value != self.defaults[name]
        }
        limit: dict[str, Any] = {} if self.budget is None else {"max_time": self.budget}
        self.schema = schema
        self.model = Harpoon(
            self.preset, schema=schema, random_state=self.seed, progress=False, **{**changed, **limit}
        ).fit(train, checkpoint=self.checkpoint)
        return self

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Sample with the strategy of the options."""
        strategy = str(self.options["strategy"])
        rows: pd.DataFrame = self.model.sample(
            n, where=where, strategy=strategy, random_state=self.seed, **self.call_options(sampling=True)
        )
        return rows

    def call_options(self, *, sampling: bool = False) -> dict[str, Any]:
        """Return the options of a single call that differ from the preset; sampled rows have no observed cells."""
        unused = {"strategy", "reconstruction_loss"} if sampling else {"strategy"}
        names = [name for name in self.sampling_options if name not in unused]
        return {name: self.options[name] for name in names if self.options[name] != self.defaults[name]}

    def facts(self) -> dict[str, object]:
        """Return the length of the training, the size of the network and diagnostics of the last sample."""
        info = getattr(self.model, "sampling_info_", None)
        return {
            "epochs": self.model.history_.epochs[-1].number,
            "train_seconds": round(self.model.history_.seconds, 1),
            "stopped_by": self.model.history_.stopped_by,
            "weights": sum(p.numel() for p in self.model.denoiser_.parameters()),
            **({} if info is None else {"sampling_info": asdict(info)}),
        }


class Anchored(HarpoonMethod):
    """The default preset. Cells are imputed with their expectation, by one evaluation of the network."""

    name, title, preset = "anchored", "Harpoon (anchored)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**PRESETS["anchored"].to_json(), "strategy": "auto"}

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in expected numbers and the most probable categories."""
        expectation = self.model.expect(incomplete)
        categories = {
            name: pd.Series(np.array(expectation.categories[name], dtype=object)[probabilities.argmax(axis=1)])
            for name, probabilities in expectation.probabilities.items()
        }
        return fill_missing(incomplete, pd.DataFrame({**expectation.numbers, **categories}), self.schema)


class Guided(Anchored):
    """The default preset; conditions by guidance only."""

    name, title, shares_training_with = "guided", "Harpoon (anchored, guided)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "guidance"}


class Rejection(Anchored):
    """The default preset; conditions by rejection sampling only."""

    name, title, shares_training_with = "rejection", "rejection sampling", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "rejection"}


class Paper(HarpoonMethod):
    """The paper's preset. The choices of the paper's ablations are options."""

    name, title, preset = "paper", "Harpoon (paper preset)", "paper"
    defaults: ClassVar[dict[str, object]] = {**PRESETS["paper"].to_json(), "strategy": "paper"}

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in one guided sample."""
        values: pd.DataFrame = self.model.impute(incomplete, random_state=self.seed, **self.call_options())
        return fill_missing(incomplete, values, self.schema)
