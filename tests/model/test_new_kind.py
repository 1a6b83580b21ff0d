"""A complete new kind of column in one file: angles in degrees, encoded as points on the unit circle.

A plain number would put 359° far from 1°. The kind needs a `KindSpec`, a codec and their registration.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

import harpoon
from harpoon.data import KINDS, Column, ColumnArray, Floats, Kind, KindSpec, Schema, count_columns, dataframe
from harpoon.data.column import decimal_step
from harpoon.encoding import CODECS, KIND_ENCODINGS, ColumnCodec, Part, PartType, RowCodec, numeric_cells, per_column

ANGLE = KindSpec(("float", "integer"), numeric=True, arrow_type=lambda _unit, _zoned: pa.float64(), step=decimal_step)


@dataclass(frozen=True)
class AngleCodec(ColumnCodec):
    """Two features: cosine and sine of the angle."""

    column: Column

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(1, PartType.CONTINUOUS), Part(1, PartType.CONTINUOUS))

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        return kind == "angle"

    def encode(self, cells: ColumnArray) -> Floats:
        angle = np.radians(cells.values)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1) * ~cells.missing[:, None]

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        degrees = self.expectation(x)
        if self.column.step:
            degrees = np.round(degrees, round(-np.log10(self.column.step))) % 360
        return numeric_cells(degrees, self.column)

    def expectation(self, x: Floats) -> Floats:
        degrees: Floats = np.degrees(np.arctan2(x[:, 1], x[:, 0])) % 360
        return degrees

    def soft_value(self, x: Tensor) -> Tensor:
        return torch.rad2deg(torch.atan2(x[:, 1], x[:, 0])) % 360


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the kind. Outside of tests these are three plain assignments."""
    monkeypatch.setitem(KINDS, "angle", ANGLE)
    monkeypatch.setitem(CODECS, "AngleCodec", AngleCodec)
    monkeypatch.setitem(KIND_ENCODINGS, "angle", per_column(lambda column, _counts, _scaling: AngleCodec(column)))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    wind = np.round(rng.normal(0, 40, 200) % 360, 1) % 360  # from the north: both ends of the range
    wind[::7] = np.nan
    return pa.table({"wind": pa.array(wind, from_pandas=True), "speed": np.round(rng.gamma(2, 3, 200), 2)})


@pytest.mark.parametrize("encoding", ["onehot", "integer", "mixed"])
def test_observed_angles_round_trip_exactly(table, encoding):
    schema = Schema.infer(table, kinds={"wind": "angle"})
    assert schema["wind"].kind is Kind("angle")
    codec = RowCodec.fit(schema, count_columns(dataframe.read(table)), encoding=encoding, scaling="standard")
    rows = harpoon.data.read_columns(dataframe.read(table), schema)
    observed = ~rows["wind"].missing
    assert codec.decode(codec.encode(rows))["wind"].values[observed].tolist() == rows["wind"].observed.tolist()
    assert RowCodec.from_json(Schema.from_json(schema.to_json()), codec.to_json()) == codec


def test_a_model_imputes_and_samples_angles(table, tmp_path):
    schema = Schema.infer(table, kinds={"wind": "angle"})
    model = harpoon.Harpoon(schema=schema, hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    given, imputed = table["wind"].to_pylist(), model.impute(table)["wind"].to_pylist()
    assert all(0 <= new < 360 and old in (None, new) for old, new in zip(given, imputed, strict=True))
    east = model.sample(20, where="wind between 45 and 135")["wind"].to_pylist()
    assert all(45 <= angle <= 135 for angle in east)
    model.save(tmp_path / "model")
    assert harpoon.load(tmp_path / "model", progress=False).impute(table)["wind"].to_pylist() == imputed
