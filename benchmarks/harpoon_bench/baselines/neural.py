"""Shared parts of the neural methods: encoded tables, batches within a budget, initial weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from harpoon import Schema
from harpoon.data import dataframe
from harpoon.data.reader import read_columns
from harpoon.data.value_counts import count_columns
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines.base import Method, fill_missing

Module = TypeVar("Module", bound=nn.Module)
Scale = Callable[[EncodedRows], tuple[Tensor, Tensor]]
TOKEN_INIT_STD = 0.02


def min_and_range(rows: EncodedRows) -> tuple[Tensor, Tensor]:
    """Return the minimum and the range of each dimension, which scale it to [0, 1]."""
    low = torch.where(rows.observed, rows.x, torch.inf).amin(dim=0)
    high = torch.where(rows.observed, rows.x, -torch.inf).amax(dim=0)
    return low, high - low


def mean_and_std(rows: EncodedRows) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each dimension."""
    count = rows.observed.sum(dim=0)
    mean = (rows.x * rows.observed).sum(dim=0) / count
    return mean, (((rows.x - mean) * rows.observed) ** 2).sum(dim=0).div(count).sqrt()


@dataclass(frozen=True)
class ScaledCodec:
    """Codec between a table and encoded rows whose dimensions are shifted and scaled for a network.

    >>> train = pd.DataFrame({"x": [0.0, 5.0, 10.0, 10.0], "kind": ["a", "b", "b", "c"]})
    >>> codec = ScaledCodec.fit(train, Schema.infer(train), encoding="integer", scale=min_and_range)
    >>> codec.encode(train).x.round(decimals=3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [1.0, 0.5], [1.0, 1.0]]
    >>> codec.fill(train.mask(train == 10), torch.full((4, 2), 0.2))["x"].round(3).tolist()
    [0.0, 5.0, 2.0, 2.0]
    """

    row_codec: RowCodec
    shift: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, train: pd.DataFrame, schema: Schema, *, encoding: str, scale: Scale) -> ScaledCodec:
        """Fit the codec to training rows.

        Args:
            train: The training rows.
            schema: Their schema.
            encoding: The encoding of categories, "onehot" or "integer" (see `harpoon.config`).
            scale: Returns the shift and the scale of each dimension.
        """
        codec = RowCodec.fit(schema, count_columns(dataframe.read(train)), encoding=encoding, scaling="standard")
        shift, size = scale(codec.to_batch(read_columns(dataframe.read(train), schema)))
        return cls(codec, shift, torch.where(size > 0, size, 1.0))

    def encode(self, table: pd.DataFrame) -> EncodedRows:
        """Return the encoded rows of a table; missing cells are zero."""
        rows = self.row_codec.to_batch(read_columns(dataframe.read(table), self.row_codec.schema))
        return EncodedRows((rows.x - self.shift) / self.scale * rows.observed, rows.observed)

    def hide(self, rows: EncodedRows, fraction: float, generator: torch.Generator) -> EncodedRows:
        """Hide a fraction of the cells, completely at random."""
        shape = (len(rows.x), len(self.row_codec.codecs))
        visible = (torch.rand(shape, generator=generator) >= fraction).numpy()
        observed = rows.observed & torch.from_numpy(self.row_codec.repeat_per_part(visible))
        return EncodedRows(rows.x * observed, observed)

    def fill(self, incomplete: pd.DataFrame, x: Tensor) -> pd.DataFrame:
        """Fill a table from encoded rows: numbers without rounding, and the most probable categories."""
        schema = self.row_codec.schema
        numbers, probabilities = self.row_codec.expectation((x * self.scale + self.shift).double().numpy())
        categories = {name: np.array(schema[name].categories)[p.argmax(axis=1)] for name, p in probabilities.items()}
        return fill_missing(incomplete, pd.DataFrame({**numbers, **categories}), schema)


@dataclass(frozen=True)
class TrainingLimit:
    """The most training steps, and the most seconds.

    >>> limit, rows = TrainingLimit(steps=4), EncodedRows(torch.zeros(5, 1), torch.ones(5, 1, dtype=torch.bool))
    >>> [(len(batch.x), done) for batch, done in limit.batches(rows, 3, torch.Generator())]
    [(3, 0.0), (2, 0.25), (3, 0.5), (2, 0.75)]
    """

    steps: int
    seconds: float | None = None
    clock: Callable[[], float] = monotonic

    def batches(self, rows: EncodedRows, size: int, generator: torch.Generator) -> Iterator[tuple[EncodedRows, float]]:
        """Yield shuffled batches, epoch after epoch, each with the fraction of the training that is done."""
        began, steps = self.clock(), 0
        while True:
            for batch in torch.split(torch.randperm(len(rows.x), generator=generator), size):
                done = self.fraction_done(steps, self.clock() - began)
                if done >= 1:
                    return
                yield rows[batch], done
                steps += 1

    def fraction_done(self, steps: int, seconds: float) -> float:
        """Return the fraction of the training that is done, by the limit that is reached first."""
        return max(steps / self.steps, seconds / self.seconds if self.seconds else 0.0)


def count_batches(epochs: int, rows: EncodedRows, size: int) -> int:
    """Return the number of batches of some epochs."""
    return epochs * -(-len(rows.x) // size)


def initialize(make: Callable[[], Module], generator: torch.Generator) -> Module:
    """Make a network with Glorot weights from this generator; the global random state stays unchanged."""
    with torch.device("meta"):
        empty = make()
    module = empty.to_empty(device="cpu")
    norms = {id(part.weight) for part in module.modules() if isinstance(part, nn.LayerNorm)}
    for weight in module.parameters():
        if weight.ndim == 2:
            nn.init.xavier_uniform_(weight, generator=generator)
        elif weight.ndim > 2:
            nn.init.normal_(weight, std=TOKEN_INIT_STD, generator=generator)
        else:
            nn.init.constant_(weight, 1.0 if id(weight) in norms else 0.0)
    return module


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values where the mask is true, or zero."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one optimizer step."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _check(option: str, value: object, default: object) -> None:
    """Raise InvalidOption unless the value has the type of the default."""
    if isinstance(default, str):
        valid, expected = isinstance(value, str), "a string"
    elif isinstance(default, float) and default < 0:  # the mean of a logarithm
        valid, expected = isinstance(value, int | float), "a number"
    elif isinstance(default, float):
        valid, expected = isinstance(value, int | float) and value >= 0, "a number of at least 0"
    else:
        valid, expected = isinstance(value, int) and value >= 1, "an integer of at least 1"
    if not valid or isinstance(value, bool):
        raise InvalidOption(f"{option} must be {expected}, got {value!r}.")


class NeuralMethod(Method):
    """A network that completes encoded rows."""

    options: dict[str, Any]
    clock: Callable[[], float] = staticmethod(monotonic)
    codec: ScaledCodec

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        super().__init__(seed=seed, budget=budget, **options)
        for name, value in options.items():
            if value != self.defaults[name]:
                _check(f"The option {name} of {self.title}", value, self.defaults[name])

    @abstractmethod
    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train on complete rows."""

    @abstractmethod
    def complete(self, rows: EncodedRows) -> Tensor:
        """Return encoded rows, (n, d), with filled missing cells."""

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Encode, complete and decode."""
        return self.codec.fill(incomplete, self.complete(self.codec.encode(incomplete)))

    def hide_training_cells(self, rows: EncodedRows, fraction: float, generator: torch.Generator) -> EncodedRows:
        """Hide a fraction of the training cells, for methods that learn from missing cells."""
        if fraction:
            self.note = f"trained with {100 * fraction:.0f} % of the cells hidden"
        return self.codec.hide(rows, fraction, generator)

    def generator(self) -> torch.Generator:
        """Return a generator that depends on the seed only."""
        return torch.Generator().manual_seed(self.seed)
