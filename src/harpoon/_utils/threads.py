"""Batches abreast: on a CPU, a batch on each thread is faster than each batch on all threads.

Of what happens to a batch only products of matrices have a use for several threads, and they wait for each other at
every one of them; encoding, decoding and all that is done number by number has none.
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
MAX_THREADS = 8  # so that the memory which batches take stays bounded; more threads are shared out among these


def map_batches(work: Callable[[Item], Done], items: Sequence[Item], device: torch.device) -> list[Done]:
    """What `work` makes of each item, in their order; the first error ends it.

    >>> abreast(lambda number: number**2, [1, 2, 3], torch.device("cpu"))
    [1, 4, 9]
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    lanes = min(threads, len(items), MAX_THREADS)
    if lanes <= 1:
        return [work(item) for item in items]
    begun = Barrier(lanes + 1)

    def begin() -> None:
        torch.set_num_threads(threads // lanes)
        torch.get_num_threads()  # whoever asks keeps the number, whatever others say later
        with suppress(BrokenBarrierError):  # the work has ended before it began
            begun.wait()

    pool = ThreadPoolExecutor(lanes, thread_name_prefix="harpoon", initializer=begin)
    try:
        futures = [pool.submit(work, item) for item in items]
        begun.wait()
        torch.set_num_threads(threads)  # threads that begin later, of whoever, have as many as was last said
        return [future.result() for future in futures]
    finally:
        begun.abort()
        pool.shutdown(cancel_futures=True)
