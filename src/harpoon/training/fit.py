"""Fitting: the recipe table -> schema -> codec -> network -> weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from harpoon._formatting import MAX_LISTED
from harpoon._utils.progress import show_bar
from harpoon._utils.rng import RandomState, to_seed
from harpoon.config import LIMITS, Config
from harpoon.data import (
    Columns,
    Floats,
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
from harpoon.data.suppression import Suppression
from harpoon.data.survey_weights import check_ratio, read_weights
from harpoon.diffusion import Denoiser
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.exceptions import ColumnLeftOutWarning, InvalidTable, PersonalColumnWarning, RowsDroppedWarning, warn
from harpoon.networks import build_denoiser
from harpoon.relations import formulas_of
from harpoon.rules.discovery import count_rules, propose_rules, select_rules
from harpoon.rules.rule_set import RuleSet
from harpoon.training.checkpoints import Checkpoint, OpenCheckpoint, fingerprint
from harpoon.training.distributed import SingleProcess
from harpoon.training.fitted_model import FittedModel
from harpoon.training.trainer import Epoch, History, train

MIN_ROWS = 2
ONE_BY_ROUNDING = 1 - 1e-9  # equal weights may differ by rounding once they are divided by their mean
WARN_DROPPED_FRACTION = 0.1
MIN_RULE_FRACTION = 0.99  # of the rows in which a relation holds that is proposed as a rule
NOT_MODELLED = {
    Kind.CONSTANT: "constant and not modelled",
    Kind.EMPTY: "empty and stays empty",
    Kind.TEXT: "text: kept by impute, left out of samples",
    Kind.IDENTIFIER: "an identifier: kept by impute, left out of samples",
    Kind.SKIPPED: "skipped: kept by impute, left out of samples",
}


@dataclass(frozen=True)
class TrainingData:
    """The table to train on, or the part of it that one process has."""

    table: Table  # the rows of this process
    counts: TableCounts  # of all rows, of all processes
    sample: Table  # rows from the whole table, to initialize the network; enough for quantiles
    suppression: Suppression | None = None  # of rare values; None: they are kept
    weights: Floats | None = None  # of the rows of this process, relative to the mean of all rows, (n,)
    sample_weights: Floats | None = None  # of the rows of the sample
    weight_column: str | None = None  # where they were read from

    @classmethod
    def from_table(cls, table: Table, weights: str | Floats | None = None) -> TrainingData:
        """Return the data of a single process that has the whole table.

        Rows may have weights: those of a column, by its name, or an array, (n,).
        """
        column = weights if isinstance(weights, str) else None
        values = read_weights(table, weights) if isinstance(weights, str) else weights
        if values is not None and len(values) and values.min() == values.max():
            values = np.ones(len(values))  # equal weights change nothing, to the last bit
        counts = count_columns(table, values)
        return cls.from_parts(table, counts, table, weights=values, sample_weights=values, weight_column=column)

    @classmethod
    def from_parts(
        cls,
        table: Table,
        counts: TableCounts,
        sample: Table,
        *,
        weights: Floats | None,
        sample_weights: Floats | None,
        weight_column: str | None = None,
    ) -> TrainingData:
        """Return the data of a process that has a part of the rows; the weights of all rows are in the counts.

        Only the ratios of weights matter: they are divided by their mean over all rows.
        """
        data = cls(table, counts, sample, weight_column=weight_column)
        if weights is None or sample_weights is None or not data.n_rows:
            return data
        mean = max(each.total_weight for each in counts.values()) / data.n_rows
        if len(weights):  # those of other processes may be much larger
            check_ratio(float(weights.min()), mean, "Weights and their mean over all rows")
        return replace(data, weights=weights / mean, sample_weights=sample_weights / mean)

    @property
    def n_rows(self) -> int:
        """The number of rows of all processes."""
        rows = (counts.n_observed + counts.n_missing + counts.n_hidden for counts in self.counts.values())
        return max(rows, default=0)

    def suppress(self, schema: Schema, k: int) -> tuple[TrainingData, Schema]:
        """Return the data, and their schema, without values of fewer than k rows; warn of columns that are left out."""
        if self.n_rows < 2 * k:
            message = f"With rare='suppress' and k={k} a table to train on must have at least {2 * k} rows, got "
            raise InvalidTable(
                f"{message}{self.n_rows}. Lower k, or use rare='keep'.", code="too_few_rows", rows=self.n_rows
            )
        found = Suppression.fit(schema, self.counts, k)
        for change in found.changes:
            if change.left_out:
                note = found.schema[change.column].note
                warn(
                    ColumnLeftOutWarning(
                        f"Column {change.column!r} is left out of the model: {note} (rare='suppress')."
                    )
                )
        if not found.schema.modelled:
            raise InvalidTable(
                f"With rare='suppress' and k={k} no column is left: in none of them does a value rest on {k} rows. "
                "Lower k, or use rare='keep'."
            )
        return replace(self, counts=found.counts, suppression=found), found.schema

    def read(self, schema: Schema) -> tuple[Columns, Columns]:
        """Return the rows of this process and those of the sample as columns."""
        rows = self._read(self.table, schema)
        return rows, rows if self.sample is self.table else self._read(self.sample, schema)

    def _read(self, table: Table, schema: Schema) -> Columns:
        if self.suppression is None:
            return missing_as_null(read_columns(table, schema))
        return self.suppression.apply(missing_as_null(read_columns(table, self.suppression.original)))

    def schema(self, given: Schema | None) -> Schema:
        """Infer the schema, or what is open in the given one; warn of each column that is not modelled."""
        if not self.counts:
            raise InvalidTable("A table to train on must have columns, got one without any.")
        if self.n_rows < MIN_ROWS:
            message = f"A table to train on must have at least {MIN_ROWS} rows, got {self.n_rows}."
            raise InvalidTable(message, code="too_few_rows", rows=self.n_rows)
        weights = self.weight_column
        if given is None:
            schema = Schema.from_counts(self.counts, kinds=None if weights is None else {weights: Kind.WEIGHT})
        else:
            given = given if weights is None else given.with_weights(weights)
            schema = given.complete_from_counts(self.counts)
        personal = {c.name: c.note.removeprefix("it looks like ") for c in schema if c.kind is Kind.PERSONAL}
        if personal:
            warn(PersonalColumnWarning.of(personal))
        for column in schema:
            if column.kind in NOT_MODELLED and column.name not in personal:
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
        if config.rare == "suppress":
            data, schema = data.suppress(schema, config.k)
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
            if config.rare == "keep":  # a calendar column stores a value for each part, of however few rows
                codec = codec.with_calendar_columns(sampled_columns, data.counts, config.scaling)
            codec = codec.with_elapsed_times(sampled_columns, config.scaling, config.min_rows, data.sample_weights)
        rows = self._encode(codec, columns, data.weights)
        sample = rows if sampled_columns is columns else self._encode(codec, sampled_columns, data.sample_weights)
        cells = sampled_columns
        if self.config.incomplete_rows == "drop":
            cells = take(cells, np.flatnonzero(codec.observed(cells).all(axis=1)))
        tables = ContingencyTables.fit(schema, data.counts, data.n_rows, columns, sampled_columns)
        contingency = replace(self._add_counts(tables), effective_rows=self._effective_rows(data))
        checkpoint = self._checkpoint(open_checkpoint, config, sample)
        denoiser = build_denoiser(config, codec).to_empty(device="cpu")
        denoiser.initialize(sample, torch.Generator().manual_seed(checkpoint.seed), cells)
        discovered = self._discover(codec, columns, sampled_columns, denoiser)
        history = self._train(denoiser.to(self.device), rows.to(self.device), config, checkpoint)
        return FittedModel(schema, config, codec, denoiser, history, contingency, discovered)

    def _discover(self, codec: RowCodec, rows: Columns, sample: Columns, denoiser: Denoiser) -> RuleSet:
        """Search rules in a sample of the table, which all processes share, and count them in all rows."""
        formulas = formulas_of(denoiser, codec.units, MIN_RULE_FRACTION)
        candidates = propose_rules(codec.schema, sample, formulas, codec.quantity_names, min_rows=self.config.min_rows)
        mean = self.processes.all_reduce_mean(torch.from_numpy(count_rules(candidates, rows)).double())
        return select_rules(candidates, (mean * self.processes.world_size).round().long().numpy())

    def _add_counts(self, tables: ContingencyTables) -> ContingencyTables:
        """Add the counts of all processes, each of which has counted its own rows."""
        mean = self.processes.all_reduce_mean(torch.from_numpy(tables.pair_counts).double())
        total = (mean * self.processes.world_size).round().long()
        return tables.with_pair_counts(total.numpy()).suppress()

    def _effective_rows(self, data: TrainingData) -> float | None:
        """Return what the rows of all processes are worth (Kish, 1965); None without weights, or if all are equal."""
        if data.weights is None:
            return None
        squares = self.processes.all_reduce_mean(torch.tensor(float(data.weights @ data.weights)).double())
        effective = data.n_rows**2 / (squares.item() * self.processes.world_size)  # the sum of the weights is n
        return effective if effective < data.n_rows * ONE_BY_ROUNDING else None

    def _encode(self, codec: RowCodec, rows: Columns, weights: Floats | None) -> EncodedRows:
        """Encode the rows to train on, with their weights, (n,)."""
        encoded = codec.to_training_batch(rows)
        if weights is not None:
            encoded = replace(encoded, weights=torch.from_numpy(weights).to(encoded.x.dtype))
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
