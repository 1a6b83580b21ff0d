"""Clients that send garbage, too much, too slowly, or disconnect get an error, and the others notice nothing."""

import json
import logging
import socket
from contextlib import contextmanager
from threading import Thread
from threading import enumerate as enumerate_threads
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
import requests

from harpoon.apps.server import handlers, run
from harpoon.apps.server.access_log import LogFormatter
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.routes import create_app

TOKEN = "0123456789abcdef0123"  # noqa: S105
TIMEOUT = 120  # seconds; reached only where a test fails, however busy the machine is
LONG = {"n": 400_000}  # takes much longer than any of these tests looks at it
JSON_TYPE = "Content-Type: application/json"


@pytest.fixture(scope="module")
def app(arrow_fitted):
    return create_app(arrow_fitted.model, Limits(rows=10**6, body=2**20, workers=2, queue=2))


@pytest.fixture(scope="module")
def url(app, tools):
    with tools.serving(app) as address:
        yield address


@contextmanager
def connected(url, head, body=b""):
    """A connection over which a request has been sent, or a part of one."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT) as connection:
        lines = [head, f"Host: {parts.netloc}", ""]
        connection.sendall("\r\n".join([*lines, ""]).encode() + body)
        yield connection


def post(path, length):
    return f"POST {path} HTTP/1.1\r\n{JSON_TYPE}\r\nContent-Length: {length}"


def asked(url, path, question):
    body = json.dumps(question).encode()
    return connected(url, post(path, len(body)), body)


def heard(connection):
    """All that the server says until it closes the connection, or its first part if it does not."""
    return connection.recv(2**16).decode()


def eventually(true):
    end = monotonic() + TIMEOUT
    while not true() and monotonic() < end:
        sleep(0.02)
    return true()


def is_well(url):
    answer = requests.post(f"{url}/sample", json={"n": 3, "seed": 0}, timeout=TIMEOUT)
    return answer.status_code == 200 and len(answer.json()["rows"]) == 3


@pytest.mark.parametrize(
    "garbage", [b"\x00\xff" * 500, b"GET / HTTP/9.9\r\n\r\n", b"POST /sample\r\n\r\n", b"\r\n" * 99]
)
def test_garbage_hurts_nobody(url, garbage):
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        assert "HTTP/1.1 200" not in heard(connection)
    assert is_well(url)


def test_a_huge_body_is_refused_whether_or_not_it_is_announced(url):
    heavy = requests.post(
        f"{url}/impute", data=b"x" * (2**20 + 1), headers={"Content-Type": "text/csv"}, timeout=TIMEOUT
    )
    assert (heavy.status_code, heavy.json()["error"]["kind"]) == (413, "TooLarge")
    parts = (b" " * 2**16 for _ in range(40))
    chunked = requests.post(f"{url}/sample", data=parts, headers={"Content-Type": "application/json"}, timeout=TIMEOUT)
    assert chunked.status_code == 413
    with connected(url, post("/impute", 10**15) + "\r\nExpect: 100-continue") as connection:
        assert heard(connection).startswith("HTTP/1.1 413")  # before anything is sent
    assert is_well(url)


def test_a_slow_body_is_not_waited_for(arrow_fitted, tools):
    """By a service of its own: on a busy machine, whole bodies take as long."""
    with (
        tools.serving(create_app(arrow_fitted.model, Limits(upload_seconds=0.5))) as url,
        connected(url, post("/sample", 100), b'{"n": ') as slow,
    ):
        assert heard(slow).startswith("HTTP/1.1 408")


def test_a_slow_body_keeps_nobody_waiting(url):
    with connected(url, post("/sample", 100), b'{"n": '):
        assert is_well(url)


MANY = 30_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sample", {"given": {f"a{i}": [] for i in range(MANY)}}),
        ("/sample", {f"a{i}": 1 for i in range(MANY)}),
        ("/impute", {"rows": [[]] * MANY}),
        ("/impute", {"rows": [{f"a{i}": 1} for i in range(4000)]}),
        ("/impute", {"rows": [{f"a{i}": 1 for i in range(MANY)}]}),
        ("/condition", {"controls": {f"a{i}": 1 for i in range(MANY)}}),
        ("/condition", {"controls": {"age": {"categories": [[]] * MANY}}}),
    ],
    ids=range(7),
)
def test_a_body_full_of_errors_is_refused_at_the_first(url, path, body):
    """Describing each of them took half a minute, in which nobody else was answered."""
    refused = requests.post(f"{url}{path}", json=body, timeout=TIMEOUT)
    assert refused.status_code == 422
    assert len(refused.content) < 10_000
    assert is_well(url)


def test_a_table_that_is_far_too_wide_is_refused_before_it_is_read(url):
    text = ",".join(f"a{i}" for i in range(20_000)) + "\n"
    refused = requests.post(f"{url}/impute", data=text, headers={"Content-Type": "text/csv"}, timeout=TIMEOUT)
    assert refused.status_code == 400
    assert "2,000 columns" in refused.json()["error"]["message"]


def test_compressed_bodies_are_refused(url):
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/csv"}
    assert requests.post(f"{url}/impute", data=b"x", headers=headers, timeout=TIMEOUT).status_code == 415


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_job_ends_when_the_client_disconnects(url, app, accept):
    body = json.dumps(LONG).encode()
    workers = app.state.workers
    with connected(url, post("/sample", len(body)) + f"\r\nAccept: {accept}", body):
        assert eventually(lambda: workers.jobs == 1)
    assert eventually(lambda: workers.jobs == 0)
    assert is_well(url)


def test_a_full_queue_is_refused_and_a_client_that_disconnects_leaves_it(url, app):
    workers = app.state.workers
    with asked(url, "/sample", LONG), asked(url, "/sample", LONG):
        assert eventually(lambda: workers.jobs == 2)
        with asked(url, "/sample", LONG), asked(url, "/sample", LONG):
            assert eventually(lambda: workers.jobs == 4)
            busy = requests.post(f"{url}/sample", json={"n": 1}, timeout=TIMEOUT)
            assert (busy.status_code, busy.json()["error"]["kind"]) == (429, "Busy")
            assert busy.headers["Retry-After"] == "1"
            assert requests.get(f"{url}/health", timeout=TIMEOUT).ok
        assert eventually(lambda: workers.jobs == 2)  # those had not begun
    assert eventually(lambda: workers.jobs == 0)
    assert is_well(url)


def test_answers_that_take_too_long_are_refused(arrow_fitted, tools):
    app = create_app(arrow_fitted.model, Limits(rows=10**6, seconds=0.2))
    with tools.serving(app) as url:
        answer = requests.post(f"{url}/sample", json=LONG, timeout=TIMEOUT)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "TimedOut")
        told = requests.post(f"{url}/sample", json=LONG, headers={"Accept": "text/event-stream"}, timeout=TIMEOUT)
        assert '"TimedOut"' in told.text
        assert eventually(lambda: app.state.workers.jobs == 0)


def test_shutdown_ends_running_jobs(arrow_fitted, tools, monkeypatch):
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.1)
    before, told = set(enumerate_threads()), []
    app = create_app(arrow_fitted.model, Limits(rows=10**6))
    with tools.serving(app) as url:
        asking = Thread(target=lambda: told.append(requests.post(f"{url}/sample", json=LONG, timeout=TIMEOUT)))
        asking.start()
        assert eventually(lambda: app.state.workers.jobs == 1)
    asking.join()
    assert (told[0].status_code, told[0].json()["error"]["kind"]) == (503, "ShuttingDown")
    assert eventually(lambda: set(enumerate_threads()) <= before)


def test_bodies_of_all_clients_together_are_limited(arrow_fitted, tools):
    with tools.serving(create_app(arrow_fitted.model, Limits(buffered=1000))) as url:
        question = {"where": f"age > {'1' * 400}"}
        assert requests.post(f"{url}/sample", json=question, timeout=TIMEOUT).status_code == 400
        with connected(url, post("/sample", 950), b"x" * 900):
            assert eventually(lambda: requests.post(f"{url}/sample", json=question, timeout=TIMEOUT).status_code == 429)
        assert eventually(lambda: requests.post(f"{url}/sample", json=question, timeout=TIMEOUT).status_code == 400)


def test_a_token_opens_everything_and_nothing_else_does(arrow_fitted, tools):
    with tools.serving(create_app(arrow_fitted.model, token=TOKEN)) as url:
        assert requests.get(f"{url}/health", timeout=TIMEOUT).ok
        assert requests.get(f"{url}/", timeout=TIMEOUT).ok
        for sent in (
            {},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": TOKEN},
            {"Authorization": "Bearer é"},
        ):
            headers = {name: value.encode() for name, value in sent.items()}
            for path in ("/schema", "/openapi.json", "/nowhere", "//schema", "/health/../schema"):
                refused = requests.get(url + path, headers=headers, timeout=TIMEOUT)
                assert refused.status_code == 401, (path, sent)
                assert ("not the token" in refused.text) == (" " in sent.get("Authorization", "")), sent
                assert refused.headers["WWW-Authenticate"] == "Bearer"
            assert requests.post(f"{url}/sample", json={"n": 1}, headers=headers, timeout=TIMEOUT).status_code == 401
        right = {"Authorization": f"bearer {TOKEN}"}
        assert requests.post(f"{url}/sample", json={"n": 1}, headers=right, timeout=TIMEOUT).ok
        assert requests.get(f"{url}/schema", headers={**right, "Host": "elsewhere"}, timeout=TIMEOUT).ok
        document = requests.get(f"{url}/openapi.json", headers=right, timeout=TIMEOUT).json()
        assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Host": "["}])
def test_pages_of_other_sites_are_refused(url, headers):
    answer = requests.post(f"{url}/sample", json={"n": 1}, headers=headers, timeout=TIMEOUT)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "Forbidden")


def test_browsers_are_told_to_load_nothing_from_elsewhere(url):
    for path in ("/", "/schema", "/nowhere"):
        headers = requests.get(url + path, timeout=TIMEOUT).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/app.py", "/..%2fapp.py", "/index.html/../../app.py", "/studio"]
)
def test_no_address_reads_a_file_of_the_machine(url, path):
    with connected(url, f"GET {path} HTTP/1.1") as connection:
        assert heard(connection).startswith("HTTP/1.1 404")


def test_the_log_has_a_line_for_each_request_and_no_cells(url, caplog):
    with caplog.at_level(logging.INFO, "harpoon.apps.server"):
        requests.post(f"{url}/sample", json={"n": 2, "where": "age >= 33 and job = 'chef'"}, timeout=TIMEOUT)
        requests.post(f"{url}/impute", json={"rows": [{"age": 12345}, {"job": "spy"}]}, timeout=TIMEOUT)
        requests.post(f"{url}/sample", json={"where": "job = 'spy'"}, timeout=TIMEOUT)

        def logged():
            return [LogFormatter().format(record) for record in caplog.records if record.name == "harpoon.apps.server"]

        # A line is written after the answer is sent, so that one of an earlier test may come first.
        assert eventually(lambda: logged() and json.loads(logged()[-1])["status"] == 400 and len(logged()) >= 3)
    lines = logged()[-3:]
    told = [json.loads(line) for line in lines]
    assert [(line["path"], line["status"]) for line in told] == [("/sample", 200), ("/impute", 200), ("/sample", 400)]
    assert all({"id", "method", "bytes", "seconds", "time", "level"} <= set(line) for line in told)
    assert not any(secret in "".join(lines) for secret in ("chef", "spy", "12345", "33 and"))


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_bug_is_reported_without_its_text(url, caplog, monkeypatch, accept):
    def broken(*_):
        raise RuntimeError("cell 4711")

    monkeypatch.setattr(handlers, "sample", broken)
    with caplog.at_level(logging.INFO, "harpoon.apps.server"):
        answer = requests.post(f"{url}/sample", json={}, headers={"Accept": accept}, timeout=TIMEOUT)
    assert answer.status_code == (500 if accept == "application/json" else 200)
    assert '"kind": "InternalError"' in answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    lines = "".join(LogFormatter().format(record) for record in caplog.records)
    assert "test_server_hostile.py" in lines
    assert "4711" not in answer.text + lines
