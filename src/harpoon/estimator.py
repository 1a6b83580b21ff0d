"""The estimator: fit, impute, sample, save, load. Orchestration only; each step lives in a module of its own."""

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
from harpoon._utils import tensor_file
from harpoon._utils.progress import Progress, sampling_bar
from harpoon._utils.rng import RandomState, check_random_state, partition_seed, to_seed
from harpoon._utils.validation import check_count, resolve_device
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import Constant, assume_complete
from harpoon.conditions.expressions import Predicate, column_names
from harpoon.conditions.objectives import LossFunction, batch_penalty, row_penalty
from harpoon.conditions.parser import to_predicate
from harpoon.config import Config
from harpoon.data import dataframe
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Columns, Index, concat, n_rows, scatter, take
from harpoon.data.dataframe import FrameTemplate, Table
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.penalties import sum_penalties
from harpoon.encoding.batch import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidCondition, InvalidOption, ModelFileError, NotFitted
from harpoon.inference.conditional import check_strategy
from harpoon.inference.diagnostics import SamplingInfo
from harpoon.inference.feasibility import Feasibility, feasibility
from harpoon.inference.imputation import Expectation, MultipleImputation
from harpoon.inference.query import SHORTFALLS, Query, sample_unconditional
from harpoon.inference.row_sampler import RowSampler
from harpoon.networks.anchored import AnchoredDenoiser
from harpoon.relations.formula import describe
from harpoon.training.checkpoints import CHECKPOINT_KEY as CHECKPOINT
from harpoon.training.checkpoints import Checkpoint
from harpoon.training.distributed import SingleProcess
from harpoon.training.fit import FittedModel, ModelFitter, TrainingData
from harpoon.training.history import History
from harpoon.training.model_state import INVALID_CONTENT, from_content, to_content

if TYPE_CHECKING:
    from harpoon.report import Page


ENGINES = ("local", "ray")  # that train


class Harpoon:
    """One diffusion model of one table, to fill its holes and to draw new rows.

    Args:
        preset: The settings to start from: "anchored", the default, sees the known cells of a row and imputes with one
            evaluation of a small network; "paper" is the paper's system to the letter.
        max_time: Seconds of training at the most; two minutes by default.
        max_epochs: Passes over the table at the most, and then no limit in time unless one is given too.
        random_state: A seed or a NumPy generator, for a training that can be repeated. `impute` and `sample` use it
            too unless they are given their own; with an integer they then answer the same each time.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        schema: What the columns are, where it should not be inferred (`Schema.infer(df, kinds=...)`).
        progress: Whether to show progress bars; or a function that is called with a `harpoon._utils.progress.Step` after each
            step of a drawing instead, and ends the drawing by raising an error.
        **options: Any other field of `harpoon.config.Config`.

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
    _trained_on: Columns

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
        if "max_epochs" in given:  # whoever counts epochs wants the same model on a slow machine
            options["max_time"] = None
        self.preset = preset
        self.config: Config = config.preset(preset).with_options({**options, **given})
        self.random_state = check_random_state(random_state)
        self.device = resolve_device(device)
        if not isinstance(schema, Schema | None):
            raise InvalidOption(f"schema must be a Schema (see Schema.infer and Schema.load), got {schema!r}.")
        self.schema = schema
        self.progress = progress

    @torch.inference_mode(mode=False)  # weights made in inference mode could never be trained
    def fit(
        self,
        data: object,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        engine: str = "local",
        workers: int = 2,
    ) -> Self:
        """Train on a table. Ctrl-C ends the training and leaves a usable model.

        Args:
            data: A pandas, polars or pyarrow frame, with or without holes.
            checkpoint: A file that keeps the state of the training, about every minute and at the end. Where it is
                there already, the training goes on from it, as if nothing had happened; one that had come to its end
                goes on only if it is given more time or epochs. The file is not deleted. (On Ray it is a folder.)
            engine: "local", or "ray" to train on a Ray cluster; `data` may then be a Ray Dataset or a folder of files,
                too. See `harpoon.engines.ray_train`.
            workers: How many processes train together on Ray.
        """
        if engine not in ENGINES:
            raise InvalidOption.one_of("engine", engine, ENGINES)
        if engine == "ray":
            from harpoon.engines import ray_train

            ray_train.fit(self, data, workers=workers, folder=checkpoint)
            return self
        table = dataframe.read(data)
        keeper = None if checkpoint is None else partial(Checkpoint.open, checkpoint)
        self._take(self._learner().fit(TrainingData.from_table(table), keeper), table.template)
        self._trained_on = read_columns(table, self.schema_)
        return self

    def impute(
        self,
        data: object,
        *,
        draws: int | None = None,
        where: str | Predicate | None = None,
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,
    ) -> Any:  # noqa: ANN401
        """Fill the missing cells of a table; the others come back as they are.

        A label that the model has never seen counts as missing and is replaced, with a warning that names it.

        A model that sees what is known (the default) fills in the best single value: the expected number, on the
        column's grid, and the most probable label, from one evaluation of the network. The paper's model draws a
        value by its guided reverse process.

        Args:
            data: A frame with the columns of the training table, in any order. A row may be wholly missing.
            draws: How many completed tables to draw instead, as a `MultipleImputation`: with intervals, and to pool
                estimates over.
            where: A condition that every completed row meets, as for `sample`.
            first_row: The number of the first row, where the table is a part of a longer one: what is drawn for a row
                depends on its number, so the parts come out as the whole would.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling options for this call: in how many `turns` cells are drawn, or `turns=0` and all
                together in so many `sampling_steps` of that `order`; of the paper preset, `loss="mse+ce"` or
                `strength=0.1`.

        Returns:
            A frame of the same library, with the same dtypes, index and columns.
        """
        codec = self._fitted()
        self.__dict__.pop("sampling_info_", None)  # a report is of the last call, or there is none
        table = dataframe.read(data)
        rows = read_columns(table, self.schema_)
        question = self._question(where)
        self._check_constants(question, table)
        drawer = self._drawer(self._call_seed(random_state), options)
        row_offset = check_count(row_offset, "first_row, the number of the first row,", low=0)
        if draws is not None:
            count = check_count(draws, "draws, the number of tables to draw,")
            return self._imputations(table, rows, count, drawer, question, first_row=row_offset)
        produce = (lambda part, _index: self._expected(part)) if self.denoiser_.is_conditional else drawer.sample
        if question is not None:
            produce = question.correct(produce, question.completer(drawer, rows, row_offset, self._tell))
        return self._written(table, rows, self._produced(rows, produce, row_offset))

    def expect(self, data: object) -> Expectation:
        """Return the conditional expectation of every cell given the observed cells of its row.

        Unrounded means of numeric columns, and the probability of each category of the others. Needs a network that is
        conditioned on observed cells (preset="anchored").
        """
        self._fitted()
        return self._expectation(read_columns(dataframe.read(data), self.schema_))

    def sample(
        self,
        n: int | None = None,
        *,
        where: str | Predicate | None = None,
        loss: str | LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        given: object = None,
        strategy: str = "auto",
        on_shortfall: str = "raise",
        row_offset: int = 0,
        random_state: RandomState = None,
        **options: Any,
    ) -> Any:  # noqa: ANN401
        """Draw new rows.

        Args:
            n: How many rows.
            where: A condition that every row meets, as SQL text or an expression of `harpoon.col`.
            loss: A penalty: a function of rows, of which `row["age"]` is a tensor in the table's units and
                `row["job"]["clerk"]` the probability of a label, to one number per row that is pulled towards zero.
                (As text, the loss that pulls towards known cells, an option of the paper preset.)
            loss_batch: The same with one number for all rows together, such as how far their mean is from a wish.
            given: What is already decided: a mapping of columns to values that all n rows share, or a frame of
                partial rows, which are completed one by one (its cells are kept, its holes and the columns it lacks
                are drawn).
            strategy: How to meet a condition: "auto", "rejection", "conditioning", "guidance" or "paper"; see
                `harpoon.inference.conditional`.
            on_shortfall: "raise" an `InfeasibleCondition` if there are fewer rows than asked for, or "return" those
                that there are.
            first_row: The number of the first row, where these are a part of a longer draw: the parts come out as the
                whole would. Not so under a condition or a loss: which rows are kept depends on how many are asked
                for, so there each part is a draw of its own, the same again for the same number and the same n.
            random_state: A seed or a NumPy generator for this call.
            **options: Sampling options for this call, as for `impute`.

        Returns:
            A frame like the training table (or of the library of `given`), without the columns that are not
            modelled. What it took is in `report_` afterwards, and with pandas and a condition in the frame's
            `attrs["harpoon"]` too.
        """
        codec = self._fitted()
        self.__dict__.pop("sampling_info_", None)
        check_strategy(strategy)
        if isinstance(given, str):
            raise InvalidOption("given must be a mapping or a frame, got a str; a condition goes into where.")
        question = self._question(where, None if isinstance(loss, str) else loss, loss_batch, on_shortfall)
        towards = {"loss": loss} if isinstance(loss, str) else {}
        drawer = self._drawer(self._call_seed(random_state), {**options, **towards})
        row_offset = check_count(row_offset, "first_row, the number of the first row,", low=0)
        if given is not None and not isinstance(given, Mapping):
            if n is not None:
                raise InvalidOption("n must be left out when given is a frame: one row is drawn for each of its rows.")
            table = dataframe.read(given)
            if not table.names:
                raise InvalidOption("A frame of partial rows must have columns; give n to draw rows from nothing.")
            rows = read_columns(table, self.schema_, partial=True)
            self._check_constants(question, table)
            draw = drawer.sample if question is None else question.completer(drawer, rows, row_offset, self._tell)
            return self._written(table, rows, self._produced(rows, draw, row_offset))
        table = dataframe.constant_table(given or {}, check_count(n))
        _check_given(given or {}, self.schema_)
        rows = read_columns(table, self.schema_, partial=True, strict=True)
        if question is None:
            drawn, self.sampling_info_ = sample_unconditional(drawer, rows, row_offset)
        else:
            drawer.seed = partition_seed(drawer.seed, row_offset)
            drawn, self.sampling_info_ = question.sample(drawer, rows, strategy)
        constants = {c.name: _constant(self.template_, c, n_rows(drawn)) for c in self.schema_ if _is_constant(c)}
        frame = self.template_.build({**constants, **drawn})
        return frame if question is None else dataframe.with_attrs(frame, asdict(self.sampling_info_))

    def relations(self) -> list[str]:
        """The numbers that are often exactly what others say, and in how many of the rows, as the model has found them.

        >>> import numpy as np, pyarrow as pa
        >>> height, width = np.random.default_rng(0).lognormal(size=(2, 500))
        >>> rows = pa.table({"height": height, "width": width, "area": height * width})
        >>> Harpoon(max_epochs=1, random_state=0, progress=False).fit(rows).relations()[-1]
        'area = height * width (100 %)'
        """
        codec = self._fitted()
        if not isinstance(self.denoiser_, AnchoredDenoiser):
            return []
        forms, names = self.denoiser_.rank_head.copies.relations, [number.column.name for number in codec.numeric]
        return [
            describe(names[form // forms.each], formula, names, float(forms.fractions[form]))
            for form, formula in forms.formulas(codec.units).items()
        ]

    def feasibility(
        self,
        where: str | Predicate,
        *,
        data: object = None,
        given: Mapping[str, object] | None = None,
        random_state: RandomState = None,
    ) -> Feasibility:
        """How likely a condition is under the model, what in it is unlikely, and what to relax.

        Args:
            where: The condition.
            data: A table to count in how many of its rows the condition is met; the training table by default, where
                this model has been fitted and not loaded.
            given: Values that all rows have, as for `sample`.
            random_state: A seed or a NumPy generator for this call.
        """
        codec = self._fitted()
        _check_given(given or {}, self.schema_)
        base = read_columns(dataframe.constant_table(given or {}, 1), self.schema_, partial=True, strict=True)
        counted = (
            read_columns(dataframe.read(data), self.schema_) if data is not None else getattr(self, "_trained_on", None)
        )
        tree = to_predicate(where)
        return feasibility(self._drawer(self._call_seed(random_state)), tree, self.schema_, base, counted)

    def report(
        self,
        test: object = None,
        *,
        where: str | Predicate | None = None,
        rows: int = 5000,
        random_state: RandomState = None,
    ) -> Page:
        """A page about this model: how well it fills cells, how real its rows look, what a condition does to them.

        In a notebook it shows itself; `report(test).save("report.html")` writes one file to send, and `.summary` holds
        the numbers. The extra "report" brings what the page needs.

        Args:
            test: Real rows that the model was not trained on; without them the page shows the model alone.
            where: A condition, as for `sample`, to show what it does to every column.
            rows: How many rows to look at and to draw, at the most.
            random_state: A seed or a NumPy generator for this call.
        """
        from harpoon import report

        if test is None:
            return report.Page(report.describe(self, where=where, rows=rows, random_state=random_state))
        return report.Page(report.evaluate(self, test, where=where, rows=rows, random_state=random_state))

    def encode(self, data: object) -> EncodedRows:
        """A table as the network sees it: encoded rows and which of their numbers are known."""
        codec = self._fitted()
        return codec.to_batch(read_columns(dataframe.read(data), self.schema_)).to(self.device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, all or nothing. It holds no rows of the training table."""
        codec = self._fitted()
        learnt = FittedModel(self.schema_, self.config_, codec, self.denoiser_, self.history_)
        content = {
            "preset": self.preset,
            "settings": self.config.to_json(),
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
            "given_schema": None if self.schema is None else self.schema.to_json(),
            **to_content(learnt, self.template_),
        }
        tensor_file.write_tensors(path, self.denoiser_.state_dict(), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "auto", progress: Progress = True) -> Self:
        """Read a model from a file that `save` wrote. Nothing in the file is ever run."""
        tensors, content = tensor_file.read_tensors(path)
        if CHECKPOINT in content:
            raise ModelFileError(
                f"{str(path)!r} is the checkpoint of a training, not a model. Give it to fit(checkpoint=...) to go on, "
                "and save the model then."
            )
        try:
            model = cls(content["preset"], random_state=content["random_state"], device=device, progress=progress)
            model.config = Config(**content["settings"])
            asked = content["given_schema"]
            model.schema = None if asked is None else Schema.from_json(asked)
            model._take(*from_content(model.config, content, tensors))
        except INVALID_CONTENT as error:
            raise tensor_file.damaged_file(path, f"{type(error).__name__}: {error}") from None
        model.denoiser_.to(model.device).eval()
        return model

    def __repr__(self) -> str:
        state = "not fitted"
        if hasattr(self, "codec_"):
            state = f"fitted on {len(self.schema_)} columns, {len(self.schema_.modelled)} of them modelled"
        return f"Harpoon(preset={self.preset!r}): {state}"

    def _fitted(self) -> RowCodec:
        if not hasattr(self, "codec_"):
            raise NotFitted("This model has not been trained. Call fit(table) first, or load a saved model.")
        return self.codec_

    def _learner(self, team: SingleProcess | None = None) -> ModelFitter:
        return ModelFitter(
            self.config, self.schema, self.random_state, self.device, self.progress is True, team or SingleProcess()
        )

    def _take(self, learnt: FittedModel, template: FrameTemplate) -> None:
        """Become the model that was learnt."""
        self.schema_, self.config_, self.codec_ = learnt.schema, learnt.config, learnt.codec
        self.denoiser_, self.history_, self.template_ = learnt.denoiser, learnt.history, template

    def _produced(self, rows: Columns, produce: Callable[[Columns, Index], Columns], first_row: int = 0) -> Columns:
        """The rows with their holes filled; `produce` is asked only for those that have one, by their numbers."""
        index = np.flatnonzero(~self.codec_.observed(rows).all(axis=1))
        new = produce(take(rows, index), index + first_row)
        return scatter(rows, new, index)

    def _written(self, table: Table, rows: Columns, columns: Columns) -> Any:  # noqa: ANN401
        """The table with new cells in its holes, constant columns included."""
        holes = {name: cells.missing for name, cells in rows.items()}
        constants = {}
        for column in self.schema_:
            if _is_constant(column):
                name, height = column.name, table.n_rows
                constants[name] = _constant(self.template_, column, height)
                there = name in table.names
                holes[name] = table.column(name).missing if there else np.ones(height, dtype=np.bool_)
        return table.fill({**columns, **constants}, holes, self.template_)

    def _check_constants(self, question: Query | None, table: Table) -> None:
        """A condition reads a constant column as the value it always had, so the table must have it too."""
        for column in self.schema_:
            asked = question is not None and question.tree is not None and column.name in column_names(question.tree)
            if not asked or not _is_constant(column) or column.name not in table.names:
                continue
            cells = table.column(column.name)
            here = {
                cells.categories[value] if cells.categories else value for value in np.unique(cells.observed).tolist()
            }
            if here - set(column.categories or ()):
                raise InvalidCondition(
                    f"A condition on column {column.name!r} can only read {(column.categories or (None,))[0]!r}, the one "
                    f"value it had in training, but the table has {format_list(sorted(here, key=str))}. Leave it out."
                )

    def _tell(self, report: SamplingInfo) -> None:
        self.sampling_info_ = report

    def _question(
        self,
        where: str | Predicate | None,
        loss: LossFunction | None = None,
        loss_batch: LossFunction | None = None,
        on_shortfall: str = "raise",
    ) -> Query | None:
        """What is asked of rows, if anything is."""
        if on_shortfall not in SHORTFALLS:
            raise InvalidOption.one_of("on_shortfall", on_shortfall, SHORTFALLS)
        penalties = [row_penalty(loss, self.codec_)] if loss is not None else []
        penalties += [batch_penalty(loss_batch, self.codec_)] if loss_batch is not None else []
        if where is None and not penalties:
            return None
        tree = None if where is None else to_predicate(where)
        bound = Constant(truth=True) if tree is None else assume_complete(bind(tree, self.schema_))
        return Query(tree, bound, self.schema_, sum_penalties(penalties) if penalties else None, on_shortfall)

    def _drawer(self, seed: int = 0, options: Mapping[str, Any] | None = None) -> RowSampler:
        settings = self.config.with_call_options(options or {})
        return RowSampler(self.denoiser_, self.codec_, settings, self.device, seed, self.progress)

    def _expected(self, rows: Columns) -> Columns:
        """Every cell at its expected number or its most probable label."""
        parts = self._drawer().posterior_means(rows, partial(self.codec_.decode, is_mean=True))
        return concat(parts) if parts else dict(rows)

    def _expectation(self, rows: Columns) -> Expectation:
        if not self.denoiser_.is_conditional:
            raise InvalidOption(
                "expect() needs a network that is conditioned on observed cells, such as preset='anchored'."
            )
        nothing = np.zeros((0, self.codec_.width))
        parts = self._drawer().posterior_means(rows, self.codec_.expectation) or [self.codec_.expectation(nothing)]
        numbers, probabilities = (
            {name: np.concatenate([part[kind][name] for part in parts]) for name in parts[0][kind]} for kind in (0, 1)
        )
        labels = {name: self.schema_[name].categories or () for name in probabilities}
        return Expectation(numbers, probabilities, labels)

    def _imputations(
        self, table: Table, rows: Columns, count: int, drawer: RowSampler, question: Query | None, *, first_row: int
    ) -> MultipleImputation:
        one_bar = drawer.progress is True and count > 1
        drawer.progress = False if one_bar else drawer.progress
        draw = drawer.sample if question is None else question.completer(drawer, rows, first_row, self._tell)
        drawn = []
        with sampling_bar(count, table.n_rows, one_bar) as on_draw:
            for number in range(count):
                drawn.append(self._produced(rows, partial(draw, draw=number), first_row))
                on_draw()
        tables = [self._written(table, rows, columns) for columns in drawn]
        holes = {name: cells.missing for name, cells in rows.items()}
        return MultipleImputation(tables, table, self.template_, self.schema_, drawn, holes)

    def _call_seed(self, random_state: RandomState) -> int:
        return to_seed(self.random_state if random_state is None else check_random_state(random_state))


load = Harpoon.load


def _is_constant(column: Column) -> bool:
    return column.kind is Kind.CONSTANT


def _constant(template: FrameTemplate, column: Column, height: int) -> ColumnArray:
    return template.constant(column.name, (column.categories or (None,))[0], height)


def _check_given(given: Mapping[str, object], schema: Schema) -> None:
    """Values can be given for columns that are drawn; a constant one has its value already."""
    for name, value in given.items():
        column = schema[name] if name in schema.names else None
        if column is None or column.kind.modelled or value is None:
            continue
        if not isinstance(value, str | int | float | bool):
            raise InvalidOption(f"Column {name!r} is not drawn, and no value like {type(value).__name__} can be given.")
        if not _is_constant(column):
            raise InvalidOption(f"No value can be given for column {name!r}: it is not drawn ({column.note}).")
        if value != (column.categories or (None,))[0]:
            raise InvalidOption(f"Column {name!r} is always {(column.categories or (None,))[0]!r}, got {value!r}.")
