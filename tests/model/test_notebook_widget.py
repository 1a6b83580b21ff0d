"""The what-if widget without a notebook: its page, and its answers to messages."""

import base64
import copy
import json
import queue
import re
import sys

import pytest

import harpoon
from harpoon import Harpoon, InvalidCondition, InvalidOption, InvalidTable, MissingExtra, NotFitted
from harpoon.apps.notebook.page import studio_page
from tests.support import frames
from tests.support.studio import people

TIMEOUT = 120  # seconds; reached only where a test fails
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def model():
    return frames.fit(people())


class Page:
    """What the page in the frame does: it sends messages, and reads those of the kernel."""

    def __init__(self, widget, monkeypatch):
        self.widget, self.messages = widget, queue.Queue()
        monkeypatch.setattr(widget, "send", lambda facts, buffers=None: self.messages.put((facts, buffers or [])))

    def post(self, key, body=b"", **request):
        message = {"id": key, "method": "POST", "headers": JSON, **request}
        self.widget._answer_message(self.widget, message, [memoryview(body)] if body else [])

    def read(self, key):
        """The status and the body of an answer, once it is complete."""
        status, content = 0, b""
        while True:
            facts, buffers = self.messages.get(timeout=TIMEOUT)
            assert facts["id"] == key
            status, content = status or facts["status"], content + b"".join(buffers)
            if facts["last"]:
                return status, content

    def ask(self, key, path, **body):
        self.post(key, json.dumps(body).encode(), path=path)
        return self.read(key)


@pytest.fixture
def widget(model):
    widget = model.explore(where="age >= 40", compare="job = 'chef'")
    yield widget
    widget.close()


def test_the_title_is_the_name_of_the_file(model, monkeypatch, tmp_path):
    model.save(tmp_path / "people.harpoon")
    loaded = harpoon.load(tmp_path / "people.harpoon", progress=False)
    for one, name in ((model, "model"), (loaded, "people"), (copy.copy(loaded), "people")):
        widget = one.explore()
        page = Page(widget, monkeypatch)
        page.post("1", path="schema", method="GET")
        assert json.loads(page.read("1")[1])["name"] == name
        widget.close()


@pytest.fixture
def page(widget, monkeypatch):
    return Page(widget, monkeypatch)


def test_the_page_has_every_module_and_loads_nothing():
    page = studio_page()
    (map_text,) = re.findall(r'<script type="importmap">(.*?)</script>', page)
    modules = {
        name: base64.b64decode(url.partition(",")[2]).decode() for name, url in json.loads(map_text)["imports"].items()
    }
    imported = {name for source in modules.values() for name in re.findall(r'\b(?:from|import) "([^"]+)"', source)}
    assert "studio/main.js" in modules
    assert imported <= set(modules)
    assert not re.findall(r'\b(?:from|import) "\.', "".join(modules.values()))
    assert not re.findall(r'<link|\bsrc="|\bhref="|@import|url\(', page)


def test_a_request_is_answered_as_by_the_model(page, model):
    status, body = page.ask("1", "sample", n=20, where="age >= 40", seed=3)
    assert status == 200
    rows = model.sample(20, where="age >= 40", random_state=3)
    assert [row["age"] for row in json.loads(body)["rows"]] == rows["age"].to_pylist()
    page.post("2", path="schema", method="GET", headers={})
    status, body = page.read("2")
    assert (status, json.loads(body)["training_rows"]) == (200, 300)


def test_a_wrong_request_is_an_answer(page):
    status, body = page.ask("1", "sample", n=20, where="agee > 40")
    assert status == 400
    assert "age" in json.loads(body)["error"]["message"]
    assert page.ask("2", "../../etc/passwd")[0] == 404
    page.post("3", b"{}", path="sample", headers={"Content-Type": "text/plain"})
    assert page.read("3")[0] == 415


def test_a_request_that_is_aborted_ends(page, widget):
    for key in ("1", "2", "3"):
        body = json.dumps({"n": 100_000, "where": "age >= 79 and job = 'chef'"}).encode()
        page.post(key, body, path="profile", headers={**JSON, "Accept": "text/event-stream"})
        page.widget._answer_message(widget, {"id": key, "abort": True}, [])
    widget._answer_message(widget, {"id": "unknown", "abort": True}, [])
    widget._client.close()
    assert widget._client._tasks == set()
    sent = [buffers for _, buffers in iter_all(page.messages)]
    assert b"event: result" not in b"".join(b"".join(buffers) for buffers in sent)
    assert page.ask("4", "sample", n=1)[0] == 200  # a loop begins again


def iter_all(messages):
    while not messages.empty():
        yield messages.get()


def test_conditions_follow_the_page_and_the_page_follows_them(widget):
    assert (widget.where, widget.compare) == ("age >= 40", "job = 'chef'")
    widget._address = "a=age+%3E+50&n=200&seed=7"  # as the page writes it
    assert (widget.where, widget.compare) == ("age > 50", None)
    widget.compare = "member"
    assert widget._address == "a=age+%3E+50&n=200&seed=7&b=member+%3D+true"
    widget.where = None
    assert repr(widget) == "Explorer(compare='member = true')"
    with pytest.raises(InvalidCondition):
        widget.where = "age >"
    assert widget.compare == "member = true"


def test_real_rows_are_counted(model, monkeypatch):
    widget = model.explore(people())
    page = Page(widget, monkeypatch)
    page.post("1", path="schema", method="GET", headers={})
    assert json.loads(page.read("1")[1])["real_rows"] == 300
    widget.close()
    widget.close()


def test_wrong_arguments_are_errors(model):
    with pytest.raises(NotFitted):
        Harpoon().explore()
    with pytest.raises(InvalidCondition):
        model.explore(where="age >")
    with pytest.raises(InvalidOption, match="height, in pixels,"):
        model.explore(height=3)
    with pytest.raises(InvalidTable):
        model.explore(people(0))


@pytest.mark.parametrize("package", ["anywidget", "fastapi"])
def test_a_missing_package_is_named(model, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf'{package}.*pip install -c constraints\.txt "\.\[notebook\]"'):
        model.explore()
