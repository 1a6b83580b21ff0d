"""Jobs: work on blocks of rows, in a form that can be sent to workers.

A job holds the file of the model as bytes, a seed, and the condition as text.
"""

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
from harpoon.engines import DEFAULT_BLOCK_ROWS
from harpoon.engines.block_imputer import BlockImputer
from harpoon.engines.blocks import Block, FileSet, errors_name_file
from harpoon.estimator import Harpoon, load
from harpoon.exceptions import InvalidOption
from harpoon.inference.strategies import check_strategy
from harpoon.io import ReadOptions

Model = Harpoon | str | os.PathLike[str]
Where = str | Predicate | None
ROW_NUMBER = "harpoon: row"  # a column that numbers rows between two steps of Ray or Spark


@dataclass(frozen=True)
class ImputeRequest:
    """How to impute rows.

    Attributes:
        model: The file of the model.
        seed: The seed of all draws; None if it is not chosen yet.
        where: A condition that every completed row satisfies.
        draws: Number of rows to sample for each row, instead of the best values.
        only: The columns to impute.
    """

    model: bytes
    seed: int | None
    where: str | None = None
    draws: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, model: Model, *, where: Where, draws: int | None, only: Sequence[str], random_state: RandomState
    ) -> ImputeRequest:
        """Check the arguments of `harpoon.engines.impute` and make a request of them."""
        content = serialize_model(model)
        fitted = deserialize_model(content)
        columns = (only,) if isinstance(only, str) else tuple(only)
        if draws is not None:
            check_count(draws, "draws, the number of tables to sample,")
        return cls(content, job_seed(fitted, random_state), check_where(where, fitted), draws, columns)

    @property
    def depends_on_row_number(self) -> bool:
        """Whether the result of a row depends on its number: true if cells are sampled."""
        return bool(self.draws or self.where or not deserialize_model(self.model).denoiser_.is_conditional)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise an error for columns that are absent, repeated, or named like the column of row numbers."""
        check_names(names)
        if self.depends_on_row_number and ROW_NUMBER in names:
            raise InvalidOption(f"The table has a column {ROW_NUMBER!r}, which Harpoon uses to number rows. Rename it.")
        self.block_imputer(pa.schema([(name, pa.null()) for name in names]))

    def block_imputer(self, schema: pa.Schema) -> BlockImputer:
        """Return the imputer of rows with these columns."""
        return BlockImputer(
            deserialize_model(self.model), schema, only=self.only, draws=self.draws, where=self.where, seed=self.seed
        )


def serialize_model(model: Model) -> bytes:
    """Return the file of a model as bytes, for workers that do not see it."""
    if not isinstance(model, Harpoon):
        load(model, progress=False)  # raises a ModelFileError if it is not a model
        return Path(model).read_bytes()
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        model.save(path)
        return path.read_bytes()


@lru_cache(maxsize=2)
def deserialize_model(content: bytes) -> Harpoon:
    """Return the model of a file. It is loaded once per process."""
    with tempfile.TemporaryDirectory(prefix="harpoon-") as folder:
        path = Path(folder, "model.harpoon")
        path.write_bytes(content)
        return load(path, progress=False)


def job_seed(model: Harpoon, random_state: RandomState) -> int | None:
    """Return the seed of the call, or of the model, or None: all workers must share it."""
    chosen = model.random_state if random_state is None else check_random_state(random_state)
    return chosen if isinstance(chosen, int | None) else to_seed(chosen)


def check_where(where: Where, model: Harpoon) -> str | None:
    """Check that a condition fits the model and return it as text."""
    if where is None:
        return None
    tree = to_predicate(where)
    bind(tree, model.schema_)
    return str(tree)


CONDITION_BLOCK_ROWS = 10_000  # rows of a block under a condition


class Job(Protocol):
    """Work on blocks, which can be sent to any worker."""

    @property
    def seed(self) -> int | None:
        """The seed of all random numbers; None if it is not chosen yet."""

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""

    def fingerprint(self) -> str:
        """Return a digest of everything that determines the rows and the blocks."""

    def with_seed(self, seed: int) -> Self:
        """Return the job with this seed."""

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker."""

    def n_output_rows(self, block: Block) -> int:
        """Return the number of rows that a block gives."""

    def check_output(self, target: Path) -> None:
        """Raise InvalidOption for an output that the job would read."""

    def process(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """Yield blocks with the rows they give."""


@dataclass(frozen=True)
class ImputeJob:
    """Imputation of files."""

    source: FileSet
    request: ImputeRequest
    block_size: int

    @classmethod
    def create(
        cls,
        source: str | os.PathLike[str],
        request: ImputeRequest,
        *,
        block_size: int = DEFAULT_BLOCK_ROWS,
        read_options: ReadOptions | None = None,
    ) -> ImputeJob:
        """Check all files and make a job of them."""
        types = text_types(deserialize_model(request.model).schema_)
        files = FileSet.from_path(source, replace(read_options or ReadOptions(), types=types))
        request.block_imputer(files.schema)  # raises an error if columns are absent
        return cls(files, request, effective_block_size(block_size, request.where))

    @property
    def seed(self) -> int | None:
        """The seed of all random numbers."""
        return self.request.seed

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""
        return self.source.blocks(self.block_size)

    def fingerprint(self) -> str:
        """Return a digest of everything that determines the rows and the blocks."""
        files = [(file.path, file.n_rows, *_file_state(file.path)) for file in self.source.files]
        return _digest(
            self.request.model, replace(self.request, model=b""), self.block_size, files, self.source.read_options
        )

    def with_seed(self, seed: int) -> ImputeJob:
        """Return the job with this seed."""
        return replace(self, request=replace(self.request, seed=seed))

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker."""
        return self.source.tasks(blocks)

    def n_output_rows(self, block: Block) -> int:
        """Return the number of rows that a block gives: one for each row and draw."""
        return block.n_rows * (self.request.draws or 1)

    def check_output(self, target: Path) -> None:
        """Raise InvalidOption if the output is inside the source, or the source inside the output."""
        root = self.source.root
        if root in target.parents or target in root.parents:
            raise InvalidOption(
                f"The output {str(target)!r} and the source {str(root)!r} must not contain each other. Choose another "
                "output."
            )

    def process(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """Yield blocks with their imputed rows."""
        imputer = self.request.block_imputer(self.source.schema)
        for block, table in self.source.read(blocks):
            with errors_name_file(block.path, row_offset=block.row_offset - block.file_offset):
                imputed = imputer.impute_stacked(table, block.row_offset)
            yield block, imputed


@dataclass(frozen=True)
class SampleJob:
    """Sampling of rows."""

    model: bytes
    n: int
    seed: int | None
    block_size: int
    where: str | None = None
    given: Mapping[str, Any] | None = None
    strategy: str = "auto"

    @classmethod
    def create(
        cls,
        n: int,
        model: Model,
        *,
        where: Where = None,
        given: Mapping[str, object] | None = None,
        strategy: str = "auto",
        random_state: RandomState = None,
        block_size: int = DEFAULT_BLOCK_ROWS,
    ) -> SampleJob:
        """Check the arguments of `harpoon.engines.sample` and make a job of them."""
        if not isinstance(given, Mapping | None):
            raise InvalidOption("given must be a mapping of columns to values; impute completes partial rows.")
        check_strategy(strategy)
        content = serialize_model(model)
        fitted = deserialize_model(content)
        condition = check_where(where, fitted)
        seed, size = job_seed(fitted, random_state), effective_block_size(block_size, condition)
        return cls(content, check_count(n), seed, size, condition, None if given is None else dict(given), strategy)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""
        return [Block(start, min(self.block_size, self.n - start)) for start in range(0, self.n, self.block_size)]

    def fingerprint(self) -> str:
        """Return a digest of everything that determines the rows and the blocks."""
        return _digest(self.model, self.seed, self.block_size, self.where, self.n, self.given, self.strategy)

    def with_seed(self, seed: int) -> SampleJob:
        """Return the job with this seed."""
        return replace(self, seed=seed)

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker: each block is a task."""
        return [[block] for block in blocks]

    def n_output_rows(self, block: Block) -> int:
        """Return the number of rows of a block."""
        return block.n_rows

    def check_output(self, target: Path) -> None:
        """Do nothing: the job reads no files."""

    def process(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """Yield blocks with their sampled rows."""
        for block in blocks:
            sampled = deserialize_model(self.model).sample(
                block.n_rows,
                where=self.where,
                given=self.given,
                strategy=self.strategy,
                row_offset=block.row_offset,
                random_state=self.seed,
            )
            yield block, dataframe.read(sampled).arrow


def effective_block_size(block: int, where: str | None) -> int:
    """Return the rows of a block. Under a condition rows depend on their block, so its size is fixed there."""
    size = check_count(block, "block_size, the number of rows in memory at a time,")
    return size if where is None else CONDITION_BLOCK_ROWS


def _file_state(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def _digest(model: bytes, *facts: object) -> str:
    content = json.dumps([__version__, hashlib.sha256(model).hexdigest(), *facts], default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
