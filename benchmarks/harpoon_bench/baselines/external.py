"""Methods whose packages need an isolated environment: imputers, and generators of rows."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import ClassVar, Self

import pandas as pd

from harpoon import NotFitted, Schema
from harpoon._formatting import format_list
from harpoon_bench.baselines.base import PUBLISHED_SETTINGS, CannotImpute, CannotSample, Method, fill_missing
from harpoon_bench.environments import (
    WORKERS_FOLDER,
    Environment,
    WorkerFailed,
    decode_table,
    encode_table,
    read_table,
    run_worker,
    write_table,
)

STARTUP_SECONDS = 120.0  # for a worker to import its packages and to read and write its tables
MEAN_TOLERANCE = 1e-6  # in standard deviations
MIN_MISSING_CELLS = 2  # one cell cannot show that a column was filled with its mean


class ExternalMethod(Method):
    """A method that runs in an isolated environment.

    Attributes:
        environment: The name of the environment.
        worker: The file of its worker.
        plugin: Its name in its package, if that is not its name here.
        trains_in_impute: Whether `impute` spends the training budget.
    """

    environment: ClassVar[str]
    worker: ClassVar[str]
    plugin: ClassVar[str | None] = None
    picklable: ClassVar[bool] = False  # its state is in temporary files
    trains_in_impute: ClassVar[bool] = False
    job: Path | None = None

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Write the training rows for the worker."""
        self.schema, self.job = schema, Path(tempfile.mkdtemp(prefix=f"harpoon-{self.name}-"))
        weakref.finalize(self, shutil.rmtree, self.job, ignore_errors=True)
        Schema(tuple(schema.modelled)).save(self.job / "schema.json")
        write_table(encode_table(train, schema), self.job / "train.csv")
        return self

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Let the worker fill the missing cells."""
        job = self.job_folder()
        write_table(encode_table(incomplete, self.schema), job / "incomplete.csv")
        self.run("impute", limited=self.trains_in_impute)
        numbers = self.result().set_axis(incomplete.index)
        if missing := int(numbers.isna().sum().sum()):
            raise WorkerFailed(f"{self.title} left {missing} cells empty.")
        return fill_missing(incomplete, decode_table(numbers, self.schema), self.schema)

    def job_folder(self) -> Path:
        """Return the folder of the job."""
        if self.job is None:
            raise NotFitted(f"{self.title} has not been trained; call fit first.")
        return self.job

    def run(self, task: str, *, limited: bool = True, **more: object) -> None:
        """Run a task of the worker; if `limited`, within the budget."""
        settings = {"method": self.plugin or self.name, "task": task, "options": self.options, **more}
        settings |= {"seed": self.seed, "seconds": self.budget}
        seconds = None if self.budget is None or not limited else self.budget + STARTUP_SECONDS
        environment, worker = Environment.named(self.environment), WORKERS_FOLDER / self.worker
        run_worker(environment, worker, self.job_folder(), settings, title=self.title, seconds=seconds)

    def result(self) -> pd.DataFrame:
        """Read the result of the worker."""
        return read_table(self.job_folder() / "result.csv")

    def worker_note(self) -> str:
        """Read the remark of the worker."""
        return (self.job_folder() / "note.txt").read_text(encoding="utf-8")


class TransductiveMethod(ExternalMethod):
    """A method that is fitted on the table that it imputes: training rows and incomplete rows together.

    Attributes:
        uses_training_rows: Whether it is fitted on the training rows, too.
    """

    trains_in_impute = True
    uses_training_rows: ClassVar[bool] = True

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Impute, and check that the result is not just the mean of each column."""
        imputed = super().impute(incomplete)
        train, encoded = (read_table(self.job_folder() / f"{name}.csv") for name in ("train", "incomplete"))
        columns = mean_imputed_columns(self.result(), encoded, [train, encoded, pd.concat([train, encoded])])
        if columns:
            raise WorkerFailed(
                f"{self.title} filled every missing cell of {format_list(columns)} with the mean. It does so silently "
                f"when it fails with the installed packages; delete the environment {self.environment!r} and try again."
            )
        training_rows = "the training rows and " if self.uses_training_rows else ""
        note = f"fitted on {training_rows}the observed cells of the incomplete rows"
        note += " together" if self.uses_training_rows else " only"
        self.note = "; ".join(filter(None, [note, self.worker_note()]))
        return imputed

    def run(self, task: str, *, limited: bool = True, **more: object) -> None:
        """Run a task of the worker, which is told whether to use the training rows."""
        super().run(task, limited=limited, uses_training_rows=self.uses_training_rows, **more)


class HyperImpute(TransductiveMethod):
    """Iterative imputation with a learner selected for each column (Jarrett et al., 2022)."""

    name, title = "hyperimpute", "HyperImpute"
    environment, worker = "hyperimpute", "hyperimpute_worker.py"
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


class HyperImputePublished(HyperImpute):
    """HyperImpute as in the paper's code, which fits it on the test rows only."""

    name, title = "hyperimpute_published", f"HyperImpute ({PUBLISHED_SETTINGS})"
    plugin, uses_training_rows = "hyperimpute", False


class Miracle(TransductiveMethod):
    """Imputation refined by a learnt causal graph (Kyono et al., 2021).

    The package shuffles the rows of a batch but not their mask; its published numbers include that.
    """

    name, title = "miracle", "MIRACLE"
    environment, worker = "hyperimpute", "hyperimpute_worker.py"
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


class MiraclePublished(Miracle):
    """MIRACLE as in the paper's code, which fits it on the test rows only."""

    name, title = "miracle_published", f"MIRACLE ({PUBLISHED_SETTINGS})"
    plugin, uses_training_rows = "miracle", False


class MiceForest(TransductiveMethod):
    """Chained random forests with predictive mean matching."""

    name, title = "miceforest", "miceforest"
    environment, worker = "miceforest", "miceforest_worker.py"
    defaults: ClassVar[dict[str, object]] = {"rounds": 5, "datasets": 1, "candidates": 5}


class ExternalGenerator(ExternalMethod):
    """A generator that learns in `fit` and samples rows without conditions."""

    can_sample = True

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train in the environment."""
        super().fit(train, schema).run("fit")
        self.training_note = self.worker_note()
        return self

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Generate n rows, without a condition."""
        if where is not None:
            raise CannotSample(f"{self.title} has no conditions; it cannot sample {n} rows with {where}.")
        self.run("sample", limited=False, rows=n)
        self.note = self.training_note
        return decode_table(self.result(), self.schema)


class Great(ExternalGenerator):
    """GReaT: rows as sentences of a language model (Borisov et al., 2023).

    It can generate any number. With `reject_out_of_range`, numbers outside the training range are generated again.
    """

    name, title = "great", "GReaT"
    environment, worker = "great", "great_worker.py"
    defaults: ClassVar[dict[str, object]] = {
        "llm": "distilgpt2",
        "epochs": 100,
        "batch_size": 8,
        "float_precision": None,
        "temperature": 0.7,
        "k": 100,
        "reject_out_of_range": False,
    }

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Generate the missing cells after a prompt of the observed ones."""
        imputed = super().impute(incomplete)
        self.note = f"{self.training_note}; {self.worker_note()}"
        return imputed


class GeneratorOnly(ExternalGenerator):
    """A generator that cannot impute."""

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Raise CannotImpute."""
        raise CannotImpute(f"{self.title} cannot impute {len(incomplete)} rows here; it only samples.")


class MostlyAi(GeneratorOnly):
    """TabularARGN of mostlyai-engine, with differential privacy if ε is given; ranges and labels are public."""

    name, title = "mostlyai", "MOSTLY AI engine"
    environment, worker = "mostlyai", "mostlyai_worker.py"
    defaults: ClassVar[dict[str, object]] = {"epsilon": None, "delta": 1e-6}


class SmartNoiseMst(GeneratorOnly):
    """MST (McKenna et al., 2021) of smartnoise-synth: noisy two-way marginals; ranges and labels are public."""

    name, title = "mst", "MST"
    environment, worker, plugin = "smartnoise", "smartnoise_worker.py", "mst"
    defaults: ClassVar[dict[str, object]] = {"epsilon": 2.0, "delta": 1e-6, "bins": 20}


class SmartNoiseAim(SmartNoiseMst):
    """AIM (McKenna et al., 2022) of smartnoise-synth: noisy marginals that are chosen one after another."""

    name, title = "aim", "AIM"
    plugin = "aim"


def mean_imputed_columns(imputed: pd.DataFrame, incomplete: pd.DataFrame, sources: list[pd.DataFrame]) -> list[str]:
    """Return the columns whose missing cells were all filled with the mean of one of the sources.

    >>> incomplete = pd.DataFrame({"x": [1.0, None, None], "y": [5.0, None, None]})
    >>> imputed = pd.DataFrame({"x": [1.0, 2.5, 2.5], "y": [5.0, 5.5, 6.0]})
    >>> mean_imputed_columns(imputed, incomplete, [pd.DataFrame({"x": [2.0, 3.0], "y": [5.0, 6.0]})])
    ['x']
    """

    def is_mean_imputed(name: str) -> bool:
        values = imputed[name][incomplete[name].isna()]
        if len(values) < MIN_MISSING_CELLS:
            return False
        return any(
            (values - source[name].mean()).abs().max() <= MEAN_TOLERANCE * source[name].std() for source in sources
        )

    return [str(name) for name in imputed if is_mean_imputed(str(name))]
