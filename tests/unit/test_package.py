"""The package as a whole: its names, its imports and its command."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

import harpoon

OPTIONAL = (
    "pandas",
    "polars",
    "matplotlib",
    "palmerpenguins",
    "duckdb",
    "hypothesis",
    "sqlglot",
    "rich.progress",
    "typer",
)


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300, **options)  # noqa: S603


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_public_names_are_listed_and_sorted():
    assert harpoon.__all__ == sorted(harpoon.__all__)
    assert all(hasattr(harpoon, name) for name in harpoon.__all__)


def test_every_error_of_ours_has_one_base():
    errors = [getattr(harpoon, name) for name in harpoon.__all__]
    errors = [e for e in errors if isinstance(e, type) and issubclass(e, Exception) and not issubclass(e, Warning)]
    assert len(errors) >= 8
    assert all(issubclass(e, harpoon.HarpoonError) for e in errors)


def test_importing_harpoon_loads_no_optional_package():
    code = f"import harpoon, sys; print([name for name in {OPTIONAL!r} if name in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"


def test_a_missing_extra_names_itself():
    code = (
        "import sys; sys.modules['palmerpenguins'] = None\n"
        "from harpoon.apps.cli import main; sys.argv = ['harpoon', 'demo']; main()"
    )
    done = run(sys.executable, "-c", code)
    assert done.returncode == 1
    assert "tabharpoon[demo]" in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr


@pytest.fixture
def command() -> str:
    return str(Path(sys.executable).with_name("harpoon"))


def test_the_command_tells_its_version_and_its_use(command):
    assert run(command, "--version").stdout.strip() == f"harpoon {harpoon.__version__}"
    assert "demo" in run(command, "--help").stdout


def test_the_demo_fills_draws_and_paints(command, tmp_path):
    done = run(command, "demo", "--output", "out", "--seconds", "2", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    filled = rows(tmp_path / "out" / "penguins_filled.csv")
    assert len(filled) == 344
    assert all(value not in ("", "NA") for row in filled for value in row.values())
    drawn = rows(tmp_path / "out" / "penguins_drawn.csv")
    assert len(drawn) == 200
    assert {(row["species"], row["sex"]) for row in drawn} == {("Gentoo", "female")}
    assert (tmp_path / "out" / "penguins.png").read_bytes().startswith(b"\x89PNG")
    assert harpoon.load(tmp_path / "out" / "penguins.harpoon").schema_.names == list(drawn[0])
    assert "penguins_filled.csv" in done.stdout
    assert "penguins.png" in done.stdout


def test_a_folder_that_cannot_be_written_is_one_sentence(command, tmp_path):
    (tmp_path / "out").write_text("a file where the folder should be")
    done = run(command, "demo", "--output", "out", "--seconds", "1", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "out" in done.stderr
