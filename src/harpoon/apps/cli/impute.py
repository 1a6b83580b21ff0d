"""`harpoon impute`: fill the missing cells of a table, block by block."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from harpoon.io import Location, Source, Writer


IMPUTE = (
    "harpoon impute penguins.harpoon penguins.csv -o filled.csv",
    "harpoon impute sales.harpoon sales.parquet -o filled.parquet --only price,region",
    "harpoon impute penguins.harpoon penguins.csv -o draws.csv --draws 5   (writes draws.1.csv to draws.5.csv)",
    "zcat rows.csv.gz | harpoon impute rows.harpoon - | gzip > filled.csv.gz",
    "harpoon impute sales.harpoon parts/ -o filled/ --engine ray --workers 8   (folders of Parquet or CSV files)",
    "harpoon impute shop.harpoon 'duckdb:///shop.db#orders' -o 'duckdb:///shop.db#filled' --where 'price > cost'",
)


def impute(
    model: options.ModelFile,
    table: options.TableOrFolder,
    output: options.OutputTable = "-",
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Sample this many completed tables instead of the best values, one file each."),
    ] = None,
    stack_draws: Annotated[
        bool,
        typer.Option(
            "--stack-draws", help="With --draws, write one table: a first column `draw`, the draws of a row together."
        ),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="A rule that every completed row satisfies, as in SQL. It does not select rows."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,COLUMN", help="Fill these columns only. May be repeated.")
    ] = None,
    option: options.OptionValues = None,
    block_size: Annotated[int, typer.Option("--block-size", min=1, help="Rows in memory at a time.")] = 20_000,
    engine: options.Engine = None,
    workers: options.Workers = None,
    format: options.Format = "",  # noqa: A002
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Fill the missing cells of a table; all other cells and the order of the rows stay.

    Columns that the model does not know are copied. A category that it does not know counts as missing, and a note
    names it. The table can have any length, and can be a folder of Parquet or CSV files: it is read and written block
    by block, and the result does not depend on the size of the blocks.
    """
    from harpoon import io
    from harpoon._utils.progress import row_counter
    from harpoon.data.arrow_types import text_types
    from harpoon.engines import block_imputer
    from harpoon.engines.job import ImputeJob
    from harpoon.io.source import boolean_spellings, chunks_or_empty

    console, started, rows = Console(json, quiet), perf_counter(), 0
    options.check_table_output(output, json=json)
    values = options.parse_options(option, ["sampling", "guidance"])
    if stack_draws and draws is None:
        raise InvalidOption("--stack-draws puts several draws into one table, so it needs --draws: add --draws 5.")
    if engine is not None or Path(table).is_dir():
        engine = options.check_engine(engine or "local", output, format)
        if draws is not None and not stack_draws:
            raise InvalidOption("An engine writes all draws into one table: add --stack-draws.")
        with console.warnings_as_notes():
            sent = options.model_for_engine(model, console, values)
            request = options.impute_request(sent, where=where, draws=draws, only=only or (), seed=seed)
            how = options.read_options(delimiter, encoding, missing)
            job = ImputeJob.create(table, request, block_size=block_size, read_options=how)
            options.run_job(job, output, console, engine, workers, force=force)
        return
    target = io.Location.parse(output).with_format(format)
    loaded = load_model(model, console, progress=False)
    how = options.read_options(delimiter, encoding, missing, text_types(loaded.schema_))
    with console.warnings_as_notes(), io.open_source(table, how) as source, ExitStack() as stack:
        only = options.split_names(only or (), source.schema.names)
        imputer = block_imputer.BlockImputer(
            loaded,
            source.schema,
            only=only,
            draws=draws,
            where=where,
            seed=seed,
            keep_text=target.keeps_text,
            boolean_spellings=boolean_spellings(source) if target.keeps_text else None,
            options=values,
        )
        if imputer.passed_through:
            console.message(f"Copied, because the model does not know them: {', '.join(imputer.passed_through)}")
        writers = [
            stack.enter_context(w) for w in _writers(target, source, draws, stack_draws=stack_draws, force=force)
        ]
        advance = stack.enter_context(row_counter("Imputing", show=console.progress))
        for chunk in chunks_or_empty(source, block_size):
            tables = imputer.impute_chunk(chunk, rows)
            tables = [block_imputer.stack_draws(tables)] if draws is not None and len(writers) == 1 else tables
            for writer, imputed in zip(writers, tables, strict=True):
                writer.write(imputed)
            rows += chunk.table.num_rows
            advance(rows)
    summary = {
        "output": output,
        "rows": rows,
        "draws": draws,
        "filled": imputer.n_filled,
        "seconds": round(perf_counter() - started, 3),
    }
    console.summary(summary, _describe(rows, imputer.n_filled))


def _writers(
    target: Location, source: Source, draws: int | None, *, stack_draws: bool, force: bool
) -> list[AbstractContextManager[Writer]]:
    """Return one writer, or one for each draw."""
    from harpoon import io

    several = draws is not None and not stack_draws and not target.is_stream
    targets = [target.with_number(number) for number in range(1, (draws or 1) + 1)] if several else [target]
    return [io.open_writer(each, force, delimiter=source.delimiter) for each in targets]


def _describe(rows: int, filled: dict[str, int]) -> str:
    total = sum(filled.values())
    by_column = ", ".join(f"{name} {count:,}" for name, count in filled.items() if count)
    return f"{total:,} cells filled in {rows:,} rows{f': {by_column}' if by_column else ''}"
