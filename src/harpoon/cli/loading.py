"""Models and tables that commands start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harpoon.cli.talking import Talk
from harpoon.errors import listed

if TYPE_CHECKING:
    import pyarrow as pa

    from harpoon.model import Harpoon
    from harpoon.tables import Reading

ROWS = 2**16
HEADER = b"__metadata__"


def load_model(path: Path, talk: Talk, *, progress: bool = True) -> Harpoon:
    """A model from its file."""
    from harpoon.model import load

    return load(path, progress=progress and talk.progress)


def is_model(place: str) -> bool:
    """Whether a file is a model and no table."""
    path = Path(place)
    if path.suffix == ".harpoon":
        return True
    try:
        with path.open("rb") as file:
            return HEADER in file.read(64)
    except (OSError, ValueError):
        return False


def read_table(place: str, how: Reading, talk: Talk) -> pa.Table:
    """A whole table, and a word on how its missing cells were written, where that is open to doubt."""
    import pyarrow as pa

    from harpoon import tables

    with tables.opened(place, how) as source:
        parts = [part.table for part in source.parts(ROWS)]
        if source.met - {""}:
            talk.say(f"Missing cells are written {listed(sorted(source.met), shown=20)}.")
        return pa.concat_tables(parts) if parts else source.schema.empty_table()
