"""Finished blocks of a job: Parquet files in a hidden folder, which becomes the output when all blocks are there.

Each block is one file, named after its first row, and appears complete or not at all. So a job that was killed can
continue, a block that is processed twice is the same file, and no row is lost or duplicated unnoticed.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon import io
from harpoon._formatting import format_list
from harpoon._utils.files import replace_atomically
from harpoon._utils.progress import rows_bar
from harpoon._utils.rng import to_seed
from harpoon.engines.block_imputer import warn_structural
from harpoon.engines.blocks import Block, check_local_path
from harpoon.engines.job import Job
from harpoon.exceptions import HarpoonError, TableFileError
from harpoon.io import Location
from harpoon.io.location import translate_errors

if TYPE_CHECKING:
    from harpoon.engines import Run

PREFIX, SUFFIX = "rows-", ".parquet"
JOB_FILE, ERROR_FILE = "job.json", "error"


@dataclass(frozen=True)
class BlockStore:
    """A folder of finished blocks."""

    folder: Path

    def path(self, block: Block) -> Path:
        """Return the file of a block. In the order of their names the files form the table."""
        return self.folder / f"{PREFIX}{block.row_offset:015d}{SUFFIX}"

    def _structural_path(self, block: Block) -> Path:
        return self.path(block).with_suffix(".json")

    def structural_counts(self, blocks: Iterable[Block]) -> Counter[str]:
        """Return how many structurally missing cells of each column were imputed in finished blocks."""
        total = Counter[str]()
        for path in map(self._structural_path, blocks):
            total.update(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})
        return total

    def unfinished(self, blocks: Iterable[Block]) -> list[Block]:
        """Return the blocks that have no file yet."""
        finished = {path.name for path in self.folder.iterdir()}
        return [block for block in blocks if self.path(block).name not in finished]

    def find_damaged(self, job: Job) -> list[Block]:
        """Return the blocks whose file does not hold the expected number of rows."""
        unfinished = set(self.unfinished(job.blocks))
        finished = (block for block in job.blocks if block not in unfinished)
        return [block for block in finished if _count_rows(self.path(block)) != job.n_output_rows(block)]

    def process(self, job: Job, blocks: Iterable[Block]) -> Iterator[Block]:
        """Process blocks and yield each when its file is written. Workers of all engines call this.

        After an error of any worker the others stop at their next block, because the job has failed.
        """
        try:
            for block, table, structural in job.process(blocks):
                if (self.folder / ERROR_FILE).exists():
                    return
                with _writing(self.folder):
                    if structural:  # before the block, which is finished when its file is there
                        with replace_atomically(self._structural_path(block)) as temporary:
                            temporary.write_text(json.dumps(structural), encoding="utf-8")
                    with replace_atomically(self.path(block)) as temporary:
                        pq.write_table(table, temporary)
                yield block
        except HarpoonError as error:
            with suppress(OSError), replace_atomically(self.folder / ERROR_FILE) as temporary:
                temporary.write_bytes(pickle.dumps(error))  # atomically: the job may read it while another worker fails
            raise

    def worker_error(self) -> HarpoonError | None:
        """Return the error of a worker, if there was one. Engines do not pass on errors as they are."""
        with suppress(OSError):
            return cast(HarpoonError, pickle.loads((self.folder / ERROR_FILE).read_bytes()))  # noqa: S301
        return None

    def invisible_error(self) -> TableFileError:
        """Return the error for files that workers wrote and this process does not see."""
        return TableFileError(
            f"The files that workers wrote to {str(self.folder)!r} are not visible here. Choose an output that all "
            "machines see."
        )


def run_job(job: Job, output: str | os.PathLike[str], run: Run, *, force: bool = False, progress: bool = True) -> Path:
    """Process the unfinished blocks of a job with the `run` of an engine, and return the output."""
    n_rows = sum(block.n_rows for block in job.blocks)
    bar = rows_bar("Rows", n_rows, show=progress)
    with assemble_output(job, output, force=force) as (seeded, store), bar as advance:
        unfinished = store.unfinished(job.blocks)
        advance(n_rows - sum(block.n_rows for block in unfinished))
        for block in run(seeded, store, unfinished):
            advance(block.n_rows)
    return Path(output)


@contextmanager
def assemble_output(
    job: Job, output: str | os.PathLike[str], *, force: bool = False
) -> Iterator[tuple[Job, BlockStore]]:
    """Yield the job with a seed and the store of its blocks; at the end make the output of them.

    After an error nothing is left. Only a killed process leaves its finished blocks, for the next run of the same job.
    """
    check_local_path(output)
    target = Path(output).resolve()  # workers may have another working directory
    job.check_output(target)
    _check_target(target, force=force)
    job = job.for_output(target)
    store = BlockStore(target.parent / f".{target.name}-{job.fingerprint()}.harpoon")
    with _writing(store.folder):
        store.folder.mkdir(exist_ok=True)
        seeded = replace(job, seed=_stored_seed(store.folder / JOB_FILE, job.seed))
        (store.folder / ERROR_FILE).unlink(missing_ok=True)  # of an earlier run that was stopped, as are damaged blocks
        for block in store.find_damaged(job):
            store.path(block).unlink()
    try:
        yield seeded, store
        with _writing(target):
            structural = store.structural_counts(job.blocks)
            _publish(store, job, target, force=force)
    except Exception:
        with suppress(OSError):  # workers may still write to the folder: they do not find it under another name
            shutil.rmtree(store.folder.rename(store.folder.with_suffix(".discarded")))
        raise
    warn_structural(structural, {})


def _check_target(target: Path, *, force: bool) -> None:
    """Raise TableFileError, before any work is done, if the output cannot be written or is already there."""
    if target.is_file() and not _is_one_file(target):
        raise TableFileError(f"{str(target)!r} is a file, and the output is a folder. Choose another name.")
    if not target.is_dir():
        io.check_writable(Location(str(target), target, ""), force=force)
        return
    foreign = [path.name for path in target.iterdir() if not _is_block_file(path)]
    if foreign:
        raise TableFileError(
            f"The folder {str(target)!r} holds {format_list(foreign)}, which no engine wrote, and is not replaced. "
            "Choose another name."
        )
    if not force and any(target.iterdir()):
        raise TableFileError.already_exists(f"{str(target)!r} is already there")


def _writing(path: Path) -> AbstractContextManager[None]:
    return translate_errors(TableFileError.unwritable, repr(str(path)), OSError, pa.ArrowException)


def _count_rows(path: Path) -> int | None:
    """Return the number of rows of a Parquet file; None if it is damaged."""
    with suppress(OSError, pa.ArrowException):
        return int(pq.read_metadata(path).num_rows)
    return None


def _stored_seed(path: Path, seed: int | None) -> int:
    """Return the seed of the first run of the job; if this is the first run, store the given one or a new one."""
    if path.exists():
        try:
            return int(json.loads(path.read_text(encoding="utf-8"))["seed"])
        except (ValueError, KeyError, TypeError):
            raise TableFileError(f"{str(path)!r}, of an earlier run, is damaged. Delete its folder.") from None
    chosen = to_seed(None) if seed is None else seed
    with replace_atomically(path) as temporary:
        temporary.write_text(json.dumps({"seed": chosen}), encoding="utf-8")
    return chosen


def _publish(store: BlockStore, job: Job, target: Path, *, force: bool) -> None:
    """Check that all rows are there, and rename the folder to the output, or write all blocks to one file."""
    if store.unfinished(job.blocks):
        raise store.invisible_error()
    if wrong := store.find_damaged(job):
        raise TableFileError(f"{str(store.path(wrong[0]))!r} does not hold the rows that it should. Run the job again.")
    if _is_one_file(target):
        with io.open_writer(target, force, delimiter=job.output_delimiter(target)) as writer:
            for block in job.blocks:
                writer.write(pq.ParquetFile(store.path(block)).read())
        shutil.rmtree(store.folder)
        return
    for path in store.folder.iterdir():
        if not _is_block_file(path):  # the seed, and files that a killed worker was writing
            path.unlink()
    replaced = store.folder.with_suffix(".replaced")
    if target.exists():
        target.rename(replaced)
    store.folder.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)


def _is_one_file(target: Path) -> bool:
    return bool(Location.parse(target).format) and not target.is_dir()


def _is_block_file(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)
