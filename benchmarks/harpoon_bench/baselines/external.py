"""Methods whose packages need an environment of their own: HyperImpute, MIRACLE, miceforest and GReaT."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import ClassVar, Self

import pandas as pd

from harpoon._text import format_list
from harpoon.data.schema import Schema
from harpoon.exceptions import NotFitted
from harpoon_bench import jobs
from harpoon_bench.baselines.base import CannotDraw, Method, completed
from harpoon_bench.environments import Environment

STARTING = 120.0  # seconds in which a worker imports its packages, and reads and writes its tables
SAME = 1e-6  # of a deviation
FEWEST_HOLES = 2  # one hole says nothing about a column


class Isolated(Method):
    """A method that runs in an environment of its own.

    Attributes:
        environment: The name of the environment.
        worker: The file that does the work there.
        learns_while_filling: Whether the budget of training is spent by `impute`.
    """

    environment: ClassVar[str]
    worker: ClassVar[str]
    keeps: ClassVar[bool] = False  # what it has learnt is in files that go away with it
    learns_while_filling: ClassVar[bool] = False
    job: Path | None = None

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Put the training rows where the worker finds them."""
        self.schema, self.job = schema, Path(tempfile.mkdtemp(prefix=f"harpoon-{self.name}-"))
        weakref.finalize(self, shutil.rmtree, self.job, ignore_errors=True)
        Schema(tuple(schema.modelled)).save(self.job / "schema.json")
        jobs.write_table(jobs.encoded(train, schema), self.job / "train.csv")
        return self

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """What the worker makes of the holes; what is known stays as it is."""
        job = self.fitted()
        jobs.write_table(jobs.encoded(holes, self.schema), job / "holes.csv")
        self.ask("impute", limited=self.learns_while_filling)
        numbers = self.answer().set_axis(holes.index)
        if empty := int(numbers.isna().sum().sum()):
            raise jobs.WorkerFailed(f"{self.title} left {empty} cells empty.")
        return completed(holes, jobs.decoded(numbers, self.schema), self.schema)

    def fitted(self) -> Path:
        """The folder of the job."""
        if self.job is None:
            raise NotFitted(f"{self.title} has not been trained; call fit first.")
        return self.job

    def ask(self, task: str, *, limited: bool = True, **more: object) -> None:
        """Let the worker do a task, within the budget where it learns."""
        asked = {"method": self.name, "task": task, "options": self.options, **more}
        settings = {**asked, "seed": self.seed, "seconds": self.budget}
        seconds = None if self.budget is None or not limited else self.budget + STARTING
        where, worker = Environment.named(self.environment), jobs.WORKERS / self.worker
        jobs.run(where, worker, self.fitted(), settings, title=self.title, seconds=seconds)

    def answer(self) -> pd.DataFrame:
        """The table that the worker left."""
        return jobs.read_table(self.fitted() / "result.csv")

    def remark(self) -> str:
        """What the worker wants known."""
        return (self.fitted() / "note.txt").read_text(encoding="utf-8")


class Stacked(Isolated):
    """A method that learns from the very table it fills: the training rows stand above the rows with holes."""

    learns_while_filling = True

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """Fill them, and make sure that they were not simply filled with means."""
        filled = super().impute(holes)
        train, known = (jobs.read_table(self.fitted() / f"{name}.csv") for name in ("train", "holes"))
        fallen = mean_columns(self.answer(), known, [train, pd.concat([train, known])])
        if fallen:
            raise jobs.WorkerFailed(
                f"{self.title} filled every hole of {format_list(fallen)} with the mean, which it does silently when it "
                f"cannot work with the packages it finds; remake the environment {self.environment!r}."
            )
        rows = "the training rows and the known cells of the rows to fill"
        self.note = "; ".join(filter(None, [f"learns from {rows}, together", self.remark()]))
        return filled


class HyperImpute(Stacked):
    """Iterative imputation that chooses a learner for every column."""

    name, title = "hyperimpute", "HyperImpute"
    environment, worker = "hyperimpute", "imputers.py"
    defaults: ClassVar[dict[str, object]] = {
        "imputation_order": 2,
        "baseline_imputer": 0,
        "optimizer": "simple",
        "class_threshold": 5,
        "optimize_thresh": 5000,
        "n_inner_iter": 40,
        "select_patience": 5,
        "select_lazy": True,
    }


class Miracle(Stacked):
    """Imputation refined by a causal graph that is learnt along the way.

    The package shuffles the rows of a batch but not the mask that goes with them; its numbers are published so.
    """

    name, title = "miracle", "MIRACLE"
    environment, worker = "hyperimpute", "imputers.py"
    defaults: ClassVar[dict[str, object]] = {
        "lr": 0.001,
        "batch_size": 1024,
        "n_hidden": 32,
        "reg_lambda": 1,
        "reg_beta": 1,
        "reg_m": 1.0,
        "window": 10,
        "max_steps": 400,
        "seed_imputation": "mean",
    }


class MiceForest(Stacked):
    """Chained random forests, with values borrowed from rows of similar predictions."""

    name, title = "miceforest", "miceforest"
    environment, worker = "miceforest", "forest.py"
    defaults: ClassVar[dict[str, object]] = {"rounds": 5, "datasets": 1, "candidates": 5}


class Great(Isolated):
    """Rows as sentences, learnt and written by a language model.

    It may write any number; with the option `within` one outside of what the training rows show is tried again.
    """

    name, title, draws = "great", "GReaT", True
    environment, worker = "great", "language.py"
    defaults: ClassVar[dict[str, object]] = {
        "llm": "distilgpt2",
        "epochs": 100,
        "batch_size": 8,
        "float_precision": None,
        "temperature": 0.7,
        "k": 100,
        "within": False,
    }

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the language model on the training rows."""
        super().fit(train, schema).ask("fit")
        self.model = self.remark()
        return self

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """Rows are begun with what is known, and written to the end."""
        filled = super().impute(holes)
        self.note = f"{self.model}; {self.remark()}"
        return filled

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """New rows; conditions are more than a language model can be held to."""
        if where is not None:
            raise CannotDraw(f"{self.title} writes rows as they come; it cannot draw {n} rows with {where}.")
        self.ask("sample", limited=False, rows=n)
        self.note = self.model
        return jobs.decoded(self.answer(), self.schema)


def mean_columns(filled: pd.DataFrame, known: pd.DataFrame, sources: list[pd.DataFrame]) -> list[str]:
    """The columns whose holes all hold one value, which is the mean of one of the sources.

    >>> known = pd.DataFrame({"x": [1.0, None, None], "y": [5.0, None, None]})
    >>> filled = pd.DataFrame({"x": [1.0, 2.5, 2.5], "y": [5.0, 5.5, 6.0]})
    >>> mean_columns(filled, known, [pd.DataFrame({"x": [2.0, 3.0], "y": [5.0, 6.0]})])
    ['x']
    """

    def all_means(name: str) -> bool:
        values = filled[name][known[name].isna()]
        if len(values) < FEWEST_HOLES:
            return False
        return any((values - source[name].mean()).abs().max() <= SAME * source[name].std() for source in sources)

    return [str(name) for name in filled if all_means(str(name))]
