"""The result of a training, and how it becomes plain data and tensors for a model file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from harpoon.config import ADAPTIVE, Config
from harpoon.data import FrameTemplate, Schema
from harpoon.data.contingency import ContingencyTables
from harpoon.diffusion import Denoiser
from harpoon.encoding import RowCodec
from harpoon.exceptions import HarpoonError
from harpoon.networks import build_denoiser
from harpoon.privacy.differential.budget import PrivacyRecord
from harpoon.rules.rule_set import RuleSet
from harpoon.training.calibration import Calibration
from harpoon.training.trainer import Epoch, History

PAIR_COUNTS = "contingency.pair_counts"  # the name of a tensor that is no weight

# What `from_content` may raise for content that `to_content` did not write.
BUILTIN_ERRORS = LookupError, TypeError, ValueError, RuntimeError, OverflowError, AttributeError
INVALID_CONTENT = (*BUILTIN_ERRORS, HarpoonError, pa.ArrowException)


@dataclass(frozen=True)
class FittedModel:
    """The result of fitting."""

    schema: Schema
    config: Config
    codec: RowCodec
    denoiser: Denoiser
    history: History
    contingency: ContingencyTables
    discovered: RuleSet = field(default_factory=RuleSet)  # rules that the training rows obey
    privacy: PrivacyRecord | None = None  # what the training spent; None: it was not private


def to_content(model: FittedModel, template: FrameTemplate) -> dict[str, Any]:
    """Return a fitted model without its weights as plain data."""
    return {
        "adapted": {name: getattr(model.config, name) for name in ADAPTIVE},
        "schema": model.schema.to_json(),
        "codec": model.codec.to_json(),
        "frame": template.to_json(),
        "history": asdict(model.history),
        "contingency": model.contingency.to_json(),
        "discovered_rules": model.discovered.to_json(),
        **({} if model.privacy is None else {"privacy": model.privacy.to_json()}),
    }


def to_tensors(model: FittedModel) -> dict[str, Tensor]:
    """Return the weights of a fitted model, and the counts of pairs of columns."""
    counts = torch.from_numpy(model.contingency.pair_counts).int()
    return {**model.denoiser.state_dict(), **({PAIR_COUNTS: counts} if len(counts) else {})}


def from_content(
    config: Config, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[FittedModel, FrameTemplate]:
    """Return the fitted model of `to_content` with its weights; raises one of `INVALID_CONTENT`."""
    schema, template = Schema.from_json(content["schema"]), FrameTemplate.from_json(content["frame"])
    codec, history = RowCodec.from_json(schema, content["codec"]), content["history"]
    adapted = _with_sizes(config, content["adapted"])
    denoiser = build_denoiser(adapted, codec)
    _check_template(template, schema)
    weights = {name: value for name, value in tensors.items() if name != PAIR_COUNTS}
    counts = tensors.get(PAIR_COUNTS, torch.zeros(0)).long().numpy()
    contingency = ContingencyTables.from_json(schema, content["contingency"], counts)
    for name, value in denoiser.state_dict().items():
        if name in weights and weights[name].dtype != value.dtype:
            raise ValueError(f"{name} has dtype {weights[name].dtype} instead of {value.dtype}")
    denoiser.load_state_dict(weights, assign=True)
    denoiser.validate_state()
    epochs = [Epoch(**epoch) for epoch in history["epochs"]]
    trained = History(epochs, history["stopped_by"], Calibration(**history["calibration"]))
    discovered = RuleSet.from_json(content.get("discovered_rules", []), schema)
    privacy = None if content.get("privacy") is None else PrivacyRecord.from_json(content["privacy"])
    return FittedModel(schema, adapted, codec, denoiser, trained, contingency, discovered, privacy), template


def _with_sizes(config: Config, sizes: Mapping[str, Any]) -> Config:
    """Return the options with the sizes that were chosen for the table, which must agree with sizes of the user."""
    chosen = {name: sizes[name] for name in ADAPTIVE}
    if None in chosen.values():
        raise ValueError("the sizes of the network are missing")
    if any(getattr(config, name) not in (None, size) for name, size in chosen.items()):
        raise ValueError("the sizes of the network differ from its options")
    return replace(config, **chosen)


def _check_template(template: FrameTemplate, schema: Schema) -> None:
    """Raise ValueError unless the dataframe template can hold the columns of the schema."""
    for column in schema:
        template.check(column.name, column.kind)
        if column.kind.numeric and (column.minimum is None) != (column.maximum is None):
            raise ValueError(f"column {column.name!r} has only one end of its range")
