"""Personal data: columns that look like names of people, addresses, telephone numbers or identifiers.

A model should not learn them, nor write them into synthetic rows. They are noticed by their name, their content or
both. No list of signs is complete: what is not noticed is left out by hand (`Schema.infer(table, exclude=[...])`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harpoon.data.value_counts import ColumnCounts

MAX_TESTED = 1000  # distinct values of a column that are tested
MOST = 0.9  # of the distinct values have to look personal
IDENTIFIERS = "identifiers"
MIN_IDENTIFIERS = 20  # fewer different values are categories
MIN_NAMES = 10
MIN_DIGITS, MAX_DIGITS = 7, 15  # of a telephone number (E.164 has at most 15)
MIN_CODE_DIGITS = 5  # of the number of an account, a card or a passport
GIVEN_NAME_FRACTION = 0.4  # of the values, from which texts of some words are names of people
COUNTRY_MOD = 97  # ISO 7064, of an IBAN

EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]{2,}")
SOCIAL_SECURITY = re.compile(r"\d{3}-\d{2}-\d{4}")
TELEPHONE = re.compile(r"\+\d[\d ()./-]{6,}|(\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}")
DIGITS_AND_SIGNS = re.compile(r"[+\d][\d ()./-]*")
IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
CARD = re.compile(r"\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{1,7}")
STREET = re.compile(
    r"\d{1,5}[a-z]? .*\b(street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|pl|square)\b.*"
    r"|.*(straße|strasse|str\.|weg|platz|allee|gasse) ?\d+.*|\d{1,5},? (rue|avenue|boulevard|place) .*"
    r"|(calle|via|rua) .*\d+.*",
    re.IGNORECASE,
)
PERSON = re.compile(r"[^\W\d_][\w'’.-]*(,? [^\W\d_][\w'’.()\"-]*){1,5}")
WORD = re.compile(r"[^\W\d_]+")

PEOPLE = "customer|client|patient|user|member|employee|person|subject|student|guest|passenger|contact|owner|applicant"
NAME_OF_NAMES = re.compile(
    rf"(first|last|given|family|middle|maiden|full|legal|birth) names?|names? (first|last|given|family|middle|full)"
    rf"|surname|forename|({PEOPLE}) (full )?name|vorname|nachname|prenom|nom de famille|apellidos?|user ?names?|login"
)
NAME_OF_TELEPHONES = re.compile(
    r"(tele|cell)?phones?( (number|no|nr))?|mobile|fax|tel|telefon|handy|telefono|telephone"
)
NAME_OF_ADDRESSES = re.compile(r"address(es)?|addr|street|adresse|anschrift|strasse|direccion|indirizzo")
NAME_OF_CODES = re.compile(
    r"ssn|social security( (number|no))?|passport|iban|tax (id|number)|national id|nhs number|insurance number"
    r"|drivers? licen[cs]e|credit card|card number|bank account|account (number|no)|steuernummer|kontonummer"
)
NAME_OF_IDENTIFIERS = re.compile(rf"({PEOPLE}) ?(id|number|no|nr|code|key)|id|kundennummer|personalnummer|uuid|guid")
COMMON_NAMES = """
aaron adam alan albert alejandro alex alexander alice amanda amy ana andrea andreas andrew angela ann anna anne
anthony antonio arthur barbara ben benjamin betty brandon brenda brian bruce carl carlos carol caroline catherine
charles charlotte cheryl chris christian christina christine christopher claire clara claudia cynthia daniel david
deborah debra dennis diana diane donald donna dorothy douglas edith edward elena elizabeth ella emily emma eric erik
ethan eva evelyn fatima felix fernando fiona florence francis francisco frank frederick gabriel gary george gerald
gloria grace gregory hannah hans harold harry heather heinrich helen helena henry ian ines ingrid isabel isabella
ivan jack jacob jacqueline james jan jane janet janice jason javier jean jeffrey jennifer jeremy jerry jesse jessica
joan joe johan johann johanna john jonathan jorge jose joseph joshua juan judith judy julia julie justin karen karl
katharina katherine kathleen keith kelly kenneth kevin kimberly klaus larry laura lauren lawrence lena leon lina
linda lisa louis louise lucas lucia luis luke madison manuel marco margaret maria marie marilyn mario mark marta
martha martin mary matthew max maximilian megan melissa mia michael michelle miguel mohamed mohammed monica muhammad
nancy natalie nathan nicholas nicole nina noah nora oliver olivia oscar pablo pamela patricia patrick paul paula
pedro peter petra philip pierre rachel ralph raymond rebecca ricardo richard robert roger ronald rosa rose roy
russell ruth ryan sabine samantha samuel sandra sara sarah scott sean sebastian sergio sharon shirley simon sofia
sophia sophie stefan stephanie stephen steven susan teresa thomas timothy tina tom tyler ursula vera victor victoria
vincent virginia walter wayne wei wilhelm william wolfgang xavier yan yusuf zachary
"""
GIVEN_NAMES = frozenset(COMMON_NAMES.split())


@dataclass(frozen=True)
class Sign:
    """How a column is noticed: by its content, or with `name` by its name and its content."""

    label: str  # what the column looks like, in the plural
    content: Callable[[str], bool]  # of one value, as text
    name: re.Pattern[str] | None = None
    numbers: bool = False  # whether integers can be such values
    min_distinct: int = 1
    fraction: float = MOST


def find_personal(name: str, counts: ColumnCounts) -> str:
    """Return what a column looks like if it looks personal, such as "e-mail addresses"; "" for all others.

    >>> from harpoon.data import count_columns, dataframe
    >>> import pyarrow as pa
    >>> table = pa.table({"contact": ["ann@example.org", "bob@example.org"], "mobile": ["yes", "no"]})
    >>> [find_personal(name, counts) for name, counts in count_columns(dataframe.read(table)).items()]
    ['e-mail addresses', '']
    """
    storage = counts.values.storage
    is_number = storage == "integer" or (storage == "float" and not (counts.values.values % 1).any())
    if not is_number and storage not in ("text", "category"):
        return ""
    words, values = _words(name), None
    for sign in SIGNS:
        if (is_number and not sign.numbers) or counts.n_distinct < sign.min_distinct:
            continue
        if sign.name is not None and not sign.name.fullmatch(words):
            continue
        values = _texts(counts) if values is None else values
        if values and sum(map(sign.content, values)) >= sign.fraction * len(values):
            return sign.label
    return "names of people" if not is_number and _are_people(values or []) else ""


def _words(name: str) -> str:
    """Return the words of a column name: "CustomerName", "customer_name" and "customer-name" are "customer name"."""
    spaced = re.sub(r"([a-z])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return " ".join(re.findall(r"[^\W_]+", spaced)).casefold()


def _texts(counts: ColumnCounts) -> list[str]:
    """Return some distinct values as text, evenly spaced."""
    cells = counts.values
    values = cells.values[:: -(-len(cells.values) // MAX_TESTED) or 1].tolist()
    found = [str(cells.categories[value]).strip() if cells.categories else f"{value:.0f}" for value in values]
    return [text for text in found if text]


def _are_people(texts: Sequence[str]) -> bool:
    """Return whether texts are names of people: some words each, many of them common given names."""
    if len(texts) < MIN_NAMES or sum(PERSON.fullmatch(text) is not None for text in texts) < MOST * len(texts):
        return False
    with_given_name = sum(not GIVEN_NAMES.isdisjoint(WORD.findall(text.casefold())) for text in texts)
    return with_given_name >= GIVEN_NAME_FRACTION * len(texts)


def _digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def _is_telephone(text: str) -> bool:
    return TELEPHONE.fullmatch(text) is not None and MIN_DIGITS <= _digits(text) <= MAX_DIGITS


def _is_number_to_call(text: str) -> bool:
    return DIGITS_AND_SIGNS.fullmatch(text) is not None and MIN_DIGITS <= _digits(text) <= MAX_DIGITS


def _is_iban(text: str) -> bool:
    """Return whether a text is an IBAN with a valid check sum."""
    plain = text.replace(" ", "")
    if not IBAN.fullmatch(plain):
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % COUNTRY_MOD == 1


def _is_card(text: str) -> bool:
    """Return whether a text is the number of a card with a valid check sum (Luhn, 1954)."""
    if not CARD.fullmatch(text):
        return False
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    return sum(digit if index % 2 == 0 else sum(divmod(2 * digit, 10)) for index, digit in enumerate(digits)) % 10 == 0


def _is_address(text: str) -> bool:
    return _digits(text) > 0 and WORD.search(text) is not None and " " in text


SIGNS = (
    Sign("e-mail addresses", lambda text: EMAIL.fullmatch(text) is not None),
    Sign("account numbers (IBAN)", _is_iban),
    Sign("social security numbers", lambda text: SOCIAL_SECURITY.fullmatch(text) is not None),
    Sign("card numbers", _is_card, min_distinct=MIN_NAMES),
    Sign("telephone numbers", _is_telephone),
    Sign("street addresses", lambda text: STREET.fullmatch(text) is not None, min_distinct=3, fraction=0.7),
    Sign("telephone numbers", _is_number_to_call, NAME_OF_TELEPHONES, numbers=True),
    Sign("street addresses", _is_address, NAME_OF_ADDRESSES, min_distinct=MIN_NAMES, fraction=0.7),
    Sign("official numbers", lambda text: _digits(text) >= MIN_CODE_DIGITS, NAME_OF_CODES, numbers=True),
    Sign("names of people", lambda text: not _digits(text), NAME_OF_NAMES, min_distinct=3, fraction=0.7),
    Sign(IDENTIFIERS, bool, NAME_OF_IDENTIFIERS, numbers=True, min_distinct=MIN_IDENTIFIERS),
)
