"""Results as files: one JSON record per cell of a table, in a place that follows from the cell."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harpoon.exceptions import HarpoonError
from harpoon_bench.cache import whole

Record = dict[str, Any]
PLAIN, LONGEST = " ,=+:()[]'", 200  # what the name of a folder may hold besides letters, and how much of it


class RecordDamaged(HarpoonError, ValueError):
    """A file among the results is no record."""


@dataclass(frozen=True)
class Cell:
    """One thing to measure.

    Attributes:
        experiment: What kind of thing.
        dataset: On which data.
        method: Of which method.
        mask: How cells are hidden, if they are.
        ratio: How many of them.
        condition: What rows must be like, if they must.
        seed: Of the mask, or of what is drawn.
        budget: Seconds of training at the most; None: as long as the method's authors say.
        options: Settings of the method that differ from its own.

    >>> Cell("imputation", "adult", "paper", mask="MAR", ratio=0.25, options={"loss": "mse"}).place
    PosixPath('imputation/adult/paper,loss=mse/MAR-0.25-0.json')
    """

    experiment: str
    dataset: str
    method: str
    mask: str | None = None
    ratio: float | None = None
    condition: str | None = None
    seed: int = 0
    budget: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def variant(self) -> str:
        """The method with all that sets it apart: cells of one variant share one training."""
        limit = [] if self.budget is None else [f"budget={self.budget:g}"]
        return ",".join([self.method, *limit, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    @property
    def place(self) -> Path:
        """The file of its record, in the folder of results."""
        parts = [part for part in (self.mask, self.ratio, self.condition, self.seed) if part is not None]
        folder = quote(self.variant, safe=PLAIN)
        if len(folder) > LONGEST:
            folder = f"{folder[:LONGEST]}-{hashlib.sha256(folder.encode()).hexdigest()[:8]}"
        return Path(self.experiment, self.dataset, folder, "-".join(map(str, parts)) + ".json")

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """Back from plain data."""
        return cls(**data)


@dataclass(frozen=True)
class Results:
    """A folder of records."""

    folder: Path

    def done(self, cell: Cell, *, again: bool = False) -> bool:
        """Whether there is a record of the cell; with `again`, one of a success."""
        path = self.folder / cell.place
        if not path.exists():
            return False
        record = _read(path)  # which complains of what is none
        return not (again and "error" in record)

    def write(self, cell: Cell, record: Mapping[str, Any]) -> None:
        """Put the record of a cell in its place, whole or not at all."""
        content = json.dumps(_plain({"cell": cell.to_json(), **record}), indent=1, ensure_ascii=False, allow_nan=False)
        with whole(self.folder / cell.place) as file:
            file.write_text(content + "\n", encoding="utf-8")

    def records(self, experiment: str) -> Iterator[tuple[Cell, Record]]:
        """All records of an experiment."""
        for path in sorted(self.folder.glob(f"{experiment}/*/*/*.json")):
            record = _read(path)
            yield Cell.from_json(record["cell"]), record


def _read(path: Path) -> Record:
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        Cell.from_json(record["cell"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordDamaged(
            f"{str(path)!r} is not a record of the bench ({error}). Delete it to make it anew."
        ) from None
    return record


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Data as JSON has it: what is no finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
