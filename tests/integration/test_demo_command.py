"""The installed command `harpoon`, and its demo."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

import harpoon


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300, **options)  # noqa: S603


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def command() -> str:
    return str(Path(sys.executable).with_name("harpoon"))


def test_the_command_has_a_version_and_help(command):
    assert run(command, "--version").stdout.strip() == f"harpoon {harpoon.__version__}"
    assert "demo" in run(command, "--help").stdout


def test_the_demo_imputes_samples_and_plots(command, tmp_path):
    done = run(command, "demo", "--output", "out", "--seconds", "2", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    filled = rows(tmp_path / "out" / "penguins_filled.csv")
    assert len(filled) == 344
    assert all(value not in ("", "NA") for row in filled for value in row.values())
    sampled = rows(tmp_path / "out" / "penguins_sampled.csv")
    assert len(sampled) == 200
    assert {(row["species"], row["sex"]) for row in sampled} == {("Gentoo", "female")}
    assert (tmp_path / "out" / "penguins.png").read_bytes().startswith(b"\x89PNG")
    assert harpoon.load(tmp_path / "out" / "penguins.harpoon").schema_.names == list(sampled[0])
    assert "penguins_filled.csv" in done.stdout
    assert "penguins.png" in done.stdout


def test_a_folder_that_cannot_be_written_is_one_sentence(command, tmp_path):
    (tmp_path / "out").write_text("a file where the folder should be")
    done = run(command, "demo", "--output", "out", "--seconds", "1", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "out" in done.stderr
