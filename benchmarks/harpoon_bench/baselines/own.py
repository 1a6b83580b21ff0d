"""Harpoon itself: the default preset, the paper's preset with all its variants, and plain ways to meet a condition."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from harpoon import Expectation, Harpoon
from harpoon.config import PRESETS, SamplingOptions
from harpoon.data.schema import Schema
from harpoon_bench.baselines.base import Method, completed


class Own(Method):
    """A preset. Every setting of the preset is an option, and so is the strategy that meets conditions."""

    preset: ClassVar[str]
    draws = True
    later = (*SamplingOptions.__annotations__, "strategy")
    model: Harpoon

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train within the budget, or as long as the preset says."""
        changed = {
            name: value
            for name, value in self.options.items()
            if name not in self.later and value != self.defaults[name]
        }
        limit: dict[str, Any] = {} if self.budget is None else {"max_time": self.budget}
        self.schema = schema
        self.model = Harpoon(
            self.preset, schema=schema, random_state=self.seed, progress=False, **{**changed, **limit}
        ).fit(train, checkpoint=self.checkpoint)
        return self

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Rows of the model, by the strategy of the options."""
        rows: pd.DataFrame = self.model.sample(
            n, where=where, strategy=str(self.options["strategy"]), random_state=self.seed, **self.asked(drawing=True)
        )
        return rows

    def asked(self, *, drawing: bool = False) -> dict[str, Any]:
        """The options of one call that differ from the preset's."""
        names = [name for name in self.later if name != "strategy" and not (drawing and name == "loss")]
        return {name: self.options[name] for name in names if self.options[name] != self.defaults[name]}

    def facts(self) -> dict[str, object]:
        """How long it was trained, how large it is, and what the last condition took."""
        report = getattr(self.model, "report_", None)
        return {
            "epochs": self.model.history_.epochs[-1].number,
            "train_seconds": round(self.model.history_.seconds, 1),
            "stopped_by": self.model.history_.stopped_by,
            "weights": sum(p.numel() for p in self.model.denoiser_.parameters()),
            **({} if report is None else {"report": asdict(report)}),
        }


class Anchored(Own):
    """The default preset: holes are filled with what it expects, from one evaluation."""

    name, title, preset = "anchored", "Harpoon (anchored)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**PRESETS["anchored"].to_json(), "strategy": "auto"}

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """Expected numbers, off their grid, and the most probable labels."""
        expected: Expectation = self.model.expect(holes)
        labels = {
            name: pd.Series(np.array(expected.categories[name], dtype=object)[found.argmax(axis=1)])
            for name, found in expected.probabilities.items()
        }
        return completed(holes, pd.DataFrame({**expected.numbers, **labels}), self.schema)


class Guided(Anchored):
    """The default preset, conditions by guidance alone."""

    name, title, trained_as = "guided", "Harpoon (anchored, guided)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "guided"}


class Rejection(Anchored):
    """The default preset, conditions by drawing rows until enough meet them."""

    name, title, trained_as = "rejection", "rejection sampling", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "kept"}


class Paper(Own):
    """The paper's preset: its loss, schedule, encoding and scaling are options, as in its ablations."""

    name, title, preset = "paper", "Harpoon (paper preset)", "paper"
    defaults: ClassVar[dict[str, object]] = {**PRESETS["paper"].to_json(), "strategy": "paper"}

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """One guided draw."""
        answers: pd.DataFrame = self.model.impute(holes, random_state=self.seed, **self.asked())
        return completed(holes, answers, self.schema)
