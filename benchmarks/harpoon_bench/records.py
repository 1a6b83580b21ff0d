"""Records: one JSON file per cell of a table, at a path that follows from the cell."""

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
from harpoon_bench.cache import write_atomically

Record = dict[str, Any]
RESULTS = Path("benchmarks", "results", "experiments")  # in a clone, from its root
SAFE_CHARACTERS = " ,=+:()[]'"  # in folder names, besides letters and digits
MAX_FOLDER_NAME_LENGTH = 200


class RecordDamaged(HarpoonError, ValueError):
    """A file among the results is not a record."""


@dataclass(frozen=True)
class Cell:
    """One measurement of an experiment.

    Attributes:
        experiment: The name of the experiment.
        dataset: The name of the data set.
        method: The name of the method.
        mask: The missingness mechanism, for imputation.
        ratio: The fraction of hidden cells, for imputation.
        condition: The kind of condition, for conditional sampling.
        seed: The seed of the mask or of the samples.
        budget: The most seconds of training; None: the authors' setting.
        options: Options of the method that differ from its defaults.

    >>> Cell("imputation", "adult", "paper", mask="MAR", ratio=0.25, options={"hidden": 64}).path
    PosixPath('imputation/adult/paper,hidden=64/MAR-0.25-0.json')
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
        """The method with its budget and options; the cells of a variant share one training."""
        limit = [] if self.budget is None else [f"budget={self.budget:g}"]
        return ",".join([self.method, *limit, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    @property
    def path(self) -> Path:
        """The path of its record, relative to the folder of results."""
        parts = [part for part in (self.mask, self.ratio, self.condition, self.seed) if part is not None]
        folder = quote(self.variant, safe=SAFE_CHARACTERS)
        if len(folder) > MAX_FOLDER_NAME_LENGTH:
            digest = hashlib.sha256(folder.encode()).hexdigest()[:8]
            folder = f"{folder[:MAX_FOLDER_NAME_LENGTH]}-{digest}"
        return Path(self.experiment, self.dataset, folder, "-".join(map(str, parts)) + ".json")

    def to_json(self) -> dict[str, Any]:
        """Return the cell as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """Make a cell from plain data."""
        return cls(**data)


@dataclass(frozen=True)
class Results:
    """A folder of records."""

    folder: Path

    def has(self, cell: Cell, *, successful: bool = False) -> bool:
        """Return whether the cell has a record; if `successful`, one without an error."""
        path = self.folder / cell.path
        if not path.exists():
            return False
        record = _read(path)
        return not (successful and "error" in record)

    def write(self, cell: Cell, record: Mapping[str, Any]) -> None:
        """Write the record of a cell atomically."""
        data = _to_plain({"cell": cell.to_json(), **record})
        content = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        with write_atomically(self.folder / cell.path) as file:
            file.write_text(content + "\n", encoding="utf-8")

    def records(self, experiment: str) -> Iterator[tuple[Cell, Record]]:
        """Yield the cells of an experiment that have a record."""
        for path in sorted(self.folder.glob(f"{experiment}/*/*/*.json")):
            record = _read(path)
            yield Cell.from_json(record["cell"]), record


def _read(path: Path) -> Record:
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        Cell.from_json(record["cell"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordDamaged(f"{str(path)!r} is not a record ({error}). Delete it to measure the cell again.") from None
    return record


def _to_plain(value: Any) -> Any:  # noqa: ANN401
    """Return data that JSON can hold; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): _to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
