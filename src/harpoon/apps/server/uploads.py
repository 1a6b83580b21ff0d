"""Tables in requests: JSON rows, CSV, or an Arrow stream. They stay in memory, and file names are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.datastructures import UploadFile
from starlette.requests import Request

from harpoon._formatting import format_list
from harpoon.apps.server.errors import ApiError, too_large
from harpoon.apps.server.limits import MAX_COLUMNS
from harpoon.apps.server.responses import ARROW, CSV, JSON
from harpoon.apps.server.schemas import ImputeBody, ImputeParameters
from harpoon.data import Kind, Schema
from harpoon.data.arrow_types import text_types
from harpoon.exceptions import InvalidTable, collect_warnings
from harpoon.io import FORMATS, Chunk, ReadOptions, Source
from harpoon.io.byte_source import GZIP_MAGIC, InMemoryBytes
from harpoon.io.delimited import DelimitedSource
from harpoon.io.json_lines import RecordSource, warn_if_lossy
from harpoon.io.source import TableSource, check_column_names, chunks_or_empty

FORM = "multipart/form-data"
NAME = "The uploaded table"
MAX_ARROW_BYTES = 2**28  # of a decompressed Arrow stream
MAX_TEXT_BYTES = 2**26  # of all texts of a dictionary column
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NOT_TEXT = {
    **{format_.magic: f"a file of {format_.title}" for format_ in FORMATS.values() if format_.is_binary},
    b"PK\x03\x04": "a zip or Excel file",
    GZIP_MAGIC: "gzipped",
}


@dataclass(frozen=True)
class Upload:
    """An uploaded table."""

    source: Source
    chunk: Chunk  # all rows
    notes: Sequence[str] = ()  # about cells that were not read as they are


async def receive_table(request: Request) -> tuple[str, bytes]:
    """Return the media type and the content of a body, or of the file in a form."""
    media = media_type(request.headers.get("content-type", ""))
    if media == FORM:
        async with request.form(max_files=1, max_fields=1) as form:
            file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
            if file is None:
                raise InvalidTable("The form has no file. Send one, in a field of any name.")
            file_media = media_type(file.content_type or "")
            return file_media if file_media in (JSON, ARROW) else CSV, await file.read()
    if media not in (JSON, CSV, ARROW):
        raise unsupported_media_type((JSON, CSV, ARROW, FORM))
    return media, await request.body()


def open_upload(
    media: str, content: bytes, parameters: ImputeParameters, schema: Schema, max_rows: int
) -> tuple[Upload, ImputeParameters]:
    """Return an uploaded table and the parameters of its imputation, which a JSON body holds itself."""
    if media == JSON:
        parameters = body = ImputeBody.model_validate_json(content)
    with collect_warnings() as notes:
        if media == JSON:
            source: Source = _read_rows(body.rows, schema)
        else:
            source = TableSource(read_arrow(content, max_rows)) if media == ARROW else _read_text(content, schema)
        upload = _to_upload(source, max_rows)
    return replace(upload, notes=notes), parameters


def read_arrow(content: bytes, max_rows: int) -> pa.Table:
    """Read an Arrow stream batch by batch, and stop at the limits.

    A few bytes can become very many: a stream can be compressed, and a dictionary can repeat one long text. The limits
    hold after decompression. A single batch is decompressed before it can be measured.
    """
    try:
        with pa.ipc.open_stream(content) as stream:
            _check_arrow_schema(stream.schema)
            table = pa.Table.from_batches(_read_batches(stream, max_rows), stream.schema)
    except InvalidTable:
        raise
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError):
        raise InvalidTable("The Arrow stream cannot be read: it is incomplete, or not an Arrow stream.") from None
    for name in table.column_names:
        _check_dictionary(name, table[name])
    return table


def _read_batches(stream: pa.RecordBatchReader, max_rows: int) -> list[pa.RecordBatch]:
    batches, rows, size = [], 0, 0
    for batch in stream:
        rows += batch.num_rows
        if rows > max_rows:
            raise _too_many_rows(max_rows)
        batch.validate(full=True)  # before anything else reads its buffers
        size += batch.nbytes
        if size > MAX_ARROW_BYTES:
            raise too_large(f"The Arrow stream has more than {MAX_ARROW_BYTES:,} bytes of cells. Send it in parts.")
        batches.append(batch)
    return batches


def _check_arrow_schema(schema: pa.Schema) -> None:
    check_column_names(schema.names, "The Arrow stream")
    nested = [f.name for f in schema if not _is_flat(f.type)]
    if nested:
        raise InvalidTable(
            f"The cells of {format_list(nested)} in the Arrow stream are not numbers, texts, booleans or times. Leave "
            "these columns out."
        )


def _is_flat(dtype: pa.DataType) -> bool:
    if pa.types.is_dictionary(dtype):
        return _is_flat(dtype.value_type) and not pa.types.is_dictionary(dtype.value_type)
    is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    return bool(is_text or pa.types.is_primitive(dtype) or pa.types.is_decimal(dtype) or pa.types.is_null(dtype))


def _check_dictionary(name: str, column: pa.ChunkedArray) -> None:
    """Refuse a dictionary column whose decoded texts would be too long."""
    if not pa.types.is_dictionary(column.type):
        return
    for chunk in column.chunks:
        if not pa.types.is_primitive(chunk.type.value_type) and len(chunk.dictionary):
            decoded = pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
            if decoded > MAX_TEXT_BYTES:
                raise too_large(f"The categories of column {name!r} are too long. Leave the column out.")


def _read_rows(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Source:
    """Read JSON objects. A column that no object has is missing everywhere."""
    records = RecordSource(lambda: iter(rows), text_types(schema), dict.fromkeys(schema.names, ""))
    warn_if_lossy(records, NAME)
    tables = [chunk.table for chunk in records.chunks(max(len(rows), 1))]
    table = pa.concat_tables(tables) if tables else records.schema.empty_table()
    for column in schema:
        if column.kind is Kind.DURATION and pa.types.is_integer(table.schema.field(column.name).type):
            index = table.schema.get_field_index(column.name)
            table = table.set_column(index, column.name, table[column.name].cast(pa.duration(column.unit)))
    return TableSource(table)


def _read_text(content: bytes, schema: Schema) -> Source:
    """Read CSV, TSV and the like."""
    other = next((name for magic, name in NOT_TEXT.items() if content.startswith(magic)), "")
    if other:
        raise InvalidTable(f"{NAME} is {other}. Send it as CSV, or as an Arrow stream.")
    if not content.startswith(UTF_16_MARKS):
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidTable(
                f"{NAME} is not UTF-8 text: byte {error.start + 1:,} is not valid. Save it as CSV in UTF-8, or send an "
                "Arrow stream."
            ) from None
    header = content.split(b"\n", 1)[0]
    columns = 1 + max(header.count(delimiter) for delimiter in (b",", b";", b"\t", b"|"))
    if columns > MAX_COLUMNS:
        raise InvalidTable(f"{NAME} may have {MAX_COLUMNS:,} columns; its first line has about {columns:,}.")
    return DelimitedSource(InMemoryBytes(NAME, content), ReadOptions(types=text_types(schema)))


def unsupported_media_type(offered: Sequence[str]) -> ApiError:
    """Return the error of a body in an unknown format."""
    message = f"The header Content-Type must be {', '.join(offered[:-1])}{' or ' * (len(offered) > 1)}{offered[-1]}."
    return ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)


def _to_upload(source: Source, max_rows: int) -> Upload:
    """Read all rows of a source, up to the limit."""
    if len(source.schema) > MAX_COLUMNS:
        raise InvalidTable(f"{NAME} may have {MAX_COLUMNS:,} columns; it has {len(source.schema):,}.")
    chunk = next(chunks_or_empty(source, max_rows + 1))
    if chunk.table.num_rows > max_rows:
        raise _too_many_rows(max_rows)
    return Upload(source, chunk)


def _too_many_rows(max_rows: int) -> ApiError:
    return too_large(f"The table has more than {max_rows:,} rows, which is the limit. Send it in parts.")


def media_type(header: str) -> str:
    """Return the media type in a header, without its parameters."""
    return header.partition(";")[0].strip().lower()
