"""The service over real sockets: every route in every format, compared with Python and DuckDB."""

import datetime as dt
import io
import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import requests

from harpoon.apps.server.limits import Limits
from harpoon.apps.server.routes import create_app
from harpoon.inference.conditional.strategies import STRATEGIES

ARROW, CSV, PARQUET = "application/vnd.apache.arrow.stream", "text/csv", "application/vnd.apache.parquet"
EVENTS = "text/event-stream"
WHERE = "age between 30 and 60 and (job = 'nurse' or price < 15) and not day < DATE '2024-03-01'"
READ = {
    ARROW: lambda content: pa.ipc.open_stream(content).read_all(),
    PARQUET: lambda content: pq.read_table(io.BytesIO(content)),
    CSV: lambda content: pa.csv.read_csv(io.BytesIO(content)),
}


def table_of_everything(rows=80):
    rng = np.random.default_rng(0)
    day, second = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 8)
    return pa.table(
        {
            "age": rng.integers(18, 80, rows),
            "price": np.round(rng.gamma(2, 10, rows), 2),
            "job": rng.choice(["chef", "nurse", "pilot"], rows),
            "member": rng.random(rows) < 0.5,
            "day": [day + dt.timedelta(days=int(d)) for d in rng.integers(0, 300, rows)],
            "seen": pa.array(
                [second + dt.timedelta(minutes=int(m)) for m in rng.integers(0, 9999, rows)], pa.timestamp("s")
            ),
            "wait": pa.array(rng.integers(1, 900, rows), pa.duration("s")),
            "code": [f"id-{i:04}" for i in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def model(tools):
    return tools.fit(table_of_everything())


@pytest.fixture(scope="module")
def url(model, tools):
    limits = Limits(rows=5000, draws=30)
    with tools.serving(create_app(model, limits, name="everything"), limits) as address:
        yield address


def ask(url, path, question, accept="application/json", **more):
    answer = requests.post(url + path, json=question, headers={"Accept": accept}, timeout=60, **more)
    assert answer.status_code == 200, answer.text
    return answer


def plain(table):
    """Rows as JSON has them."""
    from harpoon.apps.server.responses import to_records

    return json.loads(json.dumps(to_records(table)))


def test_health(url):
    assert requests.get(f"{url}/health", timeout=9).json()["status"] == "ok"


def test_the_schema_describes_every_column(url, model):
    told = requests.get(f"{url}/schema", timeout=9).json()
    columns = {column["name"]: column for column in told["columns"]}
    assert list(columns) == model.schema_.names
    assert told["limits"]["rows"] == 5000
    assert (columns["age"]["kind"], columns["age"]["step"]) == ("integer", 1)
    assert columns["day"]["low"].startswith("2024-01")
    assert columns["job"]["categories"] == ["chef", "nurse", "pilot"]
    assert not columns["code"]["modelled"]
    for name in ("age", "price", "day", "seen", "wait"):
        before = columns[name]["before"]
        assert sum(before["fractions"]) == pytest.approx(1)
        assert len(before["edges"]) == len(before["fractions"]) + 1
    assert sum(columns["job"]["before"]["fractions"]) == pytest.approx(1)
    assert [len(columns[name]["before"]["fractions"]) for name in ("job", "member")] == [3, 2]  # as the categories


@pytest.mark.parametrize("where", [None, WHERE])
def test_the_same_seed_gives_the_same_rows_in_every_format_and_in_python(url, model, where):
    question = {"n": 40, "where": where, "seed": 7}
    drawn = model.sample(40, where=where, random_state=7)
    answer = ask(url, "/sample", question).json()
    assert answer["rows"] == plain(drawn)
    assert (answer["seed"], answer["sampling_info"]["rows"]) == (7, 40)
    for media in (ARROW, PARQUET):
        sent = ask(url, "/sample", question, media)
        assert (sent.headers["content-type"], sent.headers["x-harpoon-seed"]) == (media, "7")
        assert READ[media](sent.content).cast(drawn.schema).equals(drawn)
    told = [e for e in events(ask(url, "/sample", question, EVENTS)) if e[0] == "result"]
    assert told[0][1]["rows"] == answer["rows"]
    csv = ask(url, "/sample", question, CSV)
    read = READ[CSV](csv.content).to_pydict()
    assert read["age"] == drawn["age"].to_pylist()
    assert read["day"] == drawn["day"].to_pylist()
    assert read["wait"] == drawn["wait"].cast(pa.int64()).to_pylist()


def test_options_are_those_of_python(url, model):
    question = {"n": 20, "seed": 2, "options": {"ar_steps": 1}}
    assert ask(url, "/sample", question).json()["rows"] == plain(model.sample(20, random_state=2, ar_steps=1))
    rows = [{"age": 30}, {"job": "chef"}]
    body = {"rows": rows, "draws": 3, "seed": 2}
    few = ask(url, "/impute", {**body, "options": {"ar_steps": 1}}).json()
    assert few["rows"] == ask(url, "/impute", body).json()["rows"]  # the best values are not sampled
    assert few["filled"] != ask(url, "/impute", body).json()["filled"]
    document = requests.get(f"{url}/openapi.json", timeout=9).json()
    described = document["components"]["schemas"]["SampleBody"]["properties"]
    assert described["options"]["properties"]["ar_steps"]["maximum"] == 10_000
    assert described["options"]["properties"]["solver"]["enum"] == ["ddpm", "ddpm_printed", "ddim", "dpmpp_2m"]
    assert described["strategy"]["enum"] == list(STRATEGIES)


def test_duckdb_finds_no_sampled_row_outside_the_condition(url):
    rows = READ[ARROW](ask(url, "/sample", {"n": 200, "where": WHERE}, ARROW).content)
    assert len(rows) == 200
    assert duckdb.sql(f"select count(*) from rows where {WHERE}").fetchall() == [(200,)]  # noqa: S608


def test_values_can_be_given_times_among_them(url):
    given = {"job": "pilot", "member": True, "day": "2024-05-01", "wait": 60}
    rows = ask(url, "/sample", {"n": 5, "given": given, "where": "age > 30"}).json()["rows"]
    assert {(row["job"], row["member"], row["day"], row["wait"]) for row in rows} == {("pilot", True, "2024-05-01", 60)}
    assert all(row["age"] > 30 for row in rows)


def test_a_seed_is_chosen_and_returned(url):
    first = ask(url, "/sample", {"n": 5}).json()
    assert ask(url, "/sample", {"n": 5}).json()["rows"] != first["rows"]
    assert ask(url, "/sample", {"n": 5, "seed": first["seed"]}).json()["rows"] == first["rows"]


def test_concurrent_requests_get_the_same_rows_as_single_ones(url):
    from concurrent.futures import ThreadPoolExecutor

    alone = [ask(url, "/sample", {"n": 30, "seed": seed}).json()["rows"] for seed in range(4)]
    with ThreadPoolExecutor(8) as pool:
        together = list(
            pool.map(lambda seed: ask(url, "/sample", {"n": 30, "seed": seed % 4}).json()["rows"], range(16))
        )
    assert together == alone * 4


def test_feasibility_is_that_of_python(url, model):
    told = ask(url, "/feasibility", {"where": WHERE, "seed": 3}).json()
    found = model.feasibility(WHERE, random_state=3)
    assert told["probability"] == found.probability
    assert [part["text"] for part in told["parts"]] == [part.text for part in found.parts]
    assert "%" in told["message"]


def test_a_profile_shows_every_column_before_and_after(url, model):
    question = {"where": "job = 'pilot'", "n": 300, "seed": 1}
    told = ask(url, "/profile", {**question, "show": 10}).json()
    columns = {column["name"]: column for column in told["columns"]}
    changes = [column["change"] for column in told["columns"]]
    assert set(columns) == {column.name for column in model.schema_.modelled}
    assert changes == sorted(changes, reverse=True)
    assert all(0 <= change <= 1 for change in changes)
    assert [name for name, column in columns.items() if column["in_condition"]] == ["job"]
    assert columns["job"]["after"]["fractions"] == [0.0, 0.0, 1.0]  # chef, nurse, pilot
    assert "→" in columns["age"]["sentence"]
    assert columns["age"]["before"]["edges"] == columns["age"]["after"]["edges"]
    assert sum(columns["age"]["after"]["fractions"]) == pytest.approx(1)
    assert told["rows"] == 300
    before = requests.get(f"{url}/schema", timeout=9).json()["columns"]
    assert columns["age"]["before"] == next(column["before"] for column in before if column["name"] == "age")
    assert told["probability"] == told["sampling_info"]["probability"]  # the one that feasibility gives
    assert told["probability"] == pytest.approx(columns["job"]["before"]["fractions"][2], abs=0.05)  # of other rows
    assert told["sampled"] == ask(url, "/sample", question).json()["rows"][:10]


def test_a_profile_of_an_impossible_condition_has_no_rows(url):
    told = ask(url, "/profile", {"where": "age > 900"}).json()
    assert (told["rows"], told["probability"]) == (0, 0)
    assert told["columns"][0]["sentence"] == "no cells"


def test_a_profile_without_a_condition_has_probability_one(url):
    told = ask(url, "/profile", {"n": 500}).json()
    assert (told["probability"], told["where"]) == (1, None)


def test_conditions_become_controls_and_back(url):
    text = "age >= 30 and age < 60 and job in ('nurse', 'pilot') and member and day <= '2024-05-01'"
    told = ask(url, "/condition", {"where": text}).json()
    assert told["complete"]
    assert told["controls"] == {
        "age": {"low": 30, "high": 60, "high_open": True},
        "job": {"categories": ["nurse", "pilot"]},
        "member": {"categories": [True]},
        "day": {"high": "2024-05-01"},
    }
    back = ask(url, "/condition", {"controls": told["controls"]}).json()
    assert back["controls"] == told["controls"]
    assert ask(url, "/condition", {}).json() == {"where": None, "controls": {}, "complete": True, "rest": None}
    assert not ask(url, "/condition", {"where": "age > price or member"}).json()["complete"]
    rest = ask(url, "/condition", {"where": "age >= 30 and age > price"}).json()["rest"]
    asked = {"controls": {"job": {"categories": ["chef"]}}, "rest": rest}
    assert ask(url, "/condition", asked).json()["where"] == "job = 'chef' and age > price"


def events(answer):
    """The names and the data of the events of a stream."""
    blocks = [block.split("\n") for block in answer.text.split("\n\n") if block.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_events_show_progress_and_end_with_the_result(url):
    told = events(ask(url, "/sample", {"n": 5000, "seed": 1}, EVENTS))
    *progress, (last, answer) = told
    assert {name for name, _ in progress} == {"progress"}
    done = [news["done"] for _, news in progress]
    assert done == sorted(done)
    assert all(news["of"] == 5000 for _, news in progress)
    assert (last, len(answer["rows"])) == ("result", 5000)
    told = events(ask(url, "/profile", {"n": 200, "where": "age > 50"}, EVENTS))
    assert all(news["of"] is None for name, news in told if name == "progress")  # nobody knows


def test_errors_of_a_stream_are_events(url):
    ((name, told),) = events(ask(url, "/sample", {"where": "agee > 3"}, EVENTS))
    assert (name, told["error"]["kind"]) == ("error", "InvalidCondition")
    assert "Did you mean `age`?" in told["error"]["message"]


BAD = [
    ("/sample", {"n": 0}, 422, "InvalidBody", "n is not valid"),
    ("/sample", {"m": 3}, 422, "InvalidBody", "m is not valid"),
    ("/sample", {"n": 5001}, 413, "TooLarge", "5,000 rows"),
    ("/sample", {"where": "age >"}, 400, "InvalidCondition", "cannot be read"),
    ("/sample", {"where": "age > 900"}, 400, "InfeasibleCondition", "cannot be met"),
    ("/sample", {"where": "x" * 20_001}, 422, "InvalidBody", "where is not valid"),
    ("/sample", {"given": {"jobb": "chef"}}, 400, "InvalidOption", "Did you mean 'job'?"),
    ("/sample", {"given": {"day": "yesterday"}}, 400, "InvalidTable", "dates"),
    ("/sample", {"given": {"code": "id-1"}}, 400, "InvalidOption", "not sampled"),
    ("/sample", {"strategy": "luck"}, 422, "InvalidBody", "strategy"),
    ("/sample", {"options": {"ar_step": 1}}, 422, "InvalidBody", "Did you mean 'ar_steps'"),
    ("/sample", {"options": {"ar_steps": -1}}, 422, "InvalidBody", "from 0 to 10000"),
    ("/sample", {"options": {"solver": "euler"}}, 422, "InvalidBody", "'ddim'"),
    ("/sample", {"options": {"sampling_batch_size": 9}}, 422, "InvalidBody", "options is not valid"),
    ("/sample", {"options": {"guidance_scale": 2}}, 400, "InvalidOption", "no effect"),
    ("/sample", {"n": 9, "fewer": True}, 422, "InvalidBody", "fewer is not valid"),
    ("/impute", {"rows": [{}], "options": {"ar_steps": 0}}, 400, "InvalidOption", "no effect"),
    ("/sample", {"seed": -1}, 422, "InvalidBody", "seed"),
    ("/feasibility", {}, 422, "InvalidBody", "where is not valid"),
    ("/condition", {"controls": {"age": {"low": "old"}}}, 400, "InvalidCondition", ""),
    ("/condition", {"controls": {"job": {"categories": []}}}, 400, "InvalidCondition", "at least one"),
    ("/impute", {"rows": [{"age": "old"}]}, 400, "SchemaMismatch", "age"),
    ("/impute", {"rows": [{"age": [1]}]}, 422, "InvalidBody", "rows.0.age is not valid: a cell is"),
    ("/impute", {"rows": [{}], "draws": 31}, 413, "TooLarge", "30 draws"),
    ("/impute", {"rows": [{}] * 5001}, 413, "TooLarge", "5,000 rows"),
    ("/impute", {"rows": [{"age": 40}], "where": "age > 50"}, 400, "InvalidCondition", "violated by observed cells"),
    ("/sample", {"given": {"wait": True}}, 400, "InvalidOption", "wait"),
    ("/sample", {"given": {"wait": 10**17}}, 400, "InvalidOption", "wait"),
    ("/sample", {"given": {"\ud800": 1}}, 400, "InvalidOption", "no column"),
    ("/condition", {"controls": {"job": {"categories": ["\ud800"]}}}, 400, "InvalidCondition", "no value"),
    ("/impute", {"rows": [{"member": 1e308}]}, 400, "SchemaMismatch", "true and false"),
    ("/impute", {"rows": [{"job": 60}]}, 400, "SchemaMismatch", "texts"),
    ("/nowhere", {}, 404, "NotFound", "/openapi.json"),
    ("/health", {}, 405, "MethodNotAllowed", "/openapi.json"),
]


@pytest.mark.parametrize(("path", "question", "status", "kind", "words"), BAD, ids=lambda v: str(v)[:30])
def test_bad_requests_get_a_sentence(url, path, question, status, kind, words):  # noqa: PLR0917
    answer = requests.post(url + path, json=question, timeout=60)
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"]) == (status, kind), error
    assert words in error["message"]
    assert error["message"].endswith((".", "?"))


def test_unknown_formats_are_refused(url):
    assert requests.post(f"{url}/sample", json={}, headers={"Accept": "image/png"}, timeout=9).status_code == 406
    form = requests.post(f"{url}/sample", data={"n": 3}, timeout=9)
    assert (form.status_code, form.json()["error"]["kind"]) == (415, "UnsupportedMediaType")
    assert requests.post(f"{url}/impute", data=b"x", timeout=9).status_code == 415
    broken = requests.post(f"{url}/sample", data=b"{", headers={"Content-Type": "application/json"}, timeout=9)
    assert broken.json()["error"]["message"] == "The body is not valid JSON."
