"""Checkpoints: the state of a training in a file, from which it can be resumed exactly."""

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

from harpoon._utils import model_file
from harpoon.encoding import EncodedRows
from harpoon.exceptions import InvalidOption, ModelFileError

SAVE_INTERVAL_SECONDS = 60.0
CHECKPOINT_KEY = "checkpoint"  # key of the content of a checkpoint file; model files do not have it
OpenCheckpoint = Callable[[int, str], "Checkpoint"]  # from a seed and the fingerprint of a training


@dataclass(frozen=True)
class TrainingState:
    """The state of a training: weights, averages, moments and random state; all other numbers as plain data."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names start with a prefix and a dot, without the prefix."""
        start = f"{prefix}."
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a prefix and a dot to the names of tensors.

    >>> TrainingState(with_prefix("weights", {"a.b": Tensor()}), {}).group("weights")
    {'a.b': tensor([])}
    """
    return {f"{prefix}.{key}": value for key, value in tensors.items()}


@dataclass
class Checkpoint:
    """The file of a training's state. Without a path nothing is stored.

    `state` is what the file had, to resume from. A resumed training has the seed it started with.
    """

    path: Path | None = None
    seed: int = 0
    fingerprint: str = ""
    state: TrainingState | None = None
    _saved_at: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: str | os.PathLike[str], seed: int, fingerprint: str) -> Self:
        """Open the checkpoint in a file, or a new one if the file does not exist."""
        if not isinstance(path, str | os.PathLike):
            raise InvalidOption(f"checkpoint must be the path of a file, got {path!r}.")
        if not Path(path).parent.is_dir():  # an error now, and not after the first minute of training
            raise model_file.unwritable_file(path, "there is no such folder")
        if not Path(path).exists():
            return cls(Path(path), seed, fingerprint)
        tensors, content = model_file.read_tensors(path)
        stored = content.get(CHECKPOINT_KEY)
        if not isinstance(stored, dict) or stored.get("fingerprint") != fingerprint:
            raise InvalidOption(
                f"{str(path)!r} must be the checkpoint of the same training. It is of another table, of other options, "
                "or not a checkpoint. Choose another file, or delete it to start again.",
                code="checkpoint_mismatch",
                path=str(path),
            )
        return cls(Path(path), stored["seed"], fingerprint, TrainingState(tensors, stored["numbers"]))

    def save(self, state: Callable[[], TrainingState], epoch: Mapping[str, Any], *, now: bool = False) -> None:  # noqa: ARG002
        """Write the state after an evaluation, if `now` or if the last one was written a minute ago."""
        if self.path is not None and (now or self.is_due(SAVE_INTERVAL_SECONDS)):
            self.write(self.path, state())

    def is_due(self, seconds: float) -> bool:
        """Return whether at least `seconds` have passed since the state was written."""
        return time.monotonic() - self._saved_at >= seconds

    def write(self, path: Path, state: TrainingState) -> None:
        """Write a state to a file."""
        content = {CHECKPOINT_KEY: {"seed": self.seed, "fingerprint": self.fingerprint, "numbers": state.numbers}}
        model_file.write_tensors(path, state.tensors, content)
        self._saved_at = time.monotonic()


def check_no_checkpoint(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Raise ModelFileError if the content of a model file is that of a checkpoint."""
    if CHECKPOINT_KEY in content:
        raise ModelFileError(
            f"{str(path)!r} is the checkpoint of a training, not a model. Give it to fit(checkpoint=...) to resume "
            "the training, and save the model afterwards.",
            code="checkpoint_not_model",
            path=str(path),
        )


def fingerprint(options: Mapping[str, Any], data: EncodedRows) -> str:
    """Return a digest of the options and the encoded rows of a training."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for values in (data.x, data.observed, *([] if data.weights is None else [data.weights])):
        digest.update(values.contiguous().numpy().tobytes())
    return digest.hexdigest()
