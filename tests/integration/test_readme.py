"""The code of the README and the docs runs, page by page; only the time of training is shorter.

Python blocks of a page share a namespace and a folder with the files of the quick start. Shell blocks that begin with
`harpoon` run in another copy of that folder.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
from palmerpenguins import load_penguins

import harpoon
from harpoon.apps import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUICK = {  # the only changes
    "Harpoon(random_state=0).fit(df)": "Harpoon(max_epochs=60, hidden=32, random_state=0).fit(df)",
    "max_time=120": "max_epochs=60, hidden=32",
    "--max-time 2m": "--max-time 2s",
}
CODE = "from harpoon.apps.cli import main; main()"
REGISTRIES = (
    "harpoon.config:_ADDED_CHOICES",
    "harpoon.data.column:KINDS",
    "harpoon.encoding.registry:CODECS",
    "harpoon.encoding.registry:ENCODINGS",
    "harpoon.encoding.registry:KIND_ENCODINGS",
    "harpoon.networks.build:NETWORKS",
    "harpoon.diffusion.solvers:SOLVERS",
    "harpoon.diffusion.reconstruction_penalty:RECONSTRUCTION_LOSSES",
    "harpoon.conditions.evaluation.penalty:CATEGORY_PENALTIES",
    "harpoon.inference.conditional.strategies:STRATEGIES",
    "harpoon.metrics:METRICS",
    "harpoon.rules:RULE_FORMATS",
    "harpoon.io:FORMATS",
    "harpoon.engines:ENGINES",
)
ENDED_BY_HEAD = 128 + signal.SIGPIPE


def name(page):
    return page.stem


def blocks(page, language):
    """Return the code blocks of a page, with short trainings."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for slow, fast in QUICK.items():
        found = [block.replace(slow, fast) for block in found]
    return found


def shell_lines(page):
    """Return the commands of the blocks that begin with `harpoon`, one per line."""
    text = "".join(block for block in blocks(page, "sh") if block.startswith("harpoon ")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="session")
def quick_start(tmp_path_factory):
    """The files that the quick start leaves behind."""
    folder, table = tmp_path_factory.mktemp("quick-start"), load_penguins()
    table.to_csv(folder / "penguins.csv", index=False)
    harpoon.Harpoon(max_epochs=80, hidden=32, random_state=0, progress=False).fit(table).save(
        folder / "penguins.harpoon"
    )
    return folder


@pytest.fixture
def folder(quick_start, tmp_path, monkeypatch):
    for file in quick_start.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def registries():
    """Forget what a page registers: other tests read the same registries."""
    known = [resolve_name(name) for name in REGISTRIES]
    before = [dict(registry) for registry in known]
    yield
    for registry, entries in zip(known, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_training_of_a_page_is_short(page):
    """Without a limit, a model of the penguins is trained for a minute or two."""
    lines = [line for block in blocks(page, "python") for line in block.splitlines()]
    trained = [line for line in lines if re.search(r"Harpoon\(.*\.fit\(", line)]
    assert all("max_epochs=" in line or "quick" in line for line in trained), trained


@pytest.mark.usefixtures("registries")
@pytest.mark.filterwarnings("ignore::harpoon.ColumnLeftOutWarning")
@pytest.mark.filterwarnings("ignore:.*inferred as AnyType:UserWarning")  # at the import of MLflow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_the_python_of_a_page_runs(page, folder):
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python"), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)  # noqa: S102
    if page.name == "README.md":
        assert names["filled"].notna().to_numpy().all()
        assert (names["heavy"]["body_mass_g"] >= 5000).all()
        assert len(names["completed"]) == 10


@pytest.mark.parametrize("page", [page for page in PAGES if shell_lines(page)], ids=name)
def test_the_shell_of_a_page_runs(page, folder, monkeypatch):
    lines = shell_lines(page)
    if any(line.startswith("harpoon fit") for line in lines):
        (folder / "penguins.harpoon").unlink()  # commands do not overwrite files
    for line in lines:
        words = shlex.split(line, comments=True)
        if any(sign in words for sign in ("|", "<", ">")):
            assert in_a_shell(line).returncode in (0, ENDED_BY_HEAD), line
            continue
        monkeypatch.setattr(sys, "argv", words)  # here, because torch takes seconds to import
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, line


def in_a_shell(line):
    script = f'set -euo pipefail\nharpoon() {{ "$PYTHON" -c "{CODE}" "$@"; }}\n{line}'
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(["bash", "-c", script], env=environment, check=False)  # noqa: S603, S607


def test_the_readme_shows_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_numbers_are_those_of_the_results():
    results = ROOT / "benchmarks" / "results" / "scripts"
    speed = json.loads((results / "speed.json").read_text())
    records = [json.loads(path.read_text()) for path in (results / "conditions").glob("*.json")]
    conditions = [task for record in records for task in record["tasks"].values()]
    readme, page, made = (
        " ".join((ROOT / path).read_text(encoding="utf-8").split())
        for path in ("README.md", "docs/reproducing.md", "docs/results.md")
    )
    better, cells = re.search(r"Harpoon \(anchored\).*? is better .*? in (\d+) of (\d+) cells", made).groups()
    assert f"In {better} of the {cells} cells" in page
    assert f"{better} of {cells} comparisons" in readme
    assert f"{speed['impute']['rows']:,} rows in {speed['impute']['anchored_s']:.2g} s" in readme
    assert f"{len(conditions)} conditions" in readme.replace("twelve", "12")
    for path in (results / "fidelity").glob("*.json"):
        detection = json.loads(path.read_text())["sampled_rows"]["autoregressive"]["detection_xgboost"]
        assert f"{detection:.3f} on {path.stem.title()}" in readme
    assert {found["violations"] for found in conditions} == {0}


def test_pictures_exist_and_are_small():
    shown = {path for page in PAGES for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))}
    assert shown
    for path in shown:
        assert (ROOT / "docs" / path.removeprefix("docs/")).stat().st_size < 200_000
