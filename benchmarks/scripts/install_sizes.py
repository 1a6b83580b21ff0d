"""Sizes of an installation: the wheel, what the package needs, and what each extra adds; and what its import costs.

    python benchmarks/scripts/install_sizes.py

The sizes are those of the files on disk of the packages that the interpreter has, with everything that they require. An
extra counts what the package itself does not need.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from packaging.requirements import Requirement

from common import RESULTS, write_record
from harpoon._utils.extras import EXTRAS

ROOT = Path(__file__).parents[2]
IMPORTS = 15
IMPORT = "import time, sys; begin = time.process_time(); import harpoon; seconds = time.process_time() - begin; "
SHOW = "import json; print(json.dumps([seconds, len(sys.modules), 'torch' in sys.modules, 'numpy' in sys.modules]))"


def requirements(*texts: str) -> set[str]:
    """Return the installed packages that satisfy requirements, with those that these require."""
    found: set[str] = set()
    needed = [Requirement(text) for text in texts]
    waiting = [(each.name, extra) for each in needed for extra in each.extras | {""}]
    while waiting:
        package, extra = waiting.pop()
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        key = distribution.metadata["Name"].lower().replace("_", "-")
        if key in found and not extra:
            continue
        found.add(key)
        for text in distribution.requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(requirement.name, each) for each in requirement.extras | {""}]
    return found


def megabytes(packages: set[str]) -> float:
    """Return the size of the files of packages."""
    files = [file for name in packages for file in metadata.distribution(name).files or []]
    paths = {Path(str(file.locate())) for file in files}
    return round(sum(path.stat().st_size for path in paths if path.is_file()) / 1e6, 1)


def wheel_facts() -> dict[str, float]:
    """Build the wheel and return its size."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return {"megabytes": round(wheel.stat().st_size / 1e6, 3), "files": len(archive.namelist())}


def import_facts() -> dict[str, float | bool]:
    """Import the package in new processes."""
    runs = []
    for _ in range(IMPORTS):
        done = subprocess.run([sys.executable, "-c", IMPORT + SHOW], check=True, capture_output=True, text=True)  # noqa: S603
        runs.append(json.loads(done.stdout))
    return {
        "processor_seconds": round(median(run[0] for run in runs), 4),
        "modules": runs[0][1],
        "torch": any(run[2] for run in runs),
        "numpy": any(run[3] for run in runs),
    }


def main() -> None:
    """Measure and write the record."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    base = requirements(*project["dependencies"])
    extras: dict[str, dict[str, Any]] = {}
    for name, extra in EXTRAS.items():
        others = [text for other in EXTRAS if f"tabharpoon[{other}]" in declared[name] for text in declared[other]]
        added = requirements(*declared[name], *others) - base - {"tabharpoon"}
        extras[name] = {"megabytes": megabytes(added), "packages": len(added), "purpose": extra.purpose}
    torch = requirements("torch")
    record = {
        "script": "benchmarks/scripts/install_sizes.py",
        "wheel": wheel_facts(),
        "required": {"megabytes": megabytes(base), "packages": len(base), "of_them_torch": megabytes(torch)},
        "extras": dict(sorted(extras.items(), key=lambda item: item[1]["megabytes"])),
        "import": import_facts(),
    }
    write_record(record, RESULTS / "install_sizes.json")


if __name__ == "__main__":
    main()
