"""Models and tables that commands start from."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from harpoon._text import format_list
from harpoon.apps.cli.console import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from harpoon.estimator import Harpoon
    from harpoon.io import ReadOptions, Source


ROWS = 2**16
DOUBTFUL = ("?", "-", "--", ".", "*", "na", "n/a", "n.a.", "none", "nil", "missing", "unknown", "not available")
HEADER = b"__metadata__"


def load_model(path: Path, talk: Console, *, progress: bool = True) -> Harpoon:
    """A model from its file."""
    from harpoon.estimator import load

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


def read_table(place: str, how: ReadOptions, talk: Console, *, unknown: bool = False) -> pa.Table:
    """A whole table, and a word on what is open to doubt: of a table of which nothing is known there is more."""
    import pyarrow as pa

    from harpoon import io

    with io.open_source(place, how) as source:
        _note_delimiter(source, talk)
        parts = list(source.chunks(ROWS))
        if source.missing_spellings - {""}:
            talk.say(f"Missing cells are written {format_list(sorted(source.missing_spellings), shown=20)}.")
        if unknown and all(part.texts is not None for part in parts):
            _note_doubtful([part.table for part in parts], talk)
        return pa.concat_tables(part.table for part in parts) if parts else source.schema.empty_table()


def _note_delimiter(source: Source, talk: Console) -> None:
    """A single column is mostly several that were not told apart."""
    from harpoon.io.delimited import DELIMITERS

    only = source.schema.names[0] if len(source.schema.names) == 1 else ""
    for other in DELIMITERS:
        if other in only and other != source.delimiter:
            talk.note(f"Only one column was found, and its name holds {other!r}; is that the delimiter?")


def _note_doubtful(parts: Sequence[pa.Table], talk: Console) -> None:
    """Texts that stand for a missing cell in many tables, and in some for themselves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, list[str]] = {}
    for f in parts[0].schema if parts else ():
        if pa.types.is_string(f.type):
            cells = pa.chunked_array([chunk for part in parts for chunk in part[f.name].chunks], type=f.type)
            for word in pc.unique(pc.utf8_trim_whitespace(cells)).to_pylist():
                if word is not None and word.casefold() in DOUBTFUL:
                    found.setdefault(word, []).append(f.name)
    for word, names in found.items():
        talk.note(f"{word!r} in {format_list(names)} looks like a missing cell. If it is one: --missing {quote(word)}")
