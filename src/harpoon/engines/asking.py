"""What is asked of a model, in a form that can be sent to workers: its file as bytes, a seed, a condition as text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from harpoon.arguments import RandomState, checked_state, count_of, seed_of
from harpoon.binding import bind
from harpoon.conditions import Predicate
from harpoon.engines.filling import Filler
from harpoon.errors import InvalidOption
from harpoon.frames import check_names
from harpoon.model import Harpoon, load
from harpoon.parsing import condition

Model = Harpoon | str | os.PathLike[str]
Where = str | Predicate | None
ROW = "harpoon: row"  # the column that numbers rows on their way


@dataclass(frozen=True)
class Filling:
    """How holes are to be filled.

    Attributes:
        model: The model's file.
        seed: Of all draws; None if nobody has chosen one yet.
        where: A condition that every completed row meets.
        draws: How many rows to draw for each, instead of the best values.
        only: The columns to fill.
    """

    model: bytes
    seed: int | None
    where: str | None = None
    draws: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, model: Model, *, where: Where, draws: int | None, only: Sequence[str], random_state: RandomState
    ) -> Filling:
        """The same, once it is known to make sense."""
        content = packed(model)
        fitted = unpacked(content)
        listed = (only,) if isinstance(only, str) else tuple(only)
        if draws is not None:
            count_of(draws, "draws, the number of tables to draw,")
        return cls(content, seed_for(fitted, random_state), checked_where(where, fitted), draws, listed)

    @property
    def numbered(self) -> bool:
        """Whether what a row gets depends on its number: something is drawn."""
        return bool(self.draws or self.where or not unpacked(self.model).denoiser_.sees_known)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks columns, or has some twice, or one called as rows are numbered."""
        check_names(names)
        if self.numbered and ROW in names:
            raise InvalidOption(f"The table has a column {ROW!r}, by which rows are numbered on their way. Rename it.")
        self.filler(pa.schema([(name, pa.null()) for name in names]))

    def filler(self, schema: pa.Schema) -> Filler:
        """What fills rows with these columns."""
        return Filler(unpacked(self.model), schema, only=self.only, draws=self.draws, where=self.where, seed=self.seed)


def packed(model: Model) -> bytes:
    """The file of a model, to be sent to workers that do not see it."""
    if not isinstance(model, Harpoon):
        load(model, progress=False)  # which complains in our words
        return Path(model).read_bytes()
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        model.save(path)
        return path.read_bytes()


@lru_cache(maxsize=2)
def unpacked(content: bytes) -> Harpoon:
    """The model out of its file: once for each process, however many blocks it works on."""
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        path.write_bytes(content)
        return load(path, progress=False)


def seed_for(model: Harpoon, random_state: RandomState) -> int | None:
    """A seed that all workers share, if there is one: of the call, or of the model."""
    chosen = model.random_state if random_state is None else checked_state(random_state)
    return chosen if isinstance(chosen, int | None) else seed_of(chosen)


def checked_where(where: Where, model: Harpoon) -> str | None:
    """A condition as text, once it is known to make sense for the model."""
    if where is None:
        return None
    tree = condition(where)
    bind(tree, model.schema_)
    return str(tree)
