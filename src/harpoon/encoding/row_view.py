"""Row view: encoded rows by column name, as differentiable tensors.

Penalties read the dirty estimate x̂_0 through it. Values are in double precision, because single precision cannot hold
a time in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from torch import Tensor

from harpoon.encoding.codec import Codec
from harpoon.encoding.row_codec import RowCodec
from harpoon.exceptions import InvalidOption


class CategoryProbabilities(dict[Any, Tensor]):
    """The probabilities of the categories of one column, (n,) each."""

    def __init__(self, name: str, categories: tuple[Any, ...], probabilities: Tensor) -> None:
        super().__init__({category: probabilities[:, code] for code, category in enumerate(categories)})
        self.name = name

    def __missing__(self, category: object) -> Tensor:
        raise InvalidOption.one_of(f"A category of column {self.name!r}", category, self)


class RowView(Mapping[str, Any]):
    """Encoded rows, (n, d), by column name: the value of a numeric column, (n,), or `CategoryProbabilities`."""

    def __init__(self, codec: RowCodec, x: Tensor) -> None:
        self.codec, self.x = codec, x

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        decoded, column = self.soft(name), self.codec.schema[name]
        return decoded if column.kind.numeric else CategoryProbabilities(name, column.categories or (), decoded)

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in self.codec.schema.modelled)

    def __len__(self) -> int:
        return len(self.codec.schema.modelled)

    def soft(self, name: str) -> Tensor:
        """Return the value of a numeric column, (n,), or the probabilities of its categories, (n, categories)."""
        codec, part = self._encoded(name)
        return codec.soft_columns(part)[name]

    def null_probability(self, name: str) -> Tensor | None:
        """Return the probability that a cell is null, (n,); None if the column has no missing indicator."""
        return self.codec.null_probabilities(self.x).get(name)

    def category_coordinates(self, name: str) -> Tensor:
        """Return points, (n, categories), whose distance to a corner of the simplex is a penalty (eq. 9)."""
        codec, part = self._encoded(name)
        return codec.category_coordinates(part, name)

    def has_probabilities(self, name: str) -> bool:
        """Return whether the codec of a column gives probabilities of categories."""
        return self._encoded(name)[0].has_probabilities

    @cached_property
    def _by_name(self) -> dict[str, tuple[Codec, Tensor]]:
        return {column.name: (codec, part) for codec, part in self.codec.split(self.x) for column in codec.columns}

    def _encoded(self, name: str) -> tuple[Codec, Tensor]:
        """Return the codec of a column and the features of its codec."""
        if name not in self._by_name:
            raise InvalidOption.one_of("A column", name, list(self))
        codec, part = self._by_name[name]
        return codec, part.double()
