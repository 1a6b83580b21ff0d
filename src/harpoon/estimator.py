"""The estimator: fit, impute, expect, sample, feasibility, relations, save, load. Each step is a room of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from harpoon import config
from harpoon._text import format_list
from harpoon._utils import model_file
from harpoon._utils.progress import Progress, sampling_bar
from harpoon._utils.rng import RandomState, check_random_state, partition_seed, to_seed
from harpoon._utils.validation import check_count, resolve_device
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import Constant, assume_complete
from harpoon.conditions.expressions import Predicate, column_names
from harpoon.conditions.objectives import LossFunction, batch_penalty, row_penalty
from harpoon.conditions.parser import to_predicate
from harpoon.config import Config, GuidanceConfig, SamplingConfig, declared
from harpoon.data import dataframe
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Columns, Index, concat, n_rows, scatter, take
from harpoon.data.dataframe import FrameTemplate, Table
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.reconstruction import sum_penalties
from harpoon.encoding.batch import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidCondition, InvalidOption, ModelFileError, NotFitted
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.feasibility import Feasibility, feasibility
from harpoon.inference.imputation import Expectation, MultipleImputation
from harpoon.inference.query import ON_SHORTFALL, Query, sample_unconditional
from harpoon.inference.row_sampler import RowSampler
from harpoon.inference.strategies import check_strategy
from harpoon.relations.formula import describe
from harpoon.training.checkpoints import CHECKPOINT_KEY, Checkpoint
from harpoon.training.distributed import SingleProcess
from harpoon.training.fit import FittedModel, ModelFitter, TrainingData
from harpoon.training.history import History
from harpoon.training.model_state import INVALID_CONTENT, from_content, to_content

if TYPE_CHECKING:
    from harpoon.report import Page

Complete = Callable[[Columns, Index], Columns]
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
        **options: Any other option of `harpoon.config.Config`.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.1, 0.9, 0.2, None] * 25, "kind": ["low", "high", None, "low"] * 25})
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
        **options: Any,  # noqa: ANN401
    ) -> None:
        limits = {"max_time": max_time, "max_epochs": max_epochs}
        given = {name: value for name, value in limits.items() if value is not None}
        if "max_epochs" in given:  # a number of epochs stands for the same model on any machine
            options["max_time"] = None
        self.preset = preset
        self.config: Config = config.preset(preset).with_options({**options, **given})
        self.random_state = check_random_state(random_state)
        self.device = resolve_device(device)
        if not isinstance(schema, Schema | None):
            raise InvalidOption(f"schema must be a Schema (see Schema.infer and Schema.load), got {schema!r}.")
        self.schema = schema
        self.progress = progress

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
        return self

    def impute(
        self,
        data: object,
        *,
        draws: int | None = None,
        where: str | Predicate | None = None,
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Fill the missing cells of a table; observed cells are returned unchanged.

        The default model fills in the expected number, rounded to the resolution of the column, and the most probable
        category, from one evaluation of the network. The paper's model samples a value by its guided reverse process.
        A category that the model does not know counts as missing, with a warning.

        Args:
            data: A table with the columns of the training table, in any order. All cells of a row may be missing.
            draws: How many completed tables to sample instead, as a `MultipleImputation`: with intervals, and to pool
                estimates over.
            where: A condition that every completed row satisfies, as for `sample`.
            row_offset: The number of the first row, if the table is part of a longer one. What is sampled for a row
                depends on its number, so that the parts equal the whole.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling and guidance options for this call, such as `ar_steps=0, solver="ddim"`. Options that
                would have no effect are errors.

        Returns:
            A table of the same library, with the same dtypes, index and columns.
        """
        self._check_fitted()
        self.__dict__.pop("sampling_info_", None)  # diagnostics are those of the last call
        table = dataframe.read(data)
        rows = read_columns(table, self.schema_)
        query = self._query(where)
        self._check_constants(query, table)
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        is_expected = self.denoiser_.is_conditional and draws is None
        self._check_effective(options, samples=not is_expected or query is not None, guided=query is not None)
        sampler = self._sampler(self._call_seed(random_state), options)
        if draws is not None:
            count = check_count(draws, "draws, the number of tables to draw,")
            return self._multiple_imputation(table, rows, count, sampler, query, row_offset=row_offset)
        complete: Complete = sampler.sample
        if is_expected:
            complete = partial(self._posterior_means, sampler)
        if query is not None:
            complete = query.correct(complete, query.completer(sampler, rows, row_offset, self._set_info))
        return self._fill_table(table, rows, self._fill_incomplete(rows, complete, row_offset))

    def expect(self, data: object) -> Expectation:
        """Return the conditional expectation of every cell given the observed cells of its row.

        That is the unrounded mean of each numeric column, and the probability of each category of the others. It needs
        a network that is conditioned on the observed cells (preset="anchored").

        >>> import pyarrow as pa
        >>> table = pa.table({"x": [0.1, 0.9, 0.2, None] * 25, "kind": ["low", "high", None, "low"] * 25})
        >>> expectation = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table).expect(table)
        >>> expectation.numbers["x"].shape, expectation.probabilities["kind"].shape, expectation.categories["kind"]
        ((100,), (100, 2), ('high', 'low'))
        """
        codec = self._check_fitted()
        if not self.denoiser_.is_conditional:
            raise InvalidOption(
                "expect() needs a network that is conditioned on observed cells, such as preset='anchored'."
            )
        rows = read_columns(dataframe.read(data), self.schema_)
        no_rows = np.zeros((0, codec.width))
        parts = self._sampler().posterior_means(rows, codec.expectation) or [codec.expectation(no_rows)]
        numbers, probabilities = (
            {name: np.concatenate([part[i][name] for part in parts]) for name in parts[0][i]} for i in (0, 1)
        )
        categories = {name: self.schema_[name].categories or () for name in probabilities}
        return Expectation(numbers, probabilities, categories)

    def sample(
        self,
        n: int | None = None,
        *,
        where: str | Predicate | None = None,
        loss: LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        given: object = None,
        strategy: str = "auto",
        on_shortfall: str = "raise",
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Sample new rows.

        Args:
            n: How many rows.
            where: A condition that every row satisfies, as SQL text or an expression of `harpoon.col`.
            loss: A function of rows to one number per row, which guidance brings towards zero. `row["age"]` is a tensor
                in units of the table, `row["job"]["clerk"]` the probability of a category.
            loss_batch: The same with one number for all rows together, such as the distance of their mean to a target.
            given: Cells that are decided beforehand: a mapping of columns to values that all n rows share, or a table
                of partial rows, each of which is completed (its missing cells and the columns it lacks are sampled).
            strategy: How to satisfy a condition: "auto", "rejection", "conditioning", "guidance" or "paper"; see
                `harpoon.inference.strategies`.
            on_shortfall: "raise" an `InfeasibleCondition` if fewer rows than n are found, or "return" those.
            row_offset: The number of the first row, if the rows are part of a longer table. The parts then equal the
                whole. Under a condition or a loss each part is a sample of its own instead, because the rows that are
                kept depend on how many are asked for.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling and guidance options for this call, as for `impute`.

        Returns:
            A table like the training table (or of the library of `given`), without the columns that are not modelled.
            Diagnostics are in `sampling_info_` afterwards, and for pandas in `attrs["harpoon"]` of the result.
        """
        self._check_fitted()
        self.__dict__.pop("sampling_info_", None)
        check_strategy(strategy)
        if isinstance(given, str):
            raise InvalidOption("given must be a mapping or a table, got a str; a condition is the argument where.")
        query = self._query(where, loss, loss_batch, on_shortfall)
        self._check_effective(options, samples=True, guided=query is not None, given=given is not None)
        sampler = self._sampler(self._call_seed(random_state), options)
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        if given is not None and not isinstance(given, Mapping):
            return self._complete_table(given, n, query, sampler, row_offset)
        table = dataframe.constant_table(given or {}, check_count(n))
        _check_given(given or {}, self.schema_)
        rows = read_columns(table, self.schema_, partial=True, strict=True)
        if query is None:
            sampled, self.sampling_info_ = sample_unconditional(sampler, rows, row_offset)
        else:
            sampler.seed = partition_seed(sampler.seed, row_offset)
            sampled, self.sampling_info_ = query.sample(sampler, rows, strategy)
        count = n_rows(sampled)
        constants = {c.name: _constant_array(self.template_, c, count) for c in self.schema_ if _is_constant(c)}
        frame = self.template_.build({**constants, **sampled})
        return frame if query is None else dataframe.with_attrs(frame, asdict(self.sampling_info_))

    def relations(self) -> list[str]:
        """Return the relations between numeric columns, each with the fraction of the rows in which it holds.

        >>> import numpy as np, pyarrow as pa
        >>> height, width = np.random.default_rng(0).lognormal(size=(2, 500))
        >>> rows = pa.table({"height": height, "width": width, "area": height * width})
        >>> Harpoon(max_epochs=1, random_state=0, progress=False).fit(rows).relations()[-1]
        'area = height * width (100 %)'
        """
        names = [number.column.name for number in self._check_fitted().numeric]
        return [describe(target, formula, names, fraction) for target, formula, fraction in self._sampler().relations()]

    def feasibility(
        self,
        where: str | Predicate,
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
        """
        self._check_fitted()
        _check_given(given or {}, self.schema_)
        base = read_columns(dataframe.constant_table(given or {}, 1), self.schema_, partial=True, strict=True)
        counted = None if data is None else read_columns(dataframe.read(data), self.schema_)
        sampler = self._sampler(self._call_seed(random_state))
        return feasibility(sampler, to_predicate(where), self.schema_, base, counted)

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
        fitted = FittedModel(self.schema_, self.config_, codec, self.denoiser_, self.history_)
        content = {
            "preset": self.preset,
            "config": self.config.to_json(),
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
            "given_schema": None if self.schema is None else self.schema.to_json(),
            **to_content(fitted, self.template_),
        }
        model_file.write_tensors(path, self.denoiser_.state_dict(), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "auto", progress: Progress = True) -> Self:
        """Read a model from a file that `save` wrote. Nothing in the file is ever executed."""
        resolve_device(device)  # a wrong device is not a damaged file
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
            model._set_fitted(*from_content(model.config, content, tensors))
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

    def _fitter(self, processes: SingleProcess | None = None) -> ModelFitter:
        show = self.progress is True
        return ModelFitter(self.config, self.schema, self.random_state, self.device, show, processes or SingleProcess())

    def _set_fitted(self, fitted: FittedModel, template: FrameTemplate) -> None:
        self.schema_, self.config_, self.codec_ = fitted.schema, fitted.config, fitted.codec
        self.denoiser_, self.history_, self.template_ = fitted.denoiser, fitted.history, template

    def _set_info(self, info: SamplingInfo) -> None:
        self.sampling_info_ = info

    def _sampler(self, seed: int = 0, options: Mapping[str, Any] | None = None) -> RowSampler:
        call_config = self.config.with_call_options(options or {})
        return RowSampler(self.denoiser_, self.codec_, call_config, self.device, seed, self.progress)

    def _call_seed(self, random_state: RandomState) -> int:
        return to_seed(self.random_state if random_state is None else check_random_state(random_state))

    def _query(
        self,
        where: str | Predicate | None,
        loss: LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        on_shortfall: str = "raise",
    ) -> Query | None:
        """Return the condition and the loss, bound to the schema; None if there is neither."""
        if on_shortfall not in ON_SHORTFALL:
            raise InvalidOption.one_of("on_shortfall", on_shortfall, ON_SHORTFALL)
        penalties = [row_penalty(loss, self.codec_)] if loss is not None else []
        penalties += [batch_penalty(loss_batch, self.codec_)] if loss_batch is not None else []
        if where is None and not penalties:
            return None
        tree = None if where is None else to_predicate(where)
        predicate = Constant(truth=True) if tree is None else assume_complete(bind(tree, self.schema_))
        return Query(tree, predicate, self.schema_, sum_penalties(penalties) if penalties else None, on_shortfall)

    def _check_effective(self, options: Mapping[str, Any], *, samples: bool, guided: bool, given: bool = True) -> None:
        """Raise InvalidOption if an option of a call would have no effect on it.

        Args:
            options: The options of the call.
            samples: Whether the call samples cells.
            guided: Whether it has a condition or a loss.
            given: Whether it has observed cells.
        """
        conditional = self.denoiser_.is_conditional
        effective = {"sampling_batch_size"}
        if samples:
            effective |= {"ar_steps"} if conditional else set()
            if guided or not conditional or not options.get("ar_steps", self.config.ar_steps):
                effective |= {name for name, _ in declared(SamplingConfig)} - {"ar_steps"}
            if guided or (given and not conditional):
                effective |= {name for name, _ in declared(GuidanceConfig)}
            if conditional:
                effective -= {"reconstruction_loss"}
        known = set(config.call_options())
        changed = {name for name in options if name in known and options[name] != getattr(self.config, name)}
        if ignored := sorted(changed - effective):
            is_are = "has" if len(ignored) == 1 else "have"
            raise InvalidOption(
                f"{format_list(ignored)} {is_are} no effect on this call: impute samples only with draws or where, the "
                "options of reverse diffusion need ar_steps=0, and those of guidance need where or loss.",
                code="option_without_effect",
                options=ignored,
            )

    def _posterior_means(self, sampler: RowSampler, rows: Columns, _index: Index) -> Columns:
        """Return rows with every cell at its expected number or its most probable category."""
        parts = sampler.posterior_means(rows, partial(self.codec_.decode, is_mean=True))
        return concat(parts) if parts else dict(rows)

    def _multiple_imputation(
        self, table: Table, rows: Columns, count: int, sampler: RowSampler, query: Query | None, *, row_offset: int
    ) -> MultipleImputation:
        one_bar = sampler.progress is True and count > 1
        sampler.progress = False if one_bar else sampler.progress
        complete = sampler.sample if query is None else query.completer(sampler, rows, row_offset, self._set_info)
        draws = []
        with sampling_bar(count, table.n_rows, one_bar) as on_draw:
            for number in range(count):
                draws.append(self._fill_incomplete(rows, partial(complete, draw=number), row_offset))
                on_draw()
        tables = [self._fill_table(table, rows, columns) for columns in draws]
        missing = {name: cells.missing for name, cells in rows.items()}
        return MultipleImputation(tables, table, self.template_, self.schema_, draws, missing)

    def _complete_table(
        self, given: object, n: int | None, query: Query | None, sampler: RowSampler, row_offset: int
    ) -> Any:  # noqa: ANN401
        """Sample the missing cells of a table of partial rows."""
        if n is not None:
            raise InvalidOption(
                "n must be left out if given is a table: one row is sampled for each of its rows.", code="n_with_table"
            )
        table = dataframe.read(given)
        if not table.names:
            raise InvalidOption("A table of partial rows must have columns; use n to sample rows without any.")
        rows = read_columns(table, self.schema_, partial=True)
        self._check_constants(query, table)
        complete = sampler.sample if query is None else query.completer(sampler, rows, row_offset, self._set_info)
        return self._fill_table(table, rows, self._fill_incomplete(rows, complete, row_offset))

    def _fill_incomplete(self, rows: Columns, complete: Complete, row_offset: int = 0) -> Columns:
        """Complete the rows that have a missing cell; the others are not touched."""
        index = np.flatnonzero(~self.codec_.observed(rows).all(axis=1))
        return scatter(rows, complete(take(rows, index), index + row_offset), index)

    def _fill_table(self, table: Table, rows: Columns, columns: Columns) -> Any:  # noqa: ANN401
        """Write new cells into the missing cells of a table, constant columns included."""
        missing = {name: cells.missing for name, cells in rows.items()}
        constants = {}
        for column in self.schema_:
            if _is_constant(column):
                name, is_there = column.name, column.name in table.names
                constants[name] = _constant_array(self.template_, column, table.n_rows)
                missing[name] = table.column(name).missing if is_there else np.ones(table.n_rows, dtype=np.bool_)
        return table.fill({**columns, **constants}, missing, self.template_)

    def _check_constants(self, query: Query | None, table: Table) -> None:
        """Raise InvalidCondition if a condition reads a constant column that has other values in the table."""
        if query is None or query.tree is None:
            return
        named = column_names(query.tree)
        for column in self.schema_:
            if column.name not in named or not _is_constant(column) or column.name not in table.names:
                continue
            cells = table.column(column.name)
            values = np.unique(cells.observed).tolist()
            here = {cells.categories[value] if cells.categories else value for value in values}
            if here - set(column.categories or ()):
                raise InvalidCondition(
                    f"A condition on column {column.name!r} can only use {_constant_value(column)!r}, its only value "
                    f"in training, but the table has {format_list(sorted(here, key=str))}. Leave the column out of it."
                )


load = Harpoon.load


def _is_constant(column: Column) -> bool:
    return column.kind is Kind.CONSTANT


def _constant_value(column: Column) -> object:
    return (column.categories or (None,))[0]


def _constant_array(template: FrameTemplate, column: Column, height: int) -> ColumnArray:
    return template.constant(column.name, _constant_value(column), height)


def _check_given(given: Mapping[str, object], schema: Schema) -> None:
    """Raise InvalidOption for a value of a column that is not sampled, unless it is the value of a constant one."""
    for name, value in given.items():
        column = schema[name] if name in schema.names else None
        if column is None or column.kind.modelled or value is None:
            continue
        if not isinstance(value, str | int | float | bool):
            raise InvalidOption(
                f"Column {name!r} is not sampled, and a value like {type(value).__name__} cannot be given for it."
            )
        if not _is_constant(column):
            raise InvalidOption(f"No value can be given for column {name!r}: it is not sampled ({column.note}).")
        if value != _constant_value(column):
            raise InvalidOption(f"Column {name!r} is always {_constant_value(column)!r}, got {value!r}.")
