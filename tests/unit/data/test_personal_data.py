"""Personal data: columns of names, addresses and identifiers are noticed, ordinary columns are not."""

import numpy as np
import pandas as pd
import pytest
from palmerpenguins import load_penguins

from harpoon import Kind, Schema
from harpoon.data import count_columns, dataframe
from harpoon.data.personal_data import find_personal

N = 60


def luhn(digits: str) -> str:
    """Append the check digit, computed from the definition."""
    total = 0
    for position, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if position % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return digits + str(-total % 10)


FIRST = ["Anna", "Robert", "María", "Wei", "Thomas", "Sophie", "Björn", "Julia", "David", "Laura", "Aylin", "Peter"]
LAST = ["Smith", "Müller", "García López", "O'Brien", "Nguyen", "Jansen", "Rossi", "Kowalski"]
PEOPLE = [f"{FIRST[i % 12]} {LAST[i % 8]}" for i in range(N)]
PERSONAL = {
    "e-mail addresses": (
        "contact",
        [f"{name.split()[0].lower()}{i}@mail.example.org" for i, name in enumerate(PEOPLE)],
    ),
    "few e-mail addresses": ("by", ["ann@example.org", "bob@example.co.uk"] * 30),
    "names": ("who", PEOPLE),
    "names with the family name first": ("x", [f"{p.split()[-1]}, {p.split()[0]}" for p in PEOPLE]),
    "names of passengers": ("Name", [f"{LAST[i % 8]}, Mr. {FIRST[i % 12]} Henry" for i in range(N)]),
    "first names": ("first_name", [FIRST[i % 12] for i in range(N)]),
    "last names": ("LastName", [LAST[i % 8] for i in range(N)]),
    "customer names": ("customer name", ["Acme", "Bolt", "Crane"] * 20),
    "telephone numbers": ("phone", [f"0{170 + i} 55{i:02}{i:03}" for i in range(N)]),
    "telephone numbers as integers": ("Mobile", [4917055500000 + i for i in range(N)]),
    "telephone numbers with gaps": ("mobile", [*(4917055500000.0 + i for i in range(N - 1)), np.nan]),
    "international telephone numbers": ("line", [f"+49 (170) 55{i:02}-{i:03}" for i in range(N)]),
    "American telephone numbers": ("line", [f"(415) 555-{i:04}" for i in range(N)]),
    "social security numbers": ("code", [f"{100 + i}-{10 + i}-{1000 + i}" for i in range(N)]),
    "social security numbers as integers": ("SSN", [123450000 + i for i in range(N)]),
    "account numbers": ("target", ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819"] * 30),
    "card numbers": ("paid_with", [luhn(f"41111111111{i:04}") for i in range(N)]),
    "street addresses": ("place", [f"{i + 1} Oak {kind}" for i in range(20) for kind in ("Street", "Ave", "Rd.")]),
    "German addresses": ("Anschrift", [f"Am Ring {i}, 10115 Berlin" for i in range(N)]),
    "German streets": ("ort", [f"Hauptstraße {i}" for i in range(N)]),
    "customers": ("customer_id", [i // 2 for i in range(N)]),
    "repeated identifiers": ("id", [f"p{i // 2}" for i in range(N)]),
}
ORDINARY = {
    "a flag": ("mobile", [0, 1] * 30),
    "an answer": ("email", ["yes", "no"] * 30),
    "a surface": ("Street", ["Pave", "Grvl"] * 30),
    "countries": ("name", ["United States", "France", "South Korea", "Peru", "Chad", "Laos"] * 10),
    "cities": ("city", ["San Jose", "New York", "Saint Paul", "Victoria", "Santa Maria", "Boston"] * 10),
    "products": ("product name", ["Red chair", "Blue table", "Oak shelf"] * 20),
    "cars": ("name", ["Mazda RX4", "Ford Focus", "Fiat 500", "Honda Civic"] * 15),
    "regions by number": ("region_id", [1, 2, 3] * 20),
    "dates": ("day", [f"2024-01-{1 + i % 28:02}" for i in range(N)]),
    "an amount": ("account", [12000 + 7 * i for i in range(N)]),
    "codes of places": ("zip", [10115 + i for i in range(N)]),
    "levels": ("user", ["basic", "pro"] * 30),
    "versions": ("version", ["1.2.3", "2.0.1"] * 30),
    "jobs": ("occupation", ["Adm-clerical", "Exec-managerial", "Sales", "Armed-Forces"] * 15),
    "a number": ("x", np.linspace(0, 1, N)),
    "ranges": ("range", ["100-200", "200-300"] * 30),
}


def look(name, values):
    table = pd.DataFrame({name: values})
    return find_personal(name, count_columns(dataframe.read(table))[name])


@pytest.mark.parametrize("case", PERSONAL)
def test_a_personal_column_is_noticed_and_not_modelled(case):
    name, values = PERSONAL[case]
    assert look(name, values)
    column = Schema.infer(pd.DataFrame({name: values}))[name]
    assert (column.kind, column.note) == (Kind.PERSONAL, f"it looks like {look(name, values)}")


@pytest.mark.parametrize("case", ORDINARY)
def test_an_ordinary_column_is_not_noticed(case):
    assert look(*ORDINARY[case]) == ""


@pytest.mark.parametrize("kind", ["category", "text"])
def test_an_explicit_kind_wins(kind):
    name, values = PERSONAL["few e-mail addresses"]
    assert Schema.infer(pd.DataFrame({name: values}), kinds={name: kind})[name].kind == kind


def test_identifiers_of_rows_stay_identifiers():
    assert Schema.infer(pd.DataFrame({"id": range(100), "x": [0.5, 1.5] * 50}))["id"].kind is Kind.IDENTIFIER


def test_no_column_of_the_penguins_is_noticed():
    table = load_penguins()
    assert [name for name in table if look(name, table[name])] == []


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_every_library_is_read_alike(tools, library):
    table = tools.make(library, {"mail": PERSONAL["few e-mail addresses"][1], "x": [0.5, 1.5] * 30})
    assert [column.kind for column in Schema.infer(table)] == [Kind.PERSONAL, Kind.NUMBER]


def test_a_wrong_check_sum_is_no_account_and_no_card():
    assert look("target", ["DE89 3704 0044 0532 0130 01", "GB28NWBK60161331926819"] * 30) == ""
    assert look("paid", [luhn(f"41111111111{i:04}")[:-1] + "x" for i in range(N)]) == ""


NUMBERS_AS_TEXT = {
    "decimals": ([f"{i}.5" for i in range(N)], Kind.TEXT),
    "thousands": ([f"{1 + i},{100 + i}" for i in range(N)], Kind.TEXT),
    "codes": ([f"{1000 + i}" for i in range(N)], Kind.IDENTIFIER),
    "codes with zeros": ([f"{i:05}" for i in range(N)], Kind.IDENTIFIER),
    "few numbers": (["1", "2", "3"] * 20, Kind.CATEGORY),
}


@pytest.mark.parametrize("case", NUMBERS_AS_TEXT)
def test_numbers_that_are_written_as_text_are_named(case):
    values, kind = NUMBERS_AS_TEXT[case]
    column = Schema.infer(pd.DataFrame({"x": values}))["x"]
    assert column.kind is kind
    assert ("numbers are written as text" in column.note) == (kind is Kind.TEXT)
