"""The state of a training in a file, so that one that was ended goes on from there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from harpoon._utils import tensor_file
from harpoon.encoding.batch import EncodedRows
from harpoon.exceptions import InvalidOption

SAVE_INTERVAL_SECONDS = 60.0
OpenCheckpoint = Callable[[int, str], "Checkpoint"]  # of a seed, and of what tells a training from others
CHECKPOINT_KEY = "checkpoint"  # what the content of such a file is filed under, and no model has


@dataclass(frozen=True)
class TrainingState:
    """All that a training needs to go on: its tensors, and its numbers as JSON has them."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a word and a dot, without it."""
        return {
            key.removeprefix(f"{name}."): value for key, value in self.tensors.items() if key.startswith(f"{name}.")
        }


def with_prefix(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under a word and a dot.

    >>> State(named("weights", {"a.b": Tensor()}), {}).under("weights")
    {'a.b': tensor([])}
    """
    return {f"{name}.{key}": value for key, value in tensors.items()}


@dataclass
class Checkpoint:
    """Where a training keeps its state, and what it kept there before. Without a path it keeps nothing.

    Attributes:
        path: The file.
        seed: Of the training; one that goes on has the seed it began with.
        training: What tells it from trainings on other tables or with other settings.
        state: What was kept.
    """

    path: Path | None = None
    seed: int = 0
    fingerprint: str = ""
    state: TrainingState | None = None
    _kept: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: str | os.PathLike[str], seed: int, training: str) -> Self:
        """The checkpoint in a file, or a new one where there is none yet."""
        if not Path(path).parent.is_dir():  # which should not come out a minute later
            raise tensor_file.unwritable_file(path, "there is no such folder")
        if not Path(path).exists():
            return cls(Path(path), seed, training)
        tensors, content = tensor_file.read_tensors(path)
        kept = content.get(CHECKPOINT_KEY)
        if not isinstance(kept, dict) or kept.get("training") != training:
            raise InvalidOption(
                f"{str(path)!r} must be the checkpoint of this very training, and it is of another table, of other "
                "settings or no checkpoint. Choose another file, or delete it to begin anew."
            )
        return cls(Path(path), kept["seed"], training, TrainingState(tensors, kept["numbers"]))

    def save(self, state: Callable[[], TrainingState], epoch: Mapping[str, Any], *, now: bool = False) -> None:  # noqa: ARG002
        """Write the state after an epoch, if it is time to."""
        if self.path is not None and (now or self.is_due(SAVE_INTERVAL_SECONDS)):
            self.write(self.path, state())

    def is_due(self, seconds: float) -> bool:
        """Whether it is so long ago that the state was written."""
        return time.monotonic() - self._kept >= seconds

    def write(self, path: Path, state: TrainingState) -> None:
        """Write a state to a file."""
        content = {CHECKPOINT_KEY: {"seed": self.seed, "training": self.fingerprint, "numbers": state.numbers}}
        tensor_file.write_tensors(path, state.tensors, content)
        self._kept = time.monotonic()


def fingerprint(settings: Mapping[str, Any], data: EncodedRows) -> str:
    """What tells a training from others: its rows as the network sees them, and its settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for values in (data.x, data.observed):
        digest.update(values.contiguous().numpy().tobytes())
    return digest.hexdigest()
