"""Where the blocks of a job go: Parquet files in a hidden folder, which takes its name when all of them are there.

Each block is a file of its own, named by its first row, that appears whole or not at all. So a job that was killed goes
on where it was, a block that is done twice is the same file, and no row can be lost or doubled unseen.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon import io
from harpoon._text import format_list
from harpoon._utils.files import replace_atomically
from harpoon._utils.rng import to_seed
from harpoon.engines.blocks import Block, check_here
from harpoon.engines.job import Job
from harpoon.exceptions import HarpoonError, TableFileError
from harpoon.io import Location

PREFIX, SUFFIX = "rows-", ".parquet"
ABOUT, PROBLEM = "job.json", "problem"


@dataclass(frozen=True)
class BlockStore:
    """A folder of finished blocks."""

    folder: Path

    def path(self, block: Block) -> Path:
        """The file of a block; in the order of their names the files are the table."""
        return self.folder / f"{PREFIX}{block.row_offset:015d}{SUFFIX}"

    def left(self, blocks: Iterable[Block]) -> list[Block]:
        """The blocks that are still to be done."""
        there = {path.name for path in self.folder.iterdir()}
        return [block for block in blocks if self.path(block).name not in there]

    def damaged(self, job: Job) -> list[Block]:
        """The blocks that are there, but not whole."""
        left = set(self.left(job.blocks))
        there = [block for block in job.blocks if block not in left]
        return [block for block in there if _rows_in(self.path(block)) != job.rows_of(block)]

    def write(self, block: Block, table: pa.Table) -> None:
        """Put a finished block down."""
        with complaints(self.folder), replace_atomically(self.path(block)) as temporary:
            pq.write_table(table, temporary)

    def work(self, job: Job, blocks: Iterable[Block]) -> Iterator[Block]:
        """Do blocks, and tell of each when it is done: this is what a worker does, of every engine."""
        try:
            for block, table in job.made(blocks):
                self.write(block, table)
                yield block
        except HarpoonError as error:
            (self.folder / PROBLEM).write_bytes(pickle.dumps(error))
            raise

    def problem(self) -> HarpoonError | None:
        """What a worker complained of, if any did: engines do not hand errors on as they are."""
        with suppress(OSError):
            return cast(HarpoonError, pickle.loads((self.folder / PROBLEM).read_bytes()))  # noqa: S301
        return None

    def unseen(self) -> TableFileError:
        """What to say when workers have written, and nothing is here."""
        return TableFileError(
            f"What workers wrote to {str(self.folder)!r} is not seen here. Put the output where all machines see it."
        )

    def check(self, job: Job) -> None:
        """Every block is there, with as many rows as it should have."""
        if self.left(job.blocks):
            raise self.unseen()
        if wrong := self.damaged(job):
            raise TableFileError(f"{str(self.path(wrong[0]))!r} has not the rows that it should have. Run it again.")


@contextmanager
def collect(job: Job, output: str | os.PathLike[str], *, force: bool = False) -> Iterator[tuple[Job, BlockStore]]:
    """The job with a seed, and where its blocks go; at the end the output is there, or nothing is.

    Only what is killed leaves its finished blocks behind, for the next run of the same job.
    """
    check_here(output)
    target = Path(output).resolve()  # workers may be elsewhere
    job.check_apart(target)
    check_target(target, force=force)
    parts = BlockStore(target.parent / f".{target.name}-{job.identity()}.harpoon")
    with complaints(parts.folder):
        parts.folder.mkdir(exist_ok=True)
        seeded = job.seeded(_kept_seed(parts.folder / ABOUT, job.seed))
        for block in parts.damaged(job):  # by whatever happened to an earlier run
            parts.path(block).unlink()
    try:
        yield seeded, parts
        parts.check(job)
        with complaints(target):
            _appear(parts, job, target, force=force)
    except Exception:
        _discard(parts.folder)
        raise


def check_target(target: Path, *, force: bool = False) -> None:
    """Refuse, before any work is done, a place that cannot be written to or that holds something."""
    if target.is_file() and not _is_one_file(target):
        raise TableFileError(f"{str(target)!r} is a file, where a folder is to be. Choose another name.")
    if not target.is_dir():
        io.check_free(Location(str(target), target, ""), force=force)
        return
    strange = [path.name for path in target.iterdir() if not _is_part(path)]
    if strange:
        raise TableFileError(
            f"The folder {str(target)!r} holds {format_list(strange)}, which no engine wrote, and is not replaced. Choose "
            "another name."
        )
    if not force and any(target.iterdir()):
        raise TableFileError.already_exists(f"{str(target)!r} is already there")


@contextmanager
def complaints(place: Path) -> Iterator[None]:
    """Trouble with the disk, said as ours."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, HarpoonError):
            raise
        raise TableFileError.unwritable(repr(str(place)), error) from None


def _rows_in(path: Path) -> int | None:
    """How many rows a file says that it has; none if it is damaged."""
    with suppress(OSError, pa.ArrowException):
        return int(pq.read_metadata(path).num_rows)
    return None


def _kept_seed(about: Path, seed: int | None) -> int:
    """The seed of the job: that of its first run, if nobody has chosen one."""
    if about.exists():
        try:
            return int(json.loads(about.read_text(encoding="utf-8"))["seed"])
        except (ValueError, KeyError, TypeError):
            raise TableFileError(f"{str(about)!r}, of an earlier run, is damaged. Delete its folder.") from None
    chosen = to_seed(None) if seed is None else seed
    with replace_atomically(about) as temporary:
        temporary.write_text(json.dumps({"seed": chosen}), encoding="utf-8")
    return chosen


def _appear(parts: BlockStore, job: Job, target: Path, *, force: bool) -> None:
    """Give the folder its name, or join its parts into one file."""
    if _is_one_file(target):
        with io.open_writer(target, force) as out:
            for block in job.blocks:
                out.write(pq.ParquetFile(parts.path(block)).read())
        shutil.rmtree(parts.folder)
        return
    for path in parts.folder.iterdir():
        if not _is_part(path):  # the seed, and what a killed worker was writing
            path.unlink()
    replaced = parts.folder.with_suffix(".replaced")
    if target.exists():
        target.rename(replaced)
    parts.folder.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)


def _discard(folder: Path) -> None:
    """Remove a folder that workers may still be writing to: under another name they do not find it."""
    with suppress(OSError):
        shutil.rmtree(folder.rename(folder.with_suffix(".discarded")))


def _is_one_file(target: Path) -> bool:
    return bool(Location.parse(target).format) and not target.is_dir()


def _is_part(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)
