"""Batches in parallel: on a CPU, one batch per thread is faster than all threads on each batch.

Only matrix products use several threads, and they synchronise at each of them. Encoding, decoding and elementwise
operations use one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

import torch

Item = TypeVar("Item")
Done = TypeVar("Done")
MAX_THREADS = 8  # bounds the memory of batches; further threads are distributed among these


def map_batches(work: Callable[[Item], Done], items: Sequence[Item], device: torch.device) -> list[Done]:
    """Apply `work` to each item and return the results in order; the first error ends it.

    >>> map_batches(lambda number: number**2, [1, 2, 3], torch.device("cpu"))
    [1, 4, 9]
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = min(threads, len(items), MAX_THREADS)
    if workers <= 1:
        return [work(item) for item in items]
    begun = Barrier(workers + 1)

    def begin() -> None:
        torch.set_num_threads(threads // workers)
        torch.get_num_threads()  # fixes the number for this thread
        with suppress(BrokenBarrierError):  # the work ended before it began
            begun.wait()

    pool = ThreadPoolExecutor(workers, thread_name_prefix="harpoon", initializer=begin)
    try:
        futures = [pool.submit(work, item) for item in items]
        begun.wait()
        torch.set_num_threads(threads)  # the default of threads that start later
        return [future.result() for future in futures]
    finally:
        begun.abort()
        pool.shutdown(cancel_futures=True)
