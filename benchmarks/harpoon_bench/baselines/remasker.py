"""ReMasker (Du et al., 2024): a masked autoencoder whose tokens are the cells of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Self

import pandas as pd
import torch
from torch import Tensor, nn

from harpoon import Schema
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.time_embeddings import sinusoidal_embedding
from harpoon_bench.baselines.base import PUBLISHED_SETTINGS
from harpoon_bench.baselines.neural import (
    NeuralMethod,
    ScaledCodec,
    TrainingLimit,
    count_batches,
    descend,
    initialize,
    masked_mean,
    min_and_range,
)

ROWS_PER_FORWARD_PASS = 1024


@dataclass(frozen=True)
class Options:
    """ReMasker's options with the values of its authors, except for `encoding`.

    The authors have numeric columns only. A category as an integer code is filled with the expected code, rounded: a
    category between two frequent ones, which may itself be rare. On Shoppers that is right less often than the mode.
    A one-hot vector is filled with its expectation, and the most probable category is taken.

    Attributes:
        mask_ratio: The fraction of the cells of a row that are masked in each training step.
        width: The width of a token.
        depth: Blocks of the encoder.
        decoder_depth: Blocks of the decoder.
        heads: Attention heads.
        mlp_ratio: The width of the hidden layer of a block, relative to a token.
        epochs: Epochs of training.
        batch_size: Rows per step.
        learning_rate: The highest learning rate of AdamW.
        min_learning_rate: The learning rate at the end.
        warmup_fraction: The fraction of the training in which the learning rate rises.
        weight_decay: The weight decay of AdamW.
        encoding: "onehot": the token of a category has an embedding of its own for each value; "integer": its code is
            a number, as in the Harpoon paper.
    """

    mask_ratio: float = 0.5
    width: int = 32
    depth: int = 8
    decoder_depth: int = 4
    heads: int = 4
    mlp_ratio: float = 4.0
    epochs: int = 600
    batch_size: int = 64
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-5
    warmup_fraction: float = 40 / 600
    weight_decay: float = 0.01
    encoding: str = "onehot"


class ReMasker(NeuralMethod):
    """ReMasker, trained to reconstruct visible and masked cells."""

    name, title = "remasker", "ReMasker"
    defaults: ClassVar[dict[str, object]] = asdict(Options())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the autoencoder."""
        options, generator = Options(**self.options), self.generator()
        self.codec = ScaledCodec.fit(train, schema, encoding=options.encoding, scale=min_and_range)
        rows = self.codec.encode(train)
        self.network = initialize(lambda: Autoencoder(options, self.codec.row_codec.widths), generator)
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=options.weight_decay, fused=True
        )
        limit = TrainingLimit(count_batches(options.epochs, rows, options.batch_size), self.budget, self.clock)
        for batch, done in limit.batches(rows, options.batch_size, generator):
            optimizer.param_groups[0]["lr"] = learning_rate(done, options)
            observed = self.network.cells(batch.observed)
            visible = sample_visible(observed, options.mask_ratio, generator)
            error = self.network.sum_features((self.network(batch.x, visible) - batch.x) ** 2)
            descend(optimizer, masked_mean(error, visible) + masked_mean(error, observed & ~visible))
        return self

    @torch.no_grad()
    def complete(self, rows: EncodedRows) -> Tensor:
        """Run the autoencoder with all observed cells visible."""
        parts = zip(*(torch.split(part, ROWS_PER_FORWARD_PASS) for part in (rows.x, rows.observed)), strict=True)
        return torch.cat([self.network(x, self.network.cells(observed)) for x, observed in parts])


class ReMaskerPublished(ReMasker):
    """ReMasker with the settings of the paper's code: 50 epochs, of which 40 warm up, depth 6, integer codes."""

    name, title = "remasker_published", f"ReMasker ({PUBLISHED_SETTINGS})"
    defaults: ClassVar[dict[str, object]] = asdict(
        Options(depth=6, epochs=50, warmup_fraction=40 / 50, encoding="integer")
    )


class Autoencoder(nn.Module):
    """A transformer encoder over the visible cells, and a decoder over these and mask tokens.

    A cell is one token. A number is its value times an embedding that all numbers share. A category has an embedding
    for each of its features.
    """

    def __init__(self, options: Options, widths: Sequence[int]) -> None:
        """Make a network for cells with some numbers of features, d in total; a cell with one is a number."""
        super().__init__()
        self.width, self.n_cells = options.width, len(widths)
        self.cell_of = [cell for cell, width in enumerate(widths) for _ in range(width)]
        self.first = [self.cell_of.index(cell) for cell in range(len(widths))]
        self.category_features = [feature for feature, cell in enumerate(self.cell_of) if widths[cell] > 1]
        self.category_embed, self.category_output = (
            nn.Parameter(torch.zeros(len(self.category_features), options.width)) for _ in range(2)
        )
        self.category_bias = nn.Parameter(torch.zeros(len(self.category_features)))
        self.embed = nn.Linear(1, options.width)
        self.row_token, self.mask_token = (nn.Parameter(torch.zeros(1, 1, options.width)) for _ in range(2))
        self.encode = make_blocks(options.depth, options)
        self.between = nn.Linear(options.width, options.width)
        self.decode = make_blocks(options.decoder_depth, options)
        self.output = nn.Linear(options.width, 1)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Return all features, (n, d), given the cells that are visible, (n, cells).

        Masked tokens are ignored by attention, so one batch can hold rows with different masks.
        """
        positions = nn.functional.pad(sinusoidal_embedding(torch.arange(self.n_cells), self.width), (0, 0, 1, 0))
        masked = nn.functional.pad(~visible, (1, 0))
        embedding = self.per_feature(self.embed.weight[:, 0], self.category_embed)
        cells = self.sum_features(x.unsqueeze(2) * embedding) + self.embed.bias
        tokens = torch.cat([self.row_token.expand(len(x), 1, -1), cells], dim=1)
        encoded = self.between(self.encode(tokens + positions, src_key_padding_mask=masked))
        decoded = self.decode(torch.where(masked.unsqueeze(2), self.mask_token, encoded) + positions)
        weight = self.per_feature(self.output.weight[0], self.category_output)
        bias = self.per_feature(self.output.bias[0], self.category_bias)
        features: Tensor = (decoded[:, 1:][:, self.cell_of] * weight).sum(dim=2) + bias
        return torch.tanh(features) / 2 + 0.5

    def per_feature(self, number: Tensor, categories: Tensor) -> Tensor:
        """Return the shared parameter of numbers, and those of the features of categories, as (d, ...)."""
        shared = number.expand(len(self.cell_of), *number.shape)
        return shared.index_copy(0, torch.tensor(self.category_features, dtype=torch.long), categories)

    def sum_features(self, values: Tensor) -> Tensor:
        """Sum values over the features of each cell: (n, d, ...) to (n, cells, ...)."""
        totals = values.new_zeros(len(values), self.n_cells, *values.shape[2:])
        return totals.index_add(1, torch.tensor(self.cell_of), values)

    def cells(self, observed: Tensor) -> Tensor:
        """Return which cells are observed, (n, cells), from which features are, (n, d)."""
        return observed[:, self.first]


def make_blocks(depth: int, options: Options) -> nn.TransformerEncoder:
    """Return pre-norm transformer blocks with a final norm."""
    layer = nn.TransformerEncoderLayer(
        options.width,
        options.heads,
        dim_feedforward=round(options.mlp_ratio * options.width),
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    return nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(options.width), enable_nested_tensor=False)


def sample_visible(observed: Tensor, mask_ratio: float, generator: torch.Generator) -> Tensor:
    """Sample the observed cells that stay visible: at most a fraction 1 - mask_ratio of the cells of each row."""
    order = torch.where(observed, torch.rand(observed.shape, generator=generator), torch.inf).argsort(dim=1)
    return observed & (order.argsort(dim=1) < int(observed.shape[1] * (1 - mask_ratio)))


def learning_rate(done: float, options: Options) -> float:
    """Return the learning rate: linear warm-up, then cosine decay."""
    if done < options.warmup_fraction:
        return options.learning_rate * done / options.warmup_fraction
    decayed = (done - options.warmup_fraction) / (1 - options.warmup_fraction)
    height = options.learning_rate - options.min_learning_rate
    return options.min_learning_rate + height * (0.5 + 0.5 * math.cos(math.pi * decayed))
