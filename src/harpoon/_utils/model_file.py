"""Saved models: safetensors files with a JSON header and a checksum.

There is no pickle: reading a file executes nothing. The header holds the version of the format and a checksum of the
tensors, so that a damaged file is detected. Files are replaced atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from harpoon._utils.files import replace_atomically
from harpoon._version import __version__
from harpoon.exceptions import ModelFileError

FORMAT = 5
KEY = "harpoon"


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> None:
    """Write a model file, atomically."""
    target = _target(path)
    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps({"format": FORMAT, "version": __version__, **content})
    # One key, because the order of several is not defined.
    data = save(held, metadata={KEY: f"{_checksum(text, held)} {text}"})
    try:
        with replace_atomically(target) as temporary:
            temporary.write_bytes(data)
    except (OSError, ValueError) as error:
        raise unwritable_file(target, getattr(error, "strerror", None) or error) from None


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the content of a model file, or raise ModelFileError."""
    name, source = str(path), _path(path)
    try:
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies, because matrix products round differently with another alignment of memory.
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {name!r}. Give the path that `save` wrote to.") from None
    except (SafetensorError, OSError, ValueError) as error:
        if source.is_dir():
            raise ModelFileError(f"{name!r} is a folder. Give a file that `save` or `harpoon fit` wrote.") from None
        raise ModelFileError(
            f"{name!r} is no Harpoon model, or it is damaged ({error}). Give a file that `save` or `harpoon fit` "
            "wrote; where a command takes a model and a table, the model comes first."
        ) from None
    if KEY not in metadata:
        raise ModelFileError(f"{name!r} is a safetensors file, but not a Harpoon model. Give one that `save` wrote.")
    checksum, _, text = metadata[KEY].partition(" ")
    if checksum != _checksum(text, tensors):
        raise damaged_file(name, "its content does not match its checksum")
    if not all(bool(value.isfinite().all()) for value in tensors.values()):
        raise damaged_file(name, "its weights are not all finite")
    return tensors, _validate(name, text)


def unwritable_file(path: str | os.PathLike[str], reason: object) -> ModelFileError:
    """Return the error for a file that cannot be written."""
    return ModelFileError(
        f"The model cannot be written to {str(path)!r}: {reason}. "
        "Choose a file in a folder that exists and that you may write to."
    )


def damaged_file(path: str | os.PathLike[str], reason: object) -> ModelFileError:
    """Return the error for a file with invalid content."""
    return ModelFileError(f"{str(path)!r} is damaged: {reason}. Save the model again.")


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file to write; a pipe or a folder is an error."""
    target = _path(path)
    try:
        special = target.exists() and not target.is_file()
    except (OSError, ValueError):
        return target  # writing raises the error
    if special:
        raise ModelFileError(f"{str(target)!r} is not a regular file. Choose another path for the model.")
    return target


def _path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise ModelFileError(f"The path of a model file must be text or a Path, got {path!r}.")
    return Path(path)


def _validate(name: str, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged_file(name, error) from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise damaged_file(name, "its header has no format")
    if content["format"] != FORMAT:
        remedy = "Update tabharpoon" if content["format"] > FORMAT else "Train the model again"
        raise ModelFileError(
            f"{name!r} was written by Harpoon {content.get('version')} in format {content['format']}; this one "
            f"({__version__}) reads format {FORMAT}. {remedy}."
        )
    return content


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
