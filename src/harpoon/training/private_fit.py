"""Private fitting: the recipe of `harpoon.training.fit` with differential privacy end to end.

The rows are read by two mechanisms and by nothing else: `GuardedRows.histograms`, once, and the noisy gradients of
`harpoon.training.private_trainer`. The codec, the initial network and all stored statistics are made from the noisy
histograms. What would need more of the rows is left out: relations, dependencies, rules, calendars, counts of pairs of
columns, the Gaussian baseline, and all that is measured on held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch

from harpoon._utils.progress import show_bar
from harpoon._utils.rng import RandomState, to_seed
from harpoon.config import Config
from harpoon.data import Columns, FrameTemplate, Schema, Table, TableCounts, coerce_observed, missing_as_null
from harpoon.data.arrow_types import text_types
from harpoon.data.contingency import ContingencyTables
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.exceptions import PrivacyWarning, warn
from harpoon.networks import build_denoiser
from harpoon.networks.anchored_denoiser import AnchoredDenoiser
from harpoon.privacy.differential.budget import GOOD_SIGNAL, MIN_SIGNAL, BudgetSplit, Privacy
from harpoon.privacy.differential.histograms import NoisyHistograms, PublicBins, equal_histograms, public_bins, release
from harpoon.privacy.differential.noise_sources import Noise, SecureNoise, SeededNoise
from harpoon.privacy.differential.public_schema import complete_schema
from harpoon.rules.rule_set import RuleSet
from harpoon.training.fitted_model import FittedModel
from harpoon.training.private_trainer import NoisySteps, train_privately
from harpoon.training.trainer import History

INITIAL_ROWS = 4096  # rows sampled from the histograms, from which the network is initialized
PROGRESS_STEPS = 100
SEEDED = (
    "For tests only, no guarantee: random_state makes the noise known to whoever knows the seed. Leave it out, and "
    "give a seed to sample() and impute() instead."
)


class GuardedRows:
    """The rows of a table, which can be counted once with noise and encoded once, for noisy gradients."""

    def __init__(self, table: Table, schema: Schema) -> None:
        read = {column.name: coerce_observed(table.column(column.name), column) for column in schema.modelled}
        self._bins = public_bins(schema)
        self._rows: Columns | None = read
        self._is_counted = False

    @property
    def types(self) -> Columns:
        """Columns of the same types without rows."""
        return {name: self._bins[name].prepare(cells[:0]) for name, cells in self._open().items()}

    def histograms(self, split: BudgetSplit, noise: Noise) -> NoisyHistograms:
        """Count the rows with noise. A second time would spend the budget twice."""
        if self._is_counted:
            raise RuntimeError("the rows have been counted, and the budget of the counts is spent")
        self._is_counted = True
        return release(self._open(), self._bins, split, noise)

    def check(self, codec: RowCodec) -> None:
        """Raise what `encode` would raise with a codec of the same schema; nothing of the rows is kept."""
        codec.to_training_batch(missing_as_null(self._prepared()))

    def encode(self, codec: RowCodec) -> EncodedRows:
        """Return the encoded rows, for `train_privately` alone, and forget the others."""
        rows = self._prepared()
        self._rows = None
        return codec.to_training_batch(missing_as_null(rows))

    def _prepared(self) -> Columns:
        return {name: self._bins[name].prepare(cells) for name, cells in self._open().items()}

    def _open(self) -> Columns:
        if self._rows is None:
            raise RuntimeError("the rows cannot be read again: all mechanisms of the budget have had them")
        return self._rows


@dataclass(frozen=True)
class PrivateFitter:
    """Fits models with differential privacy; the arguments are those of `ModelFitter`."""

    config: Config
    privacy: Privacy
    schema: Schema | None
    random_state: RandomState
    device: torch.device
    progress: bool
    rules: RuleSet = field(default_factory=RuleSet)

    def fit(self, table: Table) -> tuple[FittedModel, FrameTemplate]:
        """Fit a new model; the template of sampled tables has the types that the schema implies."""
        schema = complete_schema(self.schema, table)
        split = self.privacy.split(len(schema.modelled))
        seed = to_seed(self.random_state) % 2**63
        is_seeded = self.random_state is not None
        noise: Noise = SecureNoise() if self.privacy.secure else SeededNoise(seed if is_seeded else None)
        record, template = split.record(seeded=is_seeded), public_template(table.template, schema)
        if is_seeded:
            warn(PrivacyWarning(SEEDED))
        rows = GuardedRows(table, schema)
        types = rows.types
        # What fails for any counts has to fail before the budget of the real ones is spent.
        rehearsed = self._prepare(schema, equal_histograms(schema), types, seed)
        self.rules.bind(rehearsed.schema).check_consistent(rehearsed.codec.nullable)
        rows.check(rehearsed.codec)
        found = rows.histograms(split, noise)
        self._warn(found)
        model = replace(self._prepare(schema, found, types, seed), privacy=record)
        if model.codec.nullable != rehearsed.codec.nullable:
            self.rules.bind(model.schema).check_consistent(model.codec.nullable)
        warn_of_noise(split, found.rows, sum(weight.numel() for weight in model.denoiser.parameters()))
        steps = NoisySteps(split, noise, found.rows)
        denoiser = model.denoiser.to(self.device)
        history = self._train(denoiser, rows.encode(model.codec), model.config, steps, seed)
        return replace(model, history=history), template

    def _prepare(self, schema: Schema, found: NoisyHistograms, types: Columns, seed: int) -> FittedModel:
        """Return the model before its first step: all that follows from the counts."""
        counts = found.to_table_counts(types)
        schema = Schema(
            tuple(replace(c, missing=counts[c.name].missing_fraction) if c.kind.modelled else c for c in schema)
        )
        config = self.config.adapt(found.rows)
        codec = RowCodec.fit(
            schema,
            counts,
            encoding=config.encoding,
            scaling=config.scaling,
            missing_indicators=config.missing_indicators,
        )
        generator = torch.Generator().manual_seed(seed)
        denoiser = build_denoiser(config, codec).to_empty(device="cpu")
        if not isinstance(denoiser, AnchoredDenoiser):
            raise TypeError("only the anchored network has gradients of single rows")
        initial = sample_independently(counts, found.bins, types, INITIAL_ROWS, seed)
        denoiser.initialize(codec.to_training_batch(initial), generator, initial, independent=True)
        contingency = ContingencyTables(found.rows, found.to_column_bins(), {}, noise_std=found.noise_std)
        return FittedModel(schema, config, codec, denoiser, History(), contingency)

    def _train(
        self,
        denoiser: torch.nn.Module,
        rows: EncodedRows,
        config: Config,
        steps: NoisySteps,
        seed: int,
    ) -> History:
        if not isinstance(denoiser, AnchoredDenoiser):
            raise TypeError("only the anchored network has gradients of single rows")
        every = max(self.privacy.steps // PROGRESS_STEPS, 1)
        with show_bar("Training", 1.0, "{task.fields[state]}", show=self.progress) as update:

            def on_step(step: int) -> None:
                if step % every == 0:  # no loss is shown: it would be one more statistic of the rows
                    update(completed=step / self.privacy.steps, state=f"step {step}")

            history = train_privately(denoiser, rows.to(self.device), config, steps, seed=seed, on_step=on_step)
            update(completed=1.0, description=f"Trained (stopped by {history.stopped_by})")
        return history

    def _warn(self, found: NoisyHistograms) -> None:
        """Warn of what weakens the guarantee, or the model, as far as the noisy counts tell."""
        if self.privacy.delta * found.rows >= 1:
            warn(
                PrivacyWarning(
                    f"delta={self.privacy.delta:g} allows to reveal a row of a table with about {found.rows:,} rows. "
                    f"It must be far below {1 / found.rows:.1g}."
                )
            )
        for name in found.bins:
            if fraction := found.foreign_fraction(name):
                warn(
                    PrivacyWarning(
                        f"About {fraction:.0%} of the cells of column {name!r} are no value of the schema, and count "
                        "as missing. Complete its categories or values."
                    )
                )


def public_template(template: FrameTemplate, schema: Schema) -> FrameTemplate:
    """Return a template of the same library and column names, with types that follow from the schema alone.

    The types of the table may be due to one row: a missing cell makes integers floats in pandas, and a text among
    numbers makes a column of a text file a text. Columns that the model does not have get no type.
    """
    types = text_types(schema) | {name: pa.scalar(value).type for name, value in schema.constants.items()}
    fields = [pa.field(name, types.get(name, pa.null())) for name in template.schema.names]
    return replace(template, schema=pa.schema(fields), enums=())


def warn_of_noise(split: BudgetSplit, n_rows: int, n_weights: int) -> None:
    """Warn if the noise hides associations between columns, by a rule of thumb; `n_rows` is the noisy number."""
    signal = split.signal_to_noise(n_rows, n_weights)
    if signal < MIN_SIGNAL:
        enough = float(f"{n_rows * GOOD_SIGNAL / signal:.2g}")
        warn(
            PrivacyWarning(
                f"About {n_rows:,} rows are too few to learn how columns depend on each other with "
                f"epsilon={split.privacy.epsilon:g}: noise hides it. By a rule of thumb, it takes about "
                f"{enough:,.0f} rows, or a larger epsilon. The distributions of single columns are less affected."
            )
        )


def sample_independently(
    counts: TableCounts, bins: Mapping[str, PublicBins], types: Columns, n_rows: int, seed: int
) -> Columns:
    """Sample rows whose columns have given counts, and are independent of each other."""
    rng = np.random.default_rng(seed)
    rows = {}
    for name in bins:
        column = counts[name]
        total = column.n_observed + column.n_missing
        ranks = rng.integers(total, size=n_rows)
        index = np.searchsorted(np.cumsum(column.counts), ranks, side="right")
        missing = index >= column.n_distinct
        values = column.values.values[np.minimum(index, column.n_distinct - 1)]
        zero = np.zeros((), dtype=values.dtype)
        rows[name] = replace(types[name], values=np.where(missing, zero, values), missing=missing)
    return missing_as_null(rows)
