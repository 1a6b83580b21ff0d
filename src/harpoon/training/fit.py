"""The recipe of fitting a model: table -> schema -> codec -> network -> weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

from harpoon._utils.rng import RandomState, to_seed
from harpoon.config import LIMITS, Config
from harpoon.data.column import Kind
from harpoon.data.dataframe import Table
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.data.statistics import TableCounts, count_columns
from harpoon.diffusion.denoiser import Denoiser
from harpoon.encoding.batch import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import ColumnLeftOutWarning, InvalidTable, RowsDroppedWarning
from harpoon.networks.build import build_denoiser
from harpoon.training.checkpoints import Checkpoint, OpenCheckpoint, fingerprint
from harpoon.training.distributed import SingleProcess
from harpoon.training.history import History
from harpoon.training.progress_bar import training_bar
from harpoon.training.trainer import train

MIN_ROWS = 2
WARN_DROPPED_FRACTION = 0.1
NOT_MODELLED = {
    Kind.CONSTANT: "constant and not modelled",
    Kind.EMPTY: "empty and stays empty",
    Kind.TEXT: "text: kept by impute, left out of samples",
    Kind.IDENTIFIER: "an identifier: kept by impute, left out of samples",
    Kind.SKIPPED: "skipped: kept by impute, left out of samples",
}


@dataclass(frozen=True)
class TrainingData:
    """The table to train on, or the part of it that one process has.

    Attributes:
        table: The rows of this process.
        counts: Value counts of all rows, of all processes.
        sample: Rows from the whole table, to initialize the network; enough for quantiles.
    """

    table: Table
    counts: TableCounts
    sample: Table

    @classmethod
    def from_table(cls, table: Table) -> TrainingData:
        """Return the data of a single process that has the whole table."""
        return cls(table, count_columns(table), table)

    @property
    def n_rows(self) -> int:
        """The number of rows of all processes."""
        return max((counts.n_observed + counts.n_missing for counts in self.counts.values()), default=0)

    def schema(self, given: Schema | None) -> Schema:
        """Infer the schema, or what is open in the given one; warn of each column that is not modelled."""
        if not self.counts:
            raise InvalidTable("A table to train on must have columns, got one without any.")
        if self.n_rows < MIN_ROWS:
            raise InvalidTable(
                f"A table to train on must have at least {MIN_ROWS} rows, got {self.n_rows}.",
                code="too_few_rows",
                rows=self.n_rows,
            )
        schema = Schema.from_counts(self.counts) if given is None else given.complete_from_counts(self.counts)
        for column in schema:
            if not column.kind.modelled:
                reason = column.note or "left out on request"
                message = f"Column {column.name!r} is {NOT_MODELLED[column.kind]}: {reason}."
                warnings.warn(message, ColumnLeftOutWarning, stacklevel=4)
        if not schema.modelled:
            raise InvalidTable("A table to train on must have a column that can be modelled, and this one has none.")
        return schema


@dataclass(frozen=True)
class FittedModel:
    """The result of fitting."""

    schema: Schema
    config: Config
    codec: RowCodec
    denoiser: Denoiser
    history: History


@dataclass(frozen=True)
class ModelFitter:
    """Fits models.

    Attributes:
        config: Options of the network and its training.
        schema: Kinds of columns that are not inferred.
        random_state: Of the initial weights and the training.
        device: Where to train.
        progress: Whether to show a progress bar.
        processes: The processes that train together.
    """

    config: Config
    schema: Schema | None
    random_state: RandomState
    device: torch.device
    progress: bool
    processes: SingleProcess

    def fit(self, data: TrainingData, open_checkpoint: OpenCheckpoint | None = None) -> FittedModel:
        """Fit a new model, or resume from the checkpoint that `open_checkpoint` returns."""
        schema, config = data.schema(self.schema), self.config.adapt(data.n_rows)
        codec = RowCodec.fit(schema, data.counts, encoding=config.encoding, scaling=config.scaling)
        rows = self._encode(codec, data.table)
        sample = rows if data.sample is data.table else self._encode(codec, data.sample)
        checkpoint = self._checkpoint(open_checkpoint, config, sample)
        denoiser = build_denoiser(config, codec).to_empty(device="cpu")
        denoiser.initialize(sample, torch.Generator().manual_seed(checkpoint.seed))
        history = self._train(denoiser.to(self.device), rows.to(self.device), config, checkpoint)
        return FittedModel(schema, config, codec, denoiser, history)

    def _encode(self, codec: RowCodec, table: Table) -> EncodedRows:
        """Encode the rows to train on."""
        encoded = codec.to_training_batch(read_columns(table, codec.schema))
        if self.config.incomplete_rows == "mask":
            return encoded
        complete = encoded.complete()
        if len(complete.x) < MIN_ROWS:
            raise InvalidTable(
                f"With incomplete_rows='drop' a table to train on must have at least {MIN_ROWS} complete rows, got "
                f"{len(complete.x)}. Use incomplete_rows='mask' to train on all rows.",
                code="too_few_complete_rows",
                complete=len(complete.x),
                required=MIN_ROWS,
            )
        dropped = len(encoded.x) - len(complete.x)
        if dropped > WARN_DROPPED_FRACTION * len(encoded.x):
            warnings.warn(
                RowsDroppedWarning(
                    f"Only {len(complete.x)} of {len(encoded.x)} rows are complete, and with incomplete_rows='drop' "
                    "the model trains on these only. Use incomplete_rows='mask' to train on all rows.",
                    code="rows_dropped",
                    complete=len(complete.x),
                    rows=len(encoded.x),
                ),
                stacklevel=4,
            )
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
        reasons = list[str]()
        with training_bar(config, reasons, show=self.progress) as on_epoch:
            history = train(
                denoiser, rows, config, checkpoint.seed, on_epoch, checkpoint=checkpoint, processes=self.processes
            )
            reasons.append(f"stopped by {history.stopped_by}")
        return history
