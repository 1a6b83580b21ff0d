"""ReMasker: a masked autoencoder whose tokens are the cells of a row (Du et al. 2024)."""

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
from harpoon_bench.baselines.neural import Encoder, Limit, NeuralMethod, descend, made, mean_of, passes, span

ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Settings:
    """ReMasker's settings, with the values of its authors; `encoding` is that of the Harpoon paper.

    Attributes:
        mask_ratio: The share of a row's cells that are hidden anew each time it is trained on.
        width: Of a token.
        depth: Blocks of the encoder.
        decoder_depth: Blocks of the decoder.
        heads: Of each attention.
        widening: How much wider the hidden layer of a block is than a token.
        epochs: Passes over the rows.
        batch_size: Rows per step.
        learning_rate: Of AdamW, at its highest.
        lowest_learning_rate: At the end.
        warm_up: The share of the training in which the rate rises.
        weight_decay: Of AdamW.
        encoding: Of categories: "integer", one token per column, or "onehot", one per label.
    """

    mask_ratio: float = 0.5
    width: int = 32
    depth: int = 8
    decoder_depth: int = 4
    heads: int = 4
    widening: float = 4.0
    epochs: int = 600
    batch_size: int = 64
    learning_rate: float = 1e-3
    lowest_learning_rate: float = 1e-5
    warm_up: float = 40 / 600
    weight_decay: float = 0.01
    encoding: str = "integer"


class ReMasker(NeuralMethod):
    """ReMasker, trained to give back both the cells it sees and those hidden from it."""

    name, title = "remasker", "ReMasker"
    defaults = asdict(Settings())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the autoencoder."""
        settings, generator = Settings(**self.options), self.generator()
        self.encoder = Encoder.fit(train, schema, encoding=settings.encoding, scale=span)
        rows = self.encoder.rows(train)
        self.network = made(lambda: Autoencoder(settings), generator)
        optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=settings.weight_decay, fused=True
        )
        limit = Limit(passes(settings.epochs, rows, settings.batch_size), self.budget, self.clock)
        for batch, done in limit.batches(rows, settings.batch_size, generator):
            optimiser.param_groups[0]["lr"] = learning_rate(done, settings)
            visible = remasked(batch.observed, settings.mask_ratio, generator)
            error = (self.network(batch.x, visible) - batch.x) ** 2
            descend(optimiser, mean_of(error, visible) + mean_of(error, batch.observed & ~visible))
        return self

    @torch.no_grad()
    def completed(self, rows: EncodedRows) -> Tensor:
        """What the autoencoder says of rows of which it sees all that is known."""
        parts = zip(*(torch.split(part, ROWS_AT_ONCE) for part in (rows.x, rows.observed)), strict=True)
        return torch.cat([self.network(x, known) for x, known in parts])


class Autoencoder(nn.Module):
    """A transformer over the visible cells, and one over these and a mask token for every other cell."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.width = settings.width
        self.embed = nn.Linear(1, settings.width)
        self.row_token, self.mask_token = (nn.Parameter(torch.zeros(1, 1, settings.width)) for _ in range(2))
        self.encode = blocks(settings.depth, settings)
        self.between = nn.Linear(settings.width, settings.width)
        self.decode = blocks(settings.decoder_depth, settings)
        self.read = nn.Linear(settings.width, 1)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Every cell of rows, (n, d), of which only some are visible.

        A token that no other attends to is as good as absent, so rows with different holes go through together.
        """
        places = nn.functional.pad(sinusoidal_embedding(torch.arange(x.shape[1]), self.width), (0, 0, 1, 0))
        absent = nn.functional.pad(~visible, (1, 0))
        tokens = torch.cat([self.row_token.expand(len(x), 1, -1), self.embed(x.unsqueeze(2))], dim=1)
        seen = self.between(self.encode(tokens + places, src_key_padding_mask=absent))
        decoded = self.decode(torch.where(absent.unsqueeze(2), self.mask_token, seen) + places)
        cells: Tensor = torch.tanh(self.read(decoded))[:, 1:, 0] / 2 + 0.5
        return cells


def blocks(depth: int, settings: Settings) -> nn.TransformerEncoder:
    """Pre-norm transformer blocks, with a norm after the last."""
    layer = nn.TransformerEncoderLayer(
        settings.width,
        settings.heads,
        dim_feedforward=round(settings.widening * settings.width),
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    return nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(settings.width), enable_nested_tensor=False)


def remasked(known: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """The known cells that stay visible: at most a share 1 - ratio of each row's places, at random."""
    order = torch.where(known, torch.rand(known.shape, generator=generator), torch.inf).argsort(dim=1)
    return known & (order.argsort(dim=1) < int(known.shape[1] * (1 - ratio)))


def learning_rate(done: float, settings: Settings) -> float:
    """A line up, then half a cosine down."""
    if done < settings.warm_up:
        return settings.learning_rate * done / settings.warm_up
    way = (done - settings.warm_up) / (1 - settings.warm_up)
    above = settings.learning_rate - settings.lowest_learning_rate
    return settings.lowest_learning_rate + above * (0.5 + 0.5 * math.cos(math.pi * way))
