"""The estimator: fit, impute, expect, sample, feasibility, relations, save, load. Each step is a room of its own."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch

from harpoon import config
from harpoon._utils import model_file
from harpoon._utils.progress import Progress, check_progress, with_one_bar
from harpoon._utils.rng import RandomState, check_random_state, partition_seed, to_seed
from harpoon._utils.validation import check_count, resolve_device
from harpoon.conditions import Predicate, bind, to_predicate
from harpoon.conditions.bound import Constant
from harpoon.conditions.penalty import LossFunction
from harpoon.conditions.rules import BoundRules, RuleCheck, RuleSet
from harpoon.config import Config
from harpoon.data import Columns, FrameTemplate, Schema, dataframe, n_rows, read_columns, repeat_row
from harpoon.data.contingency import ContingencyTables
from harpoon.diffusion import Denoiser
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.exceptions import InvalidOption, ModelFileError, NotFitted
from harpoon.inference.aggregates import parse_targets
from harpoon.inference.answer_grade import grade_answer
from harpoon.inference.call_options import check_effective, check_missing, check_names, without_effect
from harpoon.inference.defaults import DEFAULT_ROWS
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.feasibility import Feasibility, feasibility
from harpoon.inference.imputation import Expectation
from harpoon.inference.partial_table import PartialTable, constant_columns, given_rows
from harpoon.inference.query import Query, sample_unconditional
from harpoon.inference.row_sampler import Complete, RowSampler
from harpoon.inference.rule_check import check_rules, warn_training_rows
from harpoon.inference.sensitivity import Shift, check_shift, shifted_sampler
from harpoon.inference.support import Support, find_support, warn_extrapolation
from harpoon.inference.targets import check_targets, sample_targets
from harpoon.relations import describe, describe_dependency
from harpoon.training import Checkpoint, FittedModel, History, ModelFitter, SingleProcess, TrainingData
from harpoon.training.calibration import Calibration
from harpoon.training.checkpoints import CHECKPOINT_KEY
from harpoon.training.fit import INVALID_CONTENT, from_content, to_content, to_tensors

if TYPE_CHECKING:
    from harpoon.report import Page

ROW_OFFSET = "row_offset, the number of the first row,"


class Harpoon:
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

    schema_: Schema
    history_: History
    codec_: RowCodec
    denoiser_: Denoiser
    template_: FrameTemplate
    config_: Config
    contingency_: ContingencyTables
    discovered_: RuleSet
    sampling_info_: SamplingInfo

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
        **options: Any,  # noqa: ANN401
    ) -> None:
        if max_epochs is not None:  # a number of epochs stands for the same model on any machine
            options |= {"max_epochs": max_epochs, "max_time": None}
        if max_time is not None:
            options["max_time"] = max_time
        self.preset = preset
        self.config: Config = config.preset(preset).with_options(options)
        self.random_state = check_random_state(random_state)
        self.device = resolve_device(device)
        if not isinstance(schema, Schema | None):
            raise InvalidOption(f"schema must be a Schema (see Schema.infer and Schema.load), got {schema!r}.")
        self.schema = schema
        self.progress = check_progress(progress)
        self.rules_ = RuleSet.of(rules)

    @torch.inference_mode(mode=False)  # weights that are made in inference mode could never be trained
    def fit(self, data: object, *, checkpoint: str | os.PathLike[str] | None = None) -> Self:
        """Train on a table. Ctrl-C ends the training and leaves a usable model. The model keeps no rows.

        Args:
            data: A pandas, polars or pyarrow table, with or without missing cells.
            checkpoint: A file for the state of the training, saved about every minute and at the end. If it exists,
                training resumes from it. A training that had ended resumes only with more time or epochs. The file is
                not deleted.
        """
        table = dataframe.read(data)
        open_checkpoint = None if checkpoint is None else partial(Checkpoint.open, checkpoint)
        self._set_fitted(self._fitter().fit(TrainingData.from_table(table), open_checkpoint), table.template)
        self.history_.warn_if_short()
        warn_training_rows(self._bound_rules(), table)
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
        self._start_call()
        check_names("impute", options)
        table = PartialTable.read(data, self.schema_, self.template_)
        keeps = options.get("structural", self.config.structural) == "keep"
        nullable = self.codec_.nullable if keeps else ()
        query = Query.create(self.codec_, where, nullable=nullable, rules=self._bound_rules())
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        is_expected = self.denoiser_.is_conditional and draws is None
        samples, guided = not is_expected or query is not None, query is not None
        self._check_effective(options, samples=samples, guided=guided, draws=draws is not None)
        sampler = self._sampler(self._call_seed(random_state), options)
        if shift is not None and draws is None:
            raise without_effect(["shift"], "it needs draws")
        if shift is not None and query is not None:
            raise InvalidOption("shift cannot be combined with where or rules: a shifted row may violate them.")
        numbers, log_odds = check_shift(shift or {}, self.schema_)
        table = table.keep_structural(sampler)
        complete = self._completer(query, sampler, table, row_offset) or shifted_sampler(sampler, log_odds)
        if draws is not None:
            count = check_count(draws, "draws, the number of tables to draw,")
            sampler.draws_parameters = query is None or query.asked is None
            if query is not None and query.asked is None:
                complete = query.correct(sampler.sample, complete)
            return table.draw(count, complete, row_offset, sampler).shift(numbers)
        fill = sampler.fill_points if is_expected else sampler.sample
        return table.fill(fill if query is None else query.correct(fill, complete), row_offset)

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
                Rows are chosen from a larger sample; see `harpoon.inference.targets`.
            given: Cells that are decided beforehand: a mapping of columns to values that all n rows share (None: the
                cell is missing), or a table
                of partial rows, each of which is completed (its missing cells and the columns it lacks are sampled).
            strategy: How to satisfy a condition: "auto", "rejection", "conditioning", "guidance" or "paper"; see
                `harpoon.inference.strategies`.
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
        self._start_call()
        check_names("sample", options)
        if isinstance(given, str):
            raise InvalidOption("given must be a mapping or a table, got a str; a condition is the argument where.")
        if isinstance(n, str):
            raise InvalidOption(
                f"n, the number of rows, must be an integer, got {n!r}; a condition is the argument where."
            )
        check_missing(missing)
        goals = None if targets is None else parse_targets(targets, self.schema_)
        if goals is not None:
            check_targets(loss_batch=loss_batch, strategy=strategy, given=given)
        query = Query.create(
            self.codec_,
            where,
            loss=loss,
            loss_batch=loss_batch,
            strategy=strategy,
            on_shortfall=on_shortfall,
            has_targets=goals is not None,
            nullable=self.codec_.nullable if missing == "as_trained" else (),
            rules=self._bound_rules(),
        )
        self._check_effective(options, samples=True, guided=query is not None, given=given is not None)
        sampler = self._sampler(self._call_seed(random_state), options)
        sampler.missing = missing
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        if given is not None and not isinstance(given, Mapping):
            if strategy != "auto":
                raise without_effect(["strategy"], "given rows are completed one by one")
            if n is not None:
                raise InvalidOption(
                    "n must be left out if given is a table: one row is sampled for each of its rows.",
                    code="n_with_table",
                )
            table = PartialTable.read(given, self.schema_, self.template_, partial=True)
            return table.fill(self._completer(query, sampler, table, row_offset) or sampler.sample, row_offset)
        count = check_count(DEFAULT_ROWS if n is None else n)
        rows = given_rows(given, 1, self.schema_, self.codec_.nullable)
        if goals is None:
            sampled, info = self._sample_rows(query, sampler, repeat_row(rows, count), row_offset, strategy)
        else:
            sampler.seed = partition_seed(sampler.seed, row_offset)
            sample = partial(self._sample_pool, query, sampler, row=rows, strategy=strategy)
            returns = on_shortfall == "return"
            sampled, info = sample_targets(sample, goals, count, seed=sampler.seed, return_closest=returns)
        support = self._check_support(None if query is None else query.asked, given, info.probability)
        self.sampling_info_ = self._with_support(info, support)
        frame = self.template_.build({**constant_columns(self.schema_, self.template_, n_rows(sampled)), **sampled})
        return frame if query is None and goals is None else dataframe.with_attrs(frame, asdict(self.sampling_info_))

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
        model.__dict__.pop("sampling_info_", None)
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
    def calibration_(self) -> Calibration:
        """How well the model predicts held-out cells, measured at the end of `fit`; also in `history_`."""
        self._check_fitted()
        return self.history_.calibration

    def relations(self) -> list[str]:
        """Return the relations between columns, each with the fraction of the rows in which it holds.

        They are sums and products of numbers, and columns whose labels determine those of another column.

        >>> import numpy as np, pyarrow as pa
        >>> height, width = np.random.default_rng(0).lognormal(size=(2, 500))
        >>> rows = pa.table({"height": height, "width": width, "area": height * width})
        >>> Harpoon(max_epochs=1, random_state=0, progress=False).fit(rows).relations()[-1]
        'area = height * width (100 %)'
        """
        names = [number.column.name for number in self._check_fitted().quantities]
        sampler = self._sampler()
        numbers = [describe(target, formula, names, fraction) for target, formula, fraction in sampler.relations()]
        return numbers + [describe_dependency(*pair) for pair in sampler.dependencies()]

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
        self._check_fitted()
        base = given_rows(given, 1, self.schema_, self.codec_.nullable)
        counted = None if data is None else read_columns(dataframe.read(data), self.schema_)
        sampler = self._sampler(self._call_seed(random_state))
        sampler.missing = "as_trained"
        tree = to_predicate(where, self.schema_.names)
        found = feasibility(sampler, tree, self.schema_, base, counted=counted, tables=self.contingency_)
        warn_extrapolation(found.support, _condition_text(tree, given))
        return found

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
        about 20 of 100 training rows; extrapolation: about 0 of 100 training rows
        """
        self._check_fitted()
        table = None if data is None else read_columns(dataframe.read(data), self.schema_)
        tree = None if where is None else to_predicate(where, self.schema_.names)
        return self._find_support(tree, given, table=table)

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

    def encode(self, data: object) -> EncodedRows:
        """Return a table as the network sees it: encoded rows, and which of their dimensions are observed."""
        codec = self._check_fitted()
        return codec.to_batch(read_columns(dataframe.read(data), self.schema_)).to(self.device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically. The file holds no rows of the training table."""
        codec = self._check_fitted()
        fitted = FittedModel(
            self.schema_, self.config_, codec, self.denoiser_, self.history_, self.contingency_, self.discovered_
        )
        content = {
            "preset": self.preset,
            "config": self.config.to_json(),
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
            "given_schema": None if self.schema is None else self.schema.to_json(),
            **to_content(fitted, self.template_),
            "rules": self.rules_.to_json(),
        }
        model_file.write_tensors(path, to_tensors(fitted), content)

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
        if CHECKPOINT_KEY in content:
            raise ModelFileError(
                f"{str(path)!r} is the checkpoint of a training, not a model. Give it to fit(checkpoint=...) to resume "
                "the training, and save the model afterwards.",
                code="checkpoint_not_model",
                path=str(path),
            )
        try:
            model = cls(content["preset"], random_state=content["random_state"], device=device, progress=progress)
            model.config = Config(**content["config"])
            given = content["given_schema"]
            model.schema = None if given is None else Schema.from_json(given)
            fitted, template = from_content(model.config, content, tensors)
            model._set_fitted(fitted, template.with_library(library))
            model.rules_ = RuleSet.from_json(content.get("rules", []), fitted.schema)
        except INVALID_CONTENT as error:
            raise model_file.damaged_file(path, f"{type(error).__name__}: {error}") from None
        model.denoiser_.to(model.device).eval()
        return model

    def __repr__(self) -> str:
        state = "not fitted"
        if hasattr(self, "codec_"):
            state = f"fitted on {len(self.schema_)} columns, {len(self.schema_.modelled)} of them modelled"
        return f"Harpoon(preset={self.preset!r}): {state}"

    def _check_fitted(self) -> RowCodec:
        if not hasattr(self, "codec_"):
            raise NotFitted("This model has not been trained. Call fit(table) first, or load a saved model.")
        return self.codec_

    def _start_call(self) -> None:
        self._check_fitted()
        self.__dict__.pop("sampling_info_", None)  # diagnostics are those of the last call

    def _fitter(self, processes: SingleProcess | None = None) -> ModelFitter:
        show = self.progress is True
        return ModelFitter(
            self.config, self.schema, self.random_state, self.device, show, processes or SingleProcess(), self.rules_
        )

    def _set_fitted(self, fitted: FittedModel, template: FrameTemplate) -> None:
        self.schema_, self.config_, self.codec_ = fitted.schema, fitted.config, fitted.codec
        self.denoiser_, self.history_, self.template_ = fitted.denoiser, fitted.history, template
        self.contingency_, self.discovered_ = fitted.contingency, fitted.discovered

    def _sampler(self, seed: int = 0, options: Mapping[str, Any] | None = None) -> RowSampler:
        call_config = self.config.with_call_options(options or {})
        return RowSampler(self.denoiser_, self.codec_, call_config, self.device, seed, self.progress)

    def _bound_rules(self) -> BoundRules:
        return self.rules_.bind(self.schema_)

    def _sample_rows(
        self, query: Query | None, sampler: RowSampler, rows: Columns, row_offset: int, strategy: str
    ) -> tuple[Columns, SamplingInfo]:
        """Sample the missing cells of rows: without a condition, under rules that most rows obey, or by a strategy."""
        if query is None:
            return sample_unconditional(sampler, rows, row_offset)
        found = query.sample_by_rules(sampler, rows, row_offset) if strategy == "auto" else None
        if found is not None:
            return found
        sampler.seed = partition_seed(sampler.seed, row_offset)
        return query.sample(sampler, rows, strategy)

    def _sample_pool(
        self,
        query: Query | None,
        sampler: RowSampler,
        count: int,
        start: int,
        least: int,
        *,
        row: Columns,
        strategy: str,
    ) -> tuple[Columns, SamplingInfo]:
        """Sample rows with the given cells of one row: as many as are found, but no fewer than `least`."""

        def sample(query: Query | None, count: int) -> tuple[Columns, SamplingInfo]:
            return self._sample_rows(query, copy.copy(sampler), repeat_row(row, count), start, strategy)

        found = sample(None if query is None else replace(query, on_shortfall="return"), count)
        return found if n_rows(found[0]) >= least else sample(query, least)

    def _call_seed(self, random_state: RandomState) -> int:
        return to_seed(self.random_state if random_state is None else check_random_state(random_state))

    def _check_effective(self, options: Mapping[str, Any], **call: bool) -> None:
        check_effective(self.config, options, conditional=self.denoiser_.is_conditional, **call)

    def _find_support(
        self,
        tree: Predicate | None,
        given: Mapping[str, object] | None,
        *,
        table: Columns | None = None,
        probability: float | None = None,
    ) -> Support:
        predicate = Constant(truth=True) if tree is None else bind(tree, self.schema_)
        row = given_rows(given, 1, self.schema_, self.codec_.nullable)
        return find_support(self.contingency_, predicate, row, table=table, probability=probability)

    def _check_support(
        self, tree: Predicate | None, given: Mapping[str, object] | None = None, probability: float | None = None
    ) -> Support | None:
        """Return the support of a condition beside given cells, and warn if there is hardly any; None if neither is.

        `probability` is the model's probability of the condition, given the given cells.
        """
        if tree is None and not given:
            return None
        support = self._find_support(tree, given, probability=probability)
        warn_extrapolation(support, _condition_text(tree, given))
        return support

    def _with_support(self, info: SamplingInfo, support: Support | None) -> SamplingInfo:
        grade = None if support is None else grade_answer(self.calibration_, support)
        return replace(info, support=support, own_grade=grade)

    def _completer(
        self, query: Query | None, sampler: RowSampler, table: PartialTable, row_offset: int
    ) -> Complete | None:
        """Return a function that samples the missing cells of rows under a condition, if there is one."""
        if query is None:
            return None
        query.check_constants(table.table)

        def on_info(info: SamplingInfo) -> None:
            self.sampling_info_ = self._with_support(info, support)

        # Draws that break a rule are sampled again with the parameters of the model itself.
        complete = query.completer(copy.copy(sampler), table.rows, row_offset, on_info)
        support = self._check_support(query.asked)
        on_info(SamplingInfo("completion", 0, 0, None, 0.0, 0, 0, 0.0))  # until a row has to be completed
        return complete


def _condition_text(tree: Predicate | None, given: Mapping[str, object] | None) -> str:
    """Return a condition and given cells as one text."""
    texts = [] if tree is None else [str(tree)]
    return " and ".join([*texts, *(f"{name} = {value!r}" for name, value in (given or {}).items())])


load = Harpoon.load
