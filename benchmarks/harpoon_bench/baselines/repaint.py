"""RePaint (Lugmayr et al., 2022): observed cells replace those of the reverse process, noised to each time.

On the paper's denoiser it is the method that the tables of the Harpoon paper call DiffPuter.
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
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import AllOf, IsIn
from harpoon.conditions.language.parser import to_predicate
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.reverse_process import INITIAL_NOISE, InitialNoise, reverse_process
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import SOLVERS, Solver, StepInputs
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon_bench.baselines.neural import NeuralMethod, ScaledCodec

MAX_NOISE_NUMBERS = 2**25  # random numbers in memory at once


@dataclass(frozen=True)
class Options:
    """The paper's denoiser and its reverse process, which visits each time once.

    Attributes:
        passes: How often each jump is repeated (RePaint's U; 10 in its paper).
        jump_length: The number of steps of a jump back (10 in RePaint's paper).
        epochs: Epochs of training.
        hidden: The width of the denoiser.
        diffusion_steps: T, of the denoiser and of the reverse process.
        batch_size: Rows per training step.
        learning_rate: The learning rate of Adam.
        solver: The solver of the reverse process, "ddpm_printed", "ddpm" or "ddim".
        sampling_batch_size: The most rows that are sampled together.
    """

    passes: int = 1
    jump_length: int = 10
    epochs: int = 1000
    hidden: int = 1024
    diffusion_steps: int = 200
    batch_size: int = 1024
    learning_rate: float = 1e-4
    solver: str = "ddpm_printed"
    sampling_batch_size: int = 1024


class RePaint(NeuralMethod):
    """RePaint on the denoiser of `Harpoon("paper")`."""

    name, title = "repaint", "RePaint (the paper's DiffPuter)"
    can_sample = True
    defaults = asdict(Options())

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train the paper's denoiser."""
        options = Options(**self.options)
        self.model = Harpoon(
            "paper",
            schema=schema,
            random_state=self.seed,
            device="cpu",
            progress=False,
            max_epochs=options.epochs,
            hidden=options.hidden,
            diffusion_steps=options.diffusion_steps,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            max_time=self.budget,
        ).fit(train, checkpoint=self.checkpoint)
        self.codec = ScaledCodec(self.model.codec_, torch.tensor(0.0), torch.tensor(1.0))
        return self

    def complete(self, rows: EncodedRows) -> Tensor:
        """Run the reverse process once."""
        options, schedule = Options(**self.options), self.model.denoiser_.schedule
        return repaint(
            self.model.denoiser_,
            rows,
            times=times_with_jumps(schedule.times(options.diffusion_steps), options.jump_length, options.passes),
            initial_noise=INITIAL_NOISE["standard"],
            solver=SOLVERS[options.solver],
            seed=self.seed,
            batch_size=options.sampling_batch_size,
        )

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Impute empty rows. Only categories that a condition fixes are observed; the rest of it is ignored."""
        schema = self.codec.row_codec.schema
        fixed = {} if where is None else fixed_categories(where, schema)
        return self.impute(pd.DataFrame({column.name: [fixed.get(column.name)] * n for column in schema}))


def fixed_categories(where: str, schema: Schema) -> dict[str, object]:
    """Return the categories that the conjuncts of a condition fix.

    >>> schema = Schema.infer(pd.DataFrame({"age": [20, 30, 40], "job": ["chef", "nurse", "chef"]}))
    >>> fixed_categories("age > 25 and job = 'chef'", schema), fixed_categories("age > 25 or job = 'chef'", schema)
    ({'job': 'chef'}, {})
    """
    bound = bind(to_predicate(where), schema)
    members = [part for part in (bound.parts if isinstance(bound, AllOf) else [bound]) if isinstance(part, IsIn)]
    categories = {part.column: schema[part.column].categories or () for part in members}
    return {part.column: categories[part.column][part.allowed[0]] for part in members if len(part.allowed) == 1}


def times_with_jumps(times: Sequence[float], jump_length: int, passes: int) -> list[float]:
    """Return the times of a reverse process that jumps back and repeats each stretch.

    >>> times_with_jumps([4, 3, 2, 1, 0], jump_length=2, passes=2)
    [4, 3, 2, 4, 3, 2, 1, 0, 2, 1, 0]
    """
    visited = [times[0]]
    for top in range(0, len(times) - 1, jump_length):
        down = list(times[top + 1 : top + jump_length + 1])
        visited += down + [times[top], *down] * (passes - 1)
    return visited


def repaint(
    denoiser: Denoiser,
    rows: EncodedRows,
    *,
    times: Sequence[float],
    initial_noise: InitialNoise,
    solver: Solver,
    seed: int,
    draw: int = 0,
    batch_size: int,
    on_step: Callable[[], None] = lambda: None,
) -> Tensor:
    """Complete encoded rows, (n, d), by RePaint. The noise of a row depends on its index, not on its batch."""
    width = rows.x.shape[1]
    size = max(1, min(batch_size, MAX_NOISE_NUMBERS // (len(times) * width)))
    batches = []
    for start in range(0, len(rows.x), size):
        batch = rows[slice(start, start + size)]
        noise = row_noise(seed, np.arange(start, start + len(batch.x)), len(times), width, draw=draw)
        x = reverse_process(
            denoiser,
            noise,
            times=times,
            initial_noise=initial_noise,
            solver=replace_observed(batch, solver),
            on_step=on_step,
        )
        batches.append(batch.fill(x))
    return torch.cat(batches)


def replace_observed(rows: EncodedRows, solver: Solver) -> Solver:
    """Return a solver whose steps replace observed cells by noised ones.

    A step to a noisier time is a step of the forward process. Observed cells use the noise of the step, which nothing
    else needs.
    """

    def step(inputs: StepInputs) -> Tensor:
        after = inputs.after
        if after.noise > inputs.now.noise:
            return add_noise(inputs.x_t, inputs.now, after, inputs.noise)
        observed = EncodedRows(after.signal * rows.x + after.noise * inputs.noise, rows.observed)
        return observed.fill(solver.step(inputs))

    return Solver(step, stochastic=True)


def add_noise(x_t: Tensor, now: NoiseLevel, after: NoiseLevel, noise: Tensor) -> Tensor:
    """Return the rows at a noisier time, by the forward process."""
    signal = after.signal / now.signal
    return signal * x_t + math.sqrt(after.noise**2 - (signal * now.noise) ** 2) * noise
