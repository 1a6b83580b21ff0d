"""`harpoon serve`: what it refuses in a sentence, and how it ends."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from palmerpenguins import load_penguins
from typer.testing import CliRunner

from harpoon.apps.cli import app
from harpoon.apps.server.routes import create_app

MAIN = "from harpoon.apps.cli import main; main()"
PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model_file(arrow_fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "people.harpoon"
    arrow_fitted.model.save(path)
    return str(path)


def refused(*arguments):
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.split())


def test_it_does_not_listen_beyond_this_machine_without_a_token(model_file, monkeypatch):
    monkeypatch.delenv("HARPOON_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "192.168.0.7"):  # noqa: S104
        assert "needs a token" in refused(model_file, "--host", host)


@pytest.mark.parametrize("token", ["short", "a space at the end ", "naïve but long enough"])
def test_a_token_that_is_easily_guessed_or_cannot_be_sent_is_refused(model_file, token):
    assert "at least 16 ASCII characters" in refused(model_file, "--token", token)


def test_a_port_in_use_is_a_sentence(model_file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(model_file, "--port", port)
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use. Choose another port" in said


def test_a_place_that_is_not_of_this_machine_is_a_sentence(model_file):
    assert "cannot listen at 203.0.113.1" in refused(model_file, "--host", "203.0.113.1", "--token", "x" * 20)


def test_a_missing_extra_names_itself(model_file, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("harpoon.apps.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    done = CliRunner().invoke(app, ["serve", model_file])
    assert done.exit_code == 1
    assert '".[serve]"' in done.stderr.replace("\n", "")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_it_answers_what_is_under_way_and_ends(model_file, sent, code):
    command = [sys.executable, "-c", MAIN, "serve", model_file, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            address = re.search(r"http://\S+/", server.stderr.readline())[0]
            with requests.post(
                f"{address}sample", json={"n": 3000}, headers={"Accept": "text/event-stream"}, stream=True, timeout=60
            ) as answer:
                lines = answer.iter_lines()
                assert next(lines) == b"event: progress"
                server.send_signal(sent)
                assert b"event: result" in list(lines)
            said = server.stderr.read()
            assert server.wait(timeout=60) == code, said
        finally:
            server.kill()
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [(line["path"], line["status"]) for line in told] == [("/sample", 200)]
    assert "Traceback" not in said


def blocks(language):
    """The code of the page about the service in a language, asked of a place that is yet to come."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    return [block.replace("http://127.0.0.1:8420", "{url}") for block in found if "127.0.0.1:8420/" in block]


@pytest.fixture(scope="module")
def penguins(tools):
    with tools.serving(create_app(tools.fit(load_penguins()))) as url:
        yield url


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_shell_of_the_page_runs(penguins, tmp_path):
    load_penguins().to_csv(tmp_path / "penguins.csv", index=False)
    lines = "".join(blocks("sh")).replace("\\\n", " ")
    for line in lines.replace("{url}", penguins).splitlines():
        done = subprocess.run(["bash", "-c", f"{line} --fail"], cwd=tmp_path, capture_output=True, check=False)  # noqa: S603, S607
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "sampled.csv").read_text().count("\n") == 1001
    assert ",," not in (tmp_path / "filled.csv").read_text()
    assert json.loads((tmp_path / "filled.json").read_text())["filled"][0].keys() >= {"row", "column", "value"}


def test_the_client_of_the_page_runs(penguins):
    (code,) = blocks("py")
    names = {}
    exec(code.replace("{url}", penguins), names)  # noqa: S102
    assert names["gentoos"]["species"].unique().to_pylist() == ["Gentoo"]
