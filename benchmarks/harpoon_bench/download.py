"""The paper's data sets from their publishers, as the one plain CSV text that the bench reads.

A publisher packs a table in its own way. Here it becomes UTF-8 text with a header, commas, line feeds, the values as
published and in the published order; a checksum of that text says that it is the table the numbers were made with.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import urlopen

from harpoon.exceptions import HarpoonError, MissingExtra

SECONDS = 60  # to wait for a publisher that says nothing
UCI = "https://archive.ics.uci.edu/static/public"
Rows = Iterable[list[str]]


class DataUnavailable(HarpoonError, OSError):
    """A data set is neither in a folder nor to be had from its publisher."""


@dataclass(frozen=True)
class Source:
    """Where a data set is published.

    Attributes:
        url: Of a zip archive or of the file itself.
        rows: The table in it, header first.
        sha256: Of the CSV text that comes out.
    """

    url: str
    rows: Callable[[bytes], Rows]
    sha256: str


def published(name: str) -> str:
    """The CSV text of a data set, downloaded and checked."""
    source = SOURCES[name]
    content = _download(name, source.url)
    try:
        text = as_csv(source.rows(content))
    except (zipfile.BadZipFile, ValueError) as error:
        raise DataUnavailable(
            f"What {source.url} sent for the data set {name!r} is not the archive that was expected ({error}). "
            f"Try again later, or put {name}.csv.gz into a folder and give it with --data or HARPOON_DATA."
        ) from None
    if checksum(text) != source.sha256:
        raise DataUnavailable(
            f"The data set {name!r} from {source.url} must have the checksum {source.sha256}, got {checksum(text)}: "
            "it is damaged, or its publisher has changed it. Numbers made with it could not be compared."
        )
    return text


def checksum(text: str) -> str:
    """The SHA-256 of a text.

    >>> checksum("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(text.encode()).hexdigest()


def as_csv(rows: Rows) -> str:
    r"""Rows as text.

    >>> as_csv([["a", "b"], ["1", ""]])
    'a,b\n1,\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _download(name: str, url: str) -> bytes:
    try:
        with urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - the addresses are those at the foot of this file
            content: bytes = answer.read()
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataUnavailable(
            f"The data set {name!r} is in no local folder and cannot be downloaded from {url} "
            f"({getattr(error, 'reason', error)}). Connect to the network, or put {name}.csv.gz into a folder and give "
            "it with --data or HARPOON_DATA."
        ) from None
    return content


def _member(content: bytes, ending: str) -> bytes:
    """The one file of an archive whose name ends like this."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.endswith(ending):
                return archive.read(name)
    raise ValueError(f"no file in it ends in {ending}")


def _cells(content: bytes) -> Iterator[list[str]]:
    """The cells of a text file, without the spaces around them and without empty lines."""
    lines = io.StringIO(content.decode("utf-8-sig"), newline=None)
    return ([cell.strip() for cell in row] for row in csv.reader(lines) if any(row))


def _text(ending: str, header: str = "") -> Callable[[bytes], Rows]:
    """A comma-separated file in an archive, with a header that it may lack."""

    def rows(content: bytes) -> Iterator[list[str]]:
        if header:
            yield header.split()
        yield from _cells(_member(content, ending))

    return rows


def _gesture(content: bytes) -> Iterator[list[str]]:
    """Seven recordings one below the other, and a column that says which."""
    for place, recording in enumerate(RECORDINGS):
        header, *rows = _cells(_member(content, f"{recording}_va3.csv"))
        if place == 0:
            yield [*header, "source"]
        yield from ([*row, recording] for row in rows)


def _bean(content: bytes) -> Iterator[list[str]]:
    """An ARFF file: one line per column, then the rows."""
    lines = iter(_member(content, "Dry_Bean_Dataset.arff").decode().splitlines())
    names = []
    for line in lines:
        words = line.split()
        if words and words[0].upper() == "@ATTRIBUTE":
            names.append(words[1])
        if words and words[0].upper() == "@DATA":
            break
    yield names
    yield from _cells("\n".join(lines).encode())


def _default(content: bytes) -> Iterator[list[str]]:
    """An Excel sheet of whole numbers: two lines of names, of which the second is used, and a number for each row."""
    try:
        import xlrd
    except ImportError:
        raise MissingExtra.named("xlrd", "bench", "Reading the data set 'default' as published") from None
    try:
        sheet = xlrd.open_workbook(file_contents=_member(content, ".xls")).sheet_by_index(0)
    except xlrd.XLRDError as error:
        raise ValueError(error) from None
    _, header, *rows = sheet.get_rows()
    yield [str(cell.value) for cell in header[1:]]
    yield from ([str(int(cell.value)) for cell in row[1:]] for row in rows)


RECORDINGS = ("a1", "a2", "a3", "b1", "b3", "c1", "c3")
ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
MAGIC = "fLength fWidth fSize fConc fConc1 fAsym fM3Long fM3Trans fAlpha fDist class"
LETTER = "lettr x-box y-box width high onpix x-bar y-bar x2bar y2bar xybar x2ybr xy2br x-ege xegvy y-ege yegvx"
SOURCES = {
    "adult": Source(
        f"{UCI}/2/adult.zip",
        _text("adult.data", ADULT),
        "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
    ),
    "default": Source(
        f"{UCI}/350/default+of+credit+card+clients.zip",
        _default,
        "eeaaa5addd59a2c56e82cbfca996f37ad98714c0237f1a3cbc8d7e973102966d",
    ),
    "shoppers": Source(
        f"{UCI}/468/online+shoppers+purchasing+intention+dataset.zip",
        _text("online_shoppers_intention.csv"),
        "d8e130ba51532985f93281a73ce299e6ce150cb915769a7962a11e595eadd6a1",
    ),
    "gesture": Source(
        f"{UCI}/302/gesture+phase+segmentation.zip",
        _gesture,
        "97dac7d7de0b5c838575cd2786aad5cf0cbf7932f751b57453fcadccf35c7bee",
    ),
    "magic": Source(
        f"{UCI}/159/magic+gamma+telescope.zip",
        _text("magic04.data", MAGIC),
        "ed9c3c747b6a424f579fb830b375bfea72ac4b0f4520fb2edd1ee609df79d0bc",
    ),
    "letter": Source(
        f"{UCI}/59/letter+recognition.zip",
        _text("letter-recognition.data", LETTER),
        "9ec44e47110540d997fc2e247464a75ed3da0ad9dfcd49ded7e68fcaab04a9f7",
    ),
    "bean": Source(
        f"{UCI}/602/dry+bean+dataset.zip",
        _bean,
        "41457e55bb07426ecf613c95b9429660e2c4c43ecf4673d8b5c7a69ac88055ef",
    ),
    # Its publisher asks for an account, so this is a public copy.
    "california": Source(
        "https://raw.githubusercontent.com/ageron/handson-ml2/master/datasets/housing/housing.csv",
        _cells,
        "8a3727f4cf54ac1a327f69b1d5b4db54c5834ea81c6e4efc0d163300022a685e",
    ),
}
