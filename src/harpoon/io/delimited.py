"""CSV and other delimited text.

Every cell is read as text, and the type of a column is inferred from all of its cells. So no column changes its type
within a file, and a cell that is not imputed can be written as it was spelled. A cell without characters is null; a
cell with two quotes and nothing between them is an empty text.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from harpoon._formatting import shorten
from harpoon.exceptions import HarpoonError, InvalidTable, TableFileError
from harpoon.io.byte_source import ByteSource
from harpoon.io.source import SCAN_ROWS, Chunk, ReadOptions, Source, check_column_names, rebatch
from harpoon.io.text_types import TypeInference, cast_texts, format_texts, warn_of_offsets

DELIMITERS = ",;\t|"
MAX_ROW_BYTES = 2**23  # the header included
MAX_NAME_CHARACTERS = 2**17  # the usual limit of csv for a field
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class DelimitedSource(Source):
    """A table as delimited text. `delimiter` is that of the format, if it has one and the options name no other."""

    def __init__(
        self,
        content: ByteSource,
        options: ReadOptions,
        _stack: ExitStack | None = None,
        *,
        delimiter: str | None = None,
    ) -> None:
        self.content, self.options = content, options
        self.encoding = options.encoding or BYTE_ORDER_MARKS.get(content.head[:2], "utf-8")
        sample = self._first_lines()
        self.delimiter = options.delimiter or delimiter or sniff_delimiter(sample)
        try:
            self.names = next(_rows(sample, self.delimiter), [])
        except csv.Error as error:
            raise InvalidTable(f"The names of the columns of {content.name} cannot be read: {error}.") from None
        if max(map(len, self.names), default=0) > MAX_NAME_CHARACTERS:  # other libraries raise the limit of csv
            limit = f"one has more than {MAX_NAME_CHARACTERS:,} characters"
            raise InvalidTable(f"The names of the columns of {content.name} cannot be read: {limit}.")
        check_column_names(self.names, content.name)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, from the header."""
        return self.names

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types. Types that the options do not name are inferred from all rows."""
        types = {name: self.options.types[name] for name in self.names if name in self.options.types}
        inference = TypeInference([name for name in self.names if name not in types], self.options.missing_words)
        if inference.names:
            for texts in self._texts(SCAN_ROWS):
                inference.update(texts)
        warn_of_offsets(inference, self.content.name)
        self.missing_spellings = inference.missing_spellings
        types |= inference.types
        return pa.schema([(name, types[name]) for name in self.names])

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        missing = self.options.missing_words
        for texts in self._texts(size, row_offset):
            columns = [
                cast_texts(texts[f.name], f.type, name=f.name, missing=missing, row_offset=row_offset)
                for f in self.schema
            ]
            yield Chunk(pa.Table.from_arrays(columns, schema=self.schema), texts)
            row_offset += texts.num_rows

    def _texts(self, size: int, row_offset: int = 0) -> Iterator[pa.Table]:
        ragged: list[pyarrow.csv.InvalidRow] = []

        def remember(row: pyarrow.csv.InvalidRow) -> str:
            ragged.append(row)
            return "error"

        try:
            with self.content.open() as file, self._reader(file, remember) as reader:
                texts = None
                tables = (pa.Table.from_batches([batch]) for batch in reader)
                for texts in rebatch(tables, size, row_offset):
                    yield texts
            self._check_last_quote(texts)
        except HarpoonError:
            raise
        except (pa.ArrowInvalid, UnicodeError, OSError) as error:
            if "Empty CSV" in str(error):  # a header without the end of its line
                return
            raise self._read_error(error, ragged) from None

    def _reader(self, file: pa.NativeFile, on_invalid_row: object) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=MAX_ROW_BYTES, encoding=self.encoding),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=on_invalid_row
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check_last_quote(self, last: pa.Table | None) -> None:
        """Raise InvalidTable for a quote that is never closed: the last cell then holds the rest of the file."""
        cell = "" if last is None else last.column(-1)[-1].as_py() or ""
        if not cell.endswith("\n") or self.encoding.startswith("utf-16"):
            return
        with self.content.open() as file:
            end = b""
            while block := file.read(MAX_ROW_BYTES):
                end = (end + block)[-MAX_ROW_BYTES:]
        if not end.rstrip(b"\r\n").endswith(b'"'):
            raise InvalidTable(f"A quote in {self.content.name} is not closed: the last cell goes on to the end.")

    def _read_error(self, error: Exception, ragged: list[pyarrow.csv.InvalidRow]) -> InvalidTable | TableFileError:
        if ragged:
            row = ragged[0]
            return InvalidTable(
                f"Row {row.number} of {self.content.name} has {row.actual_columns} cells instead of "
                f"{row.expected_columns} as in row 1, the header: {shorten(row.text)!r}. Fix the row, or name the "
                f"delimiter, if it is not {self.delimiter!r}."
            )
        if "UTF8" in str(error) or isinstance(error, UnicodeError):
            return self._not_text_error()
        if "straddl" in str(error):
            return self._too_long_error()
        return TableFileError.unreadable(self.content.name, error)

    def _first_lines(self) -> str:
        """Return the first lines, at least one."""
        text = self._decode(self.content.head)
        if not _end_of_lines(text):
            with self.content.translate_errors(), self.content.open() as file:
                start = file.read(MAX_ROW_BYTES)
            text = self._decode(start)
            if len(start) == MAX_ROW_BYTES and not _end_of_lines(text):
                raise self._too_long_error()
        return text[: _end_of_lines(text) or None]

    def _decode(self, start: bytes) -> str:
        try:
            text = codecs.getincrementaldecoder(self.encoding)().decode(start)
        except UnicodeError:
            raise self._not_text_error() from None
        if "\0" in text:
            raise self._not_text_error()
        return text.removeprefix("\ufeff").lstrip("\r\n")

    def _too_long_error(self) -> InvalidTable:
        return InvalidTable(f"{self.content.name} has a row beyond {MAX_ROW_BYTES:,} bytes; is a quote not closed?")

    def _not_text_error(self) -> InvalidTable:
        tried = self.encoding.upper()
        return InvalidTable(
            f"{self.content.name} is neither {tried} text nor a Parquet, Arrow or gzip file. If it is text in another "
            "encoding, name it (encoding='latin-1'); otherwise save the table as CSV or Parquet.",
            code="unknown_encoding",
            name=self.content.name,
            tried=tried,
        )


class TextWriter:
    """CSV, with quotes only where they are needed. A missing cell is empty, an empty text is `""`."""

    def __init__(self, sink: Any, delimiter: str) -> None:  # noqa: ANN401
        self.sink, self.delimiter, self.started = sink, delimiter, False

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        if not self.started:
            self._write_lines(pa.table([pa.array([name]) for name in table.column_names], names=table.column_names))
            self.started = True
        self._write_lines(table)

    def _write_lines(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        cells = [self._quote(format_texts(column)) for column in table.columns]
        missing = '""' if len(cells) == 1 else ""  # readers skip an empty line
        lines = pc.binary_join_element_wise(
            *cells, self.delimiter, null_handling="replace", null_replacement=missing
        ).combine_chunks()
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
        self.sink.write(pc.binary_join(whole, "\n")[0].as_buffer())
        self.sink.write(b"\n")

    def _quote(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        special = pc.match_substring_regex(texts, f'^$|["\\r\\n\\{self.delimiter}]')
        if not pc.any(special).as_py():
            return texts
        doubled = pc.replace_substring(texts, '"', '""')
        return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


def sniff_delimiter(sample: str) -> str:
    r"""Return the delimiter that splits all first lines into the same number of cells, the more cells the better.

    >>> sniff_delimiter("name;price\nbread;1,50\nmilk;0,99\n"), sniff_delimiter("one column\n1\n")
    (';', ',')
    """

    def score(delimiter: str) -> tuple[bool, int]:
        try:
            widths = [len(row) for row in _rows(sample, delimiter) if row]
        except csv.Error:
            return False, 0
        return len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0

    return max(DELIMITERS, key=score)


def _rows(sample: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the cells of each line, with line ends of Unix, Windows or old Macs."""
    return csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)


def _end_of_lines(text: str) -> int:
    """Return the length of the complete lines of a text."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1
