"""Reports: properties of summaries, odd and hostile tables, and the content of the page."""

import copy
import json
import math
import warnings
from datetime import date, datetime, timedelta
from html.parser import HTMLParser
from typing import get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp, rankdata, spearmanr
from scipy.stats.contingency import association as cramer
from sklearn.feature_selection import f_classif

from harpoon import Harpoon as Model
from harpoon import (
    InfeasibleCondition,
    InvalidCondition,
    InvalidOption,
    InvalidTable,
    NotFitted,
    Schema,
    SchemaMismatch,
    metrics,
)
from harpoon.report import Page, compare, describe, evaluate
from harpoon.report.summary import Summary
from tests.support.frames import LIBRARIES, fit, make, mixed_columns

HOSTILE = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>"
WHERE = "age >= 34 and job = 'chef'"


def people(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 3, rows)
    return {
        "age": (30 + 10 * job + rng.integers(0, 8, rows)).tolist(),
        "job": [("chef", "nurse", "pilot")[j] for j in job],
        "gain": np.where(rng.random(rows) < 0.6, 0.0, rng.gamma(2, 100, rows)).tolist(),
        "hired": [date(2020, 1, 1) + timedelta(days=int(day)) for day in 30 * job + rng.integers(0, 60, rows)],
        "member": (rng.random(rows) < 0.5).tolist(),
    }


REAL, OTHER = pa.table(people()), pa.table(people(seed=1))


@pytest.fixture(scope="module")
def model():
    return Model(hidden=32, max_epochs=50, random_state=0, progress=False).fit(REAL)


@pytest.fixture(scope="module")
def report(model):
    return evaluate(model, OTHER, train=REAL, where=WHERE, rows=150, random_state=0)


def check_types(value, kind):
    """Check that a value has the keys and types of `harpoon.report.summary`."""
    if hasattr(kind, "__required_keys__"):
        hints = get_type_hints(kind)
        assert kind.__required_keys__ <= set(value) <= set(hints), kind
        for name, part in value.items():
            check_types(part, hints[name])
    elif isinstance(value, list) and getattr(kind, "__origin__", None) is list:
        for part in value:
            check_types(part, kind.__args__[0])
    elif isinstance(value, dict) and hasattr(kind, "__args__"):
        options = [option for option in kind.__args__ if hasattr(option, "__required_keys__")]
        for part in [value] if options else value.values():
            check_types(part, options[0] if options else kind.__args__[1])
    else:
        assert value is None or isinstance(value, str | bool | int | float | list)
        assert not isinstance(value, float) or math.isfinite(value)


def check_summary(summary):
    """Check that a summary survives JSON and has the documented keys; return it."""
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    check_types(summary, Summary)
    return summary


class Reader(HTMLParser):
    """The elements, links and texts of a page."""

    EMPTY = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self, html):
        super().__init__()
        self.html = html
        self.tags, self.links, self.open, self.text, self.ids, self.data = [], [], [], [], set(), ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.ids.add(attrs.get("id"))
        self.links += [value for name, value in attrs.items() if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.data += data
        elif self.open and self.open[-1] != "style":
            self.text.append(data)


def read_page(summary):
    page = Page(summary)
    reader = Reader(page.html)
    for link in reader.links:
        assert link == "data:," or (link.startswith("#") and link[1:] in reader.ids), link
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert "url(" not in page.html
    assert "@import" not in page.html
    assert json.loads(reader.data) == summary
    return reader


# Summaries of two tables


def test_a_table_equals_itself_in_any_order_of_rows():
    shuffled = REAL.take(np.random.default_rng(0).permutation(len(REAL)))
    summary = check_summary(compare(REAL, shuffled, random_state=0))
    assert [one["distance"] for one in summary["marginals"]] == [0.0] * 5
    assert summary["associations"]["difference"] == 0.0
    for one in summary["marginals"]:
        assert one["picture"]["fractions"]["real"] == one["picture"]["fractions"]["synthetic"]
        spikes = sum(spike["fractions"]["real"] for spike in one["picture"]["spikes"])
        total = sum(one["picture"]["fractions"]["real"]) + spikes
        assert total == pytest.approx(1, abs=1e-4)
    assert summary["fidelity"]["closest"]["equal"]["synthetic"] == 1.0
    assert summary["headlines"][-1]["name"] == "Authenticity"
    assert summary["headlines"][-1]["value"] < 0.1  # equal rows within one table are not copies
    assert summary["headlines"][-1]["grade"] == "poor"


def test_distances_are_those_of_scipy_and_the_largest_comes_first():
    found = compare(REAL, OTHER)["marginals"]
    ages = next(one for one in found if one["name"] == "age")
    assert ages["distance"] == pytest.approx(ks_2samp(REAL["age"], OTHER["age"]).statistic, abs=1e-6)
    order = [(max(one["distance"] - one["noise"], 0), one["distance"] / one["noise"]) for one in found]
    assert order == sorted(order, reverse=True)


def test_a_spike_is_counted_apart_from_the_bins():
    gain = next(one for one in compare(REAL, OTHER)["marginals"] if one["name"] == "gain")["picture"]
    zeros = np.mean(np.array(REAL["gain"]) == 0)
    (spike,) = gain["spikes"]
    assert spike["value"] == "0"
    assert spike["fractions"]["real"] == pytest.approx(zeros)
    assert sum(gain["fractions"]["real"]) == pytest.approx(1 - zeros, abs=1e-4)


def test_every_library_gives_the_same_summary():
    summaries = [compare(make(lib, people(60)), make(lib, people(60, 1)), random_state=0) for lib in LIBRARIES]
    assert summaries[0] == summaries[1] == summaries[2]


def test_the_same_seed_chooses_the_same_rows(monkeypatch):
    monkeypatch.setattr("harpoon.report.build.DEFAULT_REPORT_ROWS", 150)
    many, other = pa.table(people(200)), pa.table(people(180, 1))
    first, second, third = (compare(many, other, random_state=seed) for seed in (1, 1, 2))
    assert first == second
    assert first["marginals"] != third["marginals"]
    assert first["rows"] == {"real": 200, "used": 150, "complete": 150, "synthetic": 150}
    assert "150 of the 200 real rows" in first["notes"][0]


def test_columns_that_only_one_table_has_are_named_and_left_out():
    summary = check_summary(compare(REAL, OTHER.drop_columns(["job"]).append_column("extra", pa.array(range(200)))))
    assert [fact["name"] for fact in summary["columns"]] == ["age", "gain", "hired", "member"]
    assert any("'job'" in note for note in summary["notes"])
    assert any("'extra'" in note for note in summary["notes"])


def test_integers_compare_with_fractions_and_other_mismatches_are_noted():
    other = OTHER.set_column(0, "age", pa.array(np.array(OTHER["age"]) + 0.5))
    summary = check_summary(compare(REAL, other.set_column(3, "hired", pa.array(["soon"] * 200))))
    kinds = {fact["name"]: fact["kind"] for fact in summary["columns"]}
    assert kinds["age"] == "number"
    assert kinds["hired"] == "skipped"
    assert any("'hired'" in note for note in summary["notes"])


def test_missing_cells_are_counted_by_pattern():
    table = pa.table({"a": [1, None, None, 4, None], "b": ["x", None, None, None, "y"], "c": [1.5, 2.5, 3.5, 4.0, 5.5]})
    found = check_summary(compare(table, table))["missingness"]
    assert found["fraction"] == pytest.approx(6 / 15)
    assert found["complete"] == pytest.approx(1 / 5)
    assert found["patterns"][0] == {"columns": [], "rows": 1, "fraction": 0.2}
    assert found["patterns"][1] == {"columns": ["a", "b"], "rows": 2, "fraction": 0.4}


@pytest.mark.parametrize("seed", range(3))
def test_associations_are_those_of_scipy_and_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 9, 120), rng.normal(size=120)
    c, d = rng.integers(0, 3, 120), rng.integers(0, 4, 120)
    d = np.where(rng.random(120) < 0.5, c, d)
    table = pa.table({"a": a, "b": b + 0.1 * a, "c": [f"c{i}" for i in c], "d": [f"d{i}" for i in d]})
    found = metrics.association(Schema.infer(table), table)
    assert found[0, 1] == pytest.approx(spearmanr(a, b + 0.1 * a).statistic)
    counts = pd.crosstab(c, d).to_numpy()
    assert found[2, 3] == pytest.approx(cramer(counts, method="cramer"))
    f, k = f_classif(rankdata(b + 0.1 * a)[:, None], c)[0][0], len(np.unique(c))
    assert found[1, 2] ** 2 == pytest.approx(f * (k - 1) / (f * (k - 1) + 120 - k))
    assert np.array_equal(found, found.T)


def test_associations_leave_out_incomplete_rows_and_constant_columns():
    table = pa.table({"a": [1.0, 2.0, None, 4.0], "b": [1.0, 2.0, 9.0, 3.0], "c": ["x", "x", None, "x"]})
    schema = Schema.infer(table, kinds={"c": "category"})
    found = metrics.association(schema, table)
    assert found[0, 1] == pytest.approx(1.0)
    assert np.isnan(found[:, 2]).all()


def test_distances_to_the_closest_row_are_those_of_scipy():
    left, right = (np.random.default_rng(seed).normal(size=(50, 2)) for seed in (0, 1))
    real, synthetic = (pa.table({"x": side[:, 0], "y": side[:, 1]}) for side in (left, right))
    low, width = left.min(axis=0), np.ptp(left, axis=0)
    left, right = (left - low) / width, (right - low) / width
    apart = cdist(left, left) + np.diag([np.inf] * 50)
    found = metrics.nearest_distances(Schema.infer(real), real, synthetic)
    assert found[0] == pytest.approx(cdist(right, left).min(axis=1))
    assert found[1] == pytest.approx(apart.min(axis=1))


def test_scikit_learns_trees_detect_as_well():
    shifted = pa.table({**people(seed=1), "gain": [value + 500 for value in people(seed=1)["gain"]]})
    schema = Schema.infer(REAL)
    assert metrics.detection(schema, REAL, shifted, classifier="boosted") > 0.95
    assert 0.35 < metrics.detection(schema, REAL, OTHER, classifier="boosted") < 0.65


def test_without_xgboost_the_report_names_the_classifier(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    scores = compare(REAL, OTHER)["fidelity"]["scores"]
    assert scores[0]["name"] == "Detection by a boosted classifier of scikit-learn"
    assert "a boosted classifier of scikit-learn picks" in scores[0]["meaning"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_registered_metric_is_shown_with_its_title_direction_and_range(library, monkeypatch):
    def mean_age(schema, real, synthetic):
        """Return the difference of the mean ages."""
        assert type(real) is type(synthetic) is type(make(library, {"x": [1]}))
        return np.asarray(synthetic["age"]).mean() - np.asarray(real["age"]).mean()

    added = {
        "mean_age": metrics.Metric("difference of mean ages", mean_age, "lower", -100, 100, ideal=0.0),
        "unbounded": metrics.Metric("age without end", mean_age, "level", maximum=math.inf),
        "seeded": metrics.Metric("seed", lambda schema, real, synthetic, random_state=0: random_state, "level"),
        "undefined": metrics.Metric("not a number", lambda schema, real, synthetic: math.nan, "higher"),
        "hidden": metrics.Metric("not shown", mean_age, "lower", in_report=False),
        "other": metrics.Metric("of other inputs", lambda schema, truth, imputed: 1.0, "lower"),
    }
    for name, metric in added.items():
        monkeypatch.setitem(metrics.METRICS, name, metric)
    summary = check_summary(compare(make(library, people()), make(library, people(seed=1)), random_state=7))
    scores = {score["key"]: score for score in summary["fidelity"]["scores"]}
    expected = np.mean(OTHER["age"]) - np.mean(REAL["age"])
    assert scores["mean_age"] == {
        "key": "mean_age",
        "name": "Difference of mean ages",
        "value": pytest.approx(expected, rel=1e-5),
        "ideal": 0.0,
        "direction": "lower",
        "meaning": "The difference of the mean ages.",
        "rows": REAL.num_rows,
        "range": [-100, 100],
    }
    assert scores["unbounded"]["range"] == [0.0, None]
    assert scores["unbounded"]["meaning"] == "The difference of the mean ages."
    assert scores["undefined"]["value"] is None
    assert scores["seeded"]["value"] != 0  # a metric that has a seed is given that of the report
    assert not {"hidden", "other"} & set(scores)
    page = read_page(summary)
    assert {"Difference of mean ages", "Age without end", "Not a number"} <= set(page.text)
    assert (
        f'<i class="mark" style="left:50.00%"></i><i class="at" style="left:{50 + expected / 2:.2f}%"></i>' in page.html
    )


def test_scores_of_the_registry_keep_their_titles():
    names = [score["name"] for score in compare(REAL, OTHER)["fidelity"]["scores"]]
    assert names == [
        "Detection by XGBoost",
        "Detection by a logistic regression",
        "Plausible rows (α-precision)",
        "Variety (β-recall)",
        "No copies (authenticity)",
    ]


NOW = datetime(2024, 5, 1, 12, 30)
ODD = {
    "one column": {"x": [1.0, 2.0, 3.0, 4.0] * 10},
    "all missing": {"x": pa.nulls(30, pa.float64()), "c": pa.nulls(30, pa.string())},
    "null type": {"x": pa.nulls(30)},
    "constant": {"x": [1] * 30, "c": ["a"] * 30},
    "two rows": {"x": [1.0, 2.0], "c": ["a", "b"]},
    "one row": {"x": [1.0], "c": ["a"]},
    "huge integers": {
        "x": [2**62 + 1000 * i for i in range(40)],
        "y": [(-1) ** i * (2**63 - 1 - i) for i in range(40)],
    },
    "tiny and large": {"x": [1e-300 * i for i in range(40)], "y": [1e300 * i for i in range(40)]},
    "times": {"t": [NOW + timedelta(minutes=7 * i) for i in range(40)], "s": [timedelta(hours=i) for i in range(40)]},
    "only categories": {"a": ["x", "y", "z", "x"] * 10, "b": [True, False, True, True] * 10},
    "many categories": {"a": [f"label {i % 300}" for i in range(900)], "x": [float(i % 7) for i in range(900)]},
    "no complete row": {"x": [1.0, None, 3.0] * 10, "c": [None, "a", None] * 10},
    "emoji": {"🐧" * 300: ["🎉", "<b>", "&amp;"] * 10, HOSTILE: [1.0, 2.0, 3.0] * 10},
    "no name": {"": [1.0, 2.0, 3.0] * 10, " ": ["a", "", " "] * 10},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_tables_have_a_report(name):
    table = pa.table(ODD[name])
    summary = check_summary(compare(table, table, random_state=0))
    assert all(one["distance"] in (0.0, None) for one in summary.get("marginals", []))
    read_page(summary)


def test_a_column_may_be_empty_in_the_synthetic_table():
    real = pa.table({"x": [1.0, 2.0, 3.0] * 20, "c": ["a", "b", "c"] * 20})
    empty = pa.table({"x": pa.nulls(60, pa.float64()), "c": ["d"] * 60})
    summary = check_summary(compare(real, empty))
    assert {one["name"]: one["distance"] for one in summary["marginals"]} == {"x": None, "c": 1.0}
    read_page(summary)


@pytest.mark.parametrize("table", [pa.table({}), pa.table({"x": pa.array([], pa.float64())}), pd.DataFrame(index=[1])])
def test_a_table_without_rows_or_columns_is_refused(table):
    with pytest.raises(InvalidTable, match="rows and columns"):
        compare(REAL, table)


def test_three_hundred_columns_make_a_page():
    rng = np.random.default_rng(0)
    wide = pa.table({f"column {i} {HOSTILE[: i % 40]}": rng.normal(size=40) for i in range(300)})
    summary = check_summary(compare(wide, wide.take(rng.permutation(40)), random_state=0))
    assert len(summary["associations"]["columns"]) + summary["associations"]["columns_left_out"] == 300
    assert len(read_page(summary).html.encode()) < 3 * 2**20


# Summaries of a model


def test_imputation_is_scored_on_hidden_real_cells(report):
    check_summary(report)
    assert [one["hidden"] for one in report["imputation"]["scores"]] == [0.1, 0.3, 0.5, 0.7]
    for column in report["imputation"]["columns"]:
        number = column["name"] in ("age", "gain", "hired")
        for one in column["scores"]:
            assert (one["mse"] is not None) == (one["mse_of_mean"] is not None) == number
            assert (one["accuracy"] is not None) == (one["accuracy_of_mode"] is not None) == (not number)
    jobs = next(column for column in report["imputation"]["columns"] if column["name"] == "job")["scores"]
    assert jobs[0]["accuracy"] > jobs[0]["accuracy_of_mode"] + 0.2  # the age determines the job
    assert all(0.8 < one["mse_of_mean"] < 1.3 for one in report["imputation"]["scores"])
    assert 0.5 < report["intervals"]["coverage"] <= 1.0
    assert 0.85 < report["intervals"]["attainable"] <= 1.0
    assert [one["name"] for one in report["intervals"]["columns"]] == ["age", "gain", "hired"]
    assert report["fidelity"]["copies_of"] == "training rows"


def test_without_training_rows_the_search_for_copies_is_not_computed(model):
    summary = check_summary(evaluate(model, OTHER, rows=60, random_state=0))
    found = summary["fidelity"]
    assert [found["copies_of"], found["closest"]] == [None, None]
    assert "authenticity" not in {score["key"] for score in found["scores"]}
    assert "`train`" in found["copies_note"]
    assert found["copies_note"] in "".join(read_page(summary).text)
    few = evaluate(model, OTHER, train=REAL.slice(0, 5), rows=60, random_state=0)["fidelity"]
    assert few["closest"] is None
    assert "at least 20 complete training rows, got 5" in few["copies_note"]


def test_detection_reads_the_rows_that_have_missing_cells():
    """Missing cells alone tell the tables apart: of complete rows, which are alike, no classifier can."""
    keep = np.arange(REAL.num_rows) % 5 == 0
    gaps = [value if complete else None for value, complete in zip(OTHER["gain"].to_pylist(), keep, strict=True)]
    synthetic = OTHER.set_column(OTHER.schema.get_field_index("gain"), "gain", pa.array(gaps))
    summary = check_summary(compare(REAL.drop_columns(["hired"]), synthetic.drop_columns(["hired"]), random_state=0))
    scores = {score["key"]: score for score in summary["fidelity"]["scores"]}
    n_complete = keep.sum() - sum(value is None for value in OTHER["gain"].to_pylist()[::5])
    assert scores["detection"]["rows"] == REAL.num_rows
    assert scores["detection"]["value"] > 0.85
    for key in ("linear_detection", "alpha_precision", "beta_recall"):
        assert scores[key]["rows"] == n_complete
        assert f"From {n_complete} complete rows of each table only." in scores[key]["meaning"]
    headline = next(one for one in summary["headlines"] if one["name"] == "Detection AUC")
    assert headline["value"] == scores["detection"]["value"]
    assert headline["grade"] == "poor"
    recall = next(one for one in summary["headlines"] if one["name"] == "β-recall")
    assert [recall["grade"], str(n_complete) in recall["meaning"]] == ["none", True]


def test_copies_of_training_rows_are_found(model):
    """A "model" that returns its training rows has no authentic row."""
    copier = copy.copy(model)
    copier.sample = lambda n, **_options: REAL.take(np.arange(n) % len(REAL))
    found = {
        name: evaluate(copier, OTHER, train=train, rows=200, random_state=0)["fidelity"]
        for name, train in {"copied": REAL, "other": OTHER}.items()
    }
    authenticity = {name: {s["key"]: s["value"] for s in one["scores"]}["authenticity"] for name, one in found.items()}
    assert found["copied"]["closest"]["equal"]["synthetic"] == 1.0
    assert authenticity["copied"] < 0.1
    assert authenticity["other"] > 0.3


def test_a_condition_shows_its_columns_and_its_effect_on_the_others(report):
    found = report["condition"]
    assert found["text"] == WHERE
    assert {change["name"] for change in found["region"]} == {"age", "job"}
    assert {change["name"] for change in found["what_if"]} == {"gain", "hired", "member"}
    effects = [change["effect"] for change in found["what_if"]]
    assert effects == sorted(effects, reverse=True)
    assert found["violations"] == 0.0
    assert 0 <= found["guided_violations"] <= 1
    region = {change["name"]: change["picture"] for change in found["region"]}
    assert region["job"]["fractions"]["after"][region["job"]["categories"].index("chef")] == 1.0
    true = np.mean((np.array(OTHER["age"]) >= 34) & (np.array(OTHER["job"]) == "chef"))
    assert found["real_fraction"] == pytest.approx(true, abs=0.05)


def test_a_report_leaves_the_model_unchanged_and_repeats_with_its_seed(model):
    model.sample(3)
    before = model.sampling_info_
    first, second = (evaluate(model, OTHER, rows=40, random_state=3) for _ in range(2))
    assert first == second
    assert model.sampling_info_ is before


def test_only_observed_cells_are_hidden():
    for library in LIBRARIES:
        table = make(library, mixed_columns(90))
        model = fit(table)
        summary = check_summary(evaluate(model, table, rows=90, random_state=0))
        cells = summary["imputation"]["scores"][1]["cells"]
        assert 0 < cells < 0.45 * 90 * 5
        read_page(summary)


def test_columns_of_every_dtype_can_be_hidden():
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["a", "b", "a", "c"] * 15),
            "i": pd.array([1, 2, None, 4] * 15, dtype="Int64"),
            "f": [1.0, 2.0, np.nan, 5.0] * 15,
            "t": pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin"),
            "b": pd.array([True, None, False, True] * 15, dtype="boolean"),
            "k": [7] * 60,
        }
    )
    model = fit(frame)
    summary = check_summary(evaluate(model, frame, where="i >= 2", rows=60, random_state=0))
    read_page(summary)
    assert {fact["name"]: fact["modelled"] for fact in summary["columns"]}["k"] is False


def test_unknown_categories_are_noted_without_a_warning(model):
    strange = OTHER.set_column(1, "job", pa.array(["diver", *OTHER["job"].to_pylist()[1:]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = check_summary(evaluate(model, strange, rows=200, random_state=0))
    assert any("'diver'" in note for note in summary["notes"])


def test_the_paper_preset_is_evaluated_on_few_rows():
    table = pa.table(people(60))
    model = fit(table)
    slow = Model("paper", hidden=16, max_epochs=1, diffusion_steps=3, progress=False, random_state=0).fit(table)
    assert "intervals" in evaluate(model, table, rows=30)
    summary = check_summary(evaluate(slow, table, where="age >= 30"))
    assert "intervals" not in summary
    assert summary["rows"]["synthetic"] == 200
    read_page(summary)


def test_a_model_alone_shows_its_columns_its_training_and_its_samples(model):
    summary = check_summary(describe(model, where=WHERE, rows=100, random_state=0))
    assert summary["rows"] == {"real": None, "used": None, "complete": None, "synthetic": 100}
    assert list(summary["marginals"][0]["picture"]["fractions"]) == ["synthetic"]
    assert summary["associations"]["real"] is None
    assert len(summary["training"]["epochs"]) > 1
    assert "imputation" not in summary
    read_page(summary)


def test_wrong_arguments_are_explained(model, tmp_path):
    with pytest.raises(SchemaMismatch, match="job"):
        evaluate(model, OTHER.drop_columns(["job"]))
    with pytest.raises(InvalidTable, match="rows"):
        evaluate(model, OTHER.slice(0, 0))
    with pytest.raises(InvalidOption, match="rows"):
        model.report(OTHER, rows=0)
    with pytest.raises(InvalidCondition, match="jab"):
        model.report(OTHER, where="jab = 'chef'", rows=30)
    with pytest.raises(SchemaMismatch, match="job"):
        evaluate(model, OTHER, train=REAL.drop_columns(["job"]))
    with pytest.raises(InvalidOption, match="`train` is used only with `test`"):
        model.report(train=REAL)
    with pytest.raises(InvalidOption, match="summary"):
        Page({"x": 1})
    with pytest.raises(InfeasibleCondition, match="age"):
        model.report(OTHER, where="age > 1000", rows=30)
    with pytest.raises(NotFitted):
        Model().report()
    with pytest.raises(InvalidOption, match="random_state"):
        compare(REAL, OTHER, random_state=-1)


# The page


def test_the_page_of_a_model_has_every_section(report):
    reader = read_page(report)
    sections = ["condition", "marginals", "associations", "imputation", "intervals", "fidelity", "columns", "training"]
    assert set(sections) <= reader.ids
    text = "".join(reader.text)
    for one in report["headlines"]:  # a standard name, its definition, its direction and one plain sentence
        for part in ("name", "measure", "target", "meaning"):
            assert one[part].replace(" %", "\N{NO-BREAK SPACE}%") in text
        assert one["target"].endswith(" is ideal")
        assert ". " not in one["meaning"].removesuffix(" Fewer than 50 mean that the same rows are in both tables.")
    tables = [tag for tag, _ in reader.tags if tag in ("table", "caption")]
    assert tables.count("table") == tables.count("caption") > 0
    assert all(attrs.get("aria-label") or attrs.get("aria-hidden") for tag, attrs in reader.tags if tag == "svg")
    assert len(report["headlines"]) == 5


def test_the_page_needs_only_the_summary(report):
    assert Page(json.loads(json.dumps(report))).html == Page(report).html


def test_texts_of_a_table_are_escaped_everywhere():
    columns = {HOSTILE: ["<b>", HOSTILE, "a"] * 20, "x" * 5000: [1.0, 2.0, None] * 20, "y": [3.0, 1.0, 2.0] * 20}
    table = pa.table(columns)
    model = fit(table)
    summary = check_summary(
        evaluate(model, table, where=f"\"{HOSTILE.replace(chr(34), chr(34) * 2)}\" = 'a'", random_state=0)
    )
    reader = read_page(summary)
    assert "img" not in [tag for tag, _ in reader.tags]
    assert HOSTILE[:40] in "".join(reader.text)


def test_a_notebook_shows_the_page_in_a_frame(model):
    page = model.report(rows=40)
    frame = Reader(page._repr_html_())
    ((tag, attrs),) = frame.tags
    assert tag == "iframe"
    assert attrs["srcdoc"] == page.html
    assert attrs["sandbox"] == ""
    assert "description" in repr(page)


def test_a_page_is_saved_completely_or_not_at_all(report, tmp_path):
    page = Page(report)
    page.save(tmp_path / "a.html")
    page.save(str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page.html
    with pytest.raises(InvalidOption, match=r"a\.html"):
        page.save(tmp_path / "a.html", force=False)
    with pytest.raises(InvalidOption, match="cannot be written"):
        page.save(tmp_path / "nowhere" / "a.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidOption, match="cannot be written"):
        page.save(tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "folder"]
