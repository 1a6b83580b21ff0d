"""What a release and a deployment consist of: versions agree, and the commands of the image and of the unit run."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import requests
import yaml

from harpoon import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"torch": "pytorch"}
MAIN = "from harpoon.apps.cli import main; main()"
TOKEN = "x" * 20


def pinned(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def minimums(requirements: list[str]) -> dict[str, tuple[int, ...]]:
    pairs = (re.fullmatch(r"([\w-]+) ?>=([\d.]+)", text).groups() for text in requirements)
    return {name: version(text) for name, text in pairs}


def version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end: 2.5 is 2.5.0."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def test_the_minimum_constraints_are_those_of_the_project():
    lowest = {name: version(text) for name, text in pinned(ROOT / "constraints-minimum.txt").items()}
    assert lowest == minimums(PROJECT["dependencies"])


def test_the_version_is_the_same_everywhere():
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == citation["version"] == __version__
    package = (ROOT / "r" / "harpoon" / "DESCRIPTION").read_text(encoding="utf-8")
    assert f"\nVersion: {__version__}\n" in package
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"# Harpoon {__version__}\n" in (DEPLOY / "release-notes.md").read_text(encoding="utf-8")


def test_the_conda_recipe_has_the_dependencies_of_the_project():
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    needed = {CONDA_NAMES.get(name, name): low for name, low in minimums(PROJECT["dependencies"]).items()}
    assert minimums(recipe["requirements"]["run"]) == {"python": version(PROJECT["requires-python"][2:]), **needed}
    assert recipe["build"]["python"]["entry_points"] == [f"harpoon = {PROJECT['scripts']['harpoon']}"]


@pytest.fixture(scope="module")
def model_file(arrow_fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "people.harpoon"
    arrow_fitted.model.save(path)
    return str(path)


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def image_commands() -> tuple[list[str], list[str]]:
    """Return the command of the image, and that of its health check."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    health, main = re.findall(r"^\s*CMD (\[.*\])$", text, flags=re.MULTILINE)
    return json.loads(main), json.loads(health)


def unit_command() -> list[str]:
    text = (DEPLOY / "harpoon@.service").read_text(encoding="utf-8")
    return shlex.split(re.search(r"^ExecStart=(.*)$", text, flags=re.MULTILINE)[1])


@pytest.mark.parametrize("command", [image_commands()[0], unit_command()], ids=["image", "unit"])
def test_the_service_starts_and_passes_its_health_check(command, model_file):
    port, health = free_port(), image_commands()[1]
    places = {"8420": port, command[2]: model_file}
    serve = [sys.executable, "-c", MAIN, *(places.get(word, word) for word in command[1:])]
    check = [sys.executable, "-c", health[-1].replace("8420", port)]
    process = subprocess.Popen(serve, env={**os.environ, "HARPOON_TOKEN": TOKEN}, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(240):
            done = subprocess.run(check, check=False, capture_output=True, timeout=60)  # noqa: S603
            if not done.returncode or process.poll() is not None:
                break
            time.sleep(0.25)
        assert done.returncode == 0, done.stderr.decode()
        url, token = f"http://127.0.0.1:{port}/sample", {"Authorization": f"Bearer {TOKEN}"}
        assert requests.post(url, json={"n": 3}, timeout=60).status_code == 401
        assert len(requests.post(url, json={"n": 3}, headers=token, timeout=60).json()["rows"]) == 3
    finally:
        process.terminate()
        process.wait(60)


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = (DEPLOY / "harpoon@.service").read_text(encoding="utf-8").replace(unit_command()[0], sys.executable)
    (tmp_path / "harpoon@.service").write_text(unit, encoding="utf-8")
    command = ["systemd-analyze", "verify", str(tmp_path / "harpoon@.service")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)  # noqa: S603
    assert "harpoon@" not in done.stderr, done.stderr


def test_the_image_installs_what_the_service_needs():
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    extras = re.search(r'"\.\[([\w,]+)\]"', text)[1].split(",")
    assert "serve" in extras
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    copied = " ".join(re.findall(r"^COPY (?!--)(.*) \S+$", text, flags=re.MULTILINE)).split()
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} <= set(copied)
