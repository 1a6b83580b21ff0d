"""`harpoon impute`: fill the missing cells of a table, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from harpoon.engines.block_imputer import BlockImputer
    from harpoon.io import Location, Source

IMPUTE = (
    "harpoon impute penguins.harpoon penguins.csv -o filled.csv",
    "harpoon impute sales.harpoon sales.parquet -o filled.parquet --only price,region",
    "harpoon impute penguins.harpoon penguins.csv -o draws.csv --draws 5   (writes draws.1.csv to draws.5.csv)",
    "zcat rows.csv.gz | harpoon impute rows.harpoon - | gzip > filled.csv.gz",
    "harpoon impute sales.harpoon parts/ -o filled/ --engine ray --workers 8   (folders of Parquet or CSV files)",
    "harpoon impute shop.harpoon 'duckdb:///shop.db#orders' -o 'duckdb:///shop.db#filled' --where 'price > cost'",
)


@dataclass(frozen=True)
class ImputeOptions:
    """Options that say how to fill cells, and which."""

    draws: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Sample this many completed tables instead of the best values, one file each."),
    ] = None
    stack_draws: Annotated[
        bool,
        Option(
            "--stack-draws", help="With --draws, write one table: a first column `draw`, the draws of a row together."
        ),
    ] = False
    where: Annotated[
        str | None,
        Option(
            metavar="CONDITION",
            help="A condition that every completed row satisfies, as in SQL. It does not select rows.",
        ),
    ] = None
    only: Annotated[
        list[str] | None, Option(metavar="COLUMN,COLUMN", help="Fill these columns only. May be repeated.")
    ] = None
    option: options.OptionValues = None
    block_size: Annotated[int, Option(min=1, metavar="N", help="Rows in memory at a time.")] = 20_000
    seed: options.Seed = None

    def __post_init__(self) -> None:
        self.arguments()  # raises an error before a model is loaded
        if self.stack_draws and self.draws is None:
            raise InvalidOption("--stack-draws puts several draws into one table, so it needs --draws: add --draws 5.")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that the imputation of blocks, here and on an engine, has in common."""
        values = options.parse_options(self.option, ["sampling", "guidance"])
        return {"draws": self.draws, "where": self.where, "options": values}

    def columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns to fill, which were given one by one or separated by commas; [] for all."""
        texts = self.only or ()
        chosen = [name for text in texts for name in ([text] if text in names else text.split(","))]
        for name in chosen:
            if name not in names:
                raise InvalidOption.one_of("A column of --only", name, names)
        return chosen

    def files(self, target: Location) -> list[Location]:
        """Return the file of each table."""
        if self.draws is None or self.stack_draws or target.is_stream:
            return [target]
        return [target.with_number(number) for number in range(1, self.draws + 1)]


def impute(
    model: options.ModelFile,
    table: options.TableOrFolder,
    output: options.OutputTable = "-",
    *,
    wanted: ImputeOptions,
    engine: options.EngineOptions,
    csv: options.CsvOptions,
    force: options.Force = False,
    console: Console,
) -> None:
    """Fill the missing cells of a table; all other cells and the order of the rows stay.

    Columns that the model does not know are copied. A category that it does not know is ignored as an input and kept,
    and a note names it. The table can have any length, and can be a folder of Parquet or CSV files: it is read and
    written block by block, and the result does not depend on the size of the blocks.
    """
    from harpoon import io
    from harpoon.data.arrow_types import text_types
    from harpoon.engines.block_imputer import BlockImputer
    from harpoon.engines.job import ImputeJob, ImputeRequest
    from harpoon.io.source import spellings

    options.check_table_output(output, console)
    if engine.engine is not None or Path(table).is_dir():
        engine = replace(engine, engine=engine.engine or "local")
        engine.check_output(output)
        if wanted.draws is not None and not wanted.stack_draws:
            raise InvalidOption("An engine writes all draws into one table: add --stack-draws.")
        with console.warnings_as_notes():
            request = ImputeRequest.create(model, random_state=wanted.seed, **wanted.arguments())
            request = replace(request, only=tuple(wanted.columns(request.fitted.schema_.names)))
            job = ImputeJob.of_files(table, request, block_size=wanted.block_size, read_options=csv.read_options())
            engine.run(job, output, console, force=force)
        return
    target, started = io.Location.parse(output).with_format(engine.format), perf_counter()
    loaded = load_model(model, console, progress=False)
    how = csv.read_options(text_types(loaded.schema_))
    with console.warnings_as_notes(), io.open_source(table, how) as source:
        imputer = BlockImputer(
            loaded,
            source.schema,
            only=wanted.columns(source.schema.names),
            seed=wanted.seed,
            keep_text=target.keeps_text,
            spellings=spellings(source) if target.keeps_text else None,
            **wanted.arguments(),
        )
        if imputer.passed_through:
            console.message(f"Copied, because the model does not know them: {', '.join(imputer.passed_through)}")
        rows = _impute_blocks(imputer, source, target, wanted, console, force=force)
    filled, seconds = imputer.n_filled, round(perf_counter() - started, 3)
    by_column = ", ".join(f"{name} {count:,}" for name, count in filled.items() if count)
    console.summary(
        {
            "output": target.text,
            "rows": rows,
            "draws": wanted.draws,
            "filled": filled,
            "rows_filled": imputer.n_rows_filled,
            "seconds": seconds,
            "support": None if wanted.where is None else loaded.support(wanted.where).to_json(),
        },
        f"{sum(filled.values()):,} cells filled in {imputer.n_rows_filled:,} of {rows:,} rows"
        f"{f': {by_column}' if by_column else ''}",
    )


def _impute_blocks(
    imputer: BlockImputer, source: Source, target: Location, wanted: ImputeOptions, console: Console, *, force: bool
) -> int:
    """Impute a table and write it, block by block; return the number of its rows."""
    from harpoon import io
    from harpoon._utils.progress import row_counter
    from harpoon.engines.block_imputer import warn_structural
    from harpoon.io.source import chunks_or_empty

    rows, delimiter = 0, source.delimiter if target.format == "csv" else None
    with ExitStack() as stack:
        files = wanted.files(target)
        writers = [stack.enter_context(io.open_writer(file, force, delimiter=delimiter)) for file in files]
        advance = stack.enter_context(row_counter("Imputing", show=not console.quiet))
        for chunk in chunks_or_empty(source, wanted.block_size):
            several = len(files) > 1
            tables = imputer.impute_chunk(chunk, rows) if several else [imputer.impute_stacked(chunk, rows)]
            for writer, imputed in zip(writers, tables, strict=True):
                writer.write(imputed)
            rows += chunk.table.num_rows
            advance(rows)
        warn_structural(imputer.structural, imputer.causes)
    return rows
