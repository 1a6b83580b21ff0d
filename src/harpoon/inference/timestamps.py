"""Timestamps in autoregressive sampling: calendar parts that can occur together, and times that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from harpoon.encoding import PartType, RowCodec
from harpoon.encoding.row_codec import Timestamp


@dataclass(frozen=True)
class SampledTimestamp:
    """A timestamp of encoded rows whose calendar parts are sampled before it."""

    codec: RowCodec
    timestamp: Timestamp
    variable: int  # its variable in autoregressive sampling
    part_variables: tuple[int, ...]  # those of its parts
    standardised: int  # the encoded position of its standardised value
    features: dict[int, slice]  # the encoded positions of it and its parts, by the index of their codecs
    joint: Tensor  # encoded positions of parts that cannot have any value beside any other, (features,)
    joint_categories: Tensor  # the same among all categories of a row, (features,)
    combinations: Tensor  # which of these features occur together, (combinations, features)

    @classmethod
    def from_codec(cls, codec: RowCodec, timestamp: Timestamp, columns: Sequence[int]) -> SampledTimestamp:
        """Return a timestamp of a row codec; `columns`: the index of the codec of each variable."""
        own = {timestamp.position, *timestamp.parts}
        spans = {index: [part for part in codec.slices if part.column == index] for index in own}
        features = {index: slice(parts[0].start, parts[-1].stop) for index, parts in spans.items()}
        names = {part.part: index for index, part in timestamp.parts.items()}
        possible = timestamp.codec.combinations(list(names))
        joint = [dim for name in possible for dim in range(*features[names[name]].indices(codec.width))]
        categories = [dim for part in codec.slices if part.is_categorical for dim in range(part.start, part.stop)]
        one_hot = [
            values[:, None] == np.array(timestamp.parts[names[name]].values) for name, values in possible.items()
        ]
        return cls(
            codec,
            timestamp,
            columns.index(timestamp.position),
            tuple(columns.index(index) for index in timestamp.parts),
            next(part.start for part in spans[timestamp.position] if part.type is PartType.REGRESSION),
            features,
            torch.tensor(joint, dtype=torch.long),
            torch.tensor([categories.index(dim) for dim in joint], dtype=torch.long),
            torch.from_numpy(np.hstack(one_hot) if one_hot else np.zeros((0, 0))).float(),
        )

    def to(self, device: torch.device) -> SampledTimestamp:
        """Return a copy on another device."""
        names = ("joint", "joint_categories", "combinations")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def impossible_parts(self, x: Tensor) -> Tensor:
        """Return which categories of its joint parts no time has beside those that encoded rows have, (n, features)."""
        known = (x[:, self.joint] > 0).float()
        fits = known @ self.combinations.T == known.sum(dim=1, keepdim=True)
        return fits.float() @ self.combinations == 0

    def write(self, x: Tensor, rows: Tensor, is_copy: Tensor) -> None:
        """Write times that have the sampled parts into encoded rows, in place; a time that is a copy has its own parts.

        Args:
            x: Encoded rows, (n, d), with normal scores and categories.
            rows: The rows to write, (m,).
            is_copy: Where the standardised value is that of a relation, (m,).
        """
        encoded, codec = x[rows].cpu().double().numpy(), self.timestamp.codec
        copies = codec.decode(encoded[:, self.features[self.timestamp.position]], is_mean=True)
        cells = self.codec.decode_timestamp(encoded, self.timestamp)
        is_copied = is_copy.cpu().numpy()
        cells = cells.with_values(np.where(is_copied, copies.values, cells.values))
        value = torch.from_numpy(codec.encode(cells)[:, 0]).to(x)
        x[rows, self.standardised] = torch.where(is_copy, x[rows, self.standardised], value)
        for index, part in self.timestamp.parts.items():
            x[rows, self.features[index]] = torch.from_numpy(part.encode_times(cells.values)).to(x)
