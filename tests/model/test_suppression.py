"""rare="suppress": nothing that rests on fewer than k rows is in the model file or in sampled rows."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harpoon import Harpoon, load
from harpoon._utils.model_file import read_tensors
from harpoon.data import Schema
from harpoon.exceptions import ColumnLeftOutWarning, InvalidOption, InvalidTable

K, ROWS = 10, 600
START = datetime(2020, 1, 1, 9)
SECRET_TIME = datetime(2031, 7, 13, 3, 17)
TOP, BOTTOM, INSIDE, RARE_COUNT = 98765.4321, -54321.9876, 3.1415926535, 4321
SECRET_LABELS = ("zq-secret-label", "zq-second-label")
OPTIONS = {"hidden": 16, "max_epochs": 2, "random_state": 0, "progress": False}

pytestmark = pytest.mark.filterwarnings("ignore::harpoon.exceptions.ShortTrainingWarning")


def table() -> pa.Table:
    """Return a table with planted rare values of every kind, each in fewer than K rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS).round(4)
    x[:4] = TOP
    x[4] = BOTTOM
    x[5] = INSIDE
    job = rng.choice(["cook", "nurse", "pilot"], ROWS).astype(object)
    job[7:9] = SECRET_LABELS
    count = rng.poisson(3, ROWS)
    count[9] = RARE_COUNT
    rating = rng.integers(1, 4, ROWS)
    rating[10:13] = 77
    begin = [START + timedelta(hours=int(h)) for h in 24 * rng.integers(0, 900, ROWS) + rng.integers(0, 8, ROWS)]
    begin[14] = SECRET_TIME
    end = [one + timedelta(hours=int(h)) for one, h in zip(begin, rng.integers(1, 90, ROWS), strict=True)]
    flag = rng.random(ROWS) < 0.5
    seldom = np.zeros(ROWS, dtype=bool)
    seldom[20:23] = True
    gap = [None if i < 3 else float(i % 50) for i in range(ROWS)]
    many = [f"zq-code-{i}" if i < 250 else "common" for i in range(ROWS)]
    columns = {"x": x, "job": job, "count": count, "rating": rating, "begin": begin, "end": end}
    return pa.table({**columns, "flag": flag, "seldom": seldom, "gap": gap, "many": many})


@pytest.fixture(scope="module", params=["anchored", "paper"])
def preset(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(preset) -> Harpoon:
    return Harpoon(preset, rare="suppress", k=K, **OPTIONS).fit(table())


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.harpoon"
    model.save(path)
    return path


def texts_and_numbers(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *texts_and_numbers(item))
    elif isinstance(value, list):
        for item in value:
            yield from texts_and_numbers(item)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        yield from texts_and_numbers(json.loads(value))
    else:
        yield value


def forms(model: Harpoon, name: str, value: float) -> list[float]:
    """Return a number as it could be stored: as it is, less an origin, and standardised."""
    (codec,) = [one for one in model.codec_.single_columns if one.column.name == name]
    origin = int(codec.column.minimum) if codec.column.kind.integral else 0
    centred = value - origin
    return [value, centred, *(float(one) for one in codec.scaler.transform(np.array([centred])))]


PLANTED = [
    ("x", TOP),
    ("x", BOTTOM),
    ("x", INSIDE),
    ("count", RARE_COUNT),
    ("rating", 77),
    ("begin", int(SECRET_TIME.timestamp() * 1_000_000)),
]


def test_no_rare_label_is_in_the_file(saved):
    data = saved.read_bytes()
    assert b"cook" in data
    for text in (*SECRET_LABELS, "zq-code"):
        assert text.encode() not in data
    assert b"2031-07-13" not in data


@pytest.mark.parametrize(("name", "value"), PLANTED)
def test_no_rare_number_is_in_the_file(model, saved, name, value):
    tensors, content = read_tensors(saved)
    numbers = [float(one) for one in texts_and_numbers(content) if type(one) in (int, float)]
    stored = np.concatenate([numbers, *(tensor.double().numpy().ravel() for tensor in tensors.values())])
    for form in forms(model, name, value):
        near = np.abs(stored - form) <= 1e-6 * max(abs(form), 1e-3)
        assert abs(form) < 100 or not near.any(), (name, form)  # small numbers may meet by chance
    if name == "x" and value in (TOP, BOTTOM):
        (codec,) = [one for one in model.codec_.single_columns if one.column.name == "x"]
        assert abs(codec.column.minimum) < 10
        assert codec.column.maximum < 10


def test_the_number_between_others_is_not_stored(model, saved):
    content = read_tensors(saved)[1]
    assert repr(INSIDE).encode() not in saved.read_bytes()
    assert not any(one == INSIDE for one in texts_and_numbers(content) if isinstance(one, float))


def test_without_suppression_the_same_search_finds_them(tmp_path, preset):
    model = Harpoon(preset, **OPTIONS).fit(table())
    model.save(tmp_path / "model.harpoon")
    data = (tmp_path / "model.harpoon").read_bytes()
    assert all(text.encode() in data for text in SECRET_LABELS)
    numbers = [
        one for one in texts_and_numbers(read_tensors(tmp_path / "model.harpoon")[1]) if type(one) in (int, float)
    ]
    assert {TOP, BOTTOM, 77} <= set(numbers)


def test_no_rare_value_is_sampled(model):
    rows = model.sample(500, missing="complete")
    assert set(rows["job"].to_pylist()) <= {"cook", "nurse", "pilot"}
    assert set(rows["rating"].to_pylist()) <= {1, 2, 3}
    assert set(rows["many"].to_pylist()) == {"common"}
    assert set(rows["seldom"].to_pylist()) == {False}
    x = rows["x"].to_numpy()
    real = np.sort(table()["x"].to_numpy())
    assert x.min() >= real[K - 1]
    assert x.max() <= real[-K]
    assert INSIDE not in x
    assert pc.max(rows["begin"]).as_py() < SECRET_TIME


def test_few_missing_cells_are_not_sampled(model):
    assert model.sample(300)["gap"].null_count == 0
    assert model.schema_["gap"].missing == 0


def test_a_saved_model_samples_the_same_rows(model, saved):
    assert load(saved, progress=False).sample(50).equals(model.sample(50))


def test_rare_cells_of_a_table_are_kept_by_impute(model):
    rows = table()
    with pytest.warns(match="unknown to the model"):
        filled = model.impute(rows)
    assert filled["job"].to_pylist()[7:9] == list(SECRET_LABELS)


def test_every_stored_label_and_range_rests_on_k_rows(model):
    rows = table()
    for column in model.schema_.modelled:
        cells = rows[column.name].drop_null()
        if column.kind.discrete:
            counts = dict(zip(*(one.to_pylist() for one in pc.value_counts(cells).flatten()), strict=True))
            assert all(counts[label] >= K for label in column.categories)
        else:
            values = np.sort(
                cells.to_numpy().astype("M8[us]").astype(int) if column.kind.temporal else cells.to_numpy()
            )
            assert (values <= column.minimum).sum() >= K
            assert (values >= column.maximum).sum() >= K


def test_counts_of_fewer_rows_are_suppressed(model):
    counts = np.concatenate([bins.counts for bins in model.contingency_.columns.values()])
    assert set(counts[counts < K].tolist()) <= {0, K - 1}
    pairs = model.contingency_.pair_counts
    assert set(pairs[pairs < K].tolist()) <= {0, K - 1}


def test_the_support_is_an_upper_bound(model):
    rows = table()
    for condition, mask in [
        ("x > 1", pc.greater(rows["x"], 1.0)),
        ("count <= 2", pc.less_equal(rows["count"], 2)),
        ("job = 'cook'", pc.equal(rows["job"], "cook")),
    ]:
        assert model.support(condition).upper_bound >= pc.sum(mask).as_py()


def test_labels_of_a_given_schema_are_suppressed_too(tmp_path):
    rows = table().select(["x", "job", "flag"])
    model = Harpoon(rare="suppress", k=K, schema=Schema.infer(rows), **OPTIONS).fit(rows)
    model.save(tmp_path / "model.harpoon")
    assert SECRET_LABELS[0].encode() not in (tmp_path / "model.harpoon").read_bytes()


def test_columns_without_a_common_value_are_left_out():
    rows = pa.table({"x": np.arange(60.0), "code": [f"c{i // 3}" for i in range(60)]})
    with pytest.warns(ColumnLeftOutWarning, match="'code' is left out.*no label has 10 rows"):
        model = Harpoon(rare="suppress", **OPTIONS).fit(rows)
    assert [column.name for column in model.schema_.modelled] == ["x"]


def test_a_table_with_too_few_rows_is_refused():
    with pytest.raises(InvalidTable, match="at least 20 rows, got 19"):
        Harpoon(rare="suppress", **OPTIONS).fit(pa.table({"x": np.arange(19.0)}))


def test_a_table_of_which_nothing_is_left_is_refused():
    with (
        pytest.warns(ColumnLeftOutWarning, match="left out"),
        pytest.raises(InvalidTable, match="no column is left"),
    ):
        Harpoon(rare="suppress", **OPTIONS).fit(pa.table({"c": [f"c{i // 3}" for i in range(60)]}))


@pytest.mark.parametrize("options", [{"rare": "hide"}, {"k": 1}, {"k": 2.5}])
def test_invalid_options_are_refused(options):
    with pytest.raises(InvalidOption):
        Harpoon(**options)
