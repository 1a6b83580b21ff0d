"""A trained model evaluated on rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon._utils.progress import Progress, sampling_bar, step_callback
from harpoon._utils.threads import map_batches
from harpoon.config import Config
from harpoon.data import Columns, Floats, Index, n_rows, take
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.inference.sampling.batches import batch_positions, batch_size
from harpoon.inference.sampling.trained_model import TrainedModel
from harpoon.networks.one_step_prediction import Evaluation

Decoded = TypeVar("Decoded")
Sampled = TypeVar("Sampled")
SampleBatch = Callable[[Index, Columns, Callable[[], None]], Sampled]  # (positions, given cells, on_step) to rows
BATCHES_PER_CHUNK = 16  # batches that are encoded and decoded together, at most


@dataclass
class BatchEvaluator:
    """Evaluates a trained model on rows batch by batch, and counts the evaluations."""

    model: TrainedModel
    config: Config
    seed: int = 0
    progress: Progress = False  # an error that a callback raises ends the sampling
    evaluations: int = field(default=0, init=False)  # of the network so far, counted in rows

    @property
    def codec(self) -> RowCodec:
        """The codec of the rows."""
        return self.model.codec

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.model.device

    def posterior_means(self, rows: Columns, decode: Callable[[Floats], Decoded]) -> list[Decoded]:
        """Decode E[x_0 | observed cells], chunk by chunk: one evaluation at maximal noise."""

        def evaluate(given: EncodedRows) -> tuple[torch.Tensor, ...]:
            return (self.model.at_max_noise.posterior_mean(given),)

        return self.map_chunks(rows, evaluate, lambda _, mean: decode(mean))

    def predict(
        self, rows: Columns, read: Callable[[Evaluation, EncodedRows], tuple[torch.Tensor, ...]]
    ) -> tuple[Floats, ...]:
        """Run the network once at maximal noise on rows that are known in part, and read its distributions.

        `read` gets the evaluation of a batch and its encoded rows. It returns tensors with a line for each row, which
        are concatenated.
        """
        model = self.model.distributions
        assert model is not None  # noqa: S101
        parts = self.map_chunks(rows, lambda given: read(model.evaluate(given), given), lambda _, *arrays: arrays)
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def map_chunks(
        self,
        rows: Columns,
        evaluate: Callable[[EncodedRows], tuple[torch.Tensor, ...]],
        decode: Callable[..., Decoded],
    ) -> list[Decoded]:
        """Evaluate a function of encoded rows batch by batch, and decode its results chunk by chunk.

        Rows are encoded and decoded in chunks of several batches, because a column of a chunk costs hardly more than
        one of a batch.

        Args:
            rows: The rows.
            evaluate: Called with the encoded rows of a batch.
            decode: Called with the rows of a chunk, and with each result of `evaluate` for all of them.
        """
        height = n_rows(rows)
        size = batch_size(self.config.sampling_batch_size, self.codec.width)
        chunks = list(batch_positions(height, max(size, self._chunk_size(height, size))))
        on_step = step_callback(sum(-(-count // size) for _, count in chunks), height, self.progress)

        @torch.no_grad()
        def decode_chunk(chunk: tuple[Index, int]) -> Decoded:
            index, filled = chunk
            part = take(rows, index)
            observed, results = self.codec.to_batch(part), []
            for batch, count in batch_positions(filled, size):
                given = observed[torch.from_numpy(batch)].to(self.device)
                results.append([_to_numpy(result[:count]) for result in evaluate(given)])
                on_step()
            return decode(take(part, slice(filled)), *map(np.concatenate, zip(*results, strict=True)))

        self.evaluations += height
        return map_batches(decode_chunk, chunks, self.device)

    def _chunk_size(self, height: int, size: int) -> int:
        """Return how many of some rows are encoded together, given the size of a batch."""
        per_thread = -(-height // torch.get_num_threads())
        return batch_size(min(per_thread, BATCHES_PER_CHUNK * size), self.codec.width * BATCHES_PER_CHUNK)

    def sample_batches(
        self, given: Columns, sample_batch: SampleBatch[Sampled], size: int, steps: int, *, parallel: bool = True
    ) -> list[tuple[Sampled, int]]:
        """Sample all rows batch by batch, on several threads where that is allowed.

        Returns each batch, and how many of its rows count.
        """
        batches = list(batch_positions(n_rows(given), size))
        self.evaluations += n_rows(given) * steps
        progress = self.progress if batches else False
        with sampling_bar(len(batches) * steps, n_rows(given), progress) as on_step:

            def sample(batch: tuple[Index, int]) -> tuple[Sampled, int]:
                positions, count = batch
                return sample_batch(positions, take(given, positions), on_step), count

            return map_batches(sample, batches, self.device) if parallel else [sample(batch) for batch in batches]


def _to_numpy(x: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as an array, numbers in double precision."""
    array: NDArray[Any] = (x.double() if x.is_floating_point() else x).cpu().numpy()
    return array
