"""Results of an imputation besides one completed table: expectations, and multiple imputation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_list, format_percent, format_rounded
from harpoon._utils import cards
from harpoon._utils.rng import RandomState
from harpoon.data import Column, ColumnArray, Columns, Floats, FrameTemplate, Schema, Table, dataframe, format_time
from harpoon.encoding.numeric import round_mean, shift_values
from harpoon.exceptions import InvalidOption, TooFewDrawsWarning, warn
from harpoon.inference.imputation.comparison import ModelComparison, compare
from harpoon.inference.imputation.mice_export import write_mids
from harpoon.inference.imputation.pooling import Estimator, Pooled, check_level, pool
from harpoon.inference.imputation.prediction_intervals import interval, min_draws
from harpoon.inference.imputation.sensitivity import check_missing_cells, check_shift
from harpoon.inference.sampling.row_sampler import RowSampler

NOTHING_MISSING = "No cell of a modelled column was missing: every table equals the given one."
MIN_OBSERVED = 2  # cells, for a standard deviation


@dataclass(frozen=True)
class Expectation(cards.Displayed):
    """The conditional expectation of every cell given the observed cells of its row.

    Attributes:
        numbers: For each numeric column its mean in units of the table (days or ticks for dates and times), (n,). An
            observed cell has its own value.
        probabilities: For each boolean or categorical column the probability of each category, (n, categories). They
            are all 0 for an observed category that the model does not know.
        categories: The categories of the probabilities.
    """

    numbers: dict[str, Floats]
    probabilities: dict[str, Floats]
    categories: dict[str, tuple[Any, ...]]

    @classmethod
    def compute(cls, sampler: RowSampler, rows: Columns) -> Expectation:
        """Compute the expectation of the cells of rows."""
        codec, schema, rows = sampler.codec, sampler.codec.schema, sampler.model.relations.solve(rows)
        no_rows = np.zeros((0, codec.width))

        def decode(x: Floats) -> tuple[dict[str, Floats], ...]:
            return (*codec.expectation(x), codec.expected_elapsed_times(x))

        parts = sampler.posterior_means(rows, decode) or [decode(no_rows)]
        numbers, probabilities, elapsed = (
            {name: np.concatenate([part[i][name] for part in parts]) for name in each}
            for i, each in enumerate(parts[0])
        )
        for name, mean in numbers.items():  # an observed cell is not predicted
            column = schema[name]  # a mean lies between the values that the model samples
            valid = np.clip(mean, column.minimum, column.maximum) if column.clip else mean
            numbers[name] = np.where(rows[name].missing, valid, rows[name].values)
        numbers |= sampler.model.relations.link_expected_times(numbers | elapsed, rows)
        for name, p in probabilities.items():
            p[rows[name].values >= len(rows[name].categories)] = 0.0
        return cls(numbers, probabilities, {name: schema[name].categories or () for name in probabilities})

    def __repr__(self) -> str:
        return (
            f"Expectation of {self._rows} rows: numbers of {list(self.numbers)}, probabilities of "
            f"{list(self.probabilities)}"
        )

    @property
    def _rows(self) -> int:
        return len(next(iter([*self.numbers.values(), *self.probabilities.values()]), ()))

    def _card(self) -> cards.Html:
        numbers = [(cards.code(name), f"numbers[{name!r}]", "mean of each cell") for name in self.numbers]
        categories = [
            (
                cards.code(name),
                f"probabilities[{name!r}]",
                f"probabilities of {format_list(self.categories[name])}",
            )
            for name in self.probabilities
        ]
        rows = [*numbers, *categories]
        return cards.card(f"Expectation of {self._rows:,} rows", cards.table(["column", "where", "what"], rows))


@dataclass(frozen=True)
class MultipleImputation(cards.Displayed):
    """Several completed tables, each with its own draw of the missing cells. Iterating yields the tables.

    >>> import pyarrow as pa
    >>> from harpoon import Harpoon
    >>> table = pa.table({"x": [1.0, 2.0, None, 4.0] * 10, "c": ["a", "b", "a", None] * 10})
    >>> draws = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table).impute(table, draws=3)
    >>> len(draws), [t["x"].null_count for t in draws]
    (3, [0, 0, 0])
    >>> low, high = draws.interval(0.5)
    >>> low["x"][0] == high["x"][0] == table["x"][0]
    True
    """

    tables: list[Any] = field(repr=False)
    _table: Table = field(repr=False)
    _template: FrameTemplate = field(repr=False)
    _schema: Schema = field(repr=False)
    _draws: list[Columns] = field(repr=False)
    _missing: Mapping[str, NDArray[np.bool_]] = field(repr=False)

    def __repr__(self) -> str:
        cells = sum(int(missing.sum()) for missing in self._missing.values())
        return f"MultipleImputation: {len(self)} draws of {cells} missing cells"

    def _card(self) -> cards.Html:
        rows = []
        for column in self._schema.modelled:
            missing, cells = self._missing[column.name], self._draws[0][column.name]
            if missing.any():
                labels = (*cells.categories, *cells.unseen)
                both = cells.values[~missing & ~cells.missing], self._values(column.name).ravel()
                summaries = (_summarize(column, values, labels) for values in both)
                rows.append((cards.code(column.name), cards.bar(float(missing.mean())), *summaries))
        head = ["column", "missing", "observed cells", "filled cells, all draws"]
        title = f"{len(self)} completed tables of {self._table.n_rows:,} rows"
        return cards.card(title, cards.table(head, rows, what="columns") if rows else cards.paragraph(NOTHING_MISSING))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def interval(self, level: float = 0.9, *, quiet: bool = False) -> tuple[Any, Any]:
        """Return two tables of the numeric columns: the lower and the upper end of each cell.

        One more draw lies between the ends with probability `level`, if there are enough draws (19 for 90 %, 39 for
        95 %) and repeated values allow it; see `harpoon.inference.imputation.prediction_intervals`. The
        interval of an observed cell is its value. So is that of a number that other cells determine.

        Args:
            level: The probability.
            quiet: Whether to omit the warning about too few draws (`TooFewDrawsWarning`).
        """
        needed = min_draws(check_level(level))
        if len(self) < needed and not quiet:
            held = max(len(self) - 1, 0) / (len(self) + 1)
            message = (
                f"An interval of level {level:.4g} needs at least {needed} draws, got {len(self)}. It reaches from the "
                f"smallest to the largest draw, a level of about {held:.2f}. Use impute(table, draws={needed})."
            )
            warn(TooFewDrawsWarning(message))
        ends: tuple[Columns, Columns] = ({}, {})
        for column in self._schema.modelled:
            if column.kind.numeric:
                bounds = interval(self._values(column.name), level, column)
                for end, bound in zip(ends, bounds, strict=True):
                    end[column.name] = self._with_values(column.name, bound)
        low, high = (self._table.fill(end, self._missing, self._template, only=list(end)) for end in ends)
        return low, high

    def mean(self) -> Any:  # noqa: ANN401
        """Return one table: the mean of the draws at the resolution of the column, and the most frequent category."""
        columns = {}
        for column in self._schema.modelled:
            draws = self._values(column.name)
            values = round_mean(draws.mean(axis=0), column) if column.kind.numeric else _mode(draws)
            columns[column.name] = self._with_values(column.name, values)
        return self._table.fill(columns, self._missing, self._template)

    def _values(self, name: str) -> NDArray[Any]:
        """Return the draws of the missing cells of a column, (draws, cells)."""
        return np.stack([draw[name].values[self._missing[name]] for draw in self._draws])

    def _with_values(self, name: str, new: NDArray[Any]) -> ColumnArray:
        """Return a column with new values in its missing cells."""
        cells = self._draws[0][name]
        values = cells.values.astype(new.dtype)
        values[self._missing[name]] = new
        return cells.with_values(values)

    def pool(
        self,
        estimator: Estimator,
        *,
        bootstrap: int | None = None,
        df_complete: float | None = None,
        random_state: RandomState = 0,
    ) -> Pooled:
        """Estimate on each completed table and combine the estimates by Rubin's rules.

        Args:
            estimator: A function of a table that returns a fitted result of statsmodels (`params`, `bse`, `df_resid`);
                a fitted linear model of scikit-learn (`coef_`); a tuple of estimates and their variances, and of the
                complete-data degrees of freedom if these are known; or estimates alone, as numbers.
            bootstrap: How many times to resample the rows of each table and estimate again, for the variance within
                the table. By default 25 for results without standard errors, which are scikit-learn's and numbers;
                0 makes these an error.
            df_complete: The degrees of freedom if no cell were missing; by default those of the result, else infinite.
            random_state: A seed or a NumPy generator for the bootstrap.
        """
        return pool(self.tables, estimator, bootstrap=bootstrap, df_complete=df_complete, random_state=random_state)

    def compare(
        self, larger: Estimator, smaller: Estimator, *, method: str = "D1", df_complete: float | None = None
    ) -> ModelComparison:
        """Test whether a model fits better than a smaller one that is nested in it.

        Args:
            larger: A function of a table that returns a result of statsmodels.
            smaller: The same with some of the parameters left out; the others have the same names.
            method: "D1", a Wald test (Li, Raghunathan & Rubin, 1991), with the degrees of freedom of Reiter (2007), as
                `D1` of R's `mice`; or "D4", a likelihood-ratio test (Chan & Meng, 2022), which also fits both models to
                all tables stacked.
            df_complete: The degrees of freedom of the larger model if no cell were missing, for D1; by default those
                of its result.
        """
        return compare(self.tables, larger, smaller, method=method, df_complete=df_complete)

    def shift(self, shift: Mapping[str, float]) -> MultipleImputation:
        """Return draws in which imputed numbers are shifted, for sensitivity to values missing not at random.

        Delta adjustment (van Buuren, 2018, section 3.8). Shifted numbers keep the resolution of the column, and may
        leave the range of the training table. A shift between two multiples of the resolution is rounded up in some
        cells and down in others, so that their mean is shifted by it. Other cells stay. Categories, and numbers with
        few values, are shifted when they are sampled: `impute(table, draws=m, shift=...)`.

        Args:
            shift: For each column the number of standard deviations of its observed cells in this table.
        """
        numbers, log_odds = check_shift(shift, self._schema)
        if log_odds:
            raise InvalidOption(
                "Categories, and numbers with few values, are shifted when they are sampled: use impute(table, "
                "draws=m, shift=...)."
            )
        if not numbers:
            return self
        check_missing_cells(numbers, self._missing)
        offsets = {name: by * self._observed_std(name) for name, by in numbers.items()}
        shifted = [{name: self._shift(draw, name, by) for name, by in offsets.items()} for draw in self._draws]
        pairs = zip(self.tables, shifted, strict=True)
        tables = [dataframe.read(table).fill(cells, self._missing, self._template) for table, cells in pairs]
        return replace(self, tables=tables, _draws=[a | b for a, b in zip(self._draws, shifted, strict=True)])

    def n_missing(self, column: str) -> int:
        """Return how many cells of a column were missing."""
        return int(self._missing[column].sum())

    def to_mids(self, folder: str | PathLike[str], *, force: bool = False) -> None:
        """Write files for the package `mice` of R: `mids <- source("read_mids.R", chdir = TRUE)$value` reads them.

        `imputations.csv` has the original table (`.imp` is 0) and the completed ones (from 1) below each other, with
        the number of the row as `.id`. `read_mids.R` declares the types and calls `as.mids`. Names that R does not
        allow are changed by `make.names`, such as "body mass" to `body.mass`. Times are in UTC; durations are numbers.

        Args:
            folder: Where to write; it is made if it does not exist.
            force: Whether to replace existing files.
        """
        write_mids(folder, self._table, self.tables, self._missing, self._schema, force=force)

    def _shift(self, draw: Columns, name: str, offset: float) -> ColumnArray:
        """Return a column of a draw with its imputed cells shifted by an offset in units of the table."""
        values, missing = draw[name].values, self._missing[name]
        shifted = shift_values(values[missing], offset, self._schema[name])
        filled = values.astype(shifted.dtype)
        filled[missing] = shifted
        return draw[name].with_values(filled)

    def _observed_std(self, name: str) -> float:
        observed = self._draws[0][name].values[~self._missing[name]].astype(np.float64)
        if len(observed) < MIN_OBSERVED:
            raise InvalidOption(
                f"A shift of column {name!r} is in standard deviations of its observed cells, and the table has "
                f"{len(observed)} of them. Add rows in which it is observed."
            )
        return float(observed.std(ddof=1))


def _summarize(column: Column, values: NDArray[Any], labels: tuple[Any, ...]) -> str:
    """Return the values of a column in a few words: mean and standard deviation, or the most frequent label."""
    if not len(values):
        return "none"
    if not column.kind.numeric:
        counts = np.bincount(values)
        return f"{labels[counts.argmax()]!r} in {format_percent(counts.max() / len(values), digits=2)}"
    mean = float(values.mean())
    if column.kind.temporal:
        return f"mean {format_time(column, round(mean))}"
    return f"mean {format_rounded(mean)}, std {format_rounded(float(values.std()))}"


def _mode(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent code of each row, the smallest of several: (draws, n) to (n,)."""
    counts = np.stack([(codes == draw).sum(axis=0) for draw in codes])
    too_large = codes.max(initial=0) + 1
    mode: NDArray[np.int64] = np.where(counts == counts.max(axis=0), codes, too_large).min(axis=0)
    return mode
