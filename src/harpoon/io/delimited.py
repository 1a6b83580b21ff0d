"""CSV and its relatives. Every cell is read as text, and what a column holds is found out from all of its cells.

So no column changes its type half-way through a file, and a cell that stays can be written as it was: a cell with
nothing in it is null, and one with nothing between two quotes is an empty text.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.csv

from harpoon._text import shorten
from harpoon.exceptions import InvalidOption, InvalidTable, TableFileError
from harpoon.io.byte_source import ByteSource
from harpoon.io.source import Chunk, ReadOptions, check_names, resized
from harpoon.io.text_types import TypeInference, cast_texts

DELIMITERS = ",;\t|"
BLOCK = 2**23  # no row may be longer, the header included
LOOKED_AT = 2**16  # rows at a time, to find out what the columns hold
BOMS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class DelimitedSource:
    """A table as text."""

    def __init__(self, content: ByteSource, how: ReadOptions, *, delimiter: str | None = None) -> None:
        self.content, self.how = content, how
        self.encoding = how.encoding or BOMS.get(content.head[:2], "utf-8")
        _check_usable(self.encoding, how.delimiter)
        sample = self._sample()
        self.delimiter = how.delimiter or delimiter or sniff_delimiter(sample)
        self.names = self._header(sample)
        self.met: set[str] = set()
        check_names(self.names, content.name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types; where nobody knows them, all rows are looked at once."""
        types = {name: self.how.types[name] for name in self.names if name in self.how.types}
        survey = TypeInference([name for name in self.names if name not in types], self.how.missing_words)
        if survey.names:
            for texts in self._texts(LOOKED_AT):
                survey.look(texts)
        self.met |= survey.met
        types |= survey.types
        return pa.schema([(name, types[name]) for name in self.names])

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in their order, so many at a time."""
        first, missing = 0, self.how.missing_words
        for texts in self._texts(size):
            columns = [
                cast_texts(texts[f.name], f.type, name=f.name, missing=missing, first_row=first) for f in self.schema
            ]
            yield Chunk(pa.Table.from_arrays(columns, schema=self.schema), texts)
            first += texts.num_rows

    def _texts(self, size: int) -> Iterator[pa.Table]:
        ragged: list[pyarrow.csv.InvalidRow] = []

        def refused(row: pyarrow.csv.InvalidRow) -> str:
            ragged.append(row)
            return "error"

        try:
            with self.content.opened() as file, self._reader(file, refused) as reader:
                texts = None
                for texts in resized((pa.Table.from_batches([batch]) for batch in reader), size):
                    yield texts
            self._check_closed(texts)
        except (pa.ArrowInvalid, UnicodeError, OSError) as error:
            if isinstance(error, TableFileError | InvalidTable):
                raise
            if "Empty CSV" in str(error):  # a header, and not even the end of its line
                return
            raise self._complaint(error, ragged) from None

    def _reader(self, file: pa.NativeFile, refused: object) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK, encoding=self.encoding),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=refused
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check_closed(self, last: pa.Table | None) -> None:
        """A quote that is never closed swallows the rest of the file, line by line, into its last cell."""
        cell = "" if last is None else last.column(-1)[-1].as_py() or ""
        if not cell.endswith("\n") or self.encoding.startswith("utf-16"):
            return
        with self.content.opened() as file:
            end = b""
            while block := file.read(BLOCK):
                end = (end + block)[-BLOCK:]
        if not end.rstrip(b"\r\n").endswith(b'"'):
            raise InvalidTable(f"A quote in {self.content.name} is not closed: the last cell goes on to the end.")

    def _complaint(self, error: Exception, ragged: list[pyarrow.csv.InvalidRow]) -> InvalidTable | TableFileError:
        if ragged:
            row = ragged[0]
            return InvalidTable(
                f"Row {row.number} of {self.content.name} has {row.actual_columns} cells instead of "
                f"{row.expected_columns} as in row 1, the header: {shorten(row.text)!r}. Mend the row, or name the "
                f"delimiter, if it is not {self.delimiter!r}."
            )
        if "UTF8" in str(error) or isinstance(error, UnicodeError):
            return self._not_text()
        if "straddl" in str(error):
            return self._too_long()
        return TableFileError.unreadable(self.content.name, error)

    def _sample(self) -> str:
        """The first lines: one at least, however long it is."""
        text = self._decoded(self.content.head)
        if not _end_of_lines(text):
            with self.content.complaints(), self.content.opened() as file:
                start = file.read(BLOCK)
            text = self._decoded(start)
            if len(start) == BLOCK and not _end_of_lines(text):
                raise self._too_long()
        return text[: _end_of_lines(text) or None]

    def _decoded(self, start: bytes) -> str:
        try:
            text = codecs.getincrementaldecoder(self.encoding)().decode(start)
        except UnicodeError:
            raise self._not_text() from None
        if "\0" in text:
            raise self._not_text()
        return text.removeprefix("\ufeff").lstrip("\r\n")

    def _header(self, sample: str) -> list[str]:
        try:
            return next(_rows(sample, self.delimiter), [])
        except csv.Error as error:
            raise InvalidTable(f"The names of the columns of {self.content.name} cannot be read: {error}.") from None

    def _too_long(self) -> InvalidTable:
        return InvalidTable(f"{self.content.name} has a row beyond {BLOCK:,} bytes; is a quote not closed?")

    def _not_text(self) -> InvalidTable:
        tried = self.encoding.upper()
        return InvalidTable(
            f"{self.content.name} is neither {tried} text nor a Parquet, Arrow or gzip file. If it is text in another "
            "encoding, name it (encoding='latin-1'); otherwise save the table as CSV or Parquet.",
            code="unknown_encoding",
            name=self.content.name,
            tried=tried,
        )


def sniff_delimiter(sample: str) -> str:
    r"""The delimiter that cuts the first lines into the same number of cells, the more the better.

    >>> sniffed("name;price\nbread;1,50\nmilk;0,99\n"), sniffed("one column\n1\n")
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
    """The cells of each line; lines end as on Unix, Windows or old Macs."""
    return csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)


def _end_of_lines(text: str) -> int:
    """How much of a text is whole lines."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def _check_usable(encoding: str, delimiter: str | None) -> None:
    try:
        "a".encode(encoding)  # which refuses codecs that are not of text, such as hex
    except (LookupError, UnicodeError):
        raise InvalidOption(f"There is no encoding {encoding!r} of text. Try utf-8, latin-1 or utf-16.") from None
    if delimiter is not None and not delimiter.isascii():
        raise InvalidOption(
            f"A delimiter is a plain character, such as ; or | or a tab, got {delimiter!r}. Replace it in the file."
        )
