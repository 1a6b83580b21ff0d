"""GAIN: a generator fills holes so that a discriminator cannot tell which cells were filled (Yoon et al. 2018)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from harpoon import Schema
from harpoon.encoding.batch import EncodedRows
from harpoon_bench.baselines.neural import Encoder, Limit, NeuralMethod, descend, made, mean_of, span

UNTOLD = 0.5
LARGEST_NOISE = 0.01


@dataclass(frozen=True)
class Settings:
    """GAIN's settings, with the values of its authors; `hidden_share` and `encoding` are those of the Harpoon paper.

    Attributes:
        hint_rate: The share of cells of which the discriminator is told whether they are known.
        alpha: The weight of giving known cells back.
        iterations: Training steps, each of one batch for both networks.
        batch_size: Rows per step.
        width: Of the two hidden layers of each network; None: as wide as a row.
        learning_rate: Of Adam.
        hidden_share: The share of training cells that are hidden completely at random, once and for all.
        encoding: Of categories: "integer" or "onehot".
    """

    hint_rate: float = 0.9
    alpha: float = 100.0
    iterations: int = 10_000
    batch_size: int = 128
    width: int | None = None
    learning_rate: float = 1e-3
    hidden_share: float = 0.2
    encoding: str = "integer"


class Gain(NeuralMethod):
    """GAIN, trained once on training rows with holes, then applied to rows with any holes."""

    name, title = "gain", "GAIN"
    defaults = asdict(Settings())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train both networks in turn."""
        settings, generator = Settings(**self.options), self.generator()
        self.encoder = Encoder.fit(train, schema, encoding=settings.encoding, scale=span)
        rows = self.with_holes(self.encoder.rows(train), settings.hidden_share, generator)
        places = rows.x.shape[1]
        judge, self.fill = (made(lambda: network(places, settings.width or places), generator) for _ in range(2))
        judging, filling = (
            torch.optim.Adam(net.parameters(), lr=settings.learning_rate, fused=True) for net in (judge, self.fill)
        )
        limit = Limit(settings.iterations, self.budget, self.clock)
        for batch, _ in limit.batches(rows, settings.batch_size, generator):
            told = torch.rand(batch.x.shape, generator=generator) < settings.hint_rate
            clue = hint(batch.observed, told)
            produced = self.produced(batch, generator)
            judged = judge(torch.cat([batch.fill(produced.detach()), clue], dim=1))
            descend(judging, mean_of(verdict(judged, batch.observed.float()), ~told))
            judged = judge(torch.cat([batch.fill(produced), clue], dim=1))
            fooling = mean_of(verdict(judged, torch.ones_like(judged)), ~told & ~batch.observed)
            descend(filling, fooling + settings.alpha * mean_of((produced - batch.x) ** 2, batch.observed))
        return self

    def produced(self, rows: EncodedRows, generator: torch.Generator) -> Tensor:
        """What the generator makes of rows whose holes hold a little noise."""
        noise = LARGEST_NOISE * torch.rand(rows.x.shape, generator=generator)
        made_up: Tensor = torch.sigmoid(self.fill(torch.cat([rows.fill(noise), rows.observed], dim=1)))
        return made_up

    @torch.no_grad()
    def completed(self, rows: EncodedRows) -> Tensor:
        """What the generator makes of the rows."""
        return self.produced(rows, self.generator())


def network(places: int, width: int) -> nn.Sequential:
    """Two hidden layers, from a row and as many numbers about it to one number per place."""
    layers = [nn.Linear(2 * places, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, places)]
    return nn.Sequential(*layers)


def hint(known: Tensor, told: Tensor) -> Tensor:
    """The hint vector H = B M + 0.5 (1 - B): the mask where it is told, and neither yes nor no elsewhere."""
    return torch.where(told, known.float(), UNTOLD)


def verdict(judged: Tensor, truth: Tensor) -> Tensor:
    """The cross-entropy of each cell."""
    return binary_cross_entropy_with_logits(judged, truth, reduction="none")
