"""Build the wheel and the source archive, install the wheel into a new environment, and use it.

    python deploy/release_check.py                                          the versions that we test with
    python deploy/release_check.py --constraints constraints-minimum.txt    the lowest versions of pyproject.toml
    python deploy/release_check.py --python python3.13 --extras sql,serve

The package `build` must be installed where it runs; `make release-check` does that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_WHEEL_BYTES = 1_000_000
NEEDED = ("harpoon/py.typed", "harpoon/report/templates/", "harpoon/apps/server/studio/", "dist-info/licenses/LICENSE")
NEEDED_IN_ARCHIVE = (
    "constraints.txt",
    "constraints-minimum.txt",
    "deploy/Dockerfile",
    "docs/tutorial.md",
    "docs/notebooks/first-steps.ipynb",
    "r/harpoon/R/harpoon.R",
    "r/harpoon/inst/python/harpoon_mice.py",
    "tests/integration/test_readme.py",
)
UNWANTED = ("tests/", "benchmarks/", "harpoon_bench/", "docs/", ".harpoon", ".pyc")
CUDA = re.compile(r"nvidia-|triton|cuda", re.IGNORECASE)
ROWS = "x,kind\n" + "0.1,low\n0.9,high\n,low\n0.2,low\n0.3,\n" * 20
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command, and return what it prints; its errors end the check."""
    done = subprocess.run(  # noqa: S603
        [str(part) for part in command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build the source archive, and the wheel from it; check their content and return the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    absent = [name for name in NEEDED if not any(name in member for member in names)]
    unwanted = [member for member in names if any(name in member for name in UNWANTED)]
    size = wheel.stat().st_size
    if absent or unwanted or size > MAX_WHEEL_BYTES:
        raise SystemExit(f"{wheel.name} has {size:,} bytes, lacks {absent}, and has {unwanted}")
    members = source_files(archive)
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files; {archive.name}: {len(members)} files")
    return wheel


def source_files(archive: Path) -> list[str]:
    """Return the paths in a source archive; check that it has what cannot be had from the wheel."""
    with tarfile.open(archive) as opened:
        members = [name.partition("/")[2] for name in opened.getnames()]
    absent = [name for name in NEEDED_IN_ARCHIVE if name not in members]
    unwanted = [name for name in members if name.endswith((".pyc", ".harpoon"))]
    if absent or unwanted:
        raise SystemExit(f"{archive.name} lacks {absent}, and has {unwanted}")
    return members


def create_environment(folder: Path, python: str | None) -> Path:
    """Create a virtual environment and return its folder of programs."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        run(python, "-m", "venv", folder)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def install(programs: Path, wheel: Path, constraints: Path, extras: str, *, allow_cuda: bool) -> None:
    """Install the wheel with its dependencies; those of CUDA, which have gigabytes, are an error."""
    target = f"{wheel}[{extras}]" if extras else str(wheel)
    quiet = ("--quiet", "--disable-pip-version-check")
    pip: list[str | Path] = [programs / "python", "-m", "pip", "install", *quiet, "-c", constraints]
    plan = run(*pip, "--dry-run", "--report", "-", target)
    report = json.loads(plan[plan.index("{") :])
    names = sorted(f"{each['metadata']['name']}=={each['metadata']['version']}" for each in report["install"])
    cuda = [name for name in names if CUDA.search(name)]
    if cuda and not allow_cuda:
        raise SystemExit(f"The installation would bring CUDA along: {', '.join(cuda)}")
    run(*pip, target)
    print(f"{len(names)} packages: {', '.join(names)}")


def smoke_test(programs: Path, folder: Path) -> None:
    """Use the installed command: versions, the self-test, and a table that is fitted, imputed and sampled."""
    harpoon = programs / "harpoon"
    version = run(harpoon, "--version", cwd=folder).strip()
    facts = json.loads(run(harpoon, "doctor", "--json", cwd=folder))
    (folder / "rows.csv").write_text(ROWS, encoding="utf-8")
    run(harpoon, "fit", "rows.csv", "-o", "rows.harpoon", "--max-epochs", "2", "--seed", "0", "-q", cwd=folder)
    run(harpoon, "impute", "rows.harpoon", "rows.csv", "-o", "filled.csv", "-q", cwd=folder)
    filled = (folder / "filled.csv").read_text(encoding="utf-8").splitlines()
    if len(filled) != len(ROWS.splitlines()) or any("" in line.split(",") for line in filled):
        raise SystemExit("harpoon impute has left missing cells")
    first, second = (run(harpoon, "sample", "rows.harpoon", "-n", "9", "--seed", "1", cwd=folder) for _ in range(2))
    if first != second or len(first.splitlines()) != 1 + 9:
        raise SystemExit("harpoon sample has not given the same rows for the same seed")
    print(f"{version} on Python {facts['python']}: self-test and command line passed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--python", help="another interpreter, such as python3.13")
    parser.add_argument("--extras", default="", help="extras to install, separated by commas")
    parser.add_argument("--allow-cuda", action="store_true", help="where there is no CPU build of the torch version")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="harpoon-release-") as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        programs = create_environment(folder / "venv", chosen.python)
        install(programs, wheel, chosen.constraints.resolve(), chosen.extras, allow_cuda=chosen.allow_cuda)
        smoke_test(programs, folder)


if __name__ == "__main__":
    main()
