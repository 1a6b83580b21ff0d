"""RePaint: known cells are written into the reverse process, noised as each time asks (Lugmayr et al. 2022).

On the paper's denoiser it is what the tables of the Harpoon paper call DiffPuter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from harpoon import Harpoon, Schema
from harpoon._utils.rng import row_noise
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import AllOf, IsIn
from harpoon.conditions.parser import to_predicate
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.samplers import STARTS, Start, reverse_process
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import STEPS, Step
from harpoon.encoding.batch import EncodedRows
from harpoon_bench.baselines.neural import Encoder, NeuralMethod

NOISE_NUMBERS = 2**25  # at most this many random numbers are held at once


@dataclass(frozen=True)
class Settings:
    """The paper's denoiser and its reverse process, which visits each time once.

    Attributes:
        passes: How often each stretch of times is passed (RePaint's U; its authors pass 10 times).
        stretch: Over how many steps a pass goes back (RePaint's jump length; its authors go back 10).
        epochs: Of training.
        hidden: The width of the denoiser.
        steps: T, of the denoiser and of the reverse process.
        batch_size: Rows per training step.
        learning_rate: Of Adam.
        noise_scale: Of the noise in a reverse step: "variance", "deviation" or "none".
        rows_at_once: Rows that go through the reverse process together, at the most.
    """

    passes: int = 1
    stretch: int = 10
    epochs: int = 1000
    hidden: int = 1024
    steps: int = 200
    batch_size: int = 1024
    learning_rate: float = 1e-4
    noise_scale: str = "variance"
    rows_at_once: int = 1024


class RePaint(NeuralMethod):
    """RePaint on the denoiser of `Harpoon("paper")`."""

    name, title = "repaint", "RePaint (the paper's DiffPuter)"
    draws = True
    defaults = asdict(Settings())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the paper's denoiser, as the library does."""
        settings = Settings(**self.options)
        self.model = Harpoon(
            "paper",
            schema=schema,
            random_state=self.seed,
            device="cpu",
            progress=False,
            max_epochs=settings.epochs,
            **({} if self.budget is None else {"max_time": self.budget}),
            **{name: getattr(settings, name) for name in ("hidden", "steps", "batch_size", "learning_rate")},
        ).fit(train, checkpoint=self.checkpoint)
        self.encoder = Encoder(self.model.codec_, torch.tensor(0.0), torch.tensor(1.0))
        return self

    def completed(self, rows: EncodedRows) -> Tensor:
        """One draw of the reverse process."""
        settings = Settings(**self.options)
        return repainted(
            self.model.denoiser_,
            rows,
            times=visited(self.model.denoiser_.schedule.times(settings.steps), settings.stretch, settings.passes),
            initial_noise=STARTS["standard"],
            step=STEPS[settings.noise_scale],
            seed=self.seed,
            rows_at_once=settings.rows_at_once,
        )

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Rows of which nothing is known but the labels that a condition pins; the rest of it is left to chance."""
        schema = self.encoder.codec.schema
        labels = {} if where is None else pinned(where, schema)
        return self.impute(pd.DataFrame({column.name: [labels.get(column.name)] * n for column in schema}))


def pinned(where: str, schema: Schema) -> dict[str, object]:
    """The labels that every row must have which meets a condition, as far as an `and` of its parts says so.

    >>> schema = Schema.infer(pd.DataFrame({"age": [20, 30, 40], "job": ["chef", "nurse", "chef"]}))
    >>> pinned("age > 25 and job = 'chef'", schema), pinned("age > 25 or job = 'chef'", schema)
    ({'job': 'chef'}, {})
    """
    bound = bind(to_predicate(where), schema)
    members = [part for part in (bound.parts if isinstance(bound, AllOf) else [bound]) if isinstance(part, IsIn)]
    labels = {part.column: schema[part.column].categories or () for part in members}
    return {part.column: labels[part.column][part.allowed[0]] for part in members if len(part.allowed) == 1}


def visited(times: Sequence[float], stretch: int, passes: int) -> list[float]:
    """The times of a reverse process that passes every stretch several times: down, back up at once, and down again.

    >>> visited([4, 3, 2, 1, 0], stretch=2, passes=2)
    [4, 3, 2, 4, 3, 2, 1, 0, 2, 1, 0]
    """
    way = [times[0]]
    for top in range(0, len(times) - 1, stretch):
        down = list(times[top + 1 : top + stretch + 1])
        way += down + [times[top], *down] * (passes - 1)
    return way


def repainted(
    denoiser: Denoiser,
    rows: EncodedRows,
    *,
    times: Sequence[float],
    start: Start,
    step: Step,
    seed: int,
    draw: int = 0,
    rows_at_once: int,
    on_step: Callable[[], None] = lambda: None,
) -> Tensor:
    """Rows drawn by a reverse process that holds on to what is known; a row's noise depends on its place alone."""
    width = rows.x.shape[1]
    size = max(1, min(rows_at_once, NOISE_NUMBERS // (len(times) * width)))
    parts = []
    for first in range(0, len(rows.x), size):
        part = rows[slice(first, first + size)]
        noise = row_noise(seed, np.arange(first, first + len(part.x)), len(times), width, draw=draw)
        x = reverse_process(
            denoiser, noise, times=times, initial_noise=start, step=writing(part, step), on_step=on_step
        )
        parts.append(part.fill(x))
    return torch.cat(parts)


def writing(rows: EncodedRows, step: Step) -> Step:
    """A step after which the known cells are what the forward process would have made of them.

    A step to a noisier time is one of the forward process. Known cells take the noise that is not used for them
    otherwise.
    """

    def stepped(x_t: Tensor, x0_hat: Tensor, now: NoiseLevel, after: NoiseLevel, z: Tensor) -> Tensor:
        if after.noise > now.noise:
            return noised(x_t, now, after, z)
        return EncodedRows(after.signal * rows.x + after.noise * z, rows.observed).fill(
            step(x_t, x0_hat, now, after, z)
        )

    return stepped


def noised(x_t: Tensor, now: NoiseLevel, after: NoiseLevel, z: Tensor) -> Tensor:
    """The rows at a noisier time."""
    kept = after.signal / now.signal
    return kept * x_t + math.sqrt(after.noise**2 - (kept * now.noise) ** 2) * z
