"""Learning a table: from what it holds to a trained network, alone or as one of several processes."""

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
from harpoon.encoding.row_codec import RowCodec, spanned
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
    Kind.CONSTANT: "constant, and not learnt",
    Kind.EMPTY: "empty, and stays so",
    Kind.TEXT: "text: kept by impute, left out of drawn rows",
    Kind.IDENTIFIER: "an identifier: kept by impute, left out of drawn rows",
    Kind.SKIPPED: "skipped: kept by impute, left out of drawn rows",
}


@dataclass(frozen=True)
class TrainingData:
    """A table to learn, or a part of one.

    Attributes:
        part: The rows that this process has.
        tallies: What all rows hold.
        sample: Rows from everywhere, to set the network up with; enough to tell quantiles.
    """

    table: Table
    counts: TableCounts
    sample: Table

    @classmethod
    def from_table(cls, table: Table) -> TrainingData:
        """A table that one process has for itself."""
        return cls(table, count_columns(table), table)

    @property
    def n_rows(self) -> int:
        """How many rows there are in all."""
        return max((tally.n_observed + tally.n_missing for tally in self.counts.values()), default=0)

    def schema(self, given: Schema | None) -> Schema:
        """What the columns are, as far as that is not given; with one line for each that is not modelled."""
        if not self.counts:
            raise InvalidTable("A table to train on must have columns, got one without any.")
        if self.n_rows < MIN_ROWS:
            raise InvalidTable(f"A table to train on must have at least {MIN_ROWS} rows, got {self.n_rows}.")
        schema = Schema.from_counts(self.counts) if given is None else given.complete_from_counts(self.counts)
        for column in schema:
            if not column.kind.modelled:
                why = column.note or "left out on request"
                warnings.warn(
                    f"Column {column.name!r} is {NOT_MODELLED[column.kind]}: {why}.", ColumnLeftOutWarning, stacklevel=4
                )
        if not schema.modelled:
            raise InvalidTable("A table to train on must have a column that can be modelled, and this one has none.")
        return schema


@dataclass(frozen=True)
class FittedModel:
    """What came of it."""

    schema: Schema
    config: Config
    codec: RowCodec
    denoiser: Denoiser
    history: History


@dataclass(frozen=True)
class ModelFitter:
    """How to learn.

    Attributes:
        settings: Of the network and its training.
        schema: What is said of the columns beforehand.
        random_state: Of the training.
        device: Where to train.
        progress: Whether to show a bar.
        team: Who trains.
    """

    config: Config
    schema: Schema | None
    random_state: RandomState
    device: torch.device
    progress: bool
    processes: SingleProcess

    def fit(self, lesson: TrainingData, keeper: OpenCheckpoint | None = None) -> FittedModel:
        """Train a new network, or one that was begun and has a checkpoint that `keeper` finds."""
        schema, settings = lesson.schema(self.schema), self.config.adapt(lesson.n_rows)
        codec = RowCodec.fit(schema, lesson.counts, encoding=settings.encoding, scaling=settings.scaling)
        rows = self._rows(codec, lesson.table)
        sample = rows if lesson.sample is lesson.table else self._rows(codec, lesson.sample)
        kept = self._checkpoint(keeper, settings, sample)
        denoiser = build_denoiser(settings, codec).to_empty(device="cpu")
        denoiser.initialize(sample, torch.Generator().manual_seed(kept.seed))
        denoiser.to(self.device)
        reasons = list[str]()
        with training_bar(settings, reasons, show=self.progress) as on_epoch:
            on_device = rows.to(self.device)
            history = train(
                denoiser, on_device, settings, kept.seed, on_epoch, checkpoint=kept, processes=self.processes
            )
            reasons.append(f"stopped by {history.stopped_by}")
        return FittedModel(schema, settings, codec, denoiser, history)

    def _checkpoint(self, keeper: OpenCheckpoint | None, settings: Config, sample: EncodedRows) -> Checkpoint:
        """Where the training keeps its state; how long it may take does not tell it from others."""
        seed = to_seed(self.random_state) % 2**63
        if keeper is None:
            return Checkpoint(seed=seed)
        told = {name: value for name, value in settings.to_json().items() if name not in LIMITS}
        stated = self.random_state if isinstance(self.random_state, int) else None
        return keeper(seed, fingerprint({**told, "random_state": stated}, sample))

    def _rows(self, codec: RowCodec, table: Table) -> EncodedRows:
        """The rows to train on, as the network sees them."""
        encoded = spanned(codec, read_columns(table, codec.schema))
        if self.config.incomplete_rows == "mask":
            return encoded
        complete = encoded.complete()
        if len(complete.x) < MIN_ROWS:
            raise InvalidTable(
                f"With incomplete_rows='drop' the model trains on complete rows only, and the table has "
                f"{len(complete.x)} of them; it needs at least {MIN_ROWS}. Use incomplete_rows='mask' to train on all "
                "rows.",
                code="too_few_complete_rows",
                complete=len(complete.x),
                required=MIN_ROWS,
            )
        dropped = len(encoded.x) - len(complete.x)
        if dropped > WARN_DROPPED_FRACTION * len(encoded.x):
            warnings.warn(
                RowsDroppedWarning(
                    f"Only {len(complete.x)} of {len(encoded.x)} rows are complete, and with incomplete_rows='drop' the "
                    "model trains on those only. Use incomplete_rows='mask' to train on all rows.",
                    code="rows_dropped",
                    complete=len(complete.x),
                    rows=len(encoded.x),
                ),
                stacklevel=4,
            )
        return complete
