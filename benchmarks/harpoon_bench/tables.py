"""Records and published numbers as tables of text: means over seeds, the best in bold, what is missing said."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev

from harpoon.exceptions import InvalidOption
from harpoon.metrics import METRICS
from harpoon_bench.baselines import METHODS, kind_of
from harpoon_bench.records import Cell, Record

CEILINGS = {kind.title for kind in map(kind_of, METHODS) if kind.ceiling}
SEEDS, DIGITS = 5, 2  # of published means
TOO_LARGE = 1e5  # to be written out, as in the published tables
MISSING, FAILED = "–", "failed"
Key = tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """A mean over seeds, the deviation, and how many there are if they are not as many as in the paper."""

    mean: float
    deviation: float | None = None
    seeds: int = SEEDS

    def __str__(self) -> str:
        if abs(self.mean) >= TOO_LARGE:  # what a method says that has lost its way
            return f">1e{int(math.log10(abs(self.mean)))}"
        spread = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread}{'' if self.seeds == SEEDS else f' ({self.seeds})'}"

    @property
    def read(self) -> float:
        """The mean as a reader sees it: published numbers have no more digits, and what looks equal is equal."""
        return round(self.mean, DIGITS)

    def times(self, factor: float) -> Value:
        """The same in another unit."""
        spread = None if self.deviation is None else self.deviation * factor
        return replace(self, mean=self.mean * factor, deviation=spread)


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the metric that says what is best."""

    heading: str
    metric: str


@dataclass(frozen=True)
class Duel:
    """A cell of ours against the best of the others."""

    cell: str
    ours: float
    rival: str
    theirs: float
    won: bool


@dataclass
class Table:
    """Methods down, cells across.

    >>> table = Table([Column("adult", "mse")], {"ours": {"adult": Value(0.4)}, "theirs": {"adult": Value(0.5, 0.1)}})
    >>> print(table.markdown())
    | | adult |
    |---|---|
    | ours | **0.40** |
    | theirs | 0.50 ± 0.10 |
    """

    columns: Sequence[Column]
    rows: dict[str, dict[str, Value | str]] = field(default_factory=dict)
    title: str = ""

    def put(self, row: str, heading: str, value: Value | str | None, factor: float = 1.0) -> None:
        """Set a cell, in another unit if need be; None leaves it missing."""
        if value is not None:
            self.rows.setdefault(row, {})[heading] = value.times(factor) if isinstance(value, Value) else value

    def best(self, column: Column) -> float | None:
        """The best mean of a column; what shows a ceiling does not compete."""
        there = [row.get(column.heading) for name, row in self.rows.items() if name not in CEILINGS]
        return METRICS[column.metric].best([value.read for value in there if isinstance(value, Value)])

    def markdown(self) -> str:
        """As text."""
        head = "".join(f" {column.heading} |" for column in self.columns)
        rows = [
            "".join([f"| {name} |", *(f" {self._shown(row, column)} |" for column in self.columns)])
            for name, row in self.rows.items()
        ]
        return "\n".join([f"| |{head}", "|---" * (len(self.columns) + 1) + "|", *rows])

    def duels(self, ours: str, others: Iterable[str]) -> list[Duel]:
        """Each cell in which a row can be compared with the best of some others."""
        others, found = list(others), []
        for column in self.columns:
            there = {name: self.rows[name].get(column.heading) for name in (ours, *others) if name in self.rows}
            means = {name: value.read for name, value in there.items() if isinstance(value, Value)}
            mine = means.pop(ours, None)
            best = METRICS[column.metric].best(list(means.values()))
            if mine is not None and best is not None:
                rival = next(name for name, mean in means.items() if mean == best)
                won = mine != best and METRICS[column.metric].best([mine, best]) == mine
                found.append(Duel(f"{self.title} {column.heading}".strip(), mine, rival, best, won))
        return found

    def _shown(self, row: Mapping[str, Value | str], column: Column) -> str:
        value = row.get(column.heading, MISSING)
        if isinstance(value, Value) and value.read == self.best(column):
            return f"**{value}**"
        return str(value)


def published(path: Path, keys: Sequence[str]) -> dict[Key, Value | str]:
    """Published numbers by what they are about."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {tuple(_key(row, key) for key in keys): _value(row) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise InvalidOption(
            f"{str(path)!r} must be a table of published numbers with the columns {', '.join(keys)} and a mean "
            f"({type(error).__name__}: {error}). Give the folder of such tables with --published."
        ) from None


def _key(row: Mapping[str, str], key: str) -> str:
    """What a published number is about, with ratios written in one way."""
    return f"{float(row[key]):.2f}" if key == "ratio" else row[key]


def _value(row: Mapping[str, str]) -> Value | str:
    """A published number, or what is printed in its place, such as ">1e5"."""
    mean, deviation = (row.get(name, row.get(f"{name}_s")) for name in ("mean", "std"))
    if mean is None:
        raise KeyError("mean")
    try:
        return Value(float(mean), float(deviation) if deviation else None)
    except ValueError:
        return mean


def title_of(cell: Cell) -> str:
    """A method in a table: its name for people, and what differs from its own settings."""
    if cell.method not in METHODS:
        return cell.method
    kind = kind_of(cell.method)
    limit = [f"≤ {cell.budget:g} s"] if cell.budget is not None and kind.budgeted else []
    return ", ".join([kind.title, *limit, *(f"{key}={value}" for key, value in sorted(cell.options.items()))])


def averaged(found: Iterable[tuple[Cell, Record]]) -> dict[tuple[str, Key, str], Value | str]:
    """Means over seeds, by method, by place (dataset, mask and ratio, or condition) and by metric."""
    values: dict[tuple[str, Key, str], dict[int, float]] = {}  # one for each seed, however often it was asked
    answered, failed = set[tuple[str, Key, int]](), set[tuple[str, Key, int]]()
    for cell, record in found:
        where, name = place_of(cell), title_of(cell)
        (failed if "error" in record else answered).add((name, where, cell.seed))
        for metric, value in record.get("metrics", {}).items():
            if value is not None:
                values.setdefault((name, where, metric), {})[cell.seed] = value
    means: dict[tuple[str, Key, str], Value | str] = {
        key: Value(fmean(seeds.values()), pstdev(seeds.values()) if len(seeds) > 1 else None, len(seeds))
        for key, seeds in values.items()
    }
    for name, where, _ in failed - answered:  # a mean over the seeds that did work would flatter
        for metric in METRICS:
            means[name, where, metric] = FAILED
    return means


def place_of(cell: Cell) -> Key:
    """What a number is about, besides its method, its metric and its seed."""
    asked = (cell.mask, None if cell.ratio is None else f"{cell.ratio:.2f}", cell.condition)
    return (cell.dataset, *(part for part in asked if part is not None))


def on_shared_seeds(found: Iterable[tuple[Cell, Record]]) -> list[tuple[Cell, Record]]:
    """Those of the seeds that every method has an answer to: one mask may be much harder than another.

    Methods with a single seed are left out where others have more, for they would leave but one to all.
    """
    found = list(found)
    answered: dict[Key, dict[str, set[int]]] = {}
    for cell, record in found:
        if "error" not in record:
            answered.setdefault(place_of(cell), {}).setdefault(title_of(cell), set()).add(cell.seed)
    for place, methods in answered.items():
        several = {name: seeds for name, seeds in methods.items() if len(seeds) > 1}
        answered[place] = several if len(several) > 1 else methods
    shared = {place: set.intersection(*methods.values()) for place, methods in answered.items()}

    def counts(cell: Cell, record: Record) -> bool:
        place = place_of(cell)
        return "error" in record or (cell.seed in shared[place] and title_of(cell) in answered[place])

    return [(cell, record) for cell, record in found if counts(cell, record)]
