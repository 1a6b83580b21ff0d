"""ReMasker (Du et al., 2024): a masked autoencoder whose tokens are the cells of a row."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Self

import pandas as pd
import torch
from torch import Tensor, nn

from harpoon import Schema
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.layers import sinusoidal_embedding
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
    """ReMasker's options with the values of its authors; `encoding` as in the Harpoon paper.

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
        encoding: "integer": one token per column; "onehot": one token per category.
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
    encoding: str = "integer"


class ReMasker(NeuralMethod):
    """ReMasker, trained to reconstruct visible and masked cells."""

    name, title = "remasker", "ReMasker"
    defaults = asdict(Options())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the autoencoder."""
        options, generator = Options(**self.options), self.generator()
        self.codec = ScaledCodec.fit(train, schema, encoding=options.encoding, scale=min_and_range)
        rows = self.codec.encode(train)
        self.network = initialize(lambda: Autoencoder(options), generator)
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=options.weight_decay, fused=True
        )
        limit = TrainingLimit(count_batches(options.epochs, rows, options.batch_size), self.budget, self.clock)
        for batch, done in limit.batches(rows, options.batch_size, generator):
            optimizer.param_groups[0]["lr"] = learning_rate(done, options)
            visible = sample_visible(batch.observed, options.mask_ratio, generator)
            error = (self.network(batch.x, visible) - batch.x) ** 2
            descend(optimizer, masked_mean(error, visible) + masked_mean(error, batch.observed & ~visible))
        return self

    @torch.no_grad()
    def complete(self, rows: EncodedRows) -> Tensor:
        """Run the autoencoder with all observed cells visible."""
        parts = zip(*(torch.split(part, ROWS_PER_FORWARD_PASS) for part in (rows.x, rows.observed)), strict=True)
        return torch.cat([self.network(x, observed) for x, observed in parts])


class Autoencoder(nn.Module):
    """A transformer encoder over the visible cells, and a decoder over these and mask tokens."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.width = options.width
        self.embed = nn.Linear(1, options.width)
        self.row_token, self.mask_token = (nn.Parameter(torch.zeros(1, 1, options.width)) for _ in range(2))
        self.encode = make_blocks(options.depth, options)
        self.between = nn.Linear(options.width, options.width)
        self.decode = make_blocks(options.decoder_depth, options)
        self.output = nn.Linear(options.width, 1)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Return all cells, (n, d), given the visible ones, (n, d).

        Masked tokens are ignored by attention, so one batch can hold rows with different masks.
        """
        positions = nn.functional.pad(sinusoidal_embedding(torch.arange(x.shape[1]), self.width), (0, 0, 1, 0))
        masked = nn.functional.pad(~visible, (1, 0))
        tokens = torch.cat([self.row_token.expand(len(x), 1, -1), self.embed(x.unsqueeze(2))], dim=1)
        encoded = self.between(self.encode(tokens + positions, src_key_padding_mask=masked))
        decoded = self.decode(torch.where(masked.unsqueeze(2), self.mask_token, encoded) + positions)
        cells: Tensor = torch.tanh(self.output(decoded))[:, 1:, 0] / 2 + 0.5
        return cells


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
