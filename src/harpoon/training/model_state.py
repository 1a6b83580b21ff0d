"""What a saved model says of itself, besides its tensors, and how it is read again."""

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

# What a content that `content_of` did not write may lead to.
BROKEN = LookupError, TypeError, ValueError, RuntimeError, OverflowError, AttributeError
INVALID_CONTENT = (*BROKEN, HarpoonError, pa.ArrowException)


def to_content(learnt: FittedModel, template: FrameTemplate) -> dict[str, Any]:
    """What was learnt, as plain data."""
    return {
        "adapted": {name: getattr(learnt.config, name) for name in ADAPTIVE},
        "schema": learnt.schema.to_json(),
        "codec": learnt.codec.to_json(),
        "frame": template.to_json(),
        "history": asdict(learnt.history),
    }


def from_content(
    settings: Config, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[FittedModel, FrameTemplate]:
    """Back from `content_of`; of what was asked for in the settings nothing may be otherwise."""
    schema, template = Schema.from_json(content["schema"]), FrameTemplate.from_json(content["frame"])
    codec, history = RowCodec.from_json(schema, content["codec"]), content["history"]
    adapted = _adapted(settings, content["adapted"])
    denoiser = build_denoiser(adapted, codec)
    _check_template(template, schema)
    _check_tensors(tensors, denoiser)
    denoiser.load_state_dict(tensors, assign=True)
    denoiser.validate_state()
    epochs = [Epoch(**epoch) for epoch in history["epochs"]]
    return FittedModel(schema, adapted, codec, denoiser, History(epochs, history["stopped_by"])), template


def _adapted(settings: Config, sizes: Mapping[str, int]) -> Config:
    """The settings with the sizes that were chosen for a table, which must not be others than those asked for."""
    asked = {name: getattr(settings, name) for name in ADAPTIVE}
    chosen = {name: sizes.get(name, asked[name]) for name in ADAPTIVE}  # older files tell no slots
    if None in chosen.values():
        raise ValueError("the sizes of the network are not chosen")
    if any(asked[name] not in (None, size) for name, size in chosen.items()):
        raise ValueError("the sizes of the network are not those that were asked for")
    return replace(settings, **chosen)


def _check_tensors(tensors: Mapping[str, Tensor], denoiser: Denoiser) -> None:
    for name, value in denoiser.state_dict().items():
        if name in tensors and tensors[name].dtype != value.dtype:
            raise ValueError(f"{name} holds {tensors[name].dtype}, not {value.dtype}")


def _check_template(template: FrameTemplate, schema: Schema) -> None:
    """The remembered frame must be able to hold what the schema's columns hold."""
    for column in schema:
        template.check(column.name, column.kind)
        if column.kind.numeric and (column.minimum is None) != (column.maximum is None):
            raise ValueError(f"column {column.name!r} has half a range")
