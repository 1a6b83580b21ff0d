"""Records and published numbers as tables: means over seeds, the best in bold."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev

from harpoon.exceptions import InvalidOption
from harpoon.metrics import METRICS
from harpoon_bench.baselines import METHODS, method_class
from harpoon_bench.records import Cell, Record

CEILINGS = {cls.title for cls in map(method_class, METHODS) if cls.is_ceiling}
PUBLISHED_SEEDS, PUBLISHED_DIGITS = 5, 2
MAX_PRINTED = 1e5  # larger means are printed as a power of ten, as in the published tables
AGREEING_STDS, AGREEING_FRACTION = 2, 0.05  # distances from a published mean at which a number is reproduced
ROUNDING = 1e-9
MISSING, FAILED = "–", "failed"
BEFORE_COMMITS, SHORT_COMMIT = "before commits were recorded", 7
Key = tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """A mean over seeds with its standard deviation; the number of seeds is printed if it is not the paper's."""

    mean: float
    std: float | None = None
    seeds: int = PUBLISHED_SEEDS

    def __str__(self) -> str:
        if abs(self.mean) >= MAX_PRINTED:
            return f">1e{int(math.log10(abs(self.mean)))}"
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.2f}{spread}{'' if self.seeds == PUBLISHED_SEEDS else f' ({self.seeds})'}"

    @property
    def rounded(self) -> float:
        """The mean with the digits of published numbers; values are compared with these digits."""
        return round(self.mean, PUBLISHED_DIGITS)

    def scale(self, factor: float) -> Value:
        """Return the value in another unit."""
        return replace(self, mean=self.mean * factor, std=None if self.std is None else self.std * factor)


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the metric that decides which value is best."""

    heading: str
    metric: str


@dataclass(frozen=True)
class Comparison:
    """A measured value and the best of its competitors; `agrees` if it reproduces a published competitor."""

    cell: str
    value: float
    competitor: str
    competitor_value: float
    won: bool
    agrees: bool = False


@dataclass
class Table:
    """A table with a row for each method.

    >>> table = Table([Column("adult", "mse")], {"ours": {"adult": Value(0.4)}, "theirs": {"adult": Value(0.5, 0.1)}})
    >>> print(table.to_markdown())
    | | adult |
    |---|---|
    | ours | **0.40** |
    | theirs | 0.50 ± 0.10 |
    """

    columns: Sequence[Column]
    rows: dict[str, dict[str, Value | str]] = field(default_factory=dict)
    title: str = ""

    def put(self, row: str, heading: str, value: Value | str | None, factor: float = 1.0) -> None:
        """Set a cell, in another unit if `factor` is given; None leaves it missing."""
        if value is not None:
            self.rows.setdefault(row, {})[heading] = value.scale(factor) if isinstance(value, Value) else value

    def best(self, column: Column) -> float | None:
        """Return the best mean of a column, without ceilings."""
        values = [row.get(column.heading) for name, row in self.rows.items() if name not in CEILINGS]
        return METRICS[column.metric].best([value.rounded for value in values if isinstance(value, Value)])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        headings = "".join(f" {column.heading} |" for column in self.columns)
        rows = [
            "".join([f"| {name} |", *(f" {self._format(row, column)} |" for column in self.columns)])
            for name, row in self.rows.items()
        ]
        return "\n".join([f"| |{headings}", "|---" * (len(self.columns) + 1) + "|", *rows])

    def compare(self, row: str, competitors: Iterable[str]) -> list[Comparison]:
        """Compare a row with the best competitor, in each column in which both have a value."""
        competitors, found = list(competitors), []
        for column in self.columns:
            cells = {name: self.rows[name].get(column.heading) for name in (row, *competitors) if name in self.rows}
            means = {name: value.rounded for name, value in cells.items() if isinstance(value, Value)}
            own = means.pop(row, None)
            best = METRICS[column.metric].best(list(means.values()))
            if own is not None and best is not None:
                competitor = next(name for name, mean in means.items() if mean == best)
                won = own != best and METRICS[column.metric].best([own, best]) == own
                found.append(Comparison(f"{self.title} {column.heading}".strip(), own, competitor, best, won))
        return found

    def agreement(self, row: str, published: str) -> list[Comparison]:
        """Compare a row with the published row that it reproduces, in each column in which both have a value."""
        compared = {cell.cell: cell for cell in self.compare(row, [published])}
        found = []
        for column in self.columns:
            cell = compared.get(f"{self.title} {column.heading}".strip())
            value = self.rows.get(published, {}).get(column.heading)
            if cell is not None and isinstance(value, Value):
                tolerance = max(AGREEING_STDS * (value.std or 0.0), AGREEING_FRACTION * abs(value.mean))
                agrees = abs(cell.value - value.mean) <= tolerance + ROUNDING
                found.append(replace(cell, agrees=agrees))
        return found

    def _format(self, row: Mapping[str, Value | str], column: Column) -> str:
        value = row.get(column.heading, MISSING)
        if isinstance(value, Value) and value.rounded == self.best(column):
            return f"**{value}**"
        return str(value)


def read_published(path: Path, keys: Sequence[str]) -> dict[Key, Value | str]:
    """Read published numbers from a CSV file, by the values of the key columns."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {tuple(_key(row, key) for key in keys): _value(row) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise InvalidOption(
            f"{str(path)!r} must be a CSV file of published numbers with the columns {', '.join(keys)} and mean "
            f"({type(error).__name__}: {error}). Choose a folder of such files."
        ) from None


def _key(row: Mapping[str, str], key: str) -> str:
    return f"{float(row[key]):.2f}" if key == "ratio" else row[key]


def _value(row: Mapping[str, str]) -> Value | str:
    """Return a published value, or the text printed in its place, such as ">1e5"."""
    mean, std = (row.get(name, row.get(f"{name}_s")) for name in ("mean", "std"))
    if mean is None:
        raise KeyError("mean")
    try:
        return Value(float(mean), float(std) if std else None)
    except ValueError:
        return mean


def method_title(cell: Cell) -> str:
    """Return the name of a method in tables, with its budget and changed options."""
    if cell.method not in METHODS:
        return cell.method
    cls = method_class(cell.method)
    limit = [f"≤ {cell.budget:g} s"] if cell.budget is not None and cls.uses_budget else []
    return ", ".join([cls.title, *limit, *(f"{key}={value}" for key, value in sorted(cell.options.items()))])


def average_seeds(records: Iterable[tuple[Cell, Record]]) -> dict[tuple[str, Key, str], Value | str]:
    """Return means over seeds, by method, task and metric."""
    values: dict[tuple[str, Key, str], dict[int, float]] = {}  # one value per seed, even if measured twice
    succeeded, failed = set[tuple[str, Key, int]](), set[tuple[str, Key, int]]()
    for cell, record in records:
        task, name = task_of(cell), method_title(cell)
        (failed if "error" in record else succeeded).add((name, task, cell.seed))
        for metric, value in record.get("metrics", {}).items():
            if value is not None:
                values.setdefault((name, task, metric), {})[cell.seed] = value
    means: dict[tuple[str, Key, str], Value | str] = {
        key: Value(fmean(seeds.values()), pstdev(seeds.values()) if len(seeds) > 1 else None, len(seeds))
        for key, seeds in values.items()
    }
    for name, task, _ in failed - succeeded:  # a mean over the other seeds would be too good
        for metric in METRICS:
            means[name, task, metric] = FAILED
    return means


def version_of(record: Record) -> str:
    """Return the commit of the code that made a record, in words for a page.

    >>> version_of({"commit": "0123456789abcdef", "clean": True}), version_of({"commit": "0123456789abcdef+"})
    ('0123456', '0123456 with changes')
    >>> version_of({"metrics": {}})
    'before commits were recorded'
    """
    commit = record.get("commit")
    if commit is None:
        return BEFORE_COMMITS
    has_changes = commit.endswith("+") or record.get("clean") is False
    return f"{commit[:SHORT_COMMIT]} with changes" if has_changes else str(commit[:SHORT_COMMIT])


def count_versions(records: Iterable[tuple[Cell, Record]]) -> str:
    """Return the versions of some records, the most frequent first, each with its number of records."""
    counts = Counter(version_of(record) for _, record in records)
    return ", ".join(f"{version} ({count})" for version, count in counts.most_common())


def warn_of_versions(records: Iterable[tuple[Cell, Record]]) -> str:
    """Return a visible warning if the records of one table are of several versions of the code, else nothing."""
    records = list(records)
    if len({version_of(record) for _, record in records}) < 2:
        return ""
    return f"**Mixed versions**: the measured rows are of several commits: {count_versions(records)}."


def task_of(cell: Cell) -> Key:
    """Return the data set with the mask and its ratio, or with the condition."""
    parts = (cell.mask, None if cell.ratio is None else f"{cell.ratio:.2f}", cell.condition)
    return (cell.dataset, *(part for part in parts if part is not None))


def keep_shared_seeds(records: Iterable[tuple[Cell, Record]]) -> list[tuple[Cell, Record]]:
    """Return the records of seeds for which every method has a result, because some masks are harder than others.

    Methods with one seed are left out if others have more.
    """
    records = list(records)
    seeds: dict[Key, dict[str, set[int]]] = {}
    for cell, record in records:
        if "error" not in record:
            seeds.setdefault(task_of(cell), {}).setdefault(method_title(cell), set()).add(cell.seed)
    for task, methods in seeds.items():
        several = {name: found for name, found in methods.items() if len(found) > 1}
        seeds[task] = several if len(several) > 1 else methods
    shared = {task: set.intersection(*methods.values()) for task, methods in seeds.items()}

    def is_kept(cell: Cell, record: Record) -> bool:
        task = task_of(cell)
        return "error" in record or (cell.seed in shared[task] and method_title(cell) in seeds[task])

    return [(cell, record) for cell, record in records if is_kept(cell, record)]
