"""`harpoon doctor`, and the declaration of the extras."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

import harpoon
from harpoon import Harpoon
from harpoon._utils import hardware
from harpoon._utils.extras import EXTRAS, REQUIRED, installed_version
from tests.support.cli import call

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"dev", "docs"}


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", text)[0] for text in requirements}


def test_extras_are_those_of_the_project():
    declared = PROJECT["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - FOR_DEVELOPERS
    assert set(REQUIRED) == names(PROJECT["dependencies"])
    for name, extra in EXTRAS.items():
        direct = names(declared[name]) - {"tabharpoon"}
        others = [other for other in EXTRAS if f"tabharpoon[{other}]" in declared[name]]
        assert set(extra.packages) == direct.union(*(EXTRAS[other].packages for other in others)), name


def test_every_missing_extra_that_an_error_names_exists():
    code = "".join(path.read_text(encoding="utf-8") for path in Path(harpoon.__file__).parent.rglob("*.py"))
    named = set(re.findall(r'for_package\([^,]+, "(\w+)"', code))
    assert named
    assert named <= set(EXTRAS)


def test_doctor_reports_the_installation():
    done = call("doctor", "--json")
    facts = json.loads(done.out)
    assert done.code == 0
    assert facts["harpoon"] == harpoon.__version__
    assert facts["packages"]["torch"] == installed_version("torch")
    assert facts["processors"] >= 1
    assert facts["threads"] >= 1
    assert facts["extras"]["sql"]["packages"]["duckdb"]
    assert facts["self_test"]["problem"] == ""
    text = call("doctor").out.decode()
    assert "Self-test passed" in text
    assert 'pip install -c constraints.txt ".[name]"' in " ".join(text.split())
    assert all(extra.purpose in text for extra in EXTRAS.values())


def test_doctor_names_what_is_absent(monkeypatch):
    monkeypatch.setattr("harpoon._utils.extras.installed_version", lambda package: None)
    text = call("doctor").out.decode()
    assert re.search(r"sql +lacks duckdb: tables of DuckDB", text)


@pytest.mark.parametrize("method", ["fit", "impute", "sample", "save"])
def test_a_self_test_that_fails_is_one_line_and_an_exit_code(monkeypatch, method):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("it is broken")

    monkeypatch.setattr(Harpoon, method, broken)
    done = call("doctor")
    assert done.code == 1
    assert "Self-test failed: RuntimeError: it is broken" in done.out.decode()
    assert "Traceback" not in done.out.decode() + done.said


def test_wrong_results_fail_the_self_test(monkeypatch):
    monkeypatch.setattr(Harpoon, "impute", lambda _self, table: table)
    assert "cells are missing after imputation" in call("doctor").out.decode()


def test_memory_of_other_systems(monkeypatch, tmp_path):
    whole = hardware.memory_bytes()
    assert whole > 2**28
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(hardware, "CGROUP_LIMITS", (str(limit), str(tmp_path / "none")))
    for text, expected in (("max\n", hardware._physical_memory()), ("1048576\n", 2**20)):
        limit.write_text(text)
        assert hardware.memory_bytes() == expected
    limit.unlink()
    monkeypatch.delattr(os, "sysconf")  # as on Windows
    assert hardware.memory_bytes() is None
    monkeypatch.delattr(os, "sched_getaffinity")
    assert hardware.usable_processors() == os.cpu_count()
    assert call("doctor").code == 0
