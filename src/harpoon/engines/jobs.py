"""What an engine does: a job, cut into blocks, each of which any worker can do, in any order, with the same outcome."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from harpoon import frames
from harpoon._version import __version__
from harpoon.arguments import RandomState, count_of
from harpoon.conditional import check_strategy
from harpoon.engines.asking import Filling, Model, Where, checked_where, packed, seed_for, unpacked
from harpoon.engines.shards import Block, Shards, naming
from harpoon.errors import InvalidOption
from harpoon.expecting import text_types
from harpoon.tables import Reading

BLOCK = 20_000  # rows, unless others are asked for
STRETCH = 10_000  # rows that are worked on together under a condition, whatever is asked for


class Job(Protocol):
    """Work on blocks. It can be sent to any worker."""

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

    def check_apart(self, target: Path) -> None:
        """Refuse an output that the job would read."""

    def made(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """What blocks become, one after the other."""


@dataclass(frozen=True)
class Imputing:
    """Files whose holes are filled."""

    source: Shards
    filling: Filling
    size: int

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str],
        filling: Filling,
        *,
        block: int = BLOCK,
        how: Reading | None = None,
    ) -> Imputing:
        """The job, all of whose files have been looked at."""
        types = text_types(unpacked(filling.model).schema_)
        shards = Shards.of(source, replace(how or Reading(), types=types))
        filling.filler(shards.schema)  # which complains of columns that are not there
        return cls(shards, filling, size_of(block, filling.where))

    @property
    def seed(self) -> int | None:
        """Of all random numbers."""
        return self.filling.seed

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in their order."""
        return self.source.blocks(self.size)

    def identity(self) -> str:
        """What tells this job from others."""
        files = [(shard.path, shard.rows, *_state(shard.path)) for shard in self.source.files]
        return _digest(self.filling.model, replace(self.filling, model=b""), self.size, files, self.source.how)

    def seeded(self, seed: int) -> Imputing:
        """The job with a seed that has been chosen."""
        return replace(self, filling=replace(self.filling, seed=seed))

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """The blocks that belong into one hand."""
        return self.source.tasks(blocks)

    def rows_of(self, block: Block) -> int:
        """How many rows a block becomes: one for each draw."""
        return block.rows * (self.filling.draws or 1)

    def check_apart(self, target: Path) -> None:
        """Refuse an output that would be a part of the source, or the other way round."""
        root = self.source.root
        if root in target.parents or target in root.parents:
            raise InvalidOption(
                f"Of the output {str(target)!r} and the source {str(root)!r} one lies in the other, and would be read "
                "or replaced with it. Choose a place apart."
            )

    def made(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """The filled rows of blocks, one after the other."""
        filler = self.filling.filler(self.source.schema)
        for block, table in self.source.read(blocks):
            with naming(block.path, first_row=block.first_row - block.start):
                filled = filler.stacked(table, block.first_row)
            yield block, filled


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
        check_strategy(strategy)
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

    def check_apart(self, target: Path) -> None:
        """Nothing is read."""

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


def size_of(block: int, where: str | None) -> int:
    """Rows of a block. Under a condition rows depend on what they are drawn with, so there it is always the same."""
    size = count_of(block, "block, the number of rows in memory at a time,")
    return size if where is None else STRETCH


def _state(path: str) -> tuple[int, int]:
    about = Path(path).stat()
    return about.st_size, about.st_mtime_ns


def _digest(model: bytes, *facts: object) -> str:
    said = json.dumps([__version__, hashlib.sha256(model).hexdigest(), *facts], default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]
