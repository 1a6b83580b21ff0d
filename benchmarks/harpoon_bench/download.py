"""Download of the paper's data sets from their publishers, as CSV text.

Publishers use different archive and file formats. Each table becomes UTF-8 text with a header, commas and line feeds;
values and order stay as published. A checksum of the text proves that it is the table behind the recorded numbers.
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

import xlrd

from harpoon.exceptions import HarpoonError

TIMEOUT_SECONDS = 60
UCI = "https://archive.ics.uci.edu/static/public"
Rows = Iterable[list[str]]


class DataUnavailable(HarpoonError, OSError):
    """A data set is neither in a folder nor available from its publisher."""


@dataclass(frozen=True)
class Source:
    """The publication of a data set.

    Attributes:
        url: The address of a zip archive or of the file itself.
        rows: Extracts the table, header first.
        sha256: The checksum of the resulting CSV text.
    """

    url: str
    rows: Callable[[bytes], Rows]
    sha256: str


def download(name: str) -> str:
    """Download a data set, check it, and return its CSV text."""
    source = SOURCES[name]
    content = _fetch(name, source.url)
    try:
        text = to_csv(source.rows(content))
    except (zipfile.BadZipFile, ValueError) as error:
        raise DataUnavailable(
            f"{source.url} must send the archive of the data set {name!r}, but sent something else ({error}). "
            f"Try again later, or put {name}.csv.gz into a folder and choose it with HARPOON_DATA."
        ) from None
    if checksum(text) != source.sha256:
        raise DataUnavailable(
            f"The data set {name!r} from {source.url} must have the checksum {source.sha256}, got {checksum(text)}: "
            "it is damaged, or its publisher has changed it. Its numbers could not be compared with the recorded ones."
        )
    return text


def checksum(text: str) -> str:
    """Return the SHA-256 of a text.

    >>> checksum("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(text.encode()).hexdigest()


def to_csv(rows: Rows) -> str:
    r"""Return rows as CSV text.

    >>> to_csv([["a", "b"], ["1", ""]])
    'a,b\n1,\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _fetch(name: str, url: str) -> bytes:
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - an address of SOURCES
            content: bytes = response.read()
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataUnavailable(
            f"The data set {name!r} is not in a local folder and cannot be downloaded from {url} "
            f"({getattr(error, 'reason', error)}). Connect to the network, or put {name}.csv.gz into a folder and "
            "choose it with HARPOON_DATA."
        ) from None
    return content


def _member(content: bytes, ending: str) -> bytes:
    """Return the file of an archive whose name has this ending."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.endswith(ending):
                return archive.read(name)
    raise ValueError(f"no file name ends in {ending}")


def _cells(content: bytes) -> Iterator[list[str]]:
    """Yield the cells of a CSV file without surrounding spaces; skip empty lines."""
    lines = io.StringIO(content.decode("utf-8-sig"), newline=None)
    return ([cell.strip() for cell in row] for row in csv.reader(lines) if any(row))


def _csv_member(ending: str, header: str = "") -> Callable[[bytes], Rows]:
    """Return a reader of a CSV file in an archive; `header` is for a file that has none."""

    def rows(content: bytes) -> Iterator[list[str]]:
        if header:
            yield header.split()
        yield from _cells(_member(content, ending))

    return rows


def _gesture(content: bytes) -> Iterator[list[str]]:
    """Concatenate seven recordings, with a column that names the recording."""
    for index, recording in enumerate(RECORDINGS):
        header, *rows = _cells(_member(content, f"{recording}_va3.csv"))
        if index == 0:
            yield [*header, "source"]
        yield from ([*row, recording] for row in rows)


def _bean(content: bytes) -> Iterator[list[str]]:
    """Read an ARFF file: one line per column, then the rows."""
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
    """Read an Excel sheet of integers: two header lines, of which the second has the names, and a column of ids."""
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
        _csv_member("adult.data", ADULT),
        "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
    ),
    "default": Source(
        f"{UCI}/350/default+of+credit+card+clients.zip",
        _default,
        "eeaaa5addd59a2c56e82cbfca996f37ad98714c0237f1a3cbc8d7e973102966d",
    ),
    "shoppers": Source(
        f"{UCI}/468/online+shoppers+purchasing+intention+dataset.zip",
        _csv_member("online_shoppers_intention.csv"),
        "d8e130ba51532985f93281a73ce299e6ce150cb915769a7962a11e595eadd6a1",
    ),
    "gesture": Source(
        f"{UCI}/302/gesture+phase+segmentation.zip",
        _gesture,
        "97dac7d7de0b5c838575cd2786aad5cf0cbf7932f751b57453fcadccf35c7bee",
    ),
    "magic": Source(
        f"{UCI}/159/magic+gamma+telescope.zip",
        _csv_member("magic04.data", MAGIC),
        "ed9c3c747b6a424f579fb830b375bfea72ac4b0f4520fb2edd1ee609df79d0bc",
    ),
    "letter": Source(
        f"{UCI}/59/letter+recognition.zip",
        _csv_member("letter-recognition.data", LETTER),
        "9ec44e47110540d997fc2e247464a75ed3da0ad9dfcd49ded7e68fcaab04a9f7",
    ),
    "bean": Source(
        f"{UCI}/602/dry+bean+dataset.zip",
        _bean,
        "41457e55bb07426ecf613c95b9429660e2c4c43ecf4673d8b5c7a69ac88055ef",
    ),
    # The publisher requires an account; this is a public copy.
    "california": Source(
        "https://raw.githubusercontent.com/ageron/handson-ml2/master/datasets/housing/housing.csv",
        _cells,
        "8a3727f4cf54ac1a327f69b1d5b4db54c5834ea81c6e4efc0d163300022a685e",
    ),
}
