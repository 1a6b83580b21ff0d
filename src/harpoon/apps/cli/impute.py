"""`harpoon impute`: a table with holes in, the same table without them out, part by part."""

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
    "harpoon impute sales.harpoon holes.parquet -o filled.parquet --only price,region",
    "harpoon impute penguins.harpoon penguins.csv -o draws.csv --draws 5   (writes draws.1.csv to draws.5.csv)",
    "zcat rows.csv.gz | harpoon impute rows.harpoon - | gzip > filled.csv.gz",
    "harpoon impute sales.harpoon holes/ -o filled/ --engine ray --workers 8   (folders of Parquet or CSV files)",
    "harpoon impute shop.harpoon 'duckdb:///shop.db#orders' -o 'duckdb:///shop.db#filled' --where 'price > cost'",
)


def impute(
    model: options.ModelFile,
    table: options.TableOrFolder,
    output: options.ToTable = "-",
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Draw so many tables instead of the best value of each cell, one file each."),
    ] = None,
    stacked: Annotated[
        bool,
        typer.Option("--stacked", help="With --draws, one table: a first column `draw`, the draws of a row together."),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="A rule that every completed row has to meet, as in SQL. It chooses no rows."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,COLUMN", help="Fill these columns only. May be repeated.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows in memory at a time.")] = 20_000,
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
    """Fill the missing cells of a table; all others stay as they are, in their order.

    Columns that the model does not know are passed on; a label that it does not know counts as missing, and a note
    names it. A table of any length will do, also a folder of Parquet or CSV files: it is read and written part by
    part, and what a row gets does not depend on the size of the parts.
    """
    from harpoon import io
    from harpoon._utils.progress import row_counter
    from harpoon.data.arrow_types import text_types
    from harpoon.engines.block_imputer import BlockImputer, stack_draws
    from harpoon.engines.job import ImputeJob
    from harpoon.io.source import boolean_spellings, chunks_or_empty

    talk, began, rows = Console(json, quiet), perf_counter(), 0
    options.check_table_target(output, json=json)
    if stacked and draws is None:
        raise InvalidOption("--stacked puts several draws into one table, so it needs --draws: add --draws 5.")
    if engine is not None or Path(table).is_dir():
        from harpoon.apps.cli import engines

        engine = engines.checked(engine or "local", output, format)
        if draws is not None and not stacked:
            raise InvalidOption("An engine puts all draws into one table: add --stacked.")
        with talk.notes():
            filling = engines.filling(model, where=where, draws=draws, only=only or (), seed=seed)
            how = options.reading(delimiter, encoding, missing)
            engines.run(
                ImputeJob.create(table, filling, block_size=batch, read_options=how),
                output,
                talk,
                engine,
                workers,
                force=force,
            )
        return
    target = io.Location.parse(output).with_format(format)
    loaded = load_model(model, talk, progress=False)
    how = options.reading(delimiter, encoding, missing, text_types(loaded.schema_))
    with talk.notes(), io.open_source(table, how) as source, ExitStack() as stack:
        only = options.named(only or (), source.schema.names)
        filler = BlockImputer(
            loaded,
            source.schema,
            only=only,
            draws=draws,
            where=where,
            seed=seed,
            keep_text=target.keeps_text,
            boolean_spellings=boolean_spellings(source) if target.keeps_text else None,
        )
        if filler.passed_through:
            talk.say(f"Passed on, for the model does not know them: {', '.join(filler.passed_through)}")
        outs = [stack.enter_context(out) for out in _outs(target, source, draws, stacked=stacked, force=force)]
        advance = stack.enter_context(row_counter("Imputing", show=talk.progress))
        for part in chunks_or_empty(source, batch):
            made = filler.impute_chunk(part, rows)
            made = [stack_draws(made)] if draws is not None and len(outs) == 1 else made
            for out, filled in zip(outs, made, strict=True):
                out.write(filled)
            rows += part.table.num_rows
            advance(rows)
    done = {
        "output": output,
        "rows": rows,
        "draws": draws,
        "filled": filler.n_filled,
        "seconds": round(perf_counter() - began, 3),
    }
    talk.told(done, _in_words(rows, filler.n_filled))


def _outs(
    target: Location, source: Source, draws: int | None, *, stacked: bool, force: bool
) -> list[AbstractContextManager[Writer]]:
    """One output, or one for each draw."""
    from harpoon import io

    several = draws is not None and not stacked and not target.is_stream
    places = [target.numbered(number) for number in range(1, (draws or 1) + 1)] if several else [target]
    return [io.open_writer(place, force, delimiter=source.delimiter) for place in places]


def _in_words(rows: int, filled: dict[str, int]) -> str:
    total = sum(filled.values())
    each = ", ".join(f"{name} {count:,}" for name, count in filled.items() if count)
    return f"{total:,} cells filled in {rows:,} rows{f': {each}' if each else ''}"
