"""What the neural methods share: tables as numbers and back, shuffled batches within a budget, first weights."""

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
from harpoon.data.statistics import count_columns
from harpoon.encoding.batch import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines.base import Method, completed

Module = TypeVar("Module", bound=nn.Module)
Scale = Callable[[EncodedRows], tuple[Tensor, Tensor]]
TOKEN_DEVIATION = 0.02


def span(rows: EncodedRows) -> tuple[Tensor, Tensor]:
    """The lowest number of each place and how far it is to the highest: what lies between comes to lie in [0, 1]."""
    low = torch.where(rows.observed, rows.x, torch.inf).amin(dim=0)
    high = torch.where(rows.observed, rows.x, -torch.inf).amax(dim=0)
    return low, high - low


def moments(rows: EncodedRows) -> tuple[Tensor, Tensor]:
    """The mean and the deviation of each place."""
    count = rows.observed.sum(dim=0)
    mean = (rows.x * rows.observed).sum(dim=0) / count
    return mean, (((rows.x - mean) * rows.observed) ** 2).sum(dim=0).div(count).sqrt()


@dataclass(frozen=True)
class Encoder:
    """A table as rows of numbers, each place shifted and scaled as a network wants it, and back.

    >>> train = pd.DataFrame({"x": [0.0, 5.0, 10.0, 10.0], "kind": ["a", "b", "b", "c"]})
    >>> encoder = Encoder.fit(train, Schema.infer(train), encoding="integer", scale=span)
    >>> encoder.rows(train).x.round(decimals=3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [1.0, 0.5], [1.0, 1.0]]
    >>> encoder.filled(train.mask(train == 10), torch.full((4, 2), 0.2))["x"].round(3).tolist()
    [0.0, 5.0, 2.0, 2.0]
    """

    codec: RowCodec
    shift: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, train: pd.DataFrame, schema: Schema, *, encoding: str, scale: Scale) -> Encoder:
        """Learn how numbers are scaled from the training rows.

        Args:
            train: The training rows.
            schema: What its columns are.
            encoding: Of categories, as in `harpoon.config`: "onehot", or "integer" for the places of labels.
            scale: What is subtracted from each place, and what it is then divided by.
        """
        codec = RowCodec.fit(schema, count_columns(dataframe.read(train)), encoding=encoding, scaling="standard")
        shift, size = scale(codec.to_batch(read_columns(dataframe.read(train), schema)))
        return cls(codec, shift, torch.where(size > 0, size, 1.0))

    def rows(self, table: pd.DataFrame) -> EncodedRows:
        """The rows of a table; what is missing is zero."""
        rows = self.codec.to_batch(read_columns(dataframe.read(table), self.codec.schema))
        return EncodedRows((rows.x - self.shift) / self.scale * rows.observed, rows.observed)

    def hiding(self, rows: EncodedRows, share: float, generator: torch.Generator) -> EncodedRows:
        """The rows with a share of their cells hidden, completely at random."""
        shape = (len(rows.x), len(self.codec.codecs))
        kept = (torch.rand(shape, generator=generator) >= share).numpy()
        known = rows.observed & torch.from_numpy(self.codec.repeat_per_part(kept))
        return EncodedRows(rows.x * known, known)

    def filled(self, holes: pd.DataFrame, x: Tensor) -> pd.DataFrame:
        """The table with its holes filled from rows of numbers: means off the grid, and the most probable label."""
        numbers, probabilities = self.codec.expectation((x * self.scale + self.shift).double().numpy())
        labels = {
            name: np.array(self.codec.schema[name].categories)[p.argmax(axis=1)] for name, p in probabilities.items()
        }
        return completed(holes, pd.DataFrame({**numbers, **labels}), self.codec.schema)


@dataclass(frozen=True)
class Limit:
    """How long to train: so many steps, or as many as there is time for.

    >>> limit, rows = Limit(steps=4), Given(torch.zeros(5, 1), torch.ones(5, 1, dtype=torch.bool))
    >>> [(len(batch.x), done) for batch, done in limit.batches(rows, 3, torch.Generator())]
    [(3, 0.0), (2, 0.25), (3, 0.5), (2, 0.75)]
    """

    steps: int
    seconds: float | None = None
    clock: Callable[[], float] = monotonic

    def batches(self, rows: EncodedRows, size: int, generator: torch.Generator) -> Iterator[tuple[EncodedRows, float]]:
        """Shuffled batches, pass after pass, each with the share of the training that lies behind it."""
        began, steps = self.clock(), 0
        while True:
            for batch in torch.split(torch.randperm(len(rows.x), generator=generator), size):
                done = self.done(steps, self.clock() - began)
                if done >= 1:
                    return
                yield rows[batch], done
                steps += 1

    def done(self, steps: int, seconds: float) -> float:
        """The share of the training that is done, by the limit that comes first."""
        return max(steps / self.steps, seconds / self.seconds if self.seconds else 0.0)


def passes(epochs: int, rows: EncodedRows, size: int) -> int:
    """How many batches so many passes over the rows are."""
    return epochs * -(-len(rows.x) // size)


def made(make: Callable[[], Module], generator: torch.Generator) -> Module:
    """A network with Glorot's first weights, from a generator of our own instead of the global one."""
    with torch.device("meta"):
        empty = make()
    module = empty.to_empty(device="cpu")
    norms = {id(part.weight) for part in module.modules() if isinstance(part, nn.LayerNorm)}
    for weight in module.parameters():
        if weight.ndim == 2:  # noqa: PLR2004
            nn.init.xavier_uniform_(weight, generator=generator)
        elif weight.ndim > 2:  # noqa: PLR2004
            nn.init.normal_(weight, std=TOKEN_DEVIATION, generator=generator)
        else:
            nn.init.constant_(weight, 1.0 if id(weight) in norms else 0.0)
    return module


def mean_of(values: Tensor, where: Tensor) -> Tensor:
    """The mean of some values; zero if there are none."""
    return (values * where).sum() / where.sum().clamp(min=1)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down a loss."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _check(option: str, value: object, default: object) -> None:
    """A whole number where the default is one (or is open), a number, or a text."""
    if isinstance(default, str):
        fits, wanted = isinstance(value, str), "a text"
    elif isinstance(default, float) and default < 0:  # the log of something
        fits, wanted = isinstance(value, int | float), "a number"
    elif isinstance(default, float):
        fits, wanted = isinstance(value, int | float) and value >= 0, "a number of at least 0"
    else:
        fits, wanted = isinstance(value, int) and value >= 1, "a whole number of at least 1"
    if not fits or isinstance(value, bool):
        raise InvalidOption(f"{option} must be {wanted}, got {value!r}.")


class NeuralMethod(Method):
    """A network that completes rows of numbers."""

    options: dict[str, Any]
    clock: Callable[[], float] = staticmethod(monotonic)
    encoder: Encoder

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        super().__init__(seed=seed, budget=budget, **options)
        for name, value in options.items():
            if value != self.defaults[name]:
                _check(f"The option {name} of {self.title}", value, self.defaults[name])

    @abstractmethod
    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Learn from the training rows."""

    @abstractmethod
    def completed(self, rows: EncodedRows) -> Tensor:
        """Rows of numbers whose unknown places are filled."""

    def impute(self, holes: pd.DataFrame) -> pd.DataFrame:
        """The table without holes."""
        return self.encoder.filled(holes, self.completed(self.encoder.rows(holes)))

    def with_holes(self, rows: EncodedRows, share: float, generator: torch.Generator) -> EncodedRows:
        """Training rows of a method that learns from holes, with a share of their cells hidden."""
        if share:
            self.note = f"trained on rows of which {share:.0%} of the cells were hidden".replace("%", " %")
        return self.encoder.hiding(rows, share, generator)

    def generator(self) -> torch.Generator:
        """Random numbers that depend on the seed alone."""
        return torch.Generator().manual_seed(self.seed)
