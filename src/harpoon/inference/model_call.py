"""Calls of a fitted model: impute and sample with all their arguments, and the support of their answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from harpoon._utils.rng import partition_seed
from harpoon._utils.validation import check_count
from harpoon.conditions import Predicate, bind, to_predicate
from harpoon.conditions.binding.bound import Constant
from harpoon.conditions.evaluation.penalty import LossFunction
from harpoon.conditions.logic.explanation import contradicts_itself
from harpoon.config import DEFAULT_SAMPLE_ROWS, Config
from harpoon.data import Columns, Floats, FrameTemplate, dataframe, n_rows, read_columns, repeat_row
from harpoon.data.survey_weights import read_known_weights
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional.aggregates import parse_targets
from harpoon.inference.conditional.feasibility import Feasibility, feasibility
from harpoon.inference.conditional.model_contradiction import find_contradiction
from harpoon.inference.conditional.query import Query, sample_unconditional
from harpoon.inference.conditional.targets import check_targets, sample_targets
from harpoon.inference.diagnostics.answer_grade import grade_answer
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.diagnostics.support import Support, find_support, warn_extrapolation
from harpoon.inference.imputation.overlap import find_no_overlap, warn_no_overlap
from harpoon.inference.imputation.partial_table import PartialTable, constant_columns, given_rows
from harpoon.inference.imputation.point_imputation import fill_points
from harpoon.inference.imputation.sensitivity import Shift, check_missing_cells, check_shift, shifted_sampler
from harpoon.inference.option_checks import check_effective, check_missing, check_names, without_effect
from harpoon.inference.sampling.row_sampler import Complete, RowSampler
from harpoon.rules.rule_set import BoundRules
from harpoon.training import FittedModel

ROW_OFFSET = "row_offset, the number of the first row,"


@dataclass(frozen=True)
class ModelCall:
    """One call of a fitted model; the methods are those of `harpoon.Harpoon`, which has their arguments.

    Attributes:
        fitted: The model.
        config: Its options, some of which `options` replaces for this call.
        template: The look of the training table.
        rules: The rules that it carries.
        options: Sampling and guidance options of this call.
        new_sampler: Returns a sampler with these options and the seed of the call.
        on_info: Called with the diagnostics, each time there are new ones.
    """

    fitted: FittedModel
    config: Config
    template: FrameTemplate
    rules: BoundRules
    options: Mapping[str, Any]
    new_sampler: Callable[[], RowSampler]
    on_info: Callable[[SamplingInfo], None]

    def impute(self, data: object, *, draws: int | None, where: object, shift: Shift | None, row_offset: int) -> Any:  # noqa: ANN401
        """Fill the missing cells of a table."""
        check_names("impute", self.options)
        codec, schema = self.fitted.codec, self.fitted.schema
        table = PartialTable.read(data, schema, self.template)
        keeps = self.options.get("structural", self.config.structural) == "keep"
        query = Query.create(codec, where, nullable=codec.nullable if keeps else (), rules=self.rules)
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        is_expected = self.fitted.denoiser.is_conditional and draws is None
        samples, guided = not is_expected or query is not None, query is not None
        self._check_effective(samples=samples, guided=guided, draws=draws is not None)
        sampler = self.new_sampler()
        if shift is not None and draws is None:
            raise without_effect(["shift"], "it needs draws")
        if shift is not None and query is not None:
            raise InvalidOption("shift cannot be combined with where or rules: a shifted row may violate them.")
        numbers, log_odds = check_shift(shift or {}, schema)
        check_missing_cells({**numbers, **log_odds}, {name: cells.unknown for name, cells in table.rows.items()})
        if not row_offset:  # of the blocks of a longer table, the first one warns
            self._warn_no_overlap(table, sampler)
        table = table.keep_structural(sampler)
        complete = self._completer(query, sampler, table, row_offset) or shifted_sampler(sampler, log_odds)
        if draws is not None:
            count = check_count(draws, "draws, the number of tables to draw,")
            sampler.draws_parameters = query is None or query.asked is None
            if query is not None and query.asked is None:
                complete = query.correct(sampler.sample, complete)
            return table.draw(count, complete, row_offset, sampler).shift(numbers)
        fill = partial(fill_points, sampler) if is_expected else sampler.sample
        return table.fill(fill if query is None else query.correct(fill, complete), row_offset)

    def _warn_no_overlap(self, table: PartialTable, sampler: RowSampler) -> None:
        structural, schema = sampler.structural_nulls(table.rows), self.fitted.schema
        warn_no_overlap(find_no_overlap(self.fitted.contingency, schema, table.rows, structural), schema, table.rows)

    def sample(
        self,
        n: int | None,
        *,
        where: object,
        loss: LossFunction | None,
        loss_batch: LossFunction | None,
        targets: object,
        given: object,
        strategy: str,
        on_shortfall: str,
        missing: str,
        row_offset: int,
    ) -> Any:  # noqa: ANN401
        """Sample new rows, or complete given ones."""
        check_names("sample", self.options)
        _check_types(n, given)
        check_missing(missing)
        codec, schema = self.fitted.codec, self.fitted.schema
        goals = None if targets is None else parse_targets(targets, schema)
        if goals is not None:
            check_targets(loss_batch=loss_batch, strategy=strategy, given=given)
        query = Query.create(
            codec,
            where,
            loss=loss,
            loss_batch=loss_batch,
            strategy=strategy,
            on_shortfall=on_shortfall,
            has_targets=goals is not None,
            nullable=codec.nullable if missing == "as_trained" else (),
            rules=self.rules,
        )
        self._check_effective(samples=True, guided=query is not None, given=given is not None)
        sampler = self.new_sampler()
        sampler.missing = missing
        row_offset = check_count(row_offset, ROW_OFFSET, low=0)
        if given is not None and not isinstance(given, Mapping):
            _check_given_table(n, strategy)
            table = PartialTable.read(given, schema, self.template, partial=True)
            return table.fill(self._completer(query, sampler, table, row_offset) or sampler.sample, row_offset)
        count = check_count(DEFAULT_SAMPLE_ROWS if n is None else n)
        row = given_rows(given, 1, schema, codec.nullable)
        if goals is None:
            found = _sample_rows(query, sampler, repeat_row(row, count), row_offset, strategy)
        else:
            sampler.seed = partition_seed(sampler.seed, row_offset)
            sample = partial(_sample_pool, query, sampler, row=row, strategy=strategy)
            returns = on_shortfall == "return"
            found = sample_targets(sample, goals, count, seed=sampler.seed, return_closest=returns)
        return self._to_frame(*found, query, given, has_attrs=query is not None or goals is not None)

    def _to_frame(
        self,
        rows: Columns,
        info: SamplingInfo,
        query: Query | None,
        given: Mapping[str, object] | None,
        *,
        has_attrs: bool,
    ) -> Any:  # noqa: ANN401
        """Return sampled rows as a table like the training table, and report their diagnostics."""
        asked = None if query is None else query.asked
        info = self._with_support(info, self._check_support(asked, given, info.probability))
        self.on_info(info)
        frame = self.template.build({**constant_columns(self.fitted.schema, self.template, n_rows(rows)), **rows})
        return dataframe.with_attrs(frame, asdict(info)) if has_attrs else frame

    def feasibility(self, where: object, *, data: object, given: Mapping[str, object] | None) -> Feasibility:
        """Estimate the probability of a condition."""
        schema, tables = self.fitted.schema, self.fitted.contingency
        base = given_rows(given, 1, schema, self.fitted.codec.nullable)
        table = None if data is None else dataframe.read(data)
        counted = None if table is None else read_columns(table, schema)
        weights = None if table is None else read_known_weights(table, schema)
        sampler = self.new_sampler()
        sampler.missing = "as_trained"
        tree = to_predicate(where, schema.names)
        found = feasibility(sampler, tree, schema, base, counted=counted, weights=weights, tables=tables)
        warn_extrapolation(found.support, _condition_text(tree, given))
        return found

    def support(self, where: object, *, data: object, given: Mapping[str, object] | None) -> Support:
        """Return how many training rows satisfy a condition."""
        schema = self.fitted.schema
        table = None if data is None else dataframe.read(data)
        columns = None if table is None else read_columns(table, schema)
        weights = None if table is None else read_known_weights(table, schema)
        tree = None if where is None else to_predicate(where, schema.names)
        return self.count_support(tree, given, table=columns, weights=weights)

    def _check_effective(self, **call: bool) -> None:
        check_effective(self.config, self.options, conditional=self.fitted.denoiser.is_conditional, **call)

    def count_support(
        self,
        tree: Predicate | None,
        given: Mapping[str, object] | None,
        *,
        table: Columns | None = None,
        weights: Floats | None = None,
        probability: float | None = None,
    ) -> Support:
        """Return how many training rows satisfy a condition beside given cells, counted in a table if there is one.

        The rows of the table may have weights, (n,).
        """
        schema = self.fitted.schema
        predicate = Constant(truth=True) if tree is None else bind(tree, schema)
        row = given_rows(given, 1, schema, self.fitted.codec.nullable)
        tables = self.fitted.contingency
        support = find_support(tables, predicate, row, table=table, weights=weights, probability=probability)
        if tree is not None and find_contradiction(tree, self.new_sampler(), row, self.fitted.codec.nullable):
            return support.of_impossible(is_contradiction=contradicts_itself(tree, schema))
        return support

    def _check_support(
        self, tree: Predicate | None, given: Mapping[str, object] | None = None, probability: float | None = None
    ) -> Support | None:
        """Return the support of a condition beside given cells, and warn if there is hardly any; None if neither is.

        `probability` is the model's probability of the condition, given the given cells.
        """
        if tree is None and not given:
            return None
        support = self.count_support(tree, given, probability=probability)
        warn_extrapolation(support, _condition_text(tree, given))
        return support

    def _with_support(self, info: SamplingInfo, support: Support | None) -> SamplingInfo:
        grade = None if support is None else grade_answer(self.fitted.history.calibration, support)
        return replace(info, support=support, own_grade=grade)

    def _completer(
        self, query: Query | None, sampler: RowSampler, table: PartialTable, row_offset: int
    ) -> Complete | None:
        """Return a function that samples the missing cells of rows under a condition, if there is one."""
        if query is None:
            return None
        query.check_constants(table.table)

        def on_info(info: SamplingInfo) -> None:
            self.on_info(self._with_support(info, support))

        # Draws that break a rule are sampled again with the parameters of the model itself.
        complete = query.completer(copy.copy(sampler), table.rows, row_offset, on_info)
        support = self._check_support(query.asked)
        on_info(SamplingInfo("completion", 0, 0, None, 0.0, 0, 0, 0.0))  # until a row has to be completed
        return complete


def _check_types(n: object, given: object) -> None:
    """Raise InvalidOption if a condition was passed as another argument of `sample`."""
    if isinstance(given, str):
        raise InvalidOption("given must be a mapping or a table, got a str; a condition is the argument where.")
    if isinstance(n, str):
        raise InvalidOption(f"n, the number of rows, must be an integer, got {n!r}; a condition is the argument where.")


def _check_given_table(n: int | None, strategy: str) -> None:
    """Raise InvalidOption for arguments of `sample` that do not go with a table of partial rows."""
    if strategy != "auto":
        raise without_effect(["strategy"], "given rows are completed one by one")
    if n is not None:
        message = "n must be left out if given is a table: one row is sampled for each of its rows."
        raise InvalidOption(message, code="n_with_table")


def _sample_rows(
    query: Query | None, sampler: RowSampler, rows: Columns, row_offset: int, strategy: str
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
    query: Query | None, sampler: RowSampler, count: int, start: int, least: int, *, row: Columns, strategy: str
) -> tuple[Columns, SamplingInfo]:
    """Sample rows with the given cells of one row: as many as are found, but no fewer than `least`."""

    def sample(query: Query | None, count: int) -> tuple[Columns, SamplingInfo]:
        return _sample_rows(query, copy.copy(sampler), repeat_row(row, count), start, strategy)

    found = sample(None if query is None else replace(query, on_shortfall="return"), count)
    return found if n_rows(found[0]) >= least else sample(query, least)


def _condition_text(tree: Predicate | None, given: Mapping[str, object] | None) -> str:
    """Return a condition and given cells as one text."""
    texts = [] if tree is None else [str(tree)]
    return " and ".join([*texts, *(f"{name} = {value!r}" for name, value in (given or {}).items())])
