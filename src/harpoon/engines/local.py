"""The local engine: one process of this machine, block after block."""

from __future__ import annotations

from collections.abc import Iterator

from harpoon.engines import impute, sample
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import Job

__all__ = ["impute", "run", "sample"]


def run(job: Job, store: BlockStore, blocks: list[Block]) -> Iterator[Block]:
    """Process blocks sequentially in this process."""
    return store.process(job, blocks)
