"""Fitted models as plain data and tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from torch import Tensor

from harpoon.config import ADAPTIVE, Config
from harpoon.data.dataframe import FrameTemplate
from harpoon.data.schema import Schema
from harpoon.diffusion.denoiser import Denoiser
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import HarpoonError
from harpoon.networks.build import build_denoiser
from harpoon.training.fit import FittedModel
from harpoon.training.history import Epoch, History

# What `from_content` may raise for content that `to_content` did not write.
BUILTIN_ERRORS = LookupError, TypeError, ValueError, RuntimeError, OverflowError, AttributeError
INVALID_CONTENT = (*BUILTIN_ERRORS, HarpoonError, pa.ArrowException)


def to_content(model: FittedModel, template: FrameTemplate) -> dict[str, Any]:
    """Return a fitted model without its weights as plain data."""
    return {
        "adapted": {name: getattr(model.config, name) for name in ADAPTIVE},
        "schema": model.schema.to_json(),
        "codec": model.codec.to_json(),
        "frame": template.to_json(),
        "history": asdict(model.history),
    }


def from_content(
    config: Config, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[FittedModel, FrameTemplate]:
    """Return the fitted model of `to_content` with its weights; raises one of `INVALID_CONTENT`."""
    schema, template = Schema.from_json(content["schema"]), FrameTemplate.from_json(content["frame"])
    codec, history = RowCodec.from_json(schema, content["codec"]), content["history"]
    adapted = _with_sizes(config, content["adapted"])
    denoiser = build_denoiser(adapted, codec)
    _check_template(template, schema)
    _check_dtypes(tensors, denoiser)
    denoiser.load_state_dict(tensors, assign=True)
    denoiser.validate_state()
    epochs = [Epoch(**epoch) for epoch in history["epochs"]]
    return FittedModel(schema, adapted, codec, denoiser, History(epochs, history["stopped_by"])), template


def _with_sizes(config: Config, sizes: Mapping[str, Any]) -> Config:
    """Return the options with the sizes that were chosen for the table, which must agree with sizes of the user."""
    given = {name: getattr(config, name) for name in ADAPTIVE}
    chosen = {name: sizes[name] for name in ADAPTIVE}
    if None in chosen.values():
        raise ValueError("the sizes of the network are missing")
    if any(given[name] not in (None, size) for name, size in chosen.items()):
        raise ValueError("the sizes of the network differ from its options")
    return replace(config, **chosen)


def _check_dtypes(tensors: Mapping[str, Tensor], denoiser: Denoiser) -> None:
    for name, value in denoiser.state_dict().items():
        if name in tensors and tensors[name].dtype != value.dtype:
            raise ValueError(f"{name} has dtype {tensors[name].dtype} instead of {value.dtype}")


def _check_template(template: FrameTemplate, schema: Schema) -> None:
    """Raise ValueError unless the dataframe template can hold the columns of the schema."""
    for column in schema:
        template.check(column.name, column.kind)
        if column.kind.numeric and (column.minimum is None) != (column.maximum is None):
            raise ValueError(f"column {column.name!r} has only one end of its range")
