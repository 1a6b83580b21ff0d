"""The estimator: fit, impute, expect, sample, feasibility, relations, save, load. Each step is a room of its own."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import torch

from harpoon import config
from harpoon._utils import cards, model_file
from harpoon._utils.progress import Progress, check_progress, with_one_bar
from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import resolve_device
from harpoon.conditions import Predicate
from harpoon.conditions.evaluation.penalty import LossFunction
from harpoon.config import Config
from harpoon.data import Floats, FrameTemplate, Schema, Table, dataframe, read_columns
from harpoon.data.contingency import ContingencyTables
from harpoon.data.survey_weights import weight_column
from harpoon.diffusion import Denoiser
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.exceptions import InvalidOption, NotFitted
from harpoon.inference.conditional.feasibility import Feasibility
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.diagnostics.support import Support
from harpoon.inference.imputation.results import Expectation
from harpoon.inference.imputation.sensitivity import Shift
from harpoon.inference.model_audit import TrainingOptions, audit_model
from harpoon.inference.model_call import ModelCall
from harpoon.inference.model_card import model_display
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.inference.sampling.trained_model import TrainedModel
from harpoon.privacy.audit import Audit
from harpoon.privacy.differential.budget import Privacy, PrivacyRecord
from harpoon.privacy.differential.private_config import (
    check_private,
    check_private_call,
    check_private_seed,
    private_config,
)
from harpoon.rules.rule_check import check_rules, warn_training_rows
from harpoon.rules.rule_set import RuleCheck, RuleSet
from harpoon.training import Checkpoint, FittedModel, History, ModelFitter, SingleProcess, TrainingData
from harpoon.training.calibration import Calibration
from harpoon.training.checkpoints import check_no_checkpoint
from harpoon.training.fitted_model import INVALID_CONTENT, from_content, to_content, to_tensors
from harpoon.training.private_fit import PrivateFitter

if TYPE_CHECKING:
    from harpoon.apps.notebook.widget import Explorer
    from harpoon.report import Page

NO_SAMPLING_INFO = (
    "sampling_info_ has the diagnostics of the last call of sample, or of impute under a condition or rules. The last "
    "call was another one, or it failed. Read sampling_info_ right after sample(...) or impute(..., where=...)."
)


class Harpoon(cards.Displayed):
    """A diffusion model of one table: imputes missing cells and samples rows under any condition.

    Args:
        preset: The options to start from. "anchored", the default, is conditioned on the observed cells and imputes
            with one evaluation of a small network; "paper" is the system of the paper.
        max_time: Most seconds of training; two minutes by default.
        max_epochs: Most passes over the table. Without max_time, training then has no time limit.
        random_state: A seed or a NumPy generator, for reproducible training. `impute` and `sample` use it too unless
            they are given their own; with an integer they then return the same each time.
        device: "cpu", "cuda", or "auto" for CUDA where it is available.
        schema: The kinds of the columns, where they should not be inferred (`Schema.infer(df, kinds=...)`).
        progress: Whether to show progress bars; or a callback, which is called with a `ProgressStep` after each step
            of sampling and may raise an error to stop it.
        rules: Conditions, as for `sample(where=...)`, that every sampled and imputed row obeys: a list, or a mapping of
            names to conditions. See `with_rules`.
        privacy: A budget of differential privacy, such as `Privacy(epsilon=2.0, delta=1e-6)`: one row of the table
            hardly changes the model. It needs a complete schema and the extra "privacy".
        **options: Any other option of `harpoon.config.Config`.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
    >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    >>> filled = model.impute(table)
    >>> filled["x"].null_count, filled["kind"].null_count
    (0, 0)
    >>> model.sample(3, given={"kind": "high"})["kind"].to_pylist()
    ['high', 'high', 'high']
    """

    template_: FrameTemplate  # the look of the training table
    _result: FittedModel | None = None
    _trained: TrainedModel  # copies share it, and with it what is computed once
    _name: str = "model"  # for people: that of the file that it was loaded from
    _sampling_info: SamplingInfo | None = None

    def __init__(
        self,
        preset: str = "anchored",
        *,
        max_time: float | None = None,
        max_epochs: int | None = None,
        random_state: RandomState = None,
        device: str = "auto",
        schema: Schema | None = None,
        progress: Progress = True,
        rules: object = (),
        privacy: Privacy | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        if max_epochs is not None:  # a number of epochs stands for the same model on any machine
            options |= {"max_epochs": max_epochs, "max_time": None}
        if max_time is not None:
            options["max_time"] = max_time
        if not isinstance(privacy, Privacy | None):
            raise InvalidOption(f"privacy must be a budget such as Privacy(epsilon=2.0, delta=1e-6), got {privacy!r}.")
        self.preset, self.privacy, base = preset, privacy, config.preset(preset)
        self.config: Config = (private_config(base) if privacy else base).with_options(options)
        if privacy is not None:
            check_private(self.config)
        self.random_state = check_random_state(random_state)
        self.device = resolve_device(device)
        if not isinstance(schema, Schema | None):
            raise InvalidOption(f"schema must be a Schema (see Schema.infer and Schema.load), got {schema!r}.")
        self.schema = schema
        self.progress = check_progress(progress)
        self.rules_ = RuleSet.of(rules)

    def fit(
        self, data: object, *, weights: str | int | None = None, checkpoint: str | os.PathLike[str] | None = None
    ) -> Self:
        """Train on a table. Ctrl-C ends the training and leaves a usable model. The model keeps no rows.

        Args:
            data: A pandas, polars or pyarrow table, with or without missing cells.
            weights: The column with the weight of each row, such as that of a survey: positive numbers, of which only
                the ratios matter. The model is then one of the population that the rows stand for. The column itself
                is not modelled; by default that of kind "weight" of the schema, if there is one. See
                `docs/survey-weights.md`.
            checkpoint: A file for the state of the training, saved about every minute and at the end. If it exists,
                training resumes from it. A training that had ended resumes only with more time or epochs. The file is
                not deleted.
        """
        return self._fit_table(dataframe.read(data), self._weight_column(weights), checkpoint)

    def _weight_column(self, weights: object) -> str | None:
        """Return the name of the column of weights: the given one, or that of the schema."""
        name = weight_column(weights)
        return name if name is not None or self.schema is None else self.schema.weights

    @torch.inference_mode(mode=False)  # weights that are made in inference mode could never be trained
    def _fit_table(
        self, table: Table, weights: str | Floats | None, checkpoint: str | os.PathLike[str] | None = None
    ) -> Self:
        """Train on a table whose rows may have weights: a column, or an array, (n,); with a budget, only privately."""
        if self.privacy is not None:
            return self._fit_privately(self.privacy, table, checkpoint, weights)
        open_checkpoint = None if checkpoint is None else partial(Checkpoint.open, checkpoint)
        self._set_fitted(self._fitter().fit(TrainingData.from_table(table, weights), open_checkpoint), table.template)
        self.history_.warn_if_short()
        warn_training_rows(self.rules_.bind(self.schema_), table)
        return self

    def _fit_privately(self, privacy: Privacy, table: Table, checkpoint: object, weights: object) -> Self:
        """Train with differential privacy. No statistic of the rows is shown, warned of or kept beside the budget."""
        check_private_call(weights=weights, checkpoint=checkpoint)
        check_private_seed(privacy, self.random_state)
        show = self.progress is True
        fitter = PrivateFitter(self.config, privacy, self.schema, self.random_state, self.device, show, self.rules_)
        self._set_fitted(*fitter.fit(table))
        return self

    @with_one_bar
    def impute(
        self,
        data: object,
        *,
        draws: int | None = None,
        where: object = None,
        shift: Shift | None = None,
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Fill the missing cells of a table; observed cells are returned unchanged.

        The default model fills in the expected number, rounded to the resolution of the column, and the most probable
        category, from one evaluation of the network. `point="median"` fills in the median of the number, and
        `point="mode"` its most probable value. The paper's model samples a value by its guided reverse process. A
        category that the model does not know is ignored as an input and kept, with a warning.

        Args:
            data: A table with the columns of the training table, in any order. All cells of a row may be missing.
                Other columns are returned unchanged, with a warning.
            draws: How many completed tables to sample instead, as a `MultipleImputation`: with intervals, and to pool
                estimates over.
            where: A condition that every completed row satisfies, as for `sample`.
            shift: How draws of missing cells differ from the model's, for sensitivity to values missing not at random:
                `{"income": 0.2}` adds 0.2 standard deviations of the observed cells of the column in this table, and
                `{"smoker": {"yes": 0.5}}` multiplies the odds of the category by exp(0.5). Needs draws.
            row_offset: The number of the first row, if the table is part of a longer one. What is sampled for a row
                depends on its number, so that the parts equal the whole.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling and guidance options for this call, such as `ar_steps=0, solver="ddim"`. Options that
                would have no effect are errors.

        Returns:
            A table of the same library, with the same dtypes, index and columns.
        """
        call = self._new_call(random_state, options)
        return call.impute(data, draws=draws, where=where, shift=shift, row_offset=row_offset)

    @with_one_bar
    def expect(self, data: object) -> Expectation:
        """Return the conditional expectation of every cell given the observed cells of its row.

        That is the unrounded mean of each numeric column, and the probability of each category of the others. It needs
        a network that is conditioned on the observed cells (preset="anchored").

        >>> import pyarrow as pa
        >>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
        >>> expectation = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table).expect(table)
        >>> expectation.numbers["x"].shape, expectation.probabilities["kind"].shape, expectation.categories["kind"]
        ((100,), (100, 2), ('high', 'low'))
        """
        self._check_fitted()
        if not self.denoiser_.is_conditional:
            raise InvalidOption(
                "expect() needs a network that is conditioned on observed cells, such as preset='anchored'."
            )
        return Expectation.compute(self._sampler(), read_columns(dataframe.read(data), self.schema_))

    @with_one_bar
    def sample(
        self,
        n: int | None = None,
        *,
        where: object = None,
        loss: LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        targets: object = None,
        given: object = None,
        strategy: str = "auto",
        on_shortfall: str = "raise",
        missing: str = "as_trained",
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Sample new rows.

        Args:
            n: How many rows; 100 by default.
            where: A condition that every row satisfies, as SQL text or an expression of `harpoon.col`; or a list of
                conditions, all of which hold.
            loss: A function of rows to one number per row, which guidance brings towards zero. `row["age"]` is a tensor
                in units of the table, `row["job"]["clerk"]` the probability of a category.
            loss_batch: The same with one number for all rows together, such as the distance of their mean to a target.
            targets: Values that the rows have together, such as `{"mean(income)": 50_000, "share(sex = 'F')": 0.5,
                "corr(age, income)": (0.3, 0.02)}`; a pair has a tolerance, which is otherwise 0.01 standard deviations.
                Rows are chosen from a larger sample; see `harpoon.inference.conditional.targets`.
            given: Cells that are decided beforehand: a mapping of columns to values that all n rows share (None: the
                cell is missing), or a table
                of partial rows, each of which is completed (its missing cells and the columns it lacks are sampled).
            strategy: How to satisfy a condition: "auto", "rejection", "conditioning", "guidance" or "paper"; see
                `harpoon.inference.conditional.strategies`.
            on_shortfall: "raise" an `InfeasibleCondition` if fewer rows than n are found, or no n rows that meet the
                targets; or "return" those that come nearest.
            missing: "as_trained": cells are missing as often as in the training table, in the same places and together
                with the same other values. "complete": the same rows, and their missing cells are then sampled, too.
            row_offset: The number of the first row, if the rows are part of a longer table. The parts then equal the
                whole. Under a condition or a loss each part is a sample of its own instead, because the rows that are
                kept depend on how many are asked for.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling and guidance options for this call, as for `impute`.

        Returns:
            A table like the training table (or of the library of `given`), without the columns that are not modelled.
            Diagnostics are in `sampling_info_` afterwards, and for pandas in `attrs["harpoon"]` of the result.
        """
        return self._new_call(random_state, options).sample(
            n,
            where=where,
            loss=loss,
            loss_batch=loss_batch,
            targets=targets,
            given=given,
            strategy=strategy,
            on_shortfall=on_shortfall,
            missing=missing,
            row_offset=row_offset,
        )

    def with_rules(self, rules: object) -> Self:
        """Return a model that shares the network and carries these rules, and no others.

        Every row that it samples obeys them, and so does every row that it imputes, as far as observed cells allow it.
        A row breaks a rule where the rule is false; a rule that a missing cell leaves unknown is not broken, as in a
        CHECK constraint of SQL.

        Args:
            rules: A condition or a list of conditions, as for `sample(where=...)`; a mapping of names to conditions;
                or a `RuleSet`, such as `model.rules().select(...)` or `harpoon.rules.read_rules(file).rules`.

        >>> import pyarrow as pa
        >>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
        >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
        >>> model = model.with_rules(["x > 0.5 implies kind = 'high'"])
        >>> model.check(model.sample(50)).ok
        True
        """
        codec = self._check_fitted()
        model = copy.copy(self)
        model._sampling_info = None
        model.rules_ = RuleSet.of(rules, self.schema_.names)
        model.rules_.bind(self.schema_).check_consistent(codec.nullable)
        return model

    def rules(self) -> RuleSet:
        """Return the rules that all training rows obey, or all but a few, each with its support and its exceptions.

        They are ranges, orders between columns, columns that determine others, implications between labels, and sums;
        `harpoon.rules.discovery` says how they are tested against chance. They are not obeyed until they are accepted:
        `model.with_rules(model.rules().select("order(start, end)"))`.
        """
        self._check_fitted()
        return self.discovered_

    def check(self, data: object) -> RuleCheck:
        """Return which rows of a table break which rule of the model; `.table` lists them, `.counts` counts them.

        Args:
            data: A table with the columns that the rules use; it may lack others, or have more.
        """
        self._check_fitted()
        return check_rules(self.rules_, self.schema_, dataframe.read(data))

    @property
    def schema_(self) -> Schema:
        """The columns of the training table, and what is known of them."""
        return self._fitted.schema

    @property
    def history_(self) -> History:
        """The epochs of the training, why it ended, and the calibration."""
        return self._fitted.history

    @property
    def codec_(self) -> RowCodec:
        """The encoding of rows."""
        return self._fitted.codec

    @property
    def denoiser_(self) -> Denoiser:
        """The network. Its weights must not change: what follows from them is computed once."""
        return self._fitted.denoiser

    @property
    def config_(self) -> Config:
        """The options with the sizes that were chosen for the table."""
        return self._fitted.config

    @property
    def contingency_(self) -> ContingencyTables:
        """How many training rows have each label, and each two labels of two columns."""
        return self._fitted.contingency

    @property
    def discovered_(self) -> RuleSet:
        """The rules that the training rows obey; `rules()` returns them."""
        return self._fitted.discovered

    @property
    def privacy_(self) -> PrivacyRecord | None:
        """What the training spent of its budget of differential privacy; None if it was not private."""
        return self._fitted.privacy

    @property
    def calibration_(self) -> Calibration:
        """How well the model predicts held-out cells, measured at the end of `fit`; also in `history_`."""
        return self.history_.calibration

    def relations(self) -> list[str]:
        """Return the relations between columns, each with the fraction of the rows in which it holds.

        They are sums and products of numbers, columns that are a calendar part or the date of a timestamp, and columns
        whose labels determine those of another column.

        >>> import numpy as np, pyarrow as pa
        >>> height, width = np.random.default_rng(0).lognormal(size=(2, 500))
        >>> rows = pa.table({"height": height, "width": width, "area": height * width})
        >>> Harpoon(max_epochs=1, random_state=0, progress=False).fit(rows).relations()[-1]
        'area = height * width (100 %)'
        """
        self._check_fitted()
        return self._trained_model.relations.describe()

    @with_one_bar
    def feasibility(
        self,
        where: object,
        *,
        data: object = None,
        given: Mapping[str, object] | None = None,
        random_state: RandomState = None,
    ) -> Feasibility:
        """Estimate the probability of a condition, and say what makes it unlikely and what to relax.

        Args:
            where: The condition.
            data: A table, such as the training table, in which to count the rows that satisfy the condition.
            given: Values that all rows have, as for `sample`.
            random_state: A seed or a NumPy generator for this call.

        Returns:
            The probability with a 95 % interval, which contains the error of the training sample, and the support. An
            `ExtrapolationWarning` says that hardly any training row supports the answer.
        """
        return self._call(random_state).feasibility(where, data=data, given=given)

    def support(
        self, where: object = None, *, data: object = None, given: Mapping[str, object] | None = None
    ) -> Support:
        """Return how many training rows satisfy a condition: an upper bound and an estimate, without sampling.

        Args:
            where: The condition.
            data: The training table, in which rows are counted exactly.
            given: Values that all rows have, as for `sample`.

        >>> import pyarrow as pa
        >>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
        >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
        >>> print(model.support("x > 0.5 and kind = 'high'"), model.support("kind = 'low' and x > 0.5"), sep="; ")
        about 20 of 100 training rows; about 0 of 100 training rows
        """
        return self._call().support(where, data=data, given=given)

    @with_one_bar
    def report(
        self,
        test: object = None,
        *,
        train: object = None,
        where: str | Predicate | None = None,
        rows: int = 5000,
        random_state: RandomState = None,
    ) -> Page:
        """Return a page about this model: how well it imputes, how real its rows look, what a condition changes.

        A notebook displays it; `report(test).save("report.html")` writes one file, and `.summary` holds the numbers.
        The extra "report" installs what the page needs.

        Args:
            test: Real rows that the model was not trained on; without them the page shows the model alone.
            train: The training table, to search it for copies; used only with `test`.
            where: A condition, as for `sample`, to show how it changes every column.
            rows: How many rows to use and to sample, at most.
            random_state: A seed or a NumPy generator for this call.
        """
        from harpoon import report

        if test is None:
            if train is not None:
                raise InvalidOption("`train` is used only with `test` rows. Pass both, or neither.")
            return report.Page(report.describe(self, where=where, rows=rows, random_state=random_state))
        return report.Page(report.evaluate(self, test, train=train, where=where, rows=rows, random_state=random_state))

    def explore(
        self, data: object = None, *, where: object = None, compare: object = None, height: int = 820
    ) -> Explorer:
        """Return a widget for notebooks that asks this model what-if questions: Studio without a server.

        Its `where` and `compare` follow what is chosen in it, such as `model.sample(where=widget.where)`. The extra
        "notebook" installs what it needs.

        Args:
            data: Real rows, a dataframe with the columns of the training table. The widget then counts those that
                satisfy a condition and shows their distributions.
            where: The first condition, as for `sample`.
            compare: The condition of a second scenario beside it.
            height: The height of the widget in pixels.
        """
        from harpoon.apps import notebook

        return notebook.explore(self, data, where=where, compare=compare, height=height)

    @with_one_bar
    def audit(
        self,
        train: object,
        holdout: object,
        *,
        rows: int = 2000,
        k: int = 10,
        shadow_models: int = 0,
        random_state: RandomState = None,
    ) -> Audit:
        """Attack this model: what do its rows, and its likelihoods, reveal about the training rows?

        Each attack is also run on hold-out rows, about which the model can reveal nothing of their own. The difference
        is the risk. See `harpoon.privacy`. An audit is no guarantee.

        Args:
            train: The table that the model was trained on.
            holdout: Rows of the same source that it was not trained on, as many as possible.
            rows: How many rows of each table to attack, at most.
            k: Labels and extremes of fewer training rows count as rare.
            shadow_models: How many models to train for one more attack, which compares the likelihood of a row with
                that under models without the row (Carlini et al., 2022). Each takes about as long as this model did.
            random_state: A seed or a NumPy generator for this call.

        >>> import numpy as np, pyarrow as pa
        >>> x, noise = np.random.default_rng(0).normal(size=(2, 400))
        >>> table = pa.table({"x": x, "y": x + noise})
        >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table[:200])
        >>> audit = model.audit(table[:200], table[200:])
        >>> audit["exact_copies"].baseline  # of the hold-out rows
        0.0
        """
        self._check_fitted()
        model = copy.copy(self)  # so that `sampling_info_` of the model itself stays
        model.progress, seed = False, self._call_seed(random_state)
        found = audit_model(
            self._fitted,
            options := TrainingOptions(self.preset, self.config, self.privacy, self.random_state, self.device),
            partial(model.sample, random_state=seed),
            dataframe.read(train),
            dataframe.read(holdout),
            rows=rows,
            k=k,
            seed=seed,
            shadow_models=shadow_models,
        )
        given = self.random_state if random_state is None else random_state
        return found.of_model(options.by_name(), seed=given if isinstance(given, int) else None)

    @property
    def sampling_info_(self) -> SamplingInfo:
        """Diagnostics of the last call, if it was `sample`, or `impute` under a condition or rules."""
        if self._sampling_info is None:
            raise AttributeError(NO_SAMPLING_INFO)
        return self._sampling_info

    def encode(self, data: object) -> EncodedRows:
        """Return a table as the network sees it: encoded rows, and which of their dimensions are observed."""
        codec = self._check_fitted()
        return codec.to_batch(read_columns(dataframe.read(data), self.schema_)).to(self.device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically. The file holds no rows of the training table."""
        self._check_fitted()
        given = self.schema_ if self.schema is not None and self.config.rare == "suppress" else self.schema
        content = {
            "preset": self.preset,
            "config": self.config.to_json(),
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
            "given_schema": None if given is None else given.to_json(),
            **to_content(self._fitted, self.template_),
            "rules": self.rules_.to_json(),
        }
        model_file.write_tensors(path, to_tensors(self._fitted), content)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        library: str | None = None,
        device: str = "auto",
        progress: Progress = True,
    ) -> Self:
        """Read a model from a file that `save` wrote. Nothing in the file is ever executed.

        Args:
            path: The file.
            library: The library of sampled tables: "pandas", "polars" or "pyarrow". By default that of the training
                table; of a model that the command line made, pandas if it is installed.
            device: As for a new model.
            progress: As for a new model.
        """
        dataframe.check_library(library)  # a wrong argument is not a damaged file
        resolve_device(device)
        check_progress(progress)
        tensors, content = model_file.read_tensors(path)
        check_no_checkpoint(content, path)
        try:
            model = cls(content["preset"], random_state=content["random_state"], device=device, progress=progress)
            model.config = Config(**content["config"])
            given = content["given_schema"]
            model.schema = None if given is None else Schema.from_json(given)
            fitted, template = from_content(model.config, content, tensors)
            model._set_fitted(fitted, template.with_library(library))
            model._name = Path(path).stem
            model.privacy = None if fitted.privacy is None else fitted.privacy.privacy
            model.rules_ = RuleSet.from_json(content.get("rules", []), fitted.schema)
        except INVALID_CONTENT as error:
            raise model_file.damaged_file(path, f"{type(error).__name__}: {error}") from None
        model.denoiser_.to(model.device).eval()
        model._trained = TrainedModel(model.denoiser_, model.codec_)  # where the network is now
        return model

    def __repr__(self) -> str:
        state = "not fitted"
        if hasattr(self, "codec_"):
            state = f"fitted on {len(self.schema_)} columns, {len(self.schema_.modelled)} of them modelled"
            state += "" if self.privacy_ is None else f"; differential privacy: {self.privacy_}"
        return f"Harpoon(preset={self.preset!r}): {state}"

    def _card(self) -> cards.Html:
        if hasattr(self, "codec_"):
            return model_display(f"Harpoon, preset {self.preset}", self._fitted, self.rules_)
        return cards.card(f"Harpoon, preset {self.preset}", cards.paragraph("Not fitted: fit(table) trains it."))

    def _check_fitted(self) -> RowCodec:
        return self.codec_

    def _new_call(self, random_state: RandomState, options: Mapping[str, Any]) -> ModelCall:
        """Return a call of `impute` or `sample`; diagnostics are those of the last one."""
        call = self._call(random_state, options)
        self._sampling_info = None
        return call

    def _call(self, random_state: RandomState = None, options: Mapping[str, Any] | None = None) -> ModelCall:
        self._check_fitted()
        rules, options = self.rules_.bind(self.schema_), options or {}

        def new_sampler() -> RowSampler:
            return self._sampler(self._call_seed(random_state), options)

        def on_info(info: SamplingInfo) -> None:
            self._sampling_info = info

        return ModelCall(self._fitted, self.config, self.template_, rules, options, new_sampler, on_info)

    def _fitter(self, processes: SingleProcess | None = None) -> ModelFitter:
        """Return what trains without noise, which a model with a budget of differential privacy must never meet."""
        if self.privacy is not None:
            raise InvalidOption(
                "A model with privacy takes no part in a training without noise. Train it with model.fit(table), or "
                "leave privacy out."
            )
        show = self.progress is True
        return ModelFitter(
            self.config, self.schema, self.random_state, self.device, show, processes or SingleProcess(), self.rules_
        )

    @property
    def _fitted(self) -> FittedModel:
        if self._result is None:
            raise NotFitted("This model has not been trained. Call fit(table) first, or load a saved model.")
        return self._result

    @property
    def _trained_model(self) -> TrainedModel:
        """What is computed once of the network; anew if that was moved."""
        fitted = self._fitted
        if not self._trained.is_current:
            self._trained = TrainedModel(fitted.denoiser, fitted.codec)
        return self._trained

    def _set_fitted(self, fitted: FittedModel, template: FrameTemplate) -> None:
        self.template_, self._name = template.for_model(fitted.schema.labelled), Harpoon._name
        self._result, self._trained = fitted, TrainedModel(fitted.denoiser, fitted.codec)

    def _sampler(self, seed: int = 0, options: Mapping[str, Any] | None = None) -> RowSampler:
        return RowSampler(self._trained_model, self.config.with_call_options(options or {}), seed, self.progress)

    def _call_seed(self, random_state: RandomState) -> int:
        return to_seed(self.random_state if random_state is None else check_random_state(random_state))


load = Harpoon.load


def to_bytes(model: Harpoon) -> bytes:
    """Return the file of a model as bytes, for other processes and for files of other libraries."""
    with TemporaryDirectory(prefix="harpoon-") as folder:
        model.save(path := Path(folder, "model.harpoon"))
        return path.read_bytes()


def from_bytes(content: bytes, **options: Any) -> Harpoon:  # noqa: ANN401
    """Return the model of `to_bytes`, with options of `Harpoon.load`; raise ModelFileError if the bytes are damaged."""
    with TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        path.write_bytes(content)
        return load(path, **options)
