"""GAIN (Yoon et al., 2018): a generator imputes cells, and a discriminator predicts which cells were imputed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Self

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from harpoon import Schema
from harpoon.diffusion.denoiser import initialize_linear
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon_bench.baselines.base import PUBLISHED_SETTINGS
from harpoon_bench.baselines.neural import (
    NeuralMethod,
    ScaledCodec,
    TrainingLimit,
    descend,
    initialize,
    masked_mean,
    min_and_range,
)

NO_HINT = 0.5
MAX_INPUT_NOISE = 0.01


@dataclass(frozen=True)
class Options:
    """GAIN's options with the values of its authors; `hidden_fraction` and `encoding` as in the Harpoon paper.

    Attributes:
        hint_rate: The fraction of cells whose mask the discriminator gets.
        alpha: The weight of the reconstruction loss of observed cells.
        iterations: Training steps; each trains both networks on one batch.
        batch_size: Rows per step.
        width: The width of the two hidden layers of each network; None: the width of an encoded row.
        learning_rate: The learning rate of Adam.
        hidden_fraction: The fraction of training cells that are hidden, completely at random, before training.
        encoding: The encoding of categories, "integer" or "onehot".
    """

    hint_rate: float = 0.9
    alpha: float = 100.0
    iterations: int = 10_000
    batch_size: int = 128
    width: int | None = None
    learning_rate: float = 1e-3
    hidden_fraction: float = 0.2
    encoding: str = "integer"


class Gain(NeuralMethod):
    """GAIN, trained once on training rows with hidden cells."""

    name, title = "gain", "GAIN"
    defaults: ClassVar[dict[str, object]] = asdict(Options())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train discriminator and generator alternately."""
        options, generator = Options(**self.options), self.generator()
        self.codec = ScaledCodec.fit(train, schema, encoding=options.encoding, scale=min_and_range)
        rows = self.hide_training_cells(self.codec.encode(train), options.hidden_fraction, generator)
        d = rows.x.shape[1]
        discriminator, self.network = (self.make_network(d, options.width or d, generator) for _ in range(2))
        discriminator_optimizer, generator_optimizer = (
            torch.optim.Adam(net.parameters(), lr=options.learning_rate, fused=True)
            for net in (discriminator, self.network)
        )
        limit = TrainingLimit(options.iterations, self.budget, self.clock)
        for batch, _ in limit.batches(rows, options.batch_size, generator):
            hinted = torch.rand(batch.x.shape, generator=generator) < options.hint_rate
            hint = self.make_hint(batch.observed, hinted)
            generated = self.generate(batch, generator)
            logits = discriminator(torch.cat([batch.fill(generated.detach()), hint], dim=1))
            descend(discriminator_optimizer, self.discriminator_loss(logits, batch.observed, hinted))
            logits = discriminator(torch.cat([batch.fill(generated), hint], dim=1))
            reconstruction = masked_mean((generated - batch.x) ** 2, batch.observed)
            adversarial = self.adversarial_loss(logits, batch.observed, hinted)
            descend(generator_optimizer, adversarial + options.alpha * reconstruction)
        return self

    def make_network(self, d: int, width: int, generator: torch.Generator) -> nn.Module:
        """Return an MLP with Glorot weights, from (n, 2d) to (n, d)."""
        return initialize(lambda: make_layers(d, width), generator)

    def make_hint(self, observed: Tensor, hinted: Tensor) -> Tensor:
        """Return the hint H = B M + 0.5 (1 - B): the mask where it is revealed, 0.5 elsewhere."""
        return torch.where(hinted, observed.float(), NO_HINT)

    def discriminator_loss(self, logits: Tensor, observed: Tensor, hinted: Tensor) -> Tensor:
        """Return the cross-entropy of the cells whose mask is not revealed."""
        return masked_mean(cross_entropy(logits, observed.float()), ~hinted)

    def adversarial_loss(self, logits: Tensor, observed: Tensor, hinted: Tensor) -> Tensor:
        """Return the cross-entropy of imputed cells, whose mask is not revealed, with the label of observed ones."""
        return masked_mean(cross_entropy(logits, torch.ones_like(logits)), ~hinted & ~observed)

    def generate(self, rows: EncodedRows, generator: torch.Generator) -> Tensor:
        """Run the generator on rows, (n, d), with noise in their missing cells."""
        noise = MAX_INPUT_NOISE * torch.rand(rows.x.shape, generator=generator)
        generated: Tensor = torch.sigmoid(self.network(torch.cat([rows.fill(noise), rows.observed], dim=1)))
        return generated

    @torch.no_grad()
    def complete(self, rows: EncodedRows) -> Tensor:
        """Run the generator."""
        return self.generate(rows, self.generator())


class GainPublished(Gain):
    """GAIN as in the plug-in of HyperImpute, which the paper's code uses, with its defaults: 100 batches only.

    The plug-in differs from its authors' GAIN in three ways, on which the result of so short a training depends: the
    initial weights are those of PyTorch, a mask that is not revealed looks like that of a missing cell, and the losses
    are means over all cells.
    """

    name, title = "gain_published", f"GAIN ({PUBLISHED_SETTINGS})"
    defaults: ClassVar[dict[str, object]] = asdict(Options(hint_rate=0.8, alpha=10.0, iterations=100))

    def make_network(self, d: int, width: int, generator: torch.Generator) -> nn.Module:
        """Return an MLP with the initial weights of PyTorch."""
        network = make_layers(d, width)
        initialize_linear(network, generator)
        return network

    def make_hint(self, observed: Tensor, hinted: Tensor) -> Tensor:
        """Return the hint H = B M."""
        return (observed & hinted).float()

    def discriminator_loss(self, logits: Tensor, observed: Tensor, hinted: Tensor) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy of all cells."""
        return cross_entropy(logits, observed.float()).mean()

    def adversarial_loss(self, logits: Tensor, observed: Tensor, hinted: Tensor) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy of imputed cells with the label of observed ones, relative to all cells."""
        return (cross_entropy(logits, torch.ones_like(logits)) * ~observed).mean()


def make_layers(d: int, width: int) -> nn.Sequential:
    """Return an MLP with two hidden layers, from (n, 2d) to (n, d)."""
    layers = [nn.Linear(2 * d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, d)]
    return nn.Sequential(*layers)


def cross_entropy(logits: Tensor, truth: Tensor) -> Tensor:
    """Return the cross-entropy of each cell."""
    return binary_cross_entropy_with_logits(logits, truth, reduction="none")
