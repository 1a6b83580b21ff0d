"""Tables sent to the service as JSON, CSV, Arrow and forms: what is returned, and what is refused."""

import io
import json
import random

import pyarrow as pa
import pyarrow.csv
import pytest
import requests

from harpoon.apps.server.errors import ApiError
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.responses import ARROW, CSV, JSON, to_records
from harpoon.apps.server.routes import create_app
from harpoon.apps.server.uploads import MAX_ARROW_BYTES, read_arrow

TEXT = b"""name,age,height,price,job,member
Ann,031,170.50,,chef,TRUE
"Bob, the second",,165.0,12.50,NA,
Cy,44, 180.25 ,9.99,pirate,FALSE
"""


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def table(arrow_fitted):
    return arrow_fitted.table.slice(0, 30)


@pytest.fixture(scope="module")
def url(arrow_fitted, tools):
    limits = Limits(rows=1000, body=2**20)
    with tools.serving(create_app(arrow_fitted.model, limits), limits) as address:
        yield address


def send(url, content, kind, accept=JSON, **options):
    headers = {"Content-Type": kind, "Accept": accept}
    return requests.post(f"{url}/impute", data=content, headers=headers, params=options, timeout=60)


def test_json_arrow_csv_and_forms_are_filled_alike_and_as_in_python(url, table, arrow_fitted):
    filled = to_records(arrow_fitted.model.impute(table))
    sink = io.BytesIO()
    pa.csv.write_csv(table, sink)
    text = sink.getvalue()
    assert requests.post(f"{url}/impute", json={"rows": to_records(table)}, timeout=60).json()["rows"] == filled
    assert send(url, stream(table), ARROW).json()["rows"] == filled
    assert send(url, text, CSV).json()["rows"] == filled
    for name in ("rows.csv", "../../etc/passwd"):  # a name is but a name
        form = requests.post(f"{url}/impute", files={"file": (name, text, CSV)}, timeout=60)
        assert form.json()["rows"] == filled
    arrow = pa.ipc.open_stream(send(url, stream(table), ARROW, ARROW).content).read_all()
    assert to_records(arrow) == filled


def test_each_filled_cell_is_returned_with_its_uncertainty(url, table):
    told = requests.post(f"{url}/impute", json={"rows": to_records(table), "draws": 20, "seed": 0}, timeout=60).json()
    missing = {
        (row, name) for row, cells in enumerate(to_records(table)) for name, cell in cells.items() if cell is None
    }
    assert {(cell["row"], cell["column"]) for cell in told["filled"]} == missing
    for cell in told["filled"]:
        assert told["rows"][cell["row"]][cell["column"]] == cell["value"]
        if cell["column"] in ("job", "member"):
            assert sum(cell["probabilities"].values()) == pytest.approx(1)
        else:
            assert cell["low"] <= cell["high"]


def test_intervals_are_those_of_python(url, table, arrow_fitted):
    low, high = arrow_fitted.model.impute(table, draws=9, random_state=4).interval(0.5)
    question = {"rows": to_records(table), "draws": 9, "seed": 4, "level": 0.5}
    told = requests.post(f"{url}/impute", json=question, timeout=60).json()["filled"]
    ages = [cell for cell in told if cell["column"] == "age"]
    assert [cell["low"] for cell in ages] == [low["age"][cell["row"]].as_py() for cell in ages]
    assert [cell["high"] for cell in ages] == [high["age"][cell["row"]].as_py() for cell in ages]


def test_draws_are_stacked_in_a_table(url, table):
    content = send(url, stream(table), ARROW, ARROW, draws=3, seed=1).content
    drawn = pa.ipc.open_stream(content).read_all()
    assert drawn["draw"].to_pylist() == [1, 2, 3] * 30
    assert content == send(url, stream(table), ARROW, ARROW, draws=3, seed=1).content


def test_options_of_an_upload_are_json_text_in_the_query(url, table):
    def rows(**options):
        return send(url, stream(table), ARROW, draws=3, seed=1, **options).json()

    body = {"rows": to_records(table), "draws": 3, "seed": 1, "options": {"ar_steps": 0}}
    assert rows(options='{"ar_steps": 0}') == requests.post(f"{url}/impute", json=body, timeout=60).json() != rows()
    for text, words in (("{", "options is not valid: invalid JSON"), ('{"no": 1}', "'no'"), ("3", "dictionary")):
        error = rows(options=text)["error"]
        assert (error["kind"], words in error["message"]) == ("InvalidBody", True), error


def test_from_csv_to_csv_other_cells_are_copied_as_text(url):
    answer = send(url, TEXT, CSV, CSV)
    first, second, third = answer.text.splitlines()[1:]
    assert first.startswith("Ann,031,170.50,")
    assert first.endswith(",chef,TRUE")
    assert second.startswith('"Bob, the second",')
    assert second.split(",")[-1] in ("TRUE", "FALSE")
    assert third.startswith("Cy,44, 180.25 ,9.99,")
    assert ",pirate," in third
    (note,) = json.loads(answer.headers["X-Harpoon-Notes"])
    assert "'pirate' in 1 cell, unknown to the model: ignored as an input and kept." in note
    told = send(url, TEXT, CSV).json()
    assert told["copied_columns"] == ["name"]
    assert "'pirate'" in told["notes"][0]
    assert told["rows"][2]["job"] == "pirate"
    assert not [cell for cell in told["filled"] if cell["row"] == 2 and cell["column"] == "job"]


@pytest.mark.parametrize("draws", [None, 3])
def test_observed_cells_stay_whether_or_not_the_model_knows_them(url, table, draws):
    jobs = ["diver" if row % 3 else None for row in range(30)]
    strange = table.set_column(table.schema.get_field_index("job"), "job", pa.array(jobs).dictionary_encode())
    ages = [None if row % 4 == 0 else -(10**12) for row in range(30)]
    strange = strange.set_column(strange.schema.get_field_index("age"), "age", [ages])
    before, options = to_records(strange), {} if draws is None else {"draws": draws}
    sink = io.BytesIO()
    pa.csv.write_csv(strange.cast(table.schema), sink)
    answers = [
        requests.post(f"{url}/impute", json={"rows": before, **options}, timeout=60).json(),
        send(url, stream(strange), ARROW, **options).json(),
        send(url, sink.getvalue(), CSV, **options).json(),
    ]
    missing = {(row, name) for row, cells in enumerate(before) for name, cell in cells.items() if cell is None}
    for told in answers:
        assert {(cell["row"], cell["column"]) for cell in told["filled"]} == missing
        for was, now in zip(before, told["rows"], strict=True):
            assert {name: now[name] for name, cell in was.items() if cell is not None}.items() <= was.items()
        assert [note.partition(":")[0] for note in told["notes"]] == [
            "Column 'job' holds 'diver' in 20 cells, unknown to the model"
        ]


def test_large_integers_in_json_rows_are_kept_or_told(url):
    rows = [{"age": 2**53 + 1, "height": 2**53 + 1}, {"age": 3.0, "height": 0.5}]
    told = send(url, json.dumps({"rows": rows}), JSON).json()
    assert [row["age"] for row in told["rows"]] == [2**53 + 1, 3]
    assert "several types in 'height'" in told["notes"][0]


def test_a_rule_that_an_unknown_category_violates_is_refused(url, table):
    row = {**to_records(table)[1], "job": "diver", "age": None}
    refused = requests.post(f"{url}/impute", json={"rows": [row], "where": "job = 'chef'"}, timeout=60)
    assert "violated by observed cells" in refused.json()["error"]["message"]


def test_text_in_another_encoding_is_refused_with_advice(url):
    refused = send(url, "name,age\nJosé,31\n".encode("latin-1"), CSV)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "byte 13" in message
    assert "Save it as CSV in UTF-8" in message


def test_a_rule_is_satisfied_by_every_completed_row(url, table):
    rows = send(url, stream(table.slice(0, 10)), ARROW, where="age >= 0 and (job = 'chef' or job is not null)").json()[
        "rows"
    ]
    assert all(row["age"] >= 0 for row in rows)


def test_a_table_without_rows_comes_back_as_it_is(url):
    told = requests.post(f"{url}/impute", json={"rows": []}, timeout=60).json()
    assert (told["rows"], told["filled"]) == ([], [])


BAD = [
    (b"", CSV, "is empty"),
    (b"\x1f\x8bpacked", CSV, "is gzipped"),
    (b"PK\x03\x04sheet", CSV, "Excel"),
    (b"age,age\n1,2\n", CSV, "several columns called 'age'"),
    (b"age\n1\n", CSV, "which the table does not have"),
    (TEXT.replace(b"44", b"old"), CSV, "'old'"),
    (b"\xff\xfe\x00", CSV, ""),
    (b"garbage", ARROW, "cannot be read"),
    (stream(pa.table({"age": [1]}))[:-40], ARROW, ""),
    (stream(pa.table({"age": [[1]]})), ARROW, "not numbers, texts"),
]


@pytest.mark.parametrize(("content", "kind", "words"), BAD, ids=lambda v: str(v)[:24])
def test_bad_tables_get_a_sentence(url, content, kind, words):
    answer = send(url, content, kind)
    error = answer.json()["error"]
    assert answer.status_code == 400, error
    assert words in error["message"]


def test_forms_without_a_file_or_with_two_are_refused(url):
    assert requests.post(f"{url}/impute", files={"file": (None, "text")}, timeout=60).status_code == 400
    two = requests.post(f"{url}/impute", files={"a": ("a", TEXT), "b": ("b", TEXT)}, timeout=60)
    assert (two.status_code, two.json()["error"]["kind"]) == (400, "BadRequest")


def test_a_few_bytes_of_arrow_cannot_become_very_many(url):
    label = pa.DictionaryArray.from_arrays(pa.array([0] * 900), pa.array(["x" * 200_000]))
    for table in (pa.table({"age": pa.nulls(10**7)}), pa.table({"job": label})):
        answer = send(url, stream(table), ARROW)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge")


def test_a_compressed_stream_is_read_up_to_the_limits(url, table):
    packed = send(url, stream(table, compression="zstd"), ARROW)
    assert packed.json()["rows"] == send(url, stream(table), ARROW).json()["rows"]
    bomb = pa.table({"age": pa.array(["0" * 2**16] * 100)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bomb.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(MAX_ARROW_BYTES // bomb.nbytes + 2):
            writer.write_table(bomb)
    content = sink.getvalue().to_pybytes()
    assert len(content) < 2**20 < MAX_ARROW_BYTES
    with pytest.raises(ApiError, match="bytes of cells"):
        read_arrow(content, 10**6)


def test_broken_streams_are_refused_and_nothing_else_happens():
    good = bytearray(stream(pa.table({"age": [1, None] * 20, "job": pa.array(["a", "b"] * 20).dictionary_encode()})))
    rng, outcomes = random.Random(0), set()
    for _ in range(400):
        broken = bytearray(good)
        for _ in range(rng.choice([1, 4])):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        try:
            outcomes.add(type(read_arrow(bytes(broken), 1000)).__name__)
        except Exception as error:  # noqa: BLE001
            outcomes.add(type(error).__name__)
    assert "InvalidTable" in outcomes
    assert outcomes <= {"InvalidTable", "ApiError", "Table"}
