"""bfloat16 products on any machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_onednn() -> Iterator[None]:
    """Compute products without oneDNN, which uses AMX where it is advertised; some virtual machines kill that."""
    enabled = torch.backends.mkldnn.enabled
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)
