"""The local engine: one process of this machine, block after block."""

from __future__ import annotations

from collections.abc import Iterator

from harpoon.engines import Run, impute, sample
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import Job
from harpoon.exceptions import InvalidOption

__all__ = ["impute", "run", "sample"]


def start(workers: int | None) -> Run:
    """Check that one worker is enough."""
    if workers not in (None, 1):
        raise InvalidOption(
            f'The local engine is one process, got workers={workers}. Use engine="ray" for more workers.',
            code="local_engine_workers",
            workers=workers,
        )
    return run


def run(job: Job, store: BlockStore, blocks: list[Block]) -> Iterator[Block]:
    """Process blocks sequentially in this process."""
    return store.process(job, blocks)
