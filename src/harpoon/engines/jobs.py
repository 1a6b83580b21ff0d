"""What an engine does: a job, cut into blocks, each of which any worker can do, in any order, with the same outcome."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from harpoon import frames
from harpoon._version import __version__
from harpoon.arguments import RandomState, checked_state, count_of, seed_of
from harpoon.binding import bind
from harpoon.conditions import Predicate
from harpoon.engines.filling import Filler
from harpoon.engines.shards import Block, Shards
from harpoon.errors import InvalidOption
from harpoon.expecting import text_types
from harpoon.model import Harpoon, load
from harpoon.parsing import condition
from harpoon.tables import Reading

BLOCK = 20_000  # rows, unless others are asked for
STRETCH = 10_000  # rows that are worked on together under a condition, whatever is asked for

Model = Harpoon | str | os.PathLike[str]
Where = str | Predicate | None


class Job(Protocol):
    """Work on blocks. It can be pickled, and holds the model as bytes."""

    @property
    def model(self) -> bytes:
        """The model's file."""

    @property
    def seed(self) -> int | None:
        """Of all random numbers; None if nobody has chosen one yet."""

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in their order."""

    def identity(self) -> str:
        """What tells this job from others that would give other rows or other blocks."""

    def seeded(self, seed: int) -> Self:
        """The job with a seed that has been chosen."""

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """The blocks that belong into one hand."""

    def rows_of(self, block: Block) -> int:
        """How many rows a block becomes."""

    def made(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """What blocks become, one after the other."""


@dataclass(frozen=True)
class Imputing:
    """Files whose holes are filled."""

    model: bytes
    source: Shards
    seed: int | None
    size: int
    where: str | None = None
    draws: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str],
        model: Model,
        *,
        where: Where = None,
        draws: int | None = None,
        only: Sequence[str] = (),
        random_state: RandomState = None,
        block: int = BLOCK,
        how: Reading | None = None,
    ) -> Imputing:
        """The job, all of whose files and options have been looked at."""
        packed_model = packed(model)
        fitted, how = unpacked(packed_model), how or Reading()
        types = {**text_types(fitted.schema_), **how.types}
        shards = Shards.of(source, Reading(how.delimiter, how.encoding, how.missing, types))
        asked = checked_where(where, fitted)
        size = size_of(block, asked)
        if draws is not None:
            count_of(draws, "draws, the number of tables to draw,")
        job = cls(packed_model, shards, seed_for(fitted, random_state), size, asked, draws, tuple(only))
        job.filler()
        return job

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in their order."""
        return self.source.blocks(self.size)

    def identity(self) -> str:
        """What tells this job from others."""
        files = [(shard.path, shard.rows, *_state(shard.path)) for shard in self.source.files]
        return _digest(self.model, self.seed, self.size, self.where, self.draws, self.only, files)

    def seeded(self, seed: int) -> Imputing:
        """The job with a seed that has been chosen."""
        return replace(self, seed=seed)

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """The blocks that belong into one hand."""
        return self.source.tasks(blocks)

    def rows_of(self, block: Block) -> int:
        """How many rows a block becomes: one for each draw."""
        return block.rows * (self.draws or 1)

    def made(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """The filled rows of blocks, one after the other."""
        filler = self.filler()
        for block, table in self.source.read(blocks):
            yield block, filler.stacked(table, block.first_row)

    def filler(self) -> Filler:
        """What fills blocks of these files."""
        model = unpacked(self.model)
        return Filler(model, self.source.schema, only=self.only, draws=self.draws, where=self.where, seed=self.seed)


@dataclass(frozen=True)
class Sampling:
    """Rows that are drawn."""

    model: bytes
    n: int
    seed: int | None
    size: int
    where: str | None = None
    given: Mapping[str, Any] | None = None
    strategy: str = "auto"

    @classmethod
    def of(
        cls,
        n: int,
        model: Model,
        *,
        where: Where = None,
        given: Mapping[str, object] | None = None,
        strategy: str = "auto",
        random_state: RandomState = None,
        block: int = BLOCK,
    ) -> Sampling:
        """The job, whose options have been looked at."""
        if not isinstance(given, Mapping | None):
            raise InvalidOption("given must be a mapping of columns to values; impute completes partial rows.")
        packed_model = packed(model)
        fitted = unpacked(packed_model)
        asked = checked_where(where, fitted)
        seed, size = seed_for(fitted, random_state), size_of(block, asked)
        return cls(packed_model, count_of(n), seed, size, asked, None if given is None else dict(given), strategy)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in their order."""
        return [Block(start, min(self.size, self.n - start)) for start in range(0, self.n, self.size)]

    def identity(self) -> str:
        """What tells this job from others."""
        return _digest(self.model, self.seed, self.size, self.where, self.n, self.given, self.strategy)

    def seeded(self, seed: int) -> Sampling:
        """The job with a seed that has been chosen."""
        return replace(self, seed=seed)

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Every block can be drawn by itself."""
        return [[block] for block in blocks]

    def rows_of(self, block: Block) -> int:
        """As many as were asked for."""
        return block.rows

    def made(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """The rows of blocks, one after the other."""
        for block in blocks:
            drawn = unpacked(self.model).sample(
                block.rows,
                where=self.where,
                given=self.given,
                strategy=self.strategy,
                first_row=block.first_row,
                random_state=self.seed,
            )
            yield block, frames.read(drawn).arrow


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


def size_of(block: int, where: str | None) -> int:
    """Rows of a block. Under a condition rows depend on what they are drawn with, so there it is always the same."""
    return count_of(block, "block, the number of rows in memory at a time,") if where is None else STRETCH


def checked_where(where: Where, model: Harpoon) -> str | None:
    """A condition as text, once it is known to make sense for the model."""
    if where is None:
        return None
    tree = condition(where)
    bind(tree, model.schema_)
    return str(tree)


def _state(path: str) -> tuple[int, int]:
    about = Path(path).stat()
    return about.st_size, about.st_mtime_ns


def _digest(model: bytes, *facts: object) -> str:
    said = json.dumps([__version__, hashlib.sha256(model).hexdigest(), *facts], default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]
