"""The page on privacy lists everything that a model file holds, and nothing that no file holds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Column, Harpoon, Kind, Privacy, Schema
from harpoon._utils.model_file import read_tensors
from harpoon.privacy import ATTACKS
from tests.model.test_suppression import table

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
OPTIONS = {"hidden": 16, "max_epochs": 1, "random_state": 0, "progress": False}


def listed() -> set[str]:
    """Return the names of the table of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("## What a model file holds")[2]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")][1:]
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def names_of(value: object, name: str = "") -> Iterator[str]:
    """Yield the names of the entries of a header; those of lists and of columns are left out."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from names_of(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from names_of(item, name)
    else:
        yield name


def models() -> Iterator[Harpoon]:
    rows = table()
    yield Harpoon(**OPTIONS, rules=["x > -1e6"], schema=Schema.infer(rows)).fit(rows)
    yield Harpoon(rare="suppress", **OPTIONS).fit(rows)
    yield Harpoon("paper", scaling="quantile", encoding="integer", **OPTIONS).fit(rows)
    rng = np.random.default_rng(0)
    many = pa.table({"code": [f"c{i}" for i in rng.integers(0, 400, 3000)], "x": rng.normal(size=3000)})
    yield Harpoon(**OPTIONS).fit(many)
    numbers = Schema((Column("code", Kind.SKIPPED), Column("x", Kind.NUMBER, minimum=-5.0, maximum=5.0)))
    budget = Privacy(8.0, 1e-6, steps=1)
    yield Harpoon(privacy=budget, schema=numbers, hidden=16, random_state=0, progress=False).fit(many)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> set[str]:
    found: set[str] = set()
    for number, model in enumerate(models()):
        path = tmp_path_factory.mktemp("models") / f"{number}.harpoon"
        model.save(path)
        tensors, content = read_tensors(path)
        found |= set(names_of(content)) | set(tensors)
    return found


pytestmark = pytest.mark.filterwarnings("ignore::harpoon.exceptions.HarpoonWarning")


def is_part(name: str, entry: str) -> bool:
    return name == entry or name.startswith(f"{entry}.")


def test_everything_that_is_stored_is_listed(stored):
    assert {name for name in stored if not any(is_part(name, entry) for entry in listed())} == set()


def test_everything_that_is_listed_is_stored(stored):
    assert {entry for entry in listed() if not any(is_part(name, entry) for name in stored)} == set()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_page_has_the_bound_of_each_attack(name):
    attack = ATTACKS[name]
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {attack.title} |"))
    assert row.rstrip().endswith(f"| {attack.red:g} |")
