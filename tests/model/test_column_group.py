"""Columns that are encoded together: latitude and longitude as a point on the unit sphere."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
import torch

import harpoon
from harpoon.data import KINDS, KindSpec, Schema, count_columns, dataframe, read_columns
from harpoon.data.column import decimal_step
from harpoon.encoding import CODECS, KIND_ENCODINGS, Codec, Part, PartType, RowCodec, RowView, numeric_cells

NUMBER = PartType.CONTINUOUS


@dataclass(frozen=True)
class SphereCodec(Codec):
    """Three features: the unit vector of a latitude and a longitude in degrees."""

    latitude: object
    longitude: object
    columns = property(lambda self: (self.latitude, self.longitude))
    parts = (Part(1, NUMBER),) * 3

    @classmethod
    def supports(cls, kind):
        return kind == "coordinate"

    def encode_columns(self, rows):
        lat, lon = (np.radians(rows[column.name].values) for column in self.columns)
        missing = np.any([rows[column.name].missing for column in self.columns], axis=0)
        point = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
        return np.where(missing[:, None], 0.0, point)

    def decode_columns(self, x, *, is_mean=False):
        decoded = zip(self.columns, self.expectations(x).values(), strict=True)
        return {column.name: numeric_cells(np.round(value, 6), column) for column, value in decoded}

    def expectations(self, x):
        return {name: value.numpy() for name, value in self.soft_columns(torch.from_numpy(x)).items()}

    def soft_columns(self, x):
        lat, lon = torch.atan2(x[:, 2], x[:, :2].norm(dim=1)), torch.atan2(x[:, 1], x[:, 0])
        return {self.latitude.name: torch.rad2deg(lat), self.longitude.name: torch.rad2deg(lon)}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    number = KindSpec(("float",), numeric=True, arrow_type=lambda _unit, _zoned: pa.float64(), step=decimal_step)
    monkeypatch.setitem(KINDS, "coordinate", number)
    monkeypatch.setitem(CODECS, "SphereCodec", SphereCodec)
    monkeypatch.setitem(KIND_ENCODINGS, "coordinate", lambda columns, _counts, _scaling: [SphereCodec(*columns)])


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    lat, lon = (np.round(centre + rng.normal(0, 0.05, 200), 4) for centre in (60.17, 24.94))
    lat[::5], lon[::9] = np.nan, np.nan
    columns = {"lat": pa.array(lat, from_pandas=True), "city": ["a", "b"] * 100}
    return pa.table({**columns, "lon": pa.array(lon, from_pandas=True)})


@pytest.fixture
def encoded(table):
    schema = Schema.infer(table, kinds={"lat": "coordinate", "lon": "coordinate"})
    read = dataframe.read(table)
    codec = RowCodec.fit(schema, count_columns(read), encoding="mixed", scaling="standard")
    return codec, read_columns(read, schema)


def test_a_group_has_one_codec_and_its_columns_round_trip(encoded):
    codec, rows = encoded
    assert [[column.name for column in each.columns] for each in codec.codecs] == [["lat", "lon"], ["city"]]
    assert [(part.name, part.column) for part in codec.slices] == [("lat, lon", 0)] * 3 + [("city", 1)]
    back, both = codec.decode(codec.encode(rows)), ~(rows["lat"].missing | rows["lon"].missing)
    assert list(back) == ["lat", "city", "lon"]
    for name in ("lat", "lon"):
        assert back[name].values[both].tolist() == rows[name].values[both].tolist()
    assert RowCodec.from_json(codec.schema, codec.to_json()) == codec


def test_a_group_is_observed_only_where_all_its_columns_are(encoded):
    codec, rows = encoded
    both = ~(rows["lat"].missing | rows["lon"].missing)
    assert codec.observed(rows)[:, 0].tolist() == both.tolist()
    batch = codec.to_batch(rows)
    assert batch.observed[:, :3].tolist() == [[flag] * 3 for flag in both.tolist()]
    assert not batch.x[~torch.from_numpy(both), :3].any()


def test_a_row_view_has_the_columns_of_a_group_by_name(encoded):
    codec, rows = encoded
    view, both = RowView(codec, codec.to_batch(rows).x), ~(rows["lat"].missing | rows["lon"].missing)
    np.testing.assert_allclose(view["lon"].numpy()[both], rows["lon"].values[both], atol=1e-3)
    assert list(view) == ["lat", "city", "lon"]


def test_a_column_without_a_codec_is_refused(encoded):
    codec, _ = encoded
    with pytest.raises(ValueError, match="each modelled column must have one codec"):
        RowCodec(codec.schema, codec.codecs[1:])


def test_observed_halves_of_a_group_stay_bit_for_bit(table, encoded):
    codec, _ = encoded
    model = harpoon.Harpoon(schema=codec.schema, hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    imputed = model.impute(table)
    for name in ("lat", "lon"):
        pairs = list(zip(table[name].to_pylist(), imputed[name].to_pylist(), strict=True))
        assert all(new is not None and old in (None, new) for old, new in pairs)
    assert model.sample(5).column_names == ["lat", "city", "lon"]
    assert all(lat > 0 for lat in model.sample(5, where="lat > 0 and city = 'a'")["lat"].to_pylist())
