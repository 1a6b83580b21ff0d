"""SDV, SDMetrics and SDGym as judges; they are heavy, so most environments do not have them."""

import json
import sys
import zipfile

import pandas as pd
import pytest

from harpoon import MissingExtra, Schema
from harpoon.sdv import HarpoonSynthesizer, sdgym_synthesizer, to_metadata, to_schema
from tests.support.frames import TINY


def rows(n: int = 90) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(n),
            "x": [0.5, 1.5, 2.5] * (n // 3),
            "kind": ["low", "middle", "high"] * (n // 3),
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )


def test_metadata_of_sdv():
    metadata = pytest.importorskip("sdv.metadata", reason="needs SDV: pip install sdv").Metadata
    found = metadata.detect_from_dataframes({"rows": rows()})
    schema = to_schema(found, rows())
    assert {c.name: str(c.kind) for c in schema} == {
        "id": "skipped",
        "x": "number",
        "kind": "category",
        "day": "datetime",
    }
    ours = metadata.load_from_dict(to_metadata(Schema.infer(rows().drop(columns="id"))))
    ours.validate()
    assert to_schema(ours, rows().drop(columns="id"))["x"] == schema["x"]


def test_conditions_of_sdv_and_a_report_of_sdmetrics():
    sampling = pytest.importorskip("sdv.sampling", reason="needs SDV: pip install sdv")
    metadata = pytest.importorskip("sdv.metadata").Metadata.detect_from_dataframes({"rows": rows()})
    synthesizer = HarpoonSynthesizer(metadata, **TINY)
    synthesizer.fit(rows())
    given = synthesizer.sample_from_conditions([sampling.Condition({"kind": "high"}, num_rows=5)])
    assert list(given["kind"]) == ["high"] * 5
    report = pytest.importorskip("sdmetrics.reports.single_table").DiagnosticReport()
    report.generate(rows(), synthesizer.sample(90), metadata.to_dict()["tables"]["rows"], verbose=False)
    assert report.get_score() == 1.0


def test_the_benchmark_of_sdgym_runs(tmp_path):
    sdgym = pytest.importorskip("sdgym", reason="needs SDGym: pip install sdgym")
    metadata = pytest.importorskip("sdv.metadata").Metadata.detect_from_dataframes({"rows": rows()})
    folder = tmp_path / "datasets" / "single_table" / "rows"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("rows.csv", rows().to_csv(index=False))
    (folder / "metadata.json").write_text(json.dumps(metadata.to_dict()))
    results = sdgym.benchmark_single_table(
        synthesizers=[],
        custom_synthesizers=[sdgym_synthesizer(**TINY)],
        sdv_datasets=None,
        additional_datasets_folder=str(tmp_path / "datasets"),
        compute_privacy_score=False,
    )
    assert "Harpoon" in str(list(results["Synthesizer"]))
    errors = [str(error) for error in results["Error"].dropna()] if "Error" in results else []
    assert errors == []
    assert (results["Quality_Score"] > 0.5).all()


def test_without_sdgym_its_name_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "sdgym", None)
    with pytest.raises(MissingExtra, match="pip install sdgym"):
        sdgym_synthesizer()
