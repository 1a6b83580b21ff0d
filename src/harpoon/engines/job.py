"""What is asked of a model, in a form that can be sent to workers: its file as bytes, a seed, a condition as text."""

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

from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import check_count
from harpoon._version import __version__
from harpoon.conditions.binder import bind
from harpoon.conditions.expressions import Predicate
from harpoon.conditions.parser import to_predicate
from harpoon.data import dataframe
from harpoon.data.arrow_types import text_types
from harpoon.data.dataframe import check_names
from harpoon.engines.block_imputer import BlockImputer
from harpoon.engines.blocks import Block, FileSet, naming
from harpoon.estimator import Harpoon, load
from harpoon.exceptions import InvalidOption
from harpoon.inference.strategies import check_strategy
from harpoon.io import ReadOptions

Model = Harpoon | str | os.PathLike[str]
Where = str | Predicate | None
ROW = "harpoon: row"  # the column that numbers rows on their way


@dataclass(frozen=True)
class ImputeRequest:
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
    ) -> ImputeRequest:
        """The same, once it is known to make sense."""
        content = serialize_model(model)
        fitted = deserialize_model(content)
        listed = (only,) if isinstance(only, str) else tuple(only)
        if draws is not None:
            check_count(draws, "draws, the number of tables to draw,")
        return cls(content, job_seed(fitted, random_state), check_where(where, fitted), draws, listed)

    @property
    def numbered(self) -> bool:
        """Whether what a row gets depends on its number: something is drawn."""
        return bool(self.draws or self.where or not deserialize_model(self.model).denoiser_.is_conditional)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks columns, or has some twice, or one called as rows are numbered."""
        check_names(names)
        if self.numbered and ROW in names:
            raise InvalidOption(f"The table has a column {ROW!r}, by which rows are numbered on their way. Rename it.")
        self.filler(pa.schema([(name, pa.null()) for name in names]))

    def filler(self, schema: pa.Schema) -> BlockImputer:
        """What fills rows with these columns."""
        return BlockImputer(
            deserialize_model(self.model), schema, only=self.only, draws=self.draws, where=self.where, seed=self.seed
        )


def serialize_model(model: Model) -> bytes:
    """The file of a model, to be sent to workers that do not see it."""
    if not isinstance(model, Harpoon):
        load(model, progress=False)  # which complains in our words
        return Path(model).read_bytes()
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        model.save(path)
        return path.read_bytes()


@lru_cache(maxsize=2)
def deserialize_model(content: bytes) -> Harpoon:
    """The model out of its file: once for each process, however many blocks it works on."""
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        path.write_bytes(content)
        return load(path, progress=False)


def job_seed(model: Harpoon, random_state: RandomState) -> int | None:
    """A seed that all workers share, if there is one: of the call, or of the model."""
    chosen = model.random_state if random_state is None else check_random_state(random_state)
    return chosen if isinstance(chosen, int | None) else to_seed(chosen)


def check_where(where: Where, model: Harpoon) -> str | None:
    """A condition as text, once it is known to make sense for the model."""
    if where is None:
        return None
    tree = to_predicate(where)
    bind(tree, model.schema_)
    return str(tree)


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
class ImputeJob:
    """Files whose holes are filled."""

    source: FileSet
    filling: ImputeRequest
    size: int

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str],
        filling: ImputeRequest,
        *,
        block: int = BLOCK,
        how: ReadOptions | None = None,
    ) -> ImputeJob:
        """The job, all of whose files have been looked at."""
        types = text_types(deserialize_model(filling.model).schema_)
        shards = FileSet.of(source, replace(how or ReadOptions(), types=types))
        filling.filler(shards.schema)  # which complains of columns that are not there
        return cls(shards, filling, block_size(block, filling.where))

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

    def seeded(self, seed: int) -> ImputeJob:
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
            with naming(block.path, first_row=block.row_offset - block.start):
                filled = filler.stacked(table, block.row_offset)
            yield block, filled


@dataclass(frozen=True)
class SampleJob:
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
    ) -> SampleJob:
        """The job, whose options have been looked at."""
        if not isinstance(given, Mapping | None):
            raise InvalidOption("given must be a mapping of columns to values; impute completes partial rows.")
        check_strategy(strategy)
        packed_model = serialize_model(model)
        fitted = deserialize_model(packed_model)
        asked = check_where(where, fitted)
        seed, size = job_seed(fitted, random_state), block_size(block, asked)
        return cls(packed_model, check_count(n), seed, size, asked, None if given is None else dict(given), strategy)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in their order."""
        return [Block(start, min(self.size, self.n - start)) for start in range(0, self.n, self.size)]

    def identity(self) -> str:
        """What tells this job from others."""
        return _digest(self.model, self.seed, self.size, self.where, self.n, self.given, self.strategy)

    def seeded(self, seed: int) -> SampleJob:
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
            drawn = deserialize_model(self.model).sample(
                block.rows,
                where=self.where,
                given=self.given,
                strategy=self.strategy,
                row_offset=block.row_offset,
                random_state=self.seed,
            )
            yield block, dataframe.read(drawn).arrow


def block_size(block: int, where: str | None) -> int:
    """Rows of a block. Under a condition rows depend on what they are drawn with, so there it is always the same."""
    size = check_count(block, "block, the number of rows in memory at a time,")
    return size if where is None else STRETCH


def _state(path: str) -> tuple[int, int]:
    about = Path(path).stat()
    return about.st_size, about.st_mtime_ns


def _digest(model: bytes, *facts: object) -> str:
    said = json.dumps([__version__, hashlib.sha256(model).hexdigest(), *facts], default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]
