"""Jobs: work on blocks of rows, in a form that can be sent to workers.

A job holds the file of the model as bytes, a seed, and the condition as text.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import pyarrow as pa

from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import check_count
from harpoon._version import __version__
from harpoon.conditions import Predicate, bind, to_predicate
from harpoon.data import dataframe
from harpoon.data.arrow_types import text_types
from harpoon.engines import DEFAULT_BLOCK_ROWS
from harpoon.engines.block_imputer import BlockImputer
from harpoon.engines.blocks import Block, FileSet, errors_name_file
from harpoon.estimator import Harpoon, from_bytes, load, to_bytes
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional.strategies import check_strategy
from harpoon.inference.diagnostics.support import Support, warn_extrapolation
from harpoon.inference.option_checks import check_effective, check_missing
from harpoon.io import Location, ReadOptions

Model = Harpoon | str | os.PathLike[str]
Where = str | Predicate | None
ROW_NUMBER = "harpoon: row"  # a column that numbers rows between two steps of Ray or Spark
CONDITION_BLOCK_ROWS = 10_000  # rows of a block under a condition


class CommonArguments(TypedDict, total=False):
    """Arguments that `impute` and `sample` have on every engine."""

    where: Where
    random_state: RandomState
    options: Mapping[str, Any] | None


class ImputeArguments(CommonArguments, total=False):
    """Arguments that `impute` has on every engine."""

    draws: int | None
    only: Sequence[str]


class SampleArguments(CommonArguments, total=False):
    """Arguments that `sample` has on every engine."""

    given: Mapping[str, object] | None
    strategy: str
    missing: str
    block_size: int


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a worker has to know."""

    model: bytes  # the file of the model
    seed: int | None  # of all random numbers; None if it is not chosen yet
    where: str | None = None  # a condition that every row satisfies
    options: Mapping[str, Any] = field(default_factory=dict)  # of sampling and guidance, as for `Harpoon.sample`

    @property
    def fitted(self) -> Harpoon:
        """The model."""
        return deserialize_model(self.model)

    @property
    def support(self) -> Support | None:
        """How many training rows support the rows; None without a condition."""
        return None if self.where is None else self.fitted.support(self.where)

    @property
    def is_conditional(self) -> bool:
        """Whether rows satisfy a condition, or obey rules of the model."""
        return self.where is not None or bool(self.fitted.rules_)

    def check_effective(self, **call: bool) -> None:
        """Raise InvalidOption if an option would have no effect."""
        model, guided = self.fitted, self.is_conditional
        check_effective(model.config, self.options, conditional=model.denoiser_.is_conditional, guided=guided, **call)

    def with_seed(self) -> Self:
        """Return the request with a seed, which is random if none was given."""
        return replace(self, seed=to_seed(None)) if self.seed is None else self


@dataclass(frozen=True, kw_only=True)
class ImputeRequest(Request):
    """How to impute rows: all draws of a row instead of the best values, if `draws` is set, in the columns `only`."""

    draws: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, model: Model, *, draws: int | None = None, only: Sequence[str] = (), **common: Unpack[CommonArguments]
    ) -> ImputeRequest:
        """Check the arguments of `harpoon.engines.impute` and make a request of them."""
        columns = (only,) if isinstance(only, str) else tuple(only)
        if draws is not None:
            check_count(draws, "draws, the number of tables to sample,")
        request = cls(**_common_fields(model, **common), draws=draws, only=columns)
        request.check_effective(samples=request.depends_on_row_number, draws=draws is not None)
        warn_extrapolation(request.support, str(request.where))
        return request

    @property
    def depends_on_row_number(self) -> bool:
        """Whether the result of a row depends on its number: true if cells are sampled."""
        return bool(self.draws or self.is_conditional or not self.fitted.denoiser_.is_conditional)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise an error for columns that are absent, repeated, or named like the column of row numbers."""
        dataframe.check_names(names)
        if self.depends_on_row_number and ROW_NUMBER in names:
            raise InvalidOption(f"The table has a column {ROW_NUMBER!r}, which Harpoon uses to number rows. Rename it.")
        self.block_imputer(pa.schema([(name, pa.null()) for name in names]))

    def block_imputer(
        self, schema: pa.Schema, *, keep_text: bool = False, spellings: Mapping[str, str] | None = None
    ) -> BlockImputer:
        """Return the imputer of rows with these columns."""
        return BlockImputer(
            self.fitted,
            schema,
            only=self.only,
            draws=self.draws,
            where=self.where,
            seed=self.seed,
            keep_text=keep_text,
            spellings=spellings,
            options=self.options,
        )


class BlockResult(NamedTuple):
    """A processed block, the rows that it gives, and how many imputed cells are structurally missing, by column."""

    block: Block
    table: pa.Table
    structural: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Job(Request, ABC):
    """Work on blocks, which can be sent to any worker."""

    block_size: int

    @property
    @abstractmethod
    def blocks(self) -> list[Block]:
        """All blocks, in order."""

    @abstractmethod
    def process(self, blocks: Iterable[Block]) -> Iterator[BlockResult]:
        """Yield blocks with the rows they give."""

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker."""
        return [[block] for block in blocks]

    def n_output_rows(self, block: Block) -> int:
        """Return the number of rows that a block gives."""
        return block.n_rows

    def check_output(self, target: Path) -> None:
        """Raise InvalidOption for an output that the job would read."""

    def for_output(self, target: Path) -> Self:  # noqa: ARG002
        """Return the job for an output; by default the same for all."""
        return self

    def output_delimiter(self, target: Path) -> str | None:  # noqa: ARG002
        """Return the delimiter of one text file as the output; None: that of its format."""
        return None

    def fingerprint(self) -> str:
        """Return a digest of everything that determines the rows and the blocks."""
        facts = (__version__, hashlib.sha256(self.model).hexdigest(), replace(self, model=b""))
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ImputeJob(ImputeRequest, Job):
    """Imputation of files. With `keep_text`, the cells of text files keep their spelling (`BlockImputer`)."""

    source: FileSet
    keep_text: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_files(
        cls,
        source: str | os.PathLike[str],
        request: ImputeRequest,
        *,
        block_size: int = DEFAULT_BLOCK_ROWS,
        read_options: ReadOptions | None = None,
    ) -> ImputeJob:
        """Check all files and make a job of them."""
        types = text_types(request.fitted.schema_)
        files = FileSet.from_path(source, replace(read_options or ReadOptions(), types=types))
        request.block_imputer(files.schema)  # raises an error if columns are absent
        return cls(**vars(request), source=files, block_size=effective_block_size(block_size, request.is_conditional))

    def for_output(self, target: Path) -> Self:
        """Return the job that keeps the spelling of cells, if the files and the output are text."""
        if not self.source.is_text or target.is_dir() or not Location.parse(target).keeps_text:
            return self
        return replace(self, keep_text=True, spellings=self.source.spellings())

    def output_delimiter(self, target: Path) -> str | None:
        """Return the delimiter of the source, from CSV to CSV."""
        return self.source.delimiter if Location.parse(target).format == "csv" else None

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""
        return self.source.blocks(self.block_size)

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker."""
        return self.source.tasks(blocks)

    def n_output_rows(self, block: Block) -> int:
        """Return the number of rows that a block gives: one for each row and draw."""
        return block.n_rows * (self.draws or 1)

    def check_output(self, target: Path) -> None:
        """Raise InvalidOption if the output is inside the source, or the source inside the output."""
        root = self.source.root
        if root in target.parents or target in root.parents:
            raise InvalidOption(
                f"The output {str(target)!r} and the source {str(root)!r} must not contain each other. Choose another "
                "output."
            )

    def process(self, blocks: Iterable[Block]) -> Iterator[BlockResult]:
        """Yield blocks with their imputed rows."""
        for block, chunk in self.source.read_chunks(blocks):
            imputer = self.block_imputer(self.source.schema, keep_text=self.keep_text, spellings=self.spellings)
            with errors_name_file(block.path, row_offset=block.row_offset - block.file_offset):
                imputed = imputer.impute_stacked(chunk, block.row_offset)
            yield BlockResult(block, imputed, imputer.structural)


@dataclass(frozen=True, kw_only=True)
class SampleJob(Job):
    """Sampling of rows."""

    n: int
    given: Mapping[str, Any] | None = None
    strategy: str = "auto"
    missing: str = "as_trained"

    @classmethod
    def create(
        cls,
        n: int,
        model: Model,
        *,
        given: Mapping[str, object] | None = None,
        strategy: str = "auto",
        missing: str = "as_trained",
        block_size: int = DEFAULT_BLOCK_ROWS,
        **common: Unpack[CommonArguments],
    ) -> SampleJob:
        """Check the arguments of `harpoon.engines.sample` and make a job of them."""
        if not isinstance(given, Mapping | None):
            raise InvalidOption("given must be a mapping of columns to values; impute completes partial rows.")
        check_strategy(strategy)
        check_missing(missing)
        fields = _common_fields(model, **common)
        values = None if given is None else dict(given)
        job = cls(**fields, n=check_count(n), block_size=block_size, given=values, strategy=strategy, missing=missing)
        job = replace(job, block_size=effective_block_size(block_size, job.is_conditional))
        job.check_effective(samples=True, given=given is not None)
        warn_extrapolation(job.support, str(job.where))
        return job

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""
        return [Block(start, min(self.block_size, self.n - start)) for start in range(0, self.n, self.block_size)]

    def process(self, blocks: Iterable[Block]) -> Iterator[BlockResult]:
        """Yield blocks with their sampled rows."""
        for block in blocks:
            sampled = self.fitted.sample(
                block.n_rows,
                where=self.where,
                given=self.given,
                strategy=self.strategy,
                missing=self.missing,
                row_offset=block.row_offset,
                random_state=self.seed,
                **self.options,
            )
            yield BlockResult(block, self.fitted.template_.with_types(dataframe.read(sampled).arrow))


def effective_block_size(block: int, is_conditional: bool) -> int:  # noqa: FBT001
    """Return the rows of a block. Under a condition rows depend on their block, so its size is fixed there."""
    size = check_count(block, "block_size, the number of rows in memory at a time,")
    return CONDITION_BLOCK_ROWS if is_conditional else size


def _common_fields(
    model: Model, where: Where = None, random_state: RandomState = None, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Check the arguments that all requests have. All workers share the seed of the call, or of the model."""
    content = serialize_model(model)
    fitted = deserialize_model(content)
    condition = None if where is None else to_predicate(where, fitted.schema_.names)
    if condition is not None:
        bind(condition, fitted.schema_)
    state = fitted.random_state if random_state is None else check_random_state(random_state)
    return {
        "model": content,
        "seed": state if isinstance(state, int | None) else to_seed(state),
        "where": None if condition is None else str(condition),
        "options": dict(options or {}),
    }


def serialize_model(model: Model) -> bytes:
    """Return the file of a model as bytes, for workers that do not see it."""
    if not isinstance(model, Harpoon):
        load(model, progress=False)  # raises a ModelFileError if it is not a model
        return Path(model).read_bytes()
    return to_bytes(model)


@lru_cache(maxsize=2)
def deserialize_model(content: bytes) -> Harpoon:
    """Return the model of a file. It is loaded once per process."""
    return from_bytes(content, library="pyarrow", progress=False)
