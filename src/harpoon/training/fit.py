"""Fitted models: the recipe table -> schema -> codec -> network -> weights, and models as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from harpoon._text import MAX_LISTED
from harpoon._utils.progress import show_bar
from harpoon._utils.rng import RandomState, to_seed
from harpoon.conditions.rules import RuleSet
from harpoon.config import ADAPTIVE, LIMITS, Config
from harpoon.data import (
    Columns,
    FrameTemplate,
    Kind,
    Schema,
    Table,
    TableCounts,
    count_columns,
    missing_as_null,
    read_columns,
    take,
)
from harpoon.data.contingency import ContingencyTables
from harpoon.diffusion import Denoiser
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.exceptions import (
    ColumnLeftOutWarning,
    HarpoonError,
    InvalidTable,
    PersonalColumnWarning,
    RowsDroppedWarning,
    warn,
)
from harpoon.networks import build_denoiser
from harpoon.relations import formulas_of
from harpoon.rules.discovery import count_rules, propose_rules, select_rules
from harpoon.training.calibration import Calibration
from harpoon.training.checkpoints import Checkpoint, OpenCheckpoint, fingerprint
from harpoon.training.distributed import SingleProcess
from harpoon.training.trainer import Epoch, History, train

MIN_ROWS = 2
PAIR_COUNTS = "contingency.pair_counts"  # the name of a tensor that is no weight
WARN_DROPPED_FRACTION = 0.1
MIN_RULE_FRACTION = 0.99  # of the rows in which a relation holds that is proposed as a rule
NOT_MODELLED = {
    Kind.CONSTANT: "constant and not modelled",
    Kind.EMPTY: "empty and stays empty",
    Kind.TEXT: "text: kept by impute, left out of samples",
    Kind.IDENTIFIER: "an identifier: kept by impute, left out of samples",
    Kind.SKIPPED: "skipped: kept by impute, left out of samples",
}

# What `from_content` may raise for content that `to_content` did not write.
BUILTIN_ERRORS = LookupError, TypeError, ValueError, RuntimeError, OverflowError, AttributeError
INVALID_CONTENT = (*BUILTIN_ERRORS, HarpoonError, pa.ArrowException)


@dataclass(frozen=True)
class TrainingData:
    """The table to train on, or the part of it that one process has."""

    table: Table  # the rows of this process
    counts: TableCounts  # of all rows, of all processes
    sample: Table  # rows from the whole table, to initialize the network; enough for quantiles

    @classmethod
    def from_table(cls, table: Table) -> TrainingData:
        """Return the data of a single process that has the whole table."""
        return cls(table, count_columns(table), table)

    @property
    def n_rows(self) -> int:
        """The number of rows of all processes."""
        return max((counts.n_observed + counts.n_missing for counts in self.counts.values()), default=0)

    def read(self, schema: Schema) -> tuple[Columns, Columns]:
        """Return the rows of this process and those of the sample as columns."""
        rows = missing_as_null(read_columns(self.table, schema))
        is_whole = self.sample is self.table
        return rows, rows if is_whole else missing_as_null(read_columns(self.sample, schema))

    def schema(self, given: Schema | None) -> Schema:
        """Infer the schema, or what is open in the given one; warn of each column that is not modelled."""
        if not self.counts:
            raise InvalidTable("A table to train on must have columns, got one without any.")
        if self.n_rows < MIN_ROWS:
            message = f"A table to train on must have at least {MIN_ROWS} rows, got {self.n_rows}."
            raise InvalidTable(message, code="too_few_rows", rows=self.n_rows)
        schema = Schema.from_counts(self.counts) if given is None else given.complete_from_counts(self.counts)
        personal = {c.name: c.note.removeprefix("it looks like ") for c in schema if c.kind is Kind.PERSONAL}
        if personal:
            warn(PersonalColumnWarning.of(personal))
        for column in schema:
            if not column.kind.modelled and column.name not in personal:
                reason = f"{NOT_MODELLED[column.kind]}: {column.note or 'left out on request'}"
                warn(ColumnLeftOutWarning(f"Column {column.name!r} is {reason}."))
        if not schema.modelled:
            reasons = ", ".join(
                f"{column.name!r} ({column.note or column.kind})" for column in schema.columns[:MAX_LISTED]
            )
            raise InvalidTable(
                f"A table to train on must have a column that can be modelled, and this one has none: {reasons}."
            )
        return schema


@dataclass(frozen=True)
class FittedModel:
    """The result of fitting."""

    schema: Schema
    config: Config
    codec: RowCodec
    denoiser: Denoiser
    history: History
    contingency: ContingencyTables
    discovered: RuleSet = field(default_factory=RuleSet)  # rules that the training rows obey


@dataclass(frozen=True)
class ModelFitter:
    """Fits models. `schema`: the kinds of columns that are not inferred; `rules`: those that the model will carry."""

    config: Config
    schema: Schema | None
    random_state: RandomState
    device: torch.device
    progress: bool
    processes: SingleProcess
    rules: RuleSet = field(default_factory=RuleSet)

    def fit(self, data: TrainingData, open_checkpoint: OpenCheckpoint | None = None) -> FittedModel:
        """Fit a new model, or resume from the checkpoint that `open_checkpoint` returns."""
        schema, config = data.schema(self.schema), self.config.adapt(data.n_rows)
        codec = RowCodec.fit(
            schema,
            data.counts,
            encoding=config.encoding,
            scaling=config.scaling,
            missing_indicators=config.missing_indicators,
            calendar_parts=config.calendar_parts,
        )
        self.rules.bind(schema).check_consistent(codec.nullable)  # before the training, which takes long
        columns, sampled_columns = data.read(schema)
        if config.calendar_parts:
            codec = codec.with_elapsed_times(sampled_columns, config.scaling)
        rows = self._encode(codec, columns)
        sample = rows if sampled_columns is columns else self._encode(codec, sampled_columns)
        cells = sampled_columns
        if self.config.incomplete_rows == "drop":
            cells = take(cells, np.flatnonzero(codec.observed(cells).all(axis=1)))
        tables = ContingencyTables.fit(schema, data.counts, data.n_rows, columns, sampled_columns)
        contingency = self._add_counts(tables)
        checkpoint = self._checkpoint(open_checkpoint, config, sample)
        denoiser = build_denoiser(config, codec).to_empty(device="cpu")
        denoiser.initialize(sample, torch.Generator().manual_seed(checkpoint.seed), cells)
        discovered = self._discover(codec, columns, sampled_columns, denoiser)
        history = self._train(denoiser.to(self.device), rows.to(self.device), config, checkpoint)
        return FittedModel(schema, config, codec, denoiser, history, contingency, discovered)

    def _discover(self, codec: RowCodec, rows: Columns, sample: Columns, denoiser: Denoiser) -> RuleSet:
        """Search rules in a sample of the table, which all processes share, and count them in all rows."""
        names = [each.column.name for each in codec.quantities]
        relations = formulas_of(denoiser, codec.units, MIN_RULE_FRACTION)
        formulas = [(names[target], formula, names) for target, formula in relations]
        candidates = propose_rules(codec.schema, sample, formulas)
        mean = self.processes.all_reduce_mean(torch.from_numpy(count_rules(candidates, rows)).double())
        return select_rules(candidates, (mean * self.processes.world_size).round().long().numpy())

    def _add_counts(self, tables: ContingencyTables) -> ContingencyTables:
        """Add the counts of all processes, each of which has counted its own rows."""
        mean = self.processes.all_reduce_mean(torch.from_numpy(tables.pair_counts).double())
        total = (mean * self.processes.world_size).round().long()
        return tables.with_pair_counts(total.numpy()).suppress()

    def _encode(self, codec: RowCodec, rows: Columns) -> EncodedRows:
        """Encode the rows to train on."""
        encoded = codec.to_training_batch(rows)
        if self.config.incomplete_rows == "mask":
            return encoded
        complete = encoded.complete()
        n, n_complete = len(encoded.x), len(complete.x)
        if n_complete < MIN_ROWS:
            message = (
                f"With incomplete_rows='drop' a table to train on must have at least {MIN_ROWS} complete rows, got "
                f"{n_complete}. Use incomplete_rows='mask' to train on all rows."
            )
            raise InvalidTable(message, code="too_few_complete_rows", complete=n_complete, required=MIN_ROWS)
        if n - n_complete > WARN_DROPPED_FRACTION * n:
            message = (
                f"Only {n_complete} of {n} rows are complete, and with incomplete_rows='drop' the model trains on "
                "these only. Use incomplete_rows='mask' to train on all rows."
            )
            warn(RowsDroppedWarning(message, code="rows_dropped", complete=n_complete, rows=n))
        return complete

    def _checkpoint(self, open_checkpoint: OpenCheckpoint | None, config: Config, sample: EncodedRows) -> Checkpoint:
        """Open the checkpoint. The limits of a training are no part of its fingerprint, so that they can be raised."""
        seed = to_seed(self.random_state) % 2**63
        if open_checkpoint is None:
            return Checkpoint(seed=seed)
        options = {name: value for name, value in config.to_json().items() if name not in LIMITS}
        random_state = self.random_state if isinstance(self.random_state, int) else None
        return open_checkpoint(seed, fingerprint({**options, "random_state": random_state}, sample))

    def _train(self, denoiser: Denoiser, rows: EncodedRows, config: Config, checkpoint: Checkpoint) -> History:
        with show_bar("Training", 1.0, "{task.fields[state]}", show=self.progress) as update:

            def on_epoch(epoch: Epoch) -> None:
                update(completed=config.fraction_done(epoch.number, epoch.seconds), state=str(epoch))

            history = train(
                denoiser, rows, config, checkpoint.seed, on_epoch, checkpoint=checkpoint, processes=self.processes
            )
            update(completed=1.0, description=f"Trained (stopped by {history.stopped_by})")
        return history


def to_content(model: FittedModel, template: FrameTemplate) -> dict[str, Any]:
    """Return a fitted model without its weights as plain data."""
    return {
        "adapted": {name: getattr(model.config, name) for name in ADAPTIVE},
        "schema": model.schema.to_json(),
        "codec": model.codec.to_json(),
        "frame": template.to_json(),
        "history": asdict(model.history),
        "contingency": model.contingency.to_json(),
        "discovered_rules": model.discovered.to_json(),
    }


def to_tensors(model: FittedModel) -> dict[str, Tensor]:
    """Return the weights of a fitted model, and the counts of pairs of columns."""
    counts = torch.from_numpy(model.contingency.pair_counts).int()
    return {**model.denoiser.state_dict(), **({PAIR_COUNTS: counts} if len(counts) else {})}


def from_content(
    config: Config, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[FittedModel, FrameTemplate]:
    """Return the fitted model of `to_content` with its weights; raises one of `INVALID_CONTENT`."""
    schema, template = Schema.from_json(content["schema"]), FrameTemplate.from_json(content["frame"])
    codec, history = RowCodec.from_json(schema, content["codec"]), content["history"]
    adapted = _with_sizes(config, content["adapted"])
    denoiser = build_denoiser(adapted, codec)
    _check_template(template, schema)
    weights = {name: value for name, value in tensors.items() if name != PAIR_COUNTS}
    counts = tensors.get(PAIR_COUNTS, torch.zeros(0)).long().numpy()
    contingency = ContingencyTables.from_json(schema, content["contingency"], counts)
    for name, value in denoiser.state_dict().items():
        if name in weights and weights[name].dtype != value.dtype:
            raise ValueError(f"{name} has dtype {weights[name].dtype} instead of {value.dtype}")
    denoiser.load_state_dict(weights, assign=True)
    denoiser.validate_state()
    epochs = [Epoch(**epoch) for epoch in history["epochs"]]
    trained = History(epochs, history["stopped_by"], Calibration(**history["calibration"]))
    discovered = RuleSet.from_json(content.get("discovered_rules", []), schema)
    return FittedModel(schema, adapted, codec, denoiser, trained, contingency, discovered), template


def _with_sizes(config: Config, sizes: Mapping[str, Any]) -> Config:
    """Return the options with the sizes that were chosen for the table, which must agree with sizes of the user."""
    chosen = {name: sizes[name] for name in ADAPTIVE}
    if None in chosen.values():
        raise ValueError("the sizes of the network are missing")
    if any(getattr(config, name) not in (None, size) for name, size in chosen.items()):
        raise ValueError("the sizes of the network differ from its options")
    return replace(config, **chosen)


def _check_template(template: FrameTemplate, schema: Schema) -> None:
    """Raise ValueError unless the dataframe template can hold the columns of the schema."""
    for column in schema:
        template.check(column.name, column.kind)
        if column.kind.numeric and (column.minimum is None) != (column.maximum is None):
            raise ValueError(f"column {column.name!r} has only one end of its range")
